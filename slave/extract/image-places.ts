/**
 * The attributes and elements that name images, and the class (`via`) of each. Pure.
 * Source: HTML Standard (img, picture, link, video, input, object, embed, meta, itemprop);
 * docs/images.md.
 */
import type { ImageVia } from '../../shared/crawl.ts';
import * as attribute from './elements.ts';
import { imageNames } from './json-ld.ts';
import type { Tag } from './tag.ts';

const iconRels = new Set(
  'icon apple-touch-icon apple-touch-icon-precomposed mask-icon fluid-icon'.split(' '),
);
export const metaVias: ReadonlyMap<string, ImageVia> = new Map([
  ['og:image', 'og'],
  ['og:image:url', 'og'],
  ['og:image:secure_url', 'og'],
  ['thumbnail', 'og'],
  ['twitter:image', 'twitter'],
  ['twitter:image:src', 'twitter'],
  ['msapplication-tileimage', 'icon'],
]);

/** Returns the attributes of a tag that name images, with their classes. */
export function placesOf(tag: Tag): readonly (readonly [ImageVia, number])[] {
  const { src, srcset, href, xlinkHref, poster, content } = attribute;
  if (tag.kind === 'image')
    return [
      ['img', src],
      ['srcset', srcset],
    ];
  if (tag.kind === 'foreign')
    return [
      ['svg', href],
      ['svg', xlinkHref],
    ];
  switch (tag.kind === 'about' || tag.kind === 'extra' ? tag.name : '') {
    case 'source':
      return [['source', srcset]];
    case 'video':
      return [['poster', poster]];
    case 'input':
      return isImageInput(tag) ? [['input', src]] : [];
    case 'object':
    case 'embed':
      return isImageObject(tag) ? [['object', objectAddress(tag)]] : [];
    case 'link':
      return linkPlaces(tag);
    case 'meta': {
      const names = [tag.value(attribute.property), tag.value(attribute.metaName)];
      const via = names.map((name) => metaVias.get(name?.toLowerCase() ?? '')).find(Boolean);
      if (via !== undefined) return [[via, content]];
      return isImageProperty(tag) ? [['og', content]] : [];
    }
    default:
      return [];
  }
}

function linkPlaces(tag: Tag): (readonly [ImageVia, number])[] {
  const { href, imagesrcset } = attribute;
  const rels = relsOf(tag);
  const places: (readonly [ImageVia, number])[] = isIcon(rels) ? [['icon', href]] : [];
  if (isImagePreload(tag, rels)) places.push(['preload', href], ['preload', imagesrcset]);
  if (isPreview(tag, rels)) places.push(['og', href]);
  return places;
}

export function relsOf(tag: Tag): string[] {
  return (tag.value(attribute.rel) ?? '').toLowerCase().split(/[\t\n\f\r ]+/);
}

export function isIcon(rels: readonly string[]): boolean {
  return rels.some((rel) => iconRels.has(rel));
}

export function isImagePreload(tag: Tag, rels: readonly string[]): boolean {
  return rels.includes('preload') && tag.value(attribute.as)?.toLowerCase() === 'image';
}

/** A link to the picture that stands for the page. `image_src` is older than og:image. */
export function isPreview(tag: Tag, rels: readonly string[]): boolean {
  return rels.includes('image_src') || isImageProperty(tag);
}

/** Microdata with a property that JSON-LD has, too. */
export function isImageProperty(tag: Tag): boolean {
  const names = tag.value(attribute.itemprop);
  return names?.split(/[\t\n\f\r ]+/).some((name) => imageNames.has(name)) === true;
}

export function isImageInput(tag: Tag): boolean {
  return tag.value(attribute.type)?.toLowerCase() === 'image';
}

const imagePath = /\.(?:a?png|jpe?g|gif|webp|avif|svg|bmp|ico)[\t\n\f\r ]*(?:[?#]|$)/i;

/** An object or embed may show anything. Without a type, the name of the file decides: a browser
 *  would ask the server. Source: HTML Standard, "the object element". */
export function isImageObject(tag: Tag): boolean {
  const type = tag.value(attribute.type) ?? '';
  if (type !== '') return /^[\t\n\f\r ]*image\//i.test(type);
  return imagePath.test(tag.value(objectAddress(tag)) ?? '');
}

/** Returns the attribute that has the address. */
export function objectAddress(tag: Tag): number {
  return tag.name === 'object' ? attribute.data : attribute.src;
}

/**
 * The images of one page, gathered while it is scanned: every place where a browser or one of the
 * usual scripts finds one, each with the class (`via`) that it belongs to. Values are kept as they
 * stand and resolved at the end, because `<base>` counts for all of them; CSS and JSON-LD are read at
 * once, so that their text is not held. data: URLs are counted, not kept.
 * Source: HTML Standard (img, picture, link, video, input, meta); README, "Images".
 */
import type { ImageVia } from '../../shared/crawl.ts';
import { type Image, imagePixelsMax, limits } from '../../shared/protocol.ts';
import { cssImages } from './css.ts';
import * as attribute from './elements.ts';
import { decodeAttribute } from './entities.ts';
import { jsonLdImages } from './json-ld.ts';
import { looksLikeAddress } from './lazy.ts';
import type { Resolver } from './resolve.ts';
import { type Candidate, parseSrcset } from './srcset.ts';
import type { Tag } from './tag.ts';

export type ImageOptions = {
  readonly vias: ReadonlySet<ImageVia>;
  /** Which candidates of a srcset: all, or the largest one. */
  readonly srcset: 'all' | 'best';
  /** Makes real text of what was scanned. */
  readonly value: (text: string) => string;
};

type Found = {
  readonly via: ImageVia;
  readonly value: string;
  /** `raw` and `set` are as in the page; `text` is decoded already. */
  readonly form: 'raw' | 'set' | 'text';
  /** Raw, unless the form is `text`. */
  alt?: string | undefined;
  width?: number | undefined;
  height?: number | undefined;
};

const utf8BytesMax = 3;
const iconRels = new Set(
  'icon apple-touch-icon apple-touch-icon-precomposed mask-icon fluid-icon'.split(' '),
);
const metaVias: ReadonlyMap<string, ImageVia> = new Map([
  ['og:image', 'og'],
  ['og:image:url', 'og'],
  ['og:image:secure_url', 'og'],
  ['twitter:image', 'twitter'],
  ['twitter:image:src', 'twitter'],
  ['msapplication-tileimage', 'icon'],
]);

export class PageImages {
  readonly #options: ImageOptions;
  readonly #found: Found[] = [];
  /** Raw values seen already, by class: an icon that stands 500 times on a page is kept once. */
  readonly #known = new Map<ImageVia, Set<string>>();
  /** What og:image:width and its like speak of. */
  #lastMeta: Found | undefined;
  #dataCount = 0;

  constructor(options: ImageOptions) {
    this.#options = options;
  }

  /** A start tag: img, an extra element, svg that shows another file, a lazy background. */
  tag(tag: Tag): void {
    switch (tag.kind) {
      case 'image':
        this.#pictureOf(tag, 'img', 'srcset');
        break;
      case 'foreign': {
        const href = tag.value(attribute.href) ?? tag.value(attribute.xlinkHref) ?? '';
        // A fragment alone is a part of this document.
        if (!href.startsWith('#')) this.#keep({ via: 'svg', value: href, form: 'raw' }, tag);
        break;
      }
      case 'extra':
        this.#extra(tag);
        break;
      default:
    }
    for (const lazy of tag.lazies) {
      if (lazy.use === 'background' || this.#takesLazy(tag, lazy.use, lazy.isSet)) {
        if (!looksLikeAddress(lazy.value)) continue;
        if (lazy.value.includes('url(')) this.#css(decodeAttribute(lazy.value), 'lazy');
        else this.#keep({ via: 'lazy', value: lazy.value, form: lazy.isSet ? 'set' : 'raw' }, tag);
      }
    }
  }

  /** The text of a style element, or the value of a style attribute. */
  css(text: string, isAttribute: boolean): void {
    if (!this.#options.vias.has('css') || !text.includes('(')) return;
    this.#css(isAttribute ? decodeAttribute(text) : text, 'css');
  }

  jsonLd(text: string): void {
    if (!this.#options.vias.has('jsonld')) return;
    for (const { src, width, height } of jsonLdImages(this.#options.value(text)))
      this.#keep({ via: 'jsonld', value: src, form: 'text', width, height });
  }

  /** Each (src, via) once, in document order, within `limits`; and how many data: URLs there
   *  were. */
  resolve(resolver: Resolver): { images: Image[]; dataImages: number } {
    const images: Image[] = [];
    let bytes = 0;
    const seen = new Map<ImageVia, Set<string>>();
    for (const found of this.#found) {
      const known = seen.get(found.via) ?? new Set();
      seen.set(found.via, known);
      for (const { url, width, height } of this.#addresses(found)) {
        const src = isBlank(url) || this.#isData(url) ? undefined : resolver.resolve(url);
        if (src === undefined || src.length > limits.urlChars || known.has(src)) continue;
        if (images.length >= limits.imagesMax || bytes > limits.imagesBytesMax) break;
        known.add(src);
        const image = this.#image(src, found, width, height);
        images.push(image);
        bytes += src.length + (image.alt?.length ?? 0) * utf8BytesMax;
      }
    }
    return { images, dataImages: this.#dataCount };
  }

  #extra(tag: Tag): void {
    switch (tag.name) {
      case 'source':
        this.#pictureOf(tag, undefined, 'source');
        break;
      case 'video':
        this.#keepRaw('poster', tag.value(attribute.poster));
        break;
      case 'input':
        if (isImageInput(tag)) this.#pictureOf(tag, 'input', undefined);
        break;
      case 'link':
        this.#link(tag);
        break;
      case 'meta':
        this.#meta(tag);
        break;
      default:
    }
  }

  #pictureOf(tag: Tag, src: ImageVia | undefined, set: ImageVia | undefined): void {
    const value = tag.value(attribute.src);
    if (src !== undefined && value !== undefined) this.#keep({ via: src, value, form: 'raw' }, tag);
    const candidates = tag.value(attribute.srcset);
    if (set !== undefined && candidates !== undefined)
      this.#keep({ via: set, value: candidates, form: 'set' }, tag);
  }

  #link(tag: Tag): void {
    const rels = (tag.value(attribute.rel) ?? '').toLowerCase().split(/[\t\n\f\r ]+/);
    if (rels.includes('preload') && tag.value(attribute.as)?.toLowerCase() === 'image') {
      this.#keepRaw('preload', tag.value(attribute.href));
      const value = tag.value(attribute.imagesrcset);
      if (value !== undefined) this.#keep({ via: 'preload', value, form: 'set' });
    }
    if (!rels.some((rel) => iconRels.has(rel))) return;
    const [, width, height] = /^\s*(\d+)x(\d+)/i.exec(tag.value(attribute.sizes) ?? '') ?? [];
    const size = { width: pixels(width), height: pixels(height) };
    this.#keep({ via: 'icon', value: tag.value(attribute.href) ?? '', form: 'raw', ...size });
  }

  #meta(tag: Tag): void {
    const content = tag.value(attribute.content);
    if (content === undefined) return;
    for (const text of [tag.value(attribute.property), tag.value(attribute.metaName)]) {
      const name = text?.toLowerCase() ?? '';
      const via = metaVias.get(name);
      const last = this.#lastMeta;
      if (via !== undefined) {
        this.#lastMeta = { via, value: content, form: 'raw' };
        this.#keep(this.#lastMeta);
        return;
      }
      if (last === undefined || !name.startsWith(`${last.via}:image:`)) continue;
      if (name.endsWith(':alt')) last.alt ??= content;
      else if (name.endsWith(':width')) last.width ??= pixels(content);
      else if (name.endsWith(':height')) last.height ??= pixels(content);
    }
  }

  #takesLazy(tag: Tag, use: 'url' | 'poster', isSet: boolean): boolean {
    if (use === 'poster') return tag.name === 'video' && tag.kind === 'extra';
    if (tag.kind === 'image') return true;
    if (tag.kind !== 'extra') return false;
    // The source of a video has its film in data-src.
    return tag.name === 'source' ? isSet : tag.name === 'input' && isImageInput(tag);
  }

  /** `raw`: as scanned, but for character references. */
  #css(raw: string, via: ImageVia): void {
    if (!this.#options.vias.has(via)) return;
    for (const value of cssImages(this.#options.value(raw)))
      this.#keep({ via, value, form: 'text' });
  }

  #keepRaw(via: ImageVia, value: string | undefined): void {
    if (value !== undefined) this.#keep({ via, value, form: 'raw' });
  }

  #keep(found: Found, tag?: Tag): void {
    const { via, value, form } = found;
    if (value === '' || !this.#options.vias.has(via)) return;
    if (form !== 'set' && this.#isData(value)) return;
    const known = this.#known.get(via) ?? new Set();
    if (known.size === 0) this.#known.set(via, known);
    if (known.has(value) || this.#found.length >= limits.imagesMax) return;
    known.add(value);
    if (tag !== undefined) {
      found.alt = tag.value(attribute.alt);
      found.width = pixels(tag.value(attribute.width));
      found.height = pixels(tag.value(attribute.height));
    }
    this.#found.push(found);
  }

  /** Counts a data: URL. */
  #isData(value: string): boolean {
    const c = value.charCodeAt(0);
    // "d", "D", or white space before it.
    if ((c !== 0x64 && c !== 0x44 && c > 0x20) || !/^\s*data:/i.test(value)) return false;
    this.#dataCount++;
    return true;
  }

  #addresses({ value, form, width, height }: Found): readonly Candidate[] {
    const text = form === 'text' ? value : decodeAttribute(this.#options.value(value));
    if (form !== 'set') {
      return [
        {
          url: text,
          ...(width !== undefined && { width }),
          ...(height !== undefined && { height }),
        },
      ];
    }
    const candidates = parseSrcset(text);
    return this.#options.srcset === 'best' ? best(candidates) : candidates;
  }

  #image(src: string, found: Found, width: number | undefined, height: number | undefined): Image {
    const image: Image = { src, via: found.via };
    if (found.alt !== undefined) {
      const alt =
        found.form === 'text' ? found.alt : decodeAttribute(this.#options.value(found.alt));
      image.alt = cap(alt.replace(/\r\n?/g, '\n'), limits.altChars);
    }
    if (width !== undefined && width <= imagePixelsMax) image.width = width;
    if (height !== undefined && height <= imagePixelsMax) image.height = height;
    return image;
  }
}

/** The candidate with the most pixels, as far as its descriptor tells. */
function best(candidates: readonly Candidate[]): readonly Candidate[] {
  const size = ({ width, density }: Candidate) => width ?? density ?? 1;
  const largest = candidates.reduce<Candidate | undefined>(
    (found, next) => (found === undefined || size(next) > size(found) ? next : found),
    undefined,
  );
  return largest === undefined ? [] : [largest];
}

function isImageInput(tag: Tag): boolean {
  return tag.value(attribute.type)?.toLowerCase() === 'image';
}

/** A length in pixels; undefined for a percentage. Source: HTML Standard, "dimension values". */
function pixels(value: string | undefined): number | undefined {
  const [, digits, unit] = /^[\t\n\f\r ]*\+?([0-9]+)(?:\.[0-9]*)?(%?)/.exec(value ?? '') ?? [];
  return digits === undefined || unit === '%' ? undefined : Number(digits);
}

function isBlank(value: string): boolean {
  for (let at = 0; at < value.length; at++) if (value.charCodeAt(at) > 0x20) return false;
  return true;
}

/** At most `max` characters, without half a surrogate pair at the end. */
export function cap(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? max - 1 : max);
}

/**
 * The images of one page, gathered while it is scanned: from every place where a browser or a
 * common script finds one, each with its class (`via`). Srcsets, CSS and JSON-LD are read at once,
 * so that their text is not kept. Each distinct address is kept raw and resolved at the end,
 * because `<base>` applies to all of them. data: URLs are counted, not kept.
 * Source: HTML Standard (img, picture, link, video, input, object, embed, meta); docs/images.md.
 */
import type { ImageVia } from '../../shared/crawl.ts';
import { imagePixelsMax, limits } from '../../shared/protocol.ts';
import type { Image } from '../../shared/requests.ts';
import { cssImages } from './css.ts';
import * as attribute from './elements.ts';
import type { References } from './entities.ts';
import {
  isIcon,
  isImageInput,
  isImageObject,
  isImagePreload,
  isImageProperty,
  isPreview,
  metaVias,
  objectAddress,
  placesOf,
  relsOf,
} from './image-places.ts';
import { jsonLdImages } from './json-ld.ts';
import { looksLikeAddress } from './lazy.ts';
import { type Licenses, licenseOf } from './licenses.ts';
import type { Resolver } from './resolve.ts';
import { type Candidate, parseSrcset } from './srcset.ts';
import type { Tag } from './tag.ts';

type ImageOptions = {
  readonly vias: ReadonlySet<ImageVia>;
  /** Which candidates of a srcset: all, or the largest one. */
  readonly srcset: 'all' | 'best';
  /** Decodes scanned text. */
  readonly value: (text: string) => string;
  readonly references: References;
  /** Undefined: they are not looked for. */
  readonly licenses: Licenses | undefined;
};

/** One distinct address as in the page. */
type Found = {
  readonly via: ImageVia;
  readonly text: string;
  /** As scanned: not decoded, and with character references. */
  readonly isRaw: boolean;
  /** Raw. */
  alt: string | undefined;
  width: number | undefined;
  height: number | undefined;
  /** Where it is, for its licence. */
  figure: Licenses['here'] | undefined;
};

/**
 * Forms of addresses, as bits. Two different texts of one form are two different URLs, so the URLs
 * of a class with a single form need no further comparison.
 */
const otherForm = 1;
const distinctForms: ReadonlySet<number> = new Set([2, 4, 8, 16, 32, 64, 128, 256]);

/** Returns the form of an address that `resolvePlain` accepted. */
function formOf(text: string, isRaw: boolean): number {
  const c = text.charCodeAt(0);
  if (c === 0x2e) return otherForm; // "../" may be resolved
  let form = 2;
  if (c === 0x2f) form = text.charCodeAt(1) === 0x2f ? 4 : 8;
  else if (c === 0x68 && /^https?:/.test(text)) form = 16;
  return isRaw ? form : form << 4;
}

const numberSign = 0x23;

/** Size of an image in a report without its address and alternative text, in bytes. */
const entryBytes = 64;

export class PageImages {
  readonly #options: ImageOptions;
  readonly #found: Found[] = [];
  /** Known addresses by class; raw texts separately. An icon that occurs 500 times is kept once. */
  readonly #knownRaw = new Map<ImageVia, Set<string>>();
  readonly #knownText = new Map<ImageVia, Set<string>>();
  readonly #forms = new Map<ImageVia, number>();
  /** The image that og:image:width and similar elements describe. */
  #lastMeta: Found | undefined;
  #dataCount = 0;
  #cutCount = 0;

  constructor(options: ImageOptions) {
    this.#options = options;
  }

  /** A start tag: img, an extra element, svg that shows another file, a lazy background. */
  tag(tag: Tag): void {
    switch (tag.kind) {
      case 'image':
        this.#pictureOf(tag, 'img', 'srcset');
        break;
      case 'foreign':
        this.#keepRaw('svg', tag.value(attribute.href) ?? tag.value(attribute.xlinkHref), tag);
        break;
      case 'about':
      case 'extra':
        this.#extra(tag);
        break;
      default:
    }
    for (const { name, value } of tag.lazies) {
      if (name.use !== 'background' && !this.#takesLazy(tag, name.use, name.isSet)) continue;
      if (!looksLikeAddress(value)) continue;
      if (value.includes('url(')) this.#css(this.#decoded(value), 'lazy');
      else if (name.isSet) this.#keepSet('lazy', value, tag);
      else this.#keepRaw('lazy', value, tag);
    }
  }

  /** The text of a style element, or the value of a style attribute. */
  css(text: string, isAttribute: boolean): void {
    if (!this.#options.vias.has('css') || !text.includes('(')) return;
    const { value, references } = this.#options;
    this.#css(isAttribute ? this.#decoded(text) : references.raw(value(text)), 'css');
  }

  jsonLd(text: string): void {
    if (!this.#options.vias.has('jsonld')) return;
    const { value, references } = this.#options;
    for (const { src, width, height } of jsonLdImages(references.raw(value(text))))
      this.#keep(newFound('jsonld', src, false, width, height));
  }

  /** A tag with values that were too long to be kept: those that could name images count as cut. */
  dropped(tag: Tag): void {
    if (tag.dropped(attribute.style) !== undefined) this.#cut('css');
    for (let n = 0; n < tag.lazyDrops; n++) this.#cut('lazy');
    for (const [via, name] of placesOf(tag)) {
      const beginning = tag.dropped(name);
      if (beginning === undefined) continue;
      if (this.#options.vias.has(via)) this.#isData(beginning);
      this.#cut(via);
    }
  }

  /** A style element, or a script of JSON-LD, was longer than what is kept. */
  textDropped(via: 'css' | 'jsonld'): void {
    this.#cut(via);
  }

  /** Returns each (src, via) once, in document order, within the limits; the number beyond them;
   *  and the number of data: URLs. */
  resolve(resolver: Resolver): { images: Image[]; imagesCut: number; dataImages: number } {
    const urls = this.#found.map((found) => this.#address(found, resolver));
    const images: Image[] = [];
    const seen = new Map<ImageVia, Set<string>>();
    let bytes = 0;
    for (const [index, found] of this.#found.entries()) {
      const src = urls[index];
      if (src === undefined) continue;
      const isDistinct = distinctForms.has(this.#forms.get(found.via) ?? 0);
      if (!isDistinct && !isNew(seen, found.via, src)) continue;
      if (src.length > limits.urlChars) {
        this.#cutCount++;
        continue;
      }
      const image = this.#image(src, found, resolver);
      bytes += entryBytes + src.length + (image.license?.length ?? 0);
      if (image.alt !== undefined) bytes += image.alt.length * 3;
      if (bytes <= limits.imagesBytesMax) images.push(image);
      else this.#cutCount++;
    }
    return { images, imagesCut: this.#cutCount, dataImages: this.#dataCount };
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
      case 'object':
      case 'embed':
        if (isImageObject(tag)) this.#keepRaw('object', tag.value(objectAddress(tag)), tag);
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
    if (src !== undefined) this.#keepRaw(src, tag.value(attribute.src), tag);
    if (set !== undefined) this.#keepSet(set, tag.value(attribute.srcset), tag);
  }

  #link(tag: Tag): void {
    const rels = relsOf(tag);
    if (isImagePreload(tag, rels)) {
      this.#keepRaw('preload', tag.value(attribute.href));
      this.#keepSet('preload', tag.value(attribute.imagesrcset));
    }
    if (isPreview(tag, rels)) this.#keepRaw('og', tag.value(attribute.href));
    if (!isIcon(rels)) return;
    const [, width, height] = /^\s*(\d+)x(\d+)/i.exec(tag.value(attribute.sizes) ?? '') ?? [];
    const href = tag.value(attribute.href) ?? '';
    this.#keep(newFound('icon', href, true, pixels(width), pixels(height)));
  }

  #meta(tag: Tag): void {
    const content = tag.value(attribute.content);
    if (content === undefined) return;
    for (const text of [tag.value(attribute.property), tag.value(attribute.metaName)]) {
      const name = text?.toLowerCase() ?? '';
      const via = metaVias.get(name);
      const last = this.#lastMeta;
      if (via !== undefined) {
        this.#lastMeta = newFound(via, content, true);
        this.#keep(this.#lastMeta);
        return;
      }
      if (last === undefined || !name.startsWith(`${last.via}:image:`)) continue;
      if (name.endsWith(':alt')) last.alt ??= content;
      else if (name.endsWith(':width')) last.width ??= pixels(content);
      else if (name.endsWith(':height')) last.height ??= pixels(content);
    }
    if (isImageProperty(tag)) this.#keepRaw('og', content);
  }

  #takesLazy(tag: Tag, use: 'url' | 'poster', isSet: boolean): boolean {
    if (use === 'poster') return tag.name === 'video' && tag.kind === 'extra';
    if (tag.kind === 'image') return true;
    if (tag.kind !== 'extra') return false;
    // The data-src of a video's source is the film.
    return tag.name === 'source' ? isSet : tag.name === 'input' && isImageInput(tag);
  }

  /** `sheet`: decoded text. */
  #css(sheet: string, via: ImageVia): void {
    if (!this.#options.vias.has(via)) return;
    for (const text of cssImages(sheet)) this.#keep(newFound(via, text, false));
  }

  #keepRaw(via: ImageVia, value: string | undefined, tag?: Tag): void {
    if (value === undefined || value === '') return;
    const found = newFound(via, value, true);
    if (!this.#keep(found) || tag === undefined) return;
    found.alt = tag.value(attribute.alt);
    found.width = pixels(tag.value(attribute.width));
    found.height = pixels(tag.value(attribute.height));
  }

  /** Candidates are split in the raw text: their separators are ASCII, in the page's bytes, too. */
  #keepSet(via: ImageVia, value: string | undefined, tag?: Tag): void {
    if (value === undefined || !this.#options.vias.has(via)) return;
    const isRaw = !value.includes('&');
    const all = parseSrcset(isRaw ? value : this.#decoded(value));
    for (const { url, width, height } of this.#options.srcset === 'best' ? best(all) : all) {
      const found = newFound(via, url, isRaw, width, height);
      if (this.#keep(found) && tag !== undefined) found.alt = tag.value(attribute.alt);
    }
  }

  /** Returns false if the image is not wanted, not an image, known, or beyond a limit. */
  #keep(found: Found): boolean {
    const { via, text, isRaw } = found;
    if (text === '' || text.charCodeAt(0) === numberSign) return false;
    if (!this.#options.vias.has(via) || this.#isData(text)) return false;
    const known = isRaw ? this.#knownRaw : this.#knownText;
    if (this.#found.length >= limits.imagesMax) {
      if (known.get(via)?.has(text) !== true) this.#cutCount++;
      return false;
    }
    if (!isNew(known, via, text)) return false;
    found.figure = this.#options.licenses?.here;
    this.#found.push(found);
    return true;
  }

  #cut(via: ImageVia): void {
    if (this.#options.vias.has(via)) this.#cutCount++;
  }

  /** Counts a data: URL. */
  #isData(value: string): boolean {
    const c = value.charCodeAt(0);
    // "d", "D", or white space before it.
    if ((c !== 0x64 && c !== 0x44 && c > 0x20) || !/^\s*data:/i.test(value)) return false;
    this.#dataCount++;
    return true;
  }

  #address({ via, text, isRaw }: Found, resolver: Resolver): string | undefined {
    const plain = isRaw && text.includes('&') ? undefined : resolver.resolvePlain(text);
    const form = plain === undefined ? otherForm : formOf(text, isRaw);
    this.#forms.set(via, (this.#forms.get(via) ?? 0) | form);
    if (plain !== undefined) return plain;
    const url = isRaw ? this.#decoded(text) : text;
    // A fragment alone refers to this document.
    if (isBlank(url) || /^[\0-\x20]*#/.test(url) || this.#isData(url)) return undefined;
    return resolver.resolve(url);
  }

  #image(src: string, { via, alt, width, height, figure }: Found, resolver: Resolver): Image {
    const image: Image = { src, via };
    if (alt !== undefined)
      image.alt = cap(this.#decoded(alt).replace(/\r\n?/g, '\n'), limits.altChars);
    if (width !== undefined && width <= imagePixelsMax) image.width = width;
    if (height !== undefined && height <= imagePixelsMax) image.height = height;
    const license = figure && licenseOf(figure);
    const url = license && resolver.resolveLink(this.#decoded(license));
    if (url && url.length <= limits.licenseChars) image.license = url;
    return image;
  }

  #decoded(raw: string): string {
    return this.#options.references.attribute(this.#options.value(raw));
  }
}

function newFound(
  via: ImageVia,
  text: string,
  isRaw: boolean,
  width?: number,
  height?: number,
): Found {
  return { via, text, isRaw, alt: undefined, width, height, figure: undefined };
}

/** Adds `text` to the set of its class; returns whether it is new. */
function isNew(known: Map<ImageVia, Set<string>>, via: ImageVia, text: string): boolean {
  let texts = known.get(via);
  if (texts === undefined) {
    texts = new Set();
    known.set(via, texts);
  }
  const before = texts.size;
  texts.add(text);
  return texts.size > before;
}

/** Returns the candidate with the most pixels, by its descriptor. */
function best(candidates: readonly Candidate[]): readonly Candidate[] {
  const size = ({ width, density }: Candidate) => width ?? density ?? 1;
  const largest = candidates.reduce<Candidate | undefined>(
    (found, next) => (found === undefined || size(next) > size(found) ? next : found),
    undefined,
  );
  return largest === undefined ? [] : [largest];
}

/** A length in pixels; undefined for a percentage. Source: HTML Standard, "dimension values". */
function pixels(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (value.length <= 4) {
    const plain = plainNumber(value);
    if (plain !== undefined) return plain;
  }
  const [, digits, unit] = /^[\t\n\f\r ]*\+?([0-9]+)(?:\.[0-9]*)?(%?)/.exec(value) ?? [];
  return digits === undefined || unit === '%' ? undefined : Number(digits);
}

/** Parses a size of digits only, as most are. */
function plainNumber(value: string): number | undefined {
  let number = 0;
  for (let at = 0; at < value.length; at++) {
    const digit = value.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return undefined;
    number = number * 10 + digit;
  }
  return value === '' ? undefined : number;
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

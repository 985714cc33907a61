/**
 * One page in, its title, images and links out. Text arrives in chunks of any size and is scanned
 * as it arrives; what is kept are the distinct raw values, because `<base href>` counts for all of
 * them wherever it stands, so URLs are resolved at the end. Pure; one extractor serves one page.
 * Source: HTML Standard, "document base URL".
 */
import { type Image, limits } from '../../shared/protocol.ts';
import { decodeAttribute, decodeTitle } from './entities.ts';
import { Resolver } from './resolve.ts';
import { Scanner, type ScannerSink } from './scanner.ts';
import { parseSrcset } from './srcset.ts';

export type ExtractOptions = {
  /** Final URL of the page, canonical. */
  url: string;
  /** The page's charset; queries of links are written in it. */
  encoding: string;
  images: 'img' | 'all';
  /** Makes real text of a value, if what is written is not text yet but bytes as characters. */
  value?: (text: string) => string;
};

export type Extract = {
  /** First title, decoded, whitespace collapsed, at most `limits.titleChars`; absent if empty. */
  title?: string;
  /** Each (src, via) once, in document order, at most `limits.imagesMax`. */
  images: Image[];
  /** Canonical links without fragment, each once, ASCII, parted by line feeds. */
  links: Uint8Array;
  /** Links that `limits.linksBytesMax` left no room for. */
  linksCut: number;
};

type RawImage = { src: string | undefined; srcset: string | undefined; alt: string | undefined };

export class PageExtractor implements ScannerSink {
  readonly #options: ExtractOptions;
  readonly #scanner: Scanner;
  #base: string | undefined;
  #title: string | undefined;
  readonly #links = new Set<string>();
  readonly #images: RawImage[] = [];
  /** Raw src seen already: an icon that stands 500 times on a page is kept once. */
  readonly #sources = new Set<string>();

  constructor(options: ExtractOptions) {
    this.#options = options;
    this.#scanner = new Scanner(this);
  }

  write(text: string): void {
    this.#scanner.write(text);
  }

  end(): Extract {
    this.#scanner.end();
    const resolver = this.#resolver();
    const text = this.#title ?? '';
    const title = cleanTitle(this.#options.value?.(text) ?? text);
    return {
      ...(title !== '' && { title }),
      images: this.#resolveImages(resolver),
      ...this.#resolveLinks(resolver),
    };
  }

  /** @internal Called by the scanner, like the three below. */
  link(href: string): void {
    this.#links.add(withoutFragment(href));
  }

  image(src: string | undefined, srcset: string | undefined, alt: string | undefined): void {
    const set = this.#options.images === 'all' ? srcset : undefined;
    const source = src !== undefined && isWorthKeeping(src, this.#sources) ? src : undefined;
    if (source === undefined && set === undefined) return;
    if (source !== undefined) this.#sources.add(source);
    if (this.#images.length < limits.imagesMax)
      this.#images.push({ src: source, srcset: set, alt });
  }

  base(href: string): void {
    this.#base ??= href;
  }

  title(text: string): void {
    this.#title = text;
  }

  #resolver(): Resolver {
    const { url, encoding } = this.#options;
    const resolver = new Resolver(url, encoding);
    if (this.#base === undefined) return resolver;
    // A base that is invalid or of another scheme is as if it were not there.
    const base = resolver.resolveLink(this.#value(this.#base));
    return base === undefined ? resolver : new Resolver(base, encoding);
  }

  #value(raw: string): string {
    return decodeAttribute(this.#options.value?.(raw) ?? raw);
  }

  #resolveLinks(resolver: Resolver): { links: Uint8Array; linksCut: number } {
    const urls = new Set<string>();
    let bytes = 0;
    let linksCut = 0;
    for (const href of this.#links) {
      const url = href === '' ? resolver.base : resolver.resolveLink(this.#value(href));
      if (url === undefined || url.length > limits.urlChars || urls.has(url)) continue;
      if (bytes + url.length > limits.linksBytesMax) {
        linksCut++;
        continue;
      }
      bytes += url.length + 1;
      urls.add(url);
    }
    return { links: Buffer.from([...urls].join('\n'), 'latin1'), linksCut };
  }

  #resolveImages(resolver: Resolver): Image[] {
    const images: Image[] = [];
    const seen = { img: new Set<string>(), srcset: new Set<string>() };
    const add = (value: string, via: Image['via'], alt: string | undefined): void => {
      const src = resolver.resolve(value);
      if (src === undefined || src.length > limits.urlChars || seen[via].has(src)) return;
      if (images.length >= limits.imagesMax) return;
      seen[via].add(src);
      images.push(alt === undefined ? { src, via } : { src, via, alt });
    };
    for (const image of this.#images) {
      const alt = image.alt === undefined ? undefined : cleanAlt(this.#value(image.alt));
      if (image.src !== undefined) {
        const src = this.#value(image.src);
        if (!isBlank(src)) add(src, 'img', alt);
      }
      if (image.srcset !== undefined)
        for (const { url } of parseSrcset(this.#value(image.srcset))) add(url, 'srcset', alt);
    }
    return images;
  }
}

/** Cut at "#" where that provably leads to the same URL, so that `x#a` and `x#b` are one entry. */
function withoutFragment(href: string): string {
  const hash = href.indexOf('#');
  if (hash < 0) return href;
  // "&#35;" is no fragment, and a space before "#" would be trimmed if it became the last one.
  if (hash > 0 && (href.charCodeAt(hash - 1) <= 0x20 || href.includes('&'))) return href;
  return href.slice(0, hash);
}

function isWorthKeeping(src: string, known: ReadonlySet<string>): boolean {
  return src !== '' && !src.startsWith('data:') && !known.has(src);
}

function isBlank(value: string): boolean {
  for (let at = 0; at < value.length; at++) if (value.charCodeAt(at) > 0x20) return false;
  return true;
}

function cleanTitle(raw: string): string {
  const text = decodeTitle(raw).replace(/[\t\n\f\r ]+/g, ' ');
  return cap(text.startsWith(' ') ? text.slice(1) : text, limits.titleChars).trimEnd();
}

function cleanAlt(text: string): string {
  return cap(text.replace(/\r\n?/g, '\n'), limits.altChars);
}

/** At most `max` characters, without half a surrogate pair at the end. */
function cap(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? max - 1 : max);
}

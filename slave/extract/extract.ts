/**
 * One page in, its title, images and links out. Text arrives in chunks of any size and is scanned
 * as it arrives; what is kept are the distinct raw values, because `<base href>` counts for all of
 * them wherever it stands, so URLs are resolved at the end. Pure; one extractor serves one page.
 * Source: HTML Standard, "document base URL".
 */
import { type FetchSpec, type ImageVia, imageVias, lazyAttributes } from '../../shared/crawl.ts';
import { type Image, limits } from '../../shared/protocol.ts';
import { decodeAttribute, decodeTitle } from './entities.ts';
import { cap, PageImages } from './images.ts';
import { LazyNames } from './lazy.ts';
import { Resolver } from './resolve.ts';
import { Scanner, type ScannerSink } from './scanner.ts';
import type { Tag } from './tag.ts';

export type ExtractOptions = {
  /** Final URL of the page, canonical. */
  url: string;
  /** The page's charset; queries of links are written in it. */
  encoding: string;
  images: FetchSpec['images'];
  /** Which candidates of a srcset; all by default. */
  srcset?: FetchSpec['srcset'];
  /** Names of the attributes that scripts load images from. */
  lazyAttributes?: readonly string[];
  /** Makes real text of a value, if what is written is not text yet but bytes as characters. */
  value?: (text: string) => string;
};

export type Extract = {
  /** First title, decoded, whitespace collapsed, at most `limits.titleChars`; absent if empty. */
  title?: string;
  /** Each (src, via) once, in document order. */
  images: Image[];
  /** Images that `limits.imagesMax` or `limits.imagesBytesMax` left no room for. */
  imagesCut: number;
  /** Images that are data: URLs; they are not among `images`. */
  dataImages: number;
  /** Canonical links without fragment, each once, ASCII, parted by line feeds. */
  links: Uint8Array;
  /** Links that `limits.linksBytesMax` left no room for. */
  linksCut: number;
};

const plainVias: ReadonlySet<ImageVia> = new Set(['img']);
const allVias: ReadonlySet<ImageVia> = new Set(imageVias);
/** Parsed lists of lazy attributes: each crawl has one, for all its pages. */
const parsedNames = new WeakMap<readonly string[], LazyNames>();

export class PageExtractor implements ScannerSink {
  readonly #options: ExtractOptions;
  readonly #scanner: Scanner;
  #base: string | undefined;
  #title: string | undefined;
  readonly #links = new Set<string>();
  readonly #images: PageImages;

  constructor(options: ExtractOptions) {
    this.#options = options;
    const vias = viasOf(options.images);
    const value = options.value ?? ((text: string) => text);
    this.#images = new PageImages({ vias, srcset: options.srcset ?? 'all', value });
    const isPlain = [...vias].every((via) => via === 'img' || via === 'srcset');
    this.#scanner = new Scanner(
      this,
      isPlain ? undefined : lazyNamesOf(options.lazyAttributes ?? lazyAttributes),
    );
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
      ...this.#images.resolve(resolver),
      ...this.#resolveLinks(resolver),
    };
  }

  /** @internal Called by the scanner, like the five below. */
  link(href: string): void {
    this.#links.add(withoutFragment(href));
  }

  image(tag: Tag): void {
    this.#images.tag(tag);
  }

  css(text: string, isAttribute: boolean): void {
    this.#images.css(text, isAttribute);
  }

  data(text: string): void {
    this.#images.jsonLd(text);
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
      const plain = href.includes('&') ? undefined : resolver.resolvePlain(href);
      const url = plain ?? (href === '' ? resolver.base : resolver.resolveLink(this.#value(href)));
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
}

function viasOf(images: FetchSpec['images']): ReadonlySet<ImageVia> {
  if (images === 'img') return plainVias;
  return images === 'all' ? allVias : new Set(images);
}

function lazyNamesOf(names: readonly string[]): LazyNames {
  const parsed = parsedNames.get(names) ?? new LazyNames(names);
  parsedNames.set(names, parsed);
  return parsed;
}

/** Cut at "#" where that provably leads to the same URL, so that `x#a` and `x#b` are one entry. */
function withoutFragment(href: string): string {
  const hash = href.indexOf('#');
  if (hash < 0) return href;
  // "&#35;" is no fragment, and a space before "#" would be trimmed if it became the last one.
  if (hash > 0 && (href.charCodeAt(hash - 1) <= 0x20 || href.includes('&'))) return href;
  return href.slice(0, hash);
}

function cleanTitle(raw: string): string {
  const text = decodeTitle(raw).replace(/[\t\n\f\r ]+/g, ' ');
  return cap(text.startsWith(' ') ? text.slice(1) : text, limits.titleChars).trimEnd();
}

/**
 * One page in, its title, images and links out. Text arrives in chunks of any size and is scanned
 * as it arrives. Only distinct raw values are kept. URLs are resolved at the end, because `<base
 * href>` applies to all of them wherever it is. Pure; one extractor serves one page.
 * Source: HTML Standard, "document base URL".
 */
import { type FetchSpec, type ImageVia, imageVias, lazyAttributes } from '../../shared/crawl.ts';
import { limits } from '../../shared/protocol.ts';
import type { Image } from '../../shared/requests.ts';
import {
  Declarations,
  type Declared,
  hasToken,
  noHeaders,
  type PageHeaders,
} from './declarations.ts';
import * as attribute from './elements.ts';
import { htmlReferences, type References, xmlReferences } from './entities.ts';
import { cap, PageImages } from './images.ts';
import { LazyNames } from './lazy.ts';
import { Licenses } from './licenses.ts';
import { charsetLabels } from './meta-charset.ts';
import { Resolver } from './resolve.ts';
import { Scanner, type ScannerOptions } from './scanner.ts';
import { framelessSink, type ScannerSink } from './scanner-sink.ts';
import type { Tag } from './tag.ts';
import { XmlScanner } from './xml-scanner.ts';

export type ExtractOptions = {
  /** Final URL of the page, canonical. */
  url: string;
  /** The page's charset; queries of links are written in it. */
  encoding: string;
  /** A meta element names a charset. Returns the charset now in use, or undefined if the label is
   *  unknown. */
  charset?: (label: string) => string | undefined;
  images: FetchSpec['images'];
  /** Which candidates of a srcset; all by default. */
  srcset?: FetchSpec['srcset'];
  /** Names of the lazy attributes. */
  lazyAttributes?: readonly string[];
  /** Of the answer; none by default. */
  headers?: PageHeaders;
  /** Rules for crawlers may name it. */
  userAgent?: string;
  /** Page directives to honour; none by default. */
  obey?: FetchSpec['obey'];
  /** The target of a refresh is not a link. */
  ignoreRefresh?: boolean;
  /** The licences that the page names are told of its images; not by default. */
  licenses?: boolean;
  /** The address of an iframe is a link; not by default. */
  iframes?: boolean;
  /** The page is XML; HTML by default. */
  xml?: boolean;
  /** Neither images nor links are wanted; false by default. */
  bare?: boolean;
  /** Decodes a value, if `write` gets bytes as characters instead of text. */
  value?: (text: string) => string;
};

export type Extract = Declared & {
  /** First title, decoded, whitespace collapsed, at most `limits.titleChars`; absent if empty. */
  title?: string;
  /** Each (src, via) once, in document order. */
  images: Image[];
  /** Images that were too long or beyond the limits, and values and texts that could have named
   *  images but were too long to read. */
  imagesCut: number;
  /** Images that are data: URLs; they are not among `images`. */
  dataImages: number;
  /** Canonical links without fragment, each once, ASCII, separated by line feeds. */
  links: Uint8Array;
  /** Links that were too long or beyond the limits. */
  linksCut: number;
  /** Links left out of `links` because the page asks for it. */
  nofollowed: number;
};

/** Values of rel by which an author does not vouch for a link. Source: HTML Standard 4.6.8; Google
 *  Search Central, "Qualify your outbound links". */
const unendorsed = ['nofollow', 'ugc', 'sponsored'];
const noLinks = new Uint8Array(0);

const plainVias: ReadonlySet<ImageVia> = new Set(['img']);
const allVias: ReadonlySet<ImageVia> = new Set(imageVias);
/** Parsed lists of lazy attributes: each crawl has one, for all its pages. */
const parsedNames = new WeakMap<readonly string[], LazyNames>();

export class PageExtractor implements ScannerSink {
  readonly #options: ExtractOptions;
  readonly #scannerOptions: ScannerOptions;
  readonly #scanner: Scanner | XmlScanner;
  readonly #references: References;
  #encoding: string;
  #base: string | undefined;
  #title: string | undefined;
  readonly #links = new Set<string>();
  #linksCut = 0;
  /** Links that are not vouched for are left out. */
  readonly #obeysRel: boolean;
  /** Links not to be followed, unless they also occur without such a rel. */
  readonly #unendorsed = new Set<string>();
  readonly #declarations: Declarations;
  readonly #images: PageImages;
  readonly #licenses: Licenses | undefined;

  constructor(options: ExtractOptions) {
    this.#options = options;
    this.#encoding = options.encoding;
    const bare = options.bare === true;
    const vias = viasOf(bare ? [] : options.images);
    const value = options.value ?? ((text: string) => text);
    const references = options.xml === true ? xmlReferences : htmlReferences;
    this.#references = references;
    const isLicensed = options.licenses === true && !bare;
    const licenses = isLicensed ? new Licenses() : undefined;
    this.#licenses = licenses;
    const srcset = options.srcset ?? 'all';
    this.#images = new PageImages({ vias, srcset, value, references, licenses });
    this.#obeysRel = options.obey?.includes('rel-nofollow') === true;
    const isPlain = [...vias].every((via) => via === 'img' || via === 'srcset');
    this.#scannerOptions = {
      lazy: isPlain ? undefined : lazyNamesOf(options.lazyAttributes ?? lazyAttributes),
      rel: this.#obeysRel || isLicensed,
      figures: isLicensed,
      iframes: options.iframes === true,
      bare,
      bytes: options.value !== undefined,
    };
    const Kind = options.xml === true ? XmlScanner : Scanner;
    this.#scanner = new Kind(this, this.#scannerOptions);
    this.#declarations = new Declarations({
      headers: options.headers ?? noHeaders,
      userAgent: options.userAgent ?? '',
      text: (raw) => this.#value(raw),
      resolver: () => this.#resolver(),
    });
  }

  write(text: string): void {
    this.#scanner.write(text);
  }

  end(): Extract {
    this.#scanner.end();
    const resolver = this.#resolver();
    const text = this.#title ?? '';
    const title = cleanTitle(this.#references.title(this.#options.value?.(text) ?? text));
    const declared = this.#declarations.end(resolver, this.#options.url);
    return {
      ...declared,
      ...(title !== '' && { title }),
      ...this.#images.resolve(resolver),
      ...this.#resolveLinks(resolver, declared),
    };
  }

  /** @internal Called by the scanner, like the ten below. */
  link(href: string, rel: string | undefined): void {
    if (rel !== undefined) this.#licenses?.link(href, this.#value(rel));
    const isUnendorsed = this.#obeysRel && rel !== undefined && this.#isUnendorsed(rel);
    const links = isUnendorsed ? this.#unendorsed : this.#links;
    if (links.size < limits.linksMax) links.add(withoutFragment(href));
    else this.#linksCut++;
  }

  about(tag: Tag): void {
    if (tag.name === 'meta') this.#takeCharset(tag);
    this.#declarations.tag(tag);
    this.#licenses?.about(tag, (raw) => this.#value(raw));
    this.#images.tag(tag);
  }

  image(tag: Tag): void {
    this.#images.tag(tag);
  }

  figure(isOpen: boolean): void {
    this.#licenses?.figure(isOpen);
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

  /** A browser reads it as text, so it ends at the end tag; without frames it is markup. */
  noframes(text: string): void {
    const scanner = new Scanner(framelessSink(this), this.#scannerOptions);
    scanner.write(text);
    scanner.end();
  }

  dropped(tag: Tag): void {
    this.#images.dropped(tag);
    if (tag.kind === 'about') this.#declarations.dropped(tag);
    const isFrame = tag.kind === 'frame' || tag.kind === 'raw';
    const name = isFrame ? attribute.src : tag.kind === 'link' ? attribute.href : 0;
    const beginning = name === 0 ? undefined : tag.dropped(name);
    // A script of a megabyte is not a link.
    if (beginning !== undefined && this.#linkUrl(beginning, this.#resolver()) !== undefined)
      this.#linksCut++;
  }

  textDropped(element: string): void {
    if (element === 'noframes') this.#linksCut++;
    else this.#images.textDropped(element === 'style' ? 'css' : 'jsonld');
  }

  #resolver(): Resolver {
    const { url } = this.#options;
    const encoding = this.#encoding;
    const resolver = new Resolver(url, encoding);
    if (this.#base === undefined) return resolver;
    // A base that is invalid or of another scheme is ignored.
    const base = resolver.resolveLink(this.#value(this.#base));
    return base === undefined ? resolver : new Resolver(base, encoding);
  }

  #takeCharset(tag: Tag): void {
    const { charset } = this.#options;
    if (charset === undefined) return;
    for (const label of charsetLabels(tag)) {
      const encoding = charset(this.#references.attribute(label));
      if (encoding === undefined) continue;
      this.#encoding = encoding;
      return;
    }
  }

  #value(raw: string): string {
    return this.#references.attribute(this.#options.value?.(raw) ?? raw);
  }

  #resolveLinks(
    resolver: Resolver,
    { refresh, directives }: Declared,
  ): Pick<Extract, 'links' | 'linksCut' | 'nofollowed'> {
    const { ignoreRefresh, obey } = this.#options;
    const urls = new Set<string>();
    let bytes = 0;
    let linksCut = this.#linksCut + (ignoreRefresh ? 0 : this.#declarations.refreshesCut);
    if (refresh !== undefined && !ignoreRefresh) {
      urls.add(refresh);
      bytes = refresh.length + 1;
    }
    for (const href of this.#links) {
      const url = this.#linkUrl(href, resolver);
      if (url === undefined || urls.has(url)) continue;
      if (url.length > limits.urlChars || bytes + url.length > limits.linksBytesMax) {
        linksCut++;
        continue;
      }
      bytes += url.length + 1;
      urls.add(url);
    }
    const nofollowed = this.#unfollowed(resolver, urls);
    if (directives?.includes('nofollow') && obey?.includes('nofollow'))
      return { links: noLinks, linksCut: 0, nofollowed: nofollowed + urls.size + linksCut };
    return { links: Buffer.from([...urls].join('\n'), 'latin1'), linksCut, nofollowed };
  }

  /** Returns the number of links that are not to be followed and occur nowhere else. */
  #unfollowed(resolver: Resolver, followed: ReadonlySet<string>): number {
    const urls = new Set<string>();
    for (const href of this.#unendorsed) {
      const url = this.#linkUrl(href, resolver);
      if (url !== undefined && !followed.has(url)) urls.add(url);
    }
    return urls.size;
  }

  #isUnendorsed(rel: string): boolean {
    const value = this.#value(rel);
    return unendorsed.some((token) => hasToken(value, token));
  }

  #linkUrl(href: string, resolver: Resolver): string | undefined {
    if (href === '') return resolver.base;
    const plain = href.includes('&') ? undefined : resolver.resolvePlain(href);
    return plain ?? resolver.resolveLink(this.#value(href));
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

/** Removes the fragment where that certainly leads to the same URL, so that `x#a` and `x#b` are one
 *  entry. */
function withoutFragment(href: string): string {
  const hash = href.indexOf('#');
  if (hash < 0) return href;
  // "&#35;" does not begin a fragment, and a space before "#" would be trimmed if it became the
  // last one.
  if (hash > 0 && (href.charCodeAt(hash - 1) <= 0x20 || href.includes('&'))) return href;
  return href.slice(0, hash);
}

function cleanTitle(decoded: string): string {
  const text = decoded.replace(/[\t\n\f\r ]+/g, ' ');
  return cap(text.startsWith(' ') ? text.slice(1) : text, limits.titleChars).trimEnd();
}

/**
 * The body of a page on its way in: counts bytes after decompression, cuts at the limit, decodes
 * and extracts chunk by chunk. Of the body only the statements of its first 1024 bytes are kept.
 */
import { createHash, type Hash } from 'node:crypto';
import type { FetchSpec } from '../../shared/crawl.ts';
import type { PageHeaders } from '../extract/declarations.ts';
import { type Extract, PageExtractor } from '../extract/extract.ts';
import { PageDecoder } from '../fetch/charset.ts';
import { looksLikeHtml, sniffBytes } from '../fetch/content.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';

export type Page = {
  extract: Extract;
  charset: string;
  bytes: number;
  cut: boolean;
  digest?: string;
};

type PageOptions = {
  /** Final URL, canonical. */
  url: string;
  /** Charset of Content-Type. */
  charset: string | undefined;
  /** Headers that describe the page; none by default. */
  headers?: PageHeaders;
  /** It is XHTML; HTML by default. */
  xml?: boolean;
  /** No Content-Type was sent: the first bytes decide whether this is a page at all. */
  sniff: boolean;
  /** More of the page was not sent (206); false by default. */
  isPart?: boolean;
  /** Neither images nor links are wanted; false by default. */
  isBare?: boolean;
  spec: FetchSpec;
};

export class PageReader implements BodyReader<Page> {
  readonly #options: PageOptions;
  readonly #decoder: PageDecoder;
  #extractor: PageExtractor | undefined;
  #head: Buffer | undefined;
  /** Of the body, if the crawl wants it. */
  readonly #hash: Hash | undefined;
  #bytes = 0;
  #cut: boolean;

  constructor(options: PageOptions) {
    this.#options = options;
    this.#decoder = new PageDecoder(options.charset, { xml: options.xml === true });
    this.#cut = options.isPart === true;
    this.#hash = options.spec.digest === true ? createHash('sha1') : undefined;
    if (options.sniff) this.#head = Buffer.alloc(0);
  }

  /** Body bytes taken so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** `enough` at the byte limit; `not-html` if the first bytes are not HTML. */
  write(chunk: Uint8Array): 'more' | 'enough' | 'not-html' {
    const room = this.#options.spec.bodyBytesMax - this.#bytes;
    const taken = chunk.length > room ? chunk.subarray(0, room) : chunk;
    this.#bytes += taken.length;
    this.#hash?.update(taken);
    if (this.#head !== undefined) {
      this.#head = Buffer.concat([this.#head, taken]);
      if (this.#head.length < sniffBytes && chunk.length <= room) return 'more';
      if (!this.#releaseHead()) return 'not-html';
    } else {
      this.#extract(this.#decoder.write(taken));
    }
    if (chunk.length <= room) return 'more';
    this.#cut = true;
    return 'enough';
  }

  /** Returns undefined if this was not HTML. */
  end(): Page | undefined {
    if (this.#head !== undefined && !this.#releaseHead()) return undefined;
    this.#extract(this.#decoder.end());
    let extract = this.#extractorOf().end();
    // The last piece may have held a meta element.
    if (this.#startAnew()) extract = this.#extractorOf().end();
    return {
      extract,
      charset: this.#decoder.encoding ?? 'windows-1252',
      bytes: this.#bytes,
      cut: this.#cut,
      ...(this.#hash !== undefined && { digest: this.#hash.digest('hex') }),
    };
  }

  #releaseHead(): boolean {
    const head = this.#head ?? Buffer.alloc(0);
    this.#head = undefined;
    if (!looksLikeHtml(head)) return false;
    this.#extract(this.#decoder.write(head));
    return true;
  }

  #extract(text: string): void {
    if (text === '') return;
    this.#extractorOf().write(text);
    this.#startAnew();
  }

  /** Starts again if the page has another charset than the one it was read with; returns whether it
   *  did. */
  #startAnew(): boolean {
    const text = this.#decoder.anew();
    if (text === undefined) return false;
    this.#extractor = undefined;
    this.#extractorOf().write(text);
    return true;
  }

  #extractorOf(): PageExtractor {
    this.#extractor ??= this.#newExtractor();
    return this.#extractor;
  }

  #newExtractor(): PageExtractor {
    const { url, headers, spec, xml, isBare } = this.#options;
    return new PageExtractor({
      url,
      encoding: this.#decoder.encoding ?? 'windows-1252',
      images: spec.images,
      srcset: spec.srcset,
      lazyAttributes: spec.lazyAttributes,
      ...(headers !== undefined && { headers }),
      userAgent: spec.userAgent,
      obey: spec.obey,
      ignoreRefresh: spec.ignoreRefresh,
      licenses: spec.download !== undefined,
      iframes: spec.iframes,
      xml: xml === true,
      bare: isBare === true,
      charset: (label) => this.#decoder.declare(label),
      ...(this.#decoder.isByByte && { value: (text) => this.#decoder.value(text) }),
    });
  }
}

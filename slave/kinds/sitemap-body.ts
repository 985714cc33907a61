/**
 * The body of a sitemap on its way in: a gzip file is recognised by its first bytes, whatever its
 * headers are; the listed URLs come out canonical, each once. It is bounded to 50 MiB, before and
 * after decompression, and 200,000 entries; a broken or longer file keeps the entries read so far.
 *
 *     sniffing ─first two bytes─▶ plain | gzip ─limit─▶ full
 */
import type { FetchSpec } from '../../shared/crawl.ts';
import type { SitemapKind } from '../../shared/protocol.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { SitemapReader, sitemapBytesMax } from '../extract/sitemap.ts';
import type { BodyReader } from '../fetch/fetch-plan.ts';
import { Inflater } from '../fetch/inflate.ts';

export type SitemapBody = {
  readonly kind: SitemapKind;
  /** Canonical; of an index, sitemaps. */
  readonly urls: readonly string[];
  readonly images: readonly string[];
  /** A limit or an error ended the reading early. */
  readonly cut: boolean;
};

export const emptySitemap: SitemapBody = { kind: 'none', urls: [], images: [], cut: false };

export class SitemapBodyReader implements BodyReader<SitemapBody> {
  readonly #spec: FetchSpec;
  readonly #events: { onRoom(): void; onEnough(): void };
  readonly #reader: SitemapReader;
  #state: 'sniffing' | 'plain' | 'gzip' | 'full' = 'sniffing';
  #first = new Uint8Array(0);
  #fileBytes = 0;
  #bytes = 0;
  #isBroken = false;
  #inflater: Inflater | undefined;
  #onInflated: () => void = () => {};

  /** `source`: URL and charset of the answer. */
  constructor(
    spec: FetchSpec,
    events: { onRoom(): void; onEnough(): void },
    source: { readonly url?: string; readonly charset?: string | undefined } = {},
  ) {
    this.#spec = spec;
    this.#reader = new SitemapReader(source);
    this.#events = events;
  }

  /** After decompression. */
  get bytes(): number {
    return this.#bytes;
  }

  write(chunk: Uint8Array): 'more' | 'wait' | 'enough' {
    this.#fileBytes += chunk.length;
    if (this.#fileBytes > sitemapBytesMax) {
      this.#isBroken = true;
      return 'enough';
    }
    switch (this.#state) {
      case 'sniffing': {
        const bytes = Buffer.concat([this.#first, chunk]);
        this.#first = bytes;
        if (bytes.length < 2) return 'more';
        this.#begin(bytes[0] === 0x1f && bytes[1] === 0x8b);
        return this.#pass(bytes);
      }
      case 'plain':
      case 'gzip':
        return this.#pass(chunk);
      case 'full':
        return 'enough';
      default:
        return this.#state satisfies never;
    }
  }

  end(): SitemapBody | Promise<SitemapBody> {
    if (this.#state === 'sniffing' && this.#first.length > 0) this.#take(this.#first);
    if (this.#state !== 'gzip') return this.#found();
    return new Promise((resolve) => {
      this.#onInflated = () => resolve(this.#found());
      this.#inflater?.end();
    });
  }

  close(): void {
    this.#inflater?.close();
  }

  #begin(isGzip: boolean): void {
    this.#state = isGzip ? 'gzip' : 'plain';
    if (!isGzip) return;
    this.#inflater = new Inflater(['gzip'], {
      data: (chunk) => this.#take(chunk),
      end: (isCut) => this.#inflated(isCut),
      error: () => this.#inflated(true),
      drain: () => this.#events.onRoom(),
    });
  }

  #pass(chunk: Uint8Array): 'more' | 'wait' | 'enough' {
    if (this.#inflater !== undefined) return this.#inflater.write(chunk) ? 'more' : 'wait';
    this.#take(chunk);
    return this.#state === 'plain' ? 'more' : 'enough';
  }

  #take(chunk: Uint8Array): void {
    if (this.#state === 'full') return;
    this.#bytes += chunk.length;
    if (!this.#reader.write(chunk)) this.#inflated(false);
  }

  /** The input has ended, or no more is wanted. */
  #inflated(isBroken: boolean): void {
    if (isBroken) this.#isBroken = true;
    this.#state = 'full';
    this.#inflater?.close();
    this.#onInflated();
    if (this.#inflater !== undefined) this.#events.onEnough();
  }

  #found(): SitemapBody {
    const sitemap = this.#reader.end(this.#isBroken);
    const { images: wanted, sitemapSinceMs = 0 } = this.#spec;
    const takesImages = wanted === 'all' || wanted.includes('sitemap');
    const urls = new Set<string>();
    const images = new Set<string>();
    for (const entry of sitemap.entries) {
      // Without a date it may be new.
      if ((entry.lastmodMs ?? sitemapSinceMs) < sitemapSinceMs) continue;
      add(urls, entry.url);
      if (takesImages) for (const url of entry.images ?? []) add(images, url);
    }
    const { kind, cut } = sitemap;
    return { kind, urls: [...urls], images: [...images], cut: cut || this.#isBroken };
  }
}

function add(urls: Set<string>, text: string): void {
  const url = canonicalUrl(text);
  if (url !== undefined) urls.add(url.href);
}

/** Returns the listed URLs for the wire: joined by line feeds, in parts of at most `bytesMax` (and
 *  a URL) each; one part at least. */
export function partsOf(
  { urls, images }: SitemapBody,
  bytesMax: number,
): { urls: Uint8Array; images: Uint8Array }[] {
  const listed = chunksOf(urls, bytesMax);
  const shown = chunksOf(images, bytesMax);
  return Array.from({ length: Math.max(listed.length, shown.length, 1) }, (_, i) => ({
    urls: listed[i] ?? new Uint8Array(0),
    images: shown[i] ?? new Uint8Array(0),
  }));
}

function chunksOf(urls: readonly string[], bytesMax: number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  let text = '';
  for (const url of urls) {
    if (text.length + url.length > bytesMax && text !== '') {
      chunks.push(Buffer.from(text, 'latin1'));
      text = '';
    }
    text += text === '' ? url : `\n${url}`;
  }
  if (text !== '') chunks.push(Buffer.from(text, 'latin1'));
  return chunks;
}

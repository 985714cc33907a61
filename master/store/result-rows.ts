/**
 * A row of the result queue: the records of one commit of one crawl, in their order. They are
 * numbered within the crawl from 1 on, without a gap.
 *
 *     first number u48 | section | section …
 *     section: kind u8 | records u32 | bytes u32 | payload
 *
 * A payload is one record in msgpack; that of `image-url` is the URLs of as many records, each
 * ended by a line feed, because there may be thousands. What a slave reported stays msgpack within
 * a record, byte by byte: the master checked it when it came, and only sinks read it again.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { SitemapKind, SkipReason } from '../../shared/protocol.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import { type RecordKind, recordKinds } from '../../shared/result-fields.ts';

/** Why a URL is left out: by robots.txt before it was asked for, by its page's own word, or
 *  because a page of the same canonical URL has been written. */
export type Exclusion = 'robots' | 'noindex' | 'canonical';

/** What the master knows of a record about one URL. */
export type ResultRecord = {
  readonly url: string;
  readonly depth: number;
  /** Unix time in ms. */
  readonly at: number;
  /** Sequence number of its task. */
  readonly task?: number | undefined;
  readonly slave?: string | undefined;
  /** Fields that a slave reported, as msgpack. */
  readonly result?: Uint8Array | undefined;
  /** The same: a list of images. */
  readonly images?: Uint8Array | undefined;
  readonly links?: number | undefined;
  readonly excluded?: Exclusion | undefined;
  readonly redirectedTo?: string | undefined;
  readonly sitemap?: { readonly kind: SitemapKind; readonly urls: number; readonly images: number };
  readonly error?: (FetchErrorBody & { readonly attempts?: number }) | undefined;
  /** Fetches that came to the error of `result`. */
  readonly attempts?: number | undefined;
  readonly skipped?: SkipReason;
  /** The page that has a link which was skipped. */
  readonly from?: string;
};

/** Records that follow each other, of one kind. */
export type Section = {
  readonly kind: RecordKind;
  /** Number of the first one. */
  readonly seq: number;
  readonly count: number;
  readonly payload: Buffer;
};

const rowHeadBytes = 6;
const sectionHeadBytes = 9;

/** Gathers the records of one commit. */
export class ResultRow {
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  #count = 0;
  #images = '';
  #imageCount = 0;

  get isEmpty(): boolean {
    return this.#count + this.#imageCount === 0;
  }

  /** Records so far. */
  get count(): number {
    return this.#count + this.#imageCount;
  }

  add(kind: RecordKind, record: ResultRecord): void {
    this.#section(kind, 1, encodeValue(record));
  }

  /** A canonical URL of an image. They come behind the other records of the commit. */
  addImage(url: string): void {
    this.#images += `${url}\n`;
    this.#imageCount++;
  }

  /** `seq`: number of the first record. */
  encode(seq: number): Buffer {
    if (this.#imageCount > 0) {
      this.#section('image-url', this.#imageCount, Buffer.from(this.#images, 'latin1'));
      this.#imageCount = 0;
    }
    const head = Buffer.allocUnsafe(rowHeadBytes);
    head.writeUIntBE(seq, 0, 6);
    return Buffer.concat([head, ...this.#parts], rowHeadBytes + this.#bytes);
  }

  #section(kind: RecordKind, count: number, payload: Buffer): void {
    const head = Buffer.allocUnsafe(sectionHeadBytes);
    head.writeUInt8(recordKinds.indexOf(kind), 0);
    head.writeUInt32BE(count, 1);
    head.writeUInt32BE(payload.length, 5);
    this.#parts.push(head, payload);
    this.#bytes += head.length + payload.length;
    this.#count += count;
  }
}

/** What a row holds; the payloads are views. */
export function sectionsOf(row: Buffer): Section[] {
  const sections: Section[] = [];
  let seq = row.readUIntBE(0, 6);
  for (let at = rowHeadBytes; at < row.length; ) {
    const kind = recordKinds[row.readUInt8(at)] ?? 'other';
    const count = row.readUInt32BE(at + 1);
    const begin = at + sectionHeadBytes;
    at = begin + row.readUInt32BE(at + 5);
    sections.push({ kind, seq, count, payload: row.subarray(begin, at) });
    seq += count;
  }
  return sections;
}

export function decodeRecord({ payload }: Section): ResultRecord {
  return decodeValue(payload) as ResultRecord;
}

/** The URLs of a section of kind `image-url`. */
export function imageUrlsOf({ payload }: Section): string[] {
  return payload.toString('latin1').split('\n').slice(0, -1);
}

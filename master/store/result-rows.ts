/**
 * A row of the result queue: the records of one commit of one crawl, in their order. They are
 * numbered within the crawl from 1 on, without a gap.
 *
 *     first number u48 | section | section …
 *     section: kind u8 | records u32 | bytes of result u32 | of images u32 | of all three u32
 *              | result | images | what the master knows
 *
 * The three are the parts of one record, in msgpack; 0 bytes: it has no such part. What a slave
 * reported stays as it came: the master checked it then, and only sinks read it again. A section
 * of kind `image-url` has the URLs of as many records instead, each ended by a line feed, because
 * there may be thousands.
 */
import { packValue, unpackValue } from '../../shared/frame.ts';
import type { SitemapKind, SkipReason } from '../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../shared/requests.ts';
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
  readonly links?: number | undefined;
  readonly excluded?: Exclusion | undefined;
  readonly redirectedTo?: string | undefined;
  readonly sitemap?: { readonly kind: SitemapKind; readonly urls: number; readonly images: number };
  readonly error?: (FetchErrorBody & { readonly attempts?: number }) | undefined;
  /** Fetches that came to the error that a slave reported. */
  readonly attempts?: number | undefined;
  readonly skipped?: SkipReason;
  /** The page that has a link which was skipped. */
  readonly from?: string;
};

/** What a slave reported of it: the fields of an answer, and a list of images. */
export type Reported = {
  readonly result?: Result | undefined;
  readonly images?: readonly Image[] | undefined;
};

/** The same as msgpack. */
export type PackedReport = {
  readonly result?: Uint8Array | undefined;
  readonly images?: Uint8Array | undefined;
};

/** Records that follow each other, of one kind. */
export type Section = {
  readonly kind: RecordKind;
  /** Number of the first one. */
  readonly seq: number;
  readonly count: number;
  /** Result, images, and what the master knows. */
  readonly payload: Buffer;
  readonly resultBytes: number;
  readonly imagesBytes: number;
  /** What the payload says, as long as the row is in memory. */
  readonly content?: Content | undefined;
};
export type Content = { readonly record: ResultRecord; readonly reported: Reported };
/** A row with what it holds. */
export type SealedRow = { readonly bytes: Buffer; readonly sections: readonly Section[] };
type Part = Pick<Section, 'kind' | 'count' | 'content'> & {
  readonly result: Uint8Array;
  readonly images: Uint8Array;
  readonly known: Uint8Array;
};

const rowHeadBytes = 6;
const sectionHeadBytes = 17;
const none = Buffer.alloc(0);

/** Gathers the records of one commit. */
export class ResultRow {
  readonly #parts: Part[] = [];
  #bytes = rowHeadBytes;
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

  /** `packed`: what was reported, as it came, if that is known. */
  add(
    kind: RecordKind,
    record: ResultRecord,
    reported: Reported = {},
    packed: PackedReport = {},
  ): void {
    this.#add({
      kind,
      count: 1,
      result: packedOf(reported.result, packed.result),
      images: packedOf(reported.images, packed.images),
      known: packValue(record),
      content: { record, reported },
    });
  }

  /** A canonical URL of an image. They come behind the other records of the commit. */
  addImage(url: string): void {
    this.#images += `${url}\n`;
    this.#imageCount++;
  }

  /** `first`: number of the first record. */
  seal(first: number): SealedRow {
    if (this.#imageCount > 0) {
      const known = Buffer.from(this.#images, 'latin1');
      this.#add({ kind: 'image-url', count: this.#imageCount, result: none, images: none, known });
      this.#imageCount = 0;
    }
    const bytes = Buffer.allocUnsafe(this.#bytes);
    let at = bytes.writeUIntBE(first, 0, 6);
    let seq = first;
    const sections: Section[] = [];
    for (const part of this.#parts) {
      const { kind, count, result, images, known, content } = part;
      const [resultBytes, imagesBytes] = [result.length, images.length];
      bytes.writeUInt8(recordKinds.indexOf(kind), at);
      bytes.writeUInt32BE(count, at + 1);
      bytes.writeUInt32BE(resultBytes, at + 5);
      bytes.writeUInt32BE(imagesBytes, at + 9);
      bytes.writeUInt32BE(bytesOf(part), at + 13);
      const begin = at + sectionHeadBytes;
      at = begin + bytesOf(part);
      bytes.set(result, begin);
      bytes.set(images, begin + resultBytes);
      bytes.set(known, begin + resultBytes + imagesBytes);
      const payload = bytes.subarray(begin, at);
      sections.push({ kind, seq, count, payload, resultBytes, imagesBytes, content });
      seq += count;
    }
    return { bytes, sections };
  }

  #add(part: Part): void {
    this.#parts.push(part);
    this.#bytes += sectionHeadBytes + bytesOf(part);
    this.#count += part.count;
  }
}

/** What a row holds; the payloads are views. */
export function sectionsOf(row: Buffer): Section[] {
  const sections: Section[] = [];
  let seq = row.readUIntBE(0, 6);
  for (let at = rowHeadBytes; at < row.length; ) {
    const kind = recordKinds[row.readUInt8(at)] ?? 'other';
    const count = row.readUInt32BE(at + 1);
    const resultBytes = row.readUInt32BE(at + 5);
    const imagesBytes = row.readUInt32BE(at + 9);
    const begin = at + sectionHeadBytes;
    at = begin + row.readUInt32BE(at + 13);
    const payload = row.subarray(begin, at);
    sections.push({ kind, seq, count, payload, resultBytes, imagesBytes });
    seq += count;
  }
  return sections;
}

/** What a section about one URL says. */
export function contentOf({ content, payload, resultBytes, imagesBytes }: Section): Content {
  if (content !== undefined) return content;
  const imagesEnd = resultBytes + imagesBytes;
  const reported = {
    result: unpacked<Result>(payload.subarray(0, resultBytes)),
    images: unpacked<Image[]>(payload.subarray(resultBytes, imagesEnd)),
  };
  return { record: unpackValue(payload.subarray(imagesEnd)) as ResultRecord, reported };
}

/** The URLs of a section of kind `image-url`. */
export function imageUrlsOf({ payload }: Section): string[] {
  return payload.toString('latin1').split('\n').slice(0, -1);
}

function packedOf(value: unknown, packed: Uint8Array | undefined): Uint8Array {
  return value === undefined ? none : (packed ?? packValue(value));
}

function unpacked<T>(bytes: Uint8Array): T | undefined {
  return bytes.length === 0 ? undefined : (unpackValue(bytes) as T);
}

function bytesOf({ result, images, known }: Part): number {
  return result.length + images.length + known.length;
}

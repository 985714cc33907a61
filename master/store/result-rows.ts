/**
 * A row of the result queue: the records of one commit of one crawl, in their order. They are
 * numbered within the crawl from 1 on, without a gap.
 *
 *     first number u48 | section | section …
 *     section: kind u8 | records u32 | bytes of result u32 | of images u32 | of all three u32
 *              | result | images | what the master knows
 *
 * The three are the parts of one record, in msgpack; 0 bytes: it has no such part. The part of the
 * slave stays as it came: the master checked it then, and only sinks read it again. The part of the
 * master is a list of values, in the order of `knownNames`. A section of kind `image-url`
 * has the URLs of as many records instead, each ended by a line feed, because there may be
 * thousands.
 *
 * A section of kind `item` has the rows of one page: the result is a list of them, each a list of
 * its rule and its values, as a slave reports them; what the master knows goes for all of them. One
 * without a result is of an earlier version: a single row, whose rule and values the master knows.
 */
import { packValue, unpackValue } from '../../shared/frame.ts';
import type { ImageExclusion } from '../../shared/images.ts';
import type { PageItems } from '../../shared/page-items.ts';
import type { SitemapKind, SkipReason } from '../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../shared/requests.ts';
import { type RecordKind, recordKinds } from '../../shared/result-fields.ts';
import type { Values } from '../../shared/rule-results.ts';

/** Why a URL is left out before it is asked for: by robots.txt, or by options of its crawl that
 *  changed after it was admitted. */
export type Unfetched = 'robots' | 'scope';
/** The same of any URL: by its page's own word, or because a page of the same canonical URL has
 *  been written. */
export type Exclusion = Unfetched | 'noindex' | 'canonical' | ImageExclusion | 'similar';

/** The master's part of a record about one URL. */
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
  /** The page or sitemap that first led to it. */
  readonly from?: string | undefined;
  /** Of an item, and of a row that was rejected: its rule and its values. */
  readonly rule?: string;
  readonly item?: Values;
  /** Why the row was rejected, or the rule failed on the page. */
  readonly why?: string;
  /** Of an image: what is known of it, by the names of fields; and the pages that show it. */
  readonly image?: Values | undefined;
  readonly pages?: readonly string[] | undefined;
  readonly alt?: string | undefined;
};

/** In the order of their values on record; a further one comes at the end. */
const knownNames = [
  'url',
  'depth',
  'at',
  'task',
  'slave',
  'links',
  'from',
  'excluded',
  'redirectedTo',
  'sitemap',
  'error',
  'attempts',
  'skipped',
  'rule',
  'item',
  'why',
  'image',
  'pages',
  'alt',
] as const satisfies readonly (keyof ResultRecord)[];
type Known = { [N in keyof ResultRecord]: unknown };

/** The slave's part of it: the fields of an answer, and a list of images. */
export type Reported = {
  readonly result?: Result | undefined;
  readonly images?: readonly Image[] | undefined;
};

/** The same as msgpack. */
export type PackedReport = {
  readonly result?: Uint8Array | undefined;
  readonly images?: Uint8Array | undefined;
};

/** Rows of a page, each with its rule. */
type ItemRows = PageItems['rows'];
/** The same as msgpack: a list. */
export type PackedRows = { readonly count: number; readonly bytes: Uint8Array };
/** The items of a page; its rows as they came. */
export type FoundItems = Omit<PageItems, 'rows'> & { readonly rows: PackedRows };

/** Records that follow each other, of one kind. */
export type Section = {
  readonly kind: RecordKind;
  /** Number of the first one. */
  readonly seq: number;
  readonly count: number;
  /** The row that it is of, and where in it are result, images, and what the master knows. */
  readonly row: Buffer;
  readonly begin: number;
  readonly imagesBegin: number;
  readonly knownBegin: number;
  readonly end: number;
  /** Its content, as long as the row is in memory. */
  readonly content: Content | undefined;
};
export type Content = {
  readonly record: ResultRecord;
  readonly reported: Reported;
  /** Of a section of kind `item`. */
  readonly rows?: ItemRows;
};
/** A row with what it holds. */
export type SealedRow = { readonly bytes: Buffer; readonly sections: readonly Section[] };
type Draft = { -readonly [N in keyof Section]: Section[N] };

const rowHeadBytes = 6;
const sectionHeadBytes = 17;
/** Room for the records of a commit, at first. */
const roomBytes = 8 << 10;
/** Rows of items in a section: sinks and programs take one as a whole. */
const itemsMax = 1_000;
/** The same in bytes, about. */
const itemBytesMax = 256 << 10;
const none = Buffer.alloc(0);

/** Gathers the records of one commit. */
export class ResultRow {
  /** Numbered from 0 on until the row is sealed. */
  readonly #sections: Draft[] = [];
  #row = none;
  #end = rowHeadBytes;
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
    const result = packedOf(reported.result, packed.result);
    const images = packedOf(reported.images, packed.images);
    this.#add(kind, 1, [result, images, packValue(knownOf(record))], { record, reported });
  }

  /** A record for each row of a page. */
  addItems(record: ResultRecord, rows: PackedRows): void {
    if (rows.count === 0) return;
    const known = packValue(knownOf(record));
    for (const { count, bytes } of inParts(rows)) this.#add('item', count, [bytes, none, known]);
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
      this.#add('image-url', this.#imageCount, [none, none, known]);
      this.#imageCount = 0;
    }
    this.#reserve(0);
    const bytes = this.#row.subarray(0, this.#end);
    bytes.writeUIntBE(first, 0, 6);
    for (const section of this.#sections) {
      section.seq += first;
      section.row = bytes;
    }
    return { bytes, sections: this.#sections };
  }

  #add(
    kind: RecordKind,
    count: number,
    [result, images, known]: readonly [Uint8Array, Uint8Array, Uint8Array],
    content?: Content,
  ): void {
    const bytes = result.length + images.length + known.length;
    this.#reserve(sectionHeadBytes + bytes);
    const row = this.#row;
    const at = this.#end;
    row[at] = recordKinds.indexOf(kind);
    row.writeUInt32BE(count, at + 1);
    row.writeUInt32BE(result.length, at + 5);
    row.writeUInt32BE(images.length, at + 9);
    row.writeUInt32BE(bytes, at + 13);
    const begin = at + sectionHeadBytes;
    const imagesBegin = begin + result.length;
    const knownBegin = imagesBegin + images.length;
    row.set(result, begin);
    row.set(images, imagesBegin);
    row.set(known, knownBegin);
    const end = begin + bytes;
    const seq = this.#count;
    this.#sections.push({ kind, seq, count, row, begin, imagesBegin, knownBegin, end, content });
    this.#end = end;
    this.#count += count;
  }

  #reserve(bytes: number): void {
    const wanted = this.#end + bytes;
    if (wanted <= this.#row.length && this.#row !== none) return;
    const grown = Buffer.allocUnsafe(Math.max(wanted, this.#row.length * 2, roomBytes));
    grown.set(this.#row.subarray(0, this.#end));
    this.#row = grown;
  }
}

/** The content of a row; the payloads are views. */
export function sectionsOf(row: Buffer): Section[] {
  const sections: Section[] = [];
  let seq = row.readUIntBE(0, 6);
  for (let at = rowHeadBytes; at < row.length; ) {
    const kind = recordKinds[row.readUInt8(at)] ?? 'other';
    const count = row.readUInt32BE(at + 1);
    const begin = at + sectionHeadBytes;
    const imagesBegin = begin + row.readUInt32BE(at + 5);
    const knownBegin = imagesBegin + row.readUInt32BE(at + 9);
    const end = begin + row.readUInt32BE(at + 13);
    const content = undefined;
    sections.push({ kind, seq, count, row, begin, imagesBegin, knownBegin, end, content });
    seq += count;
    at = end;
  }
  return sections;
}

export function packedRows(rows: ItemRows): PackedRows {
  return { count: rows.length, bytes: packValue(rows) };
}

/** As many sections as they take. */
function inParts({ count, bytes }: PackedRows): readonly PackedRows[] {
  const parts = Math.ceil(Math.max(count / itemsMax, bytes.length / itemBytesMax));
  if (parts === 1) return [{ count, bytes }];
  const rows = unpackValue(bytes) as ItemRows;
  const size = Math.ceil(count / parts);
  const cut: PackedRows[] = [];
  for (let i = 0; i < count; i += size) cut.push(packedRows(rows.slice(i, i + size)));
  return cut;
}

/** The content of a section about one URL. */
export function contentOf(section: Section): Content {
  const { content, row, begin, imagesBegin, knownBegin, end } = section;
  if (content !== undefined) return content;
  if (section.kind === 'item' && imagesBegin > begin) {
    const rows = unpackValue(row.subarray(begin, imagesBegin)) as ItemRows;
    const record = recordOf(unpackValue(row.subarray(knownBegin, end)));
    const found = { record, reported: {}, rows };
    // Each sink of the crawl asks for it.
    (section as Draft).content = found;
    return found;
  }
  const reported = {
    result: unpacked<Result>(row.subarray(begin, imagesBegin)),
    images: unpacked<Image[]>(row.subarray(imagesBegin, knownBegin)),
  };
  return { record: recordOf(unpackValue(row.subarray(knownBegin, end))), reported };
}

/** The rows of a section of kind `item`. */
export function itemsOf(section: Section): ItemRows {
  const { record, rows } = contentOf(section);
  if (rows !== undefined) return rows;
  const { rule = '', item = {} } = record;
  return [[rule, item]];
}

/** A row of an item, accepted or not: it is about a part of a page, not about a URL. */
export function isRowKind(kind: RecordKind): kind is 'item' | 'rejected' {
  return kind === 'item' || kind === 'rejected';
}

/** The URLs of a section of kind `image-url`, each ended by a line feed: a view. */
export function imageLinesOf({ row, knownBegin, end }: Section): Buffer {
  return row.subarray(knownBegin, end);
}

/** The URLs of a section of kind `image-url`. */
export function imageUrlsOf(section: Section): string[] {
  return imageLinesOf(section).toString('latin1').split('\n').slice(0, -1);
}

/** The values on record; null: it has none. */
function knownOf(record: Known): unknown[] {
  const values: unknown[] = [];
  let count = 0;
  for (const name of knownNames) {
    const value = record[name];
    values.push(value ?? null);
    if (value !== undefined) count = values.length;
  }
  values.length = count;
  return values;
}

function recordOf(values: unknown): ResultRecord {
  const record: Partial<Record<string, unknown>> = {};
  for (const [i, value] of (values as unknown[]).entries()) {
    const name = knownNames[i];
    if (name !== undefined && value !== null) record[name] = value;
  }
  return record as ResultRecord;
}

function packedOf(value: unknown, packed: Uint8Array | undefined): Uint8Array {
  return value === undefined ? none : (packed ?? packValue(value));
}

function unpacked<T>(bytes: Uint8Array): T | undefined {
  return bytes.length === 0 ? undefined : (unpackValue(bytes) as T);
}

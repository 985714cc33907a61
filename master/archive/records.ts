/**
 * The records of one exchange: response or revisit, request, metadata, each a gzip member. Numbers
 * them, and remembers the digests of pages, so that a page that was archived before is a revisit.
 * Source: ISO 28500 (WARC 1.1), 6; http://netpreserve.org/warc/1.1/revisit/.
 */
import { promisify } from 'node:util';
import { crc32, gzip, gzipSync } from 'node:zlib';
import type { ViewName } from '../../shared/render.ts';
import { version } from '../../shared/version.ts';
import { type Indexed, revisitMime } from './cdxj.ts';
import type { Exchange } from './uploads.ts';
import {
  digestOf,
  fieldsBlock,
  recordEnd,
  recordHead,
  recordId,
  type WarcFields,
  type WarcType,
  warcDate,
} from './warc.ts';
import type { WarcRecord } from './warc-reader.ts';

/** The master's data about a task whose exchanges are archived. */
export type About = {
  /** Its URL. */
  readonly task: string;
  /** The last exchange is its answer; false: the attempt failed. */
  readonly isAnswered: boolean;
  readonly depth: number;
  /** The page that led to it; undefined: it is a seed, or a host's robots.txt. */
  readonly from: string | undefined;
  /** `page`, `sitemap`, `robots`. */
  readonly kind: string;
  /** Its answer may be a page, which is kept once by its digest. */
  readonly isPage: boolean;
};

/** A record as it stands in a file, and its line of the index without its place. */
export type Member = {
  readonly bytes: Buffer;
  readonly index: Omit<Indexed, 'length' | 'offset' | 'filename'> | undefined;
};

/** Where a page of a digest is archived. */
type Original = { readonly id: string; readonly url: string; readonly date: string };

/** Digests of pages in memory, of all crawls, about 500 bytes each. A page whose digest has left is
 *  archived once more. */
const digestsMax = 30_000;
const profiles = 'http://netpreserve.org/warc/1.1/revisit/';
/** A larger record is packed on a thread of its own, which takes 0.3 ms of CPU more than a page of
 *  25 KB itself, but does not hold up the others. */
const syncBytesMax = 128 << 10;
/** Of pages the same size as by default, for a sixth less. */
const packing = { level: 1, windowBits: 14, memLevel: 8 } as const;
const smallBytesMax = 4_096;
const smallPacking = { level: 1, windowBits: 10, memLevel: 3 } as const;
const gzipAsync = promisify<Uint8Array, object, Buffer>(gzip);

/** The pages that were archived whole, by crawl and digest; the oldest leave first. */
export class Digests {
  readonly #originals = new Map<string, Original>();

  get(crawl: number, digest: string): Original | undefined {
    return this.#originals.get(`${crawl} ${digest}`);
  }

  set(crawl: number, digest: string, original: Original): void {
    this.#originals.set(`${crawl} ${digest}`, original);
    if (this.#originals.size <= digestsMax) return;
    const [oldest] = this.#originals.keys();
    if (oldest !== undefined) this.#originals.delete(oldest);
  }

  /** Of a record that is in the archive: if it is a whole page, later ones can name it. */
  learn(crawl: number, { type, fields, block }: WarcRecord): void {
    const { status } = answerOf(block);
    const isWhole = type === 'response' && !fields.has('warc-truncated');
    const isPage = status >= 200 && status < 300;
    if (!isWhole || !isPage || block.length <= block.indexOf('\r\n\r\n') + 4) return;
    this.set(crawl, fields.get('warc-payload-digest') ?? '-', {
      id: fields.get('warc-record-id') ?? '',
      url: fields.get('warc-target-uri') ?? '',
      date: fields.get('warc-date') ?? '',
    });
  }
}

export class RecordMaker {
  readonly #crawl: { readonly id: number; readonly uid: Uint8Array };
  readonly #digests: Digests;
  /** Records so far: the number of the next one. */
  count: number;
  /** The record of the last answer. */
  #answer = '';

  constructor(
    crawl: { readonly id: number; readonly uid: Uint8Array },
    digests: Digests,
    count: number,
  ) {
    this.#crawl = crawl;
    this.#digests = digests;
    this.count = count;
  }

  /** The first record of a file. */
  info(filename: string, name: string, now: number): Buffer {
    const block = fieldsBlock([
      ['software', `Orbweaver/${version}`],
      ['format', 'WARC File Format 1.1'],
      [
        'conformsTo',
        'https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/',
      ],
      ['isPartOf', name],
    ]);
    const fields: WarcFields = [
      ['WARC-Filename', filename],
      ['Content-Type', 'application/warc-fields'],
    ];
    const id = this.#nextId();
    return gzipSync(wholeRecord('warcinfo', id, warcDate(now), fields, [block]), smallPacking);
  }

  /** The members of an exchange, in their order. Its records are numbered at once. `isLast`: none
   *  of the same task follows. */
  of(
    exchange: Exchange,
    body: readonly Uint8Array[],
    about: About,
    isLast: boolean,
  ): Promise<Member>[] {
    const { url, at, end, view } = exchange;
    if (view !== undefined) return [this.#view(exchange, view, body)];
    const head = Buffer.from(exchange.response);
    const date = warcDate(at);
    const { status, mime } = answerOf(head);
    const digest = digestOf(body);
    const isPage = about.isPage && status >= 200 && status < 300 && end === 'whole';
    const wanted = isPage && exchange.body.bytes > 0;
    const original = wanted ? this.#digests.get(this.#crawl.id, digest) : undefined;
    const isUnchanged = status === 304;
    const isRevisit = original !== undefined || isUnchanged;
    const id = this.#nextId();
    this.#answer = id;
    if (wanted && !isRevisit) this.#digests.set(this.#crawl.id, digest, { id, url, date });
    const block = isRevisit ? [head] : [head, ...body];
    const target = ['WARC-Target-URI', url] as const;
    const response = wholeRecord(
      isRevisit ? 'revisit' : 'response',
      id,
      date,
      [
        target,
        ...revisitFields(original, isUnchanged, url),
        ['WARC-Payload-Digest', isUnchanged ? undefined : digest],
        ['WARC-Block-Digest', isRevisit ? digestOf(block) : undefined],
        ['WARC-Truncated', end === 'whole' ? undefined : end],
        ['Content-Type', 'application/http; msgtype=response'],
      ],
      block,
    );
    const request = this.#request(exchange, id, date);
    const metadata = this.#metadata(about, id, date, url, isLast);
    const index = {
      url,
      date,
      status,
      mime: isRevisit ? revisitMime : mime,
      digest: isUnchanged ? '-' : digest,
    };
    return [
      packed(response, index),
      Promise.resolve({ bytes: request, index: undefined }),
      Promise.resolve({ bytes: metadata, index: undefined }),
    ];
  }

  /** The browser's result for the last answer. The name of a screenshot is the one that
   *  Browsertrix uses. Source: ISO 28500 (WARC 1.1), 6.4 and 6.8. */
  #view({ url, at, end }: Exchange, view: ViewName, body: readonly Uint8Array[]): Promise<Member> {
    const isHtml = view === 'html';
    const fields: WarcFields = [
      ['WARC-Target-URI', isHtml ? url : `urn:fullPage:${url}`],
      [isHtml ? 'WARC-Refers-To' : 'WARC-Concurrent-To', this.#answer],
      ['WARC-Block-Digest', digestOf(body)],
      ['WARC-Truncated', end === 'whole' ? undefined : end],
      ['Content-Type', isHtml ? 'text/html; charset=utf-8' : 'image/png'],
    ];
    const type = isHtml ? 'conversion' : 'resource';
    const record = wholeRecord(type, this.#nextId(), warcDate(at), fields, body);
    return packed(record, undefined);
  }

  #request({ url, request }: Exchange, response: string, date: string): Buffer {
    const fields: WarcFields = [
      ['WARC-Target-URI', url],
      ['WARC-Concurrent-To', response],
      ['WARC-Block-Digest', digestOf([request])],
      ['Content-Type', 'application/http; msgtype=request'],
    ];
    return stored(wholeRecord('request', this.#nextId(), date, fields, [request]));
  }

  /** `task` and `answer` are there only where they are not what a reader expects. */
  #metadata(
    { task, isAnswered, depth, from, kind }: About,
    response: string,
    date: string,
    url: string,
    isLast: boolean,
  ): Buffer {
    const block = fieldsBlock([
      ['depth', String(depth)],
      ['from', from],
      ['kind', kind],
      ['task', task === url ? undefined : task],
      ['answer', isAnswered && isLast ? undefined : 'no'],
    ]);
    const fields: WarcFields = [
      ['WARC-Target-URI', url],
      ['WARC-Refers-To', response],
      ['Content-Type', 'application/warc-fields'],
    ];
    return stored(wholeRecord('metadata', this.#nextId(), date, fields, [block]));
  }

  #nextId(): string {
    return recordId(this.#crawl.uid, this.count++);
  }
}

function revisitFields(
  original: Original | undefined,
  isUnchanged: boolean,
  url: string,
): WarcFields {
  if (isUnchanged) {
    return [
      ['WARC-Profile', `${profiles}server-not-modified`],
      ['WARC-Refers-To-Target-URI', url],
    ];
  }
  if (original === undefined) return [];
  return [
    ['WARC-Profile', `${profiles}identical-payload-digest`],
    ['WARC-Refers-To', original.id],
    ['WARC-Refers-To-Target-URI', original.url],
    ['WARC-Refers-To-Date', original.date],
  ];
}

/** Status and media type in the head of an answer; a body behind it says nothing of them. */
export function answerOf(answer: Buffer): { readonly status: number; readonly mime: string } {
  const headEnd = answer.indexOf('\r\n\r\n');
  const text = answer.toString('latin1', 0, headEnd < 0 ? answer.length : headEnd);
  // Other programs write HTTP/2, too.
  const status = Number(/^HTTP\/\d(?:\.\d)? (\d{3})/.exec(text)?.[1] ?? 0);
  const [, mime = 'unk'] = /\r\ncontent-type:[ \t]*([^;\s]+)/i.exec(text) ?? [];
  return { status, mime: mime.toLowerCase() };
}

function wholeRecord(
  type: WarcType,
  id: string,
  date: string,
  fields: WarcFields,
  block: readonly Uint8Array[],
): Buffer {
  const bytes = block.reduce((sum, { length }) => sum + length, 0);
  return Buffer.concat([recordHead(type, id, date, fields, bytes), ...block, recordEnd]);
}

async function packed(record: Buffer, index: Member['index']): Promise<Member> {
  const options = record.length <= smallBytesMax ? smallPacking : packing;
  const isSync = record.length <= syncBytesMax;
  const bytes = isSync ? gzipSync(record, options) : await gzipAsync(record, options);
  return { bytes, index };
}

const storedBytesMax = 0xffff;

/** A gzip member that is not compressed: to compress a few hundred bytes takes thirty times as
 *  long, and saves a third of them. Source: RFC 1952, 2.3; RFC 1951, 3.2.4. */
function stored(record: Buffer): Buffer {
  if (record.length > storedBytesMax) return gzipSync(record, packing);
  const head = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0, 0]);
  head.writeUInt16LE(record.length, 11);
  head.writeUInt16LE(record.length ^ 0xffff, 13);
  const end = Buffer.alloc(8);
  end.writeUInt32LE(crc32(record), 0);
  end.writeUInt32LE(record.length, 4);
  return Buffer.concat([head, record, end]);
}

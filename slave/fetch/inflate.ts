/**
 * Decodes content codings as a stream, bounded both ways: input waits while zlib is busy, and
 * output comes in pieces, so that the receiver can stop a bomb; what has next to no output is
 * stopped here. If the codings are unknown, the first bytes decide. Input that ends before its data
 * does gives what was there, and says so.
 * Source: RFC 9110, 8.4.1.
 */
import { PassThrough, type Transform } from 'node:stream';
import { constants, createBrotliDecompress, createInflateRaw } from 'node:zlib';
import { type Coding, CodingError, sniffBytes, sniffedCodings } from './content.ts';
import { Gunzip, isUnfinished } from './gunzip.ts';
import { createZstd } from './zstd.ts';

type InflaterEvents = {
  data(chunk: Uint8Array): void;
  /** `isCut`: the data ends inside a coding. */
  end(isCut: boolean): void;
  error(error: Error): void;
  /** Input is wanted again after `write` returned false. */
  drain(): void;
};

const chunkSize = 64 << 10;
// All output of the input so far; at the end, an error if more was to come.
const zlibOptions = {
  chunkSize,
  flush: constants.Z_SYNC_FLUSH,
  finishFlush: constants.Z_FINISH,
};
const brotliOptions = {
  chunkSize,
  flush: constants.BROTLI_OPERATION_FLUSH,
  finishFlush: constants.BROTLI_OPERATION_FINISH,
};
/** A writer that flushes each byte sends fewer for each, and what is on its way is not counted yet.
 *  A body that has more is made to hold nothing: no limit of what comes out would ever end it. */
const inputPerOutputMax = 16;
const inputAheadMax = 1 << 20;
/** The end of a flush, of a writer that has written all and never closes its stream: for browsers
 *  the page is whole. Source: zlib's manual, Z_SYNC_FLUSH. */
const flushEnd = Buffer.from([0, 0, 0xff, 0xff]);

export class Inflater {
  readonly #codings: readonly Coding[] | 'unknown';
  readonly #events: InflaterEvents;
  /** The first bytes, until they are enough to decide. */
  #head: Uint8Array = new Uint8Array(0);
  #streams: Transform[] = [];
  /** The last bytes of the input. */
  #tail: Uint8Array = new Uint8Array(0);
  #isCut = false;
  /** Of all codings. */
  #inputBytes = 0;
  #outputBytes = 0;

  /** `codings`: outermost first, at least one. */
  constructor(codings: readonly Coding[] | 'unknown', events: InflaterEvents) {
    this.#codings = codings;
    this.#events = events;
  }

  /** False if input should wait for `drain`. */
  write(chunk: Uint8Array): boolean {
    if (!this.#count(chunk)) return true;
    const { length } = flushEnd;
    this.#tail =
      chunk.length < length ? Buffer.concat([this.#tail, chunk]).subarray(-length) : chunk;
    if (this.#streams.length > 0) return this.#streams[0]?.write(chunk) ?? true;
    if (this.#codings !== 'unknown') return this.#open(this.#codings, chunk);
    const head = Buffer.concat([this.#head, chunk]);
    this.#head = head;
    return head.length < sniffBytes || this.#openSniffed();
  }

  end(): void {
    if (this.#streams.length === 0 && this.#head.length > 0) this.#openSniffed();
    if (this.#streams.length === 0) this.#events.end(false);
    else this.#streams[0]?.end();
  }

  /** No event comes afterwards. */
  close(): void {
    for (const stream of this.#streams) {
      stream.removeAllListeners();
      // A late error of a destroyed stream has no receiver.
      stream.on('error', () => {});
      stream.destroy();
    }
  }

  #openSniffed(): boolean {
    const codings = sniffedCodings(this.#head);
    if (codings !== undefined) return this.#open(codings, this.#head);
    this.#events.error(new CodingError('unknown content-encoding'));
    return true;
  }

  /** `codings`: none for an uncoded body. */
  #open(codings: readonly Coding[], first: Uint8Array): boolean {
    this.#streams = codings.map((coding, index) => stream(coding, index === 0 ? first : undefined));
    if (codings.length === 0) this.#streams = [new PassThrough()];
    for (const [index, stream] of this.#streams.entries()) {
      const next = this.#streams[index + 1];
      stream.on('error', (error) => this.#fail(error, next));
      stream.on('end', () => {
        this.#isCut ||= stream instanceof Gunzip && stream.isCut;
      });
      // Data within data can be a thousand times what came.
      if (next !== undefined) stream.on('data', (chunk) => this.#count(chunk)).pipe(next);
    }
    this.#streams[0]?.on('drain', () => this.#events.drain());
    const last = this.#streams.at(-1);
    last?.on('data', (chunk: Uint8Array) => {
      this.#outputBytes += chunk.length;
      this.#events.data(chunk);
    });
    last?.on('end', () => this.#ended());
    return this.#streams[0]?.write(first) ?? true;
  }

  /** Counts input. False: it holds nothing, and the receiver has been told. */
  #count({ length }: Uint8Array): boolean {
    this.#inputBytes += length;
    const isTooMuch = this.#inputBytes > inputAheadMax + inputPerOutputMax * this.#outputBytes;
    if (isTooMuch) this.#events.error(new CodingError('compressed data that holds nothing'));
    return !isTooMuch;
  }

  /** `next`: what reads the output. */
  #fail(error: Error, next: Transform | undefined): void {
    if (!isUnfinished(error)) {
      this.#events.error(error);
      return;
    }
    this.#isCut = true;
    if (next === undefined) this.#ended();
    else next.end();
  }

  #ended(): void {
    const wasFlushed = flushEnd.equals(this.#tail.subarray(-flushEnd.length));
    this.#events.end(this.#isCut && !wasFlushed);
  }
}

function stream(coding: Coding, first: Uint8Array | undefined): Transform {
  switch (coding) {
    case 'gzip':
      return new Gunzip(chunkSize);
    case 'br':
      return createBrotliDecompress(brotliOptions);
    case 'deflate':
      // Some servers send the raw format; the zlib one begins with compression method 8.
      return first === undefined || ((first[0] ?? 8) & 0x0f) === 8
        ? new Gunzip(chunkSize, 'zlib')
        : createInflateRaw(zlibOptions);
    case 'zstd':
      return createZstd?.(chunkSize) ?? new PassThrough();
    default:
      return coding satisfies never;
  }
}

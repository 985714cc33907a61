/**
 * Decodes content codings as a stream, bounded both ways: input waits while zlib is busy, and
 * output comes in pieces, so that the receiver can stop a bomb. If the codings are unknown, the
 * first bytes decide.
 * Source: RFC 9110, 8.4.1.
 */
import { PassThrough, type Transform } from 'node:stream';
import { constants, createBrotliDecompress, createInflate, createInflateRaw } from 'node:zlib';
import { type Coding, CodingError, sniffBytes, sniffedCodings } from './content.ts';
import { Gunzip } from './gunzip.ts';
import { createZstd } from './zstd.ts';

type InflaterEvents = {
  data(chunk: Uint8Array): void;
  end(): void;
  error(error: Error): void;
  /** Input is wanted again after `write` returned false. */
  drain(): void;
};

const chunkSize = 64 << 10;
// As lenient as browsers: a missing trailer is no error; a cut connection is one in the client.
const zlibOptions = {
  chunkSize,
  flush: constants.Z_SYNC_FLUSH,
  finishFlush: constants.Z_SYNC_FLUSH,
};
const brotliOptions = {
  chunkSize,
  flush: constants.BROTLI_OPERATION_FLUSH,
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
};

export class Inflater {
  readonly #codings: readonly Coding[] | 'unknown';
  readonly #events: InflaterEvents;
  /** The first bytes, until they are enough to decide. */
  #head: Uint8Array = new Uint8Array(0);
  #streams: Transform[] = [];

  /** `codings`: outermost first, at least one. */
  constructor(codings: readonly Coding[] | 'unknown', events: InflaterEvents) {
    this.#codings = codings;
    this.#events = events;
  }

  /** False if input should wait for `drain`. */
  write(chunk: Uint8Array): boolean {
    if (this.#streams.length > 0) return this.#streams[0]?.write(chunk) ?? true;
    if (this.#codings !== 'unknown') return this.#open(this.#codings, chunk);
    const head = Buffer.concat([this.#head, chunk]);
    this.#head = head;
    return head.length < sniffBytes || this.#openSniffed();
  }

  end(): void {
    if (this.#streams.length === 0 && this.#head.length > 0) this.#openSniffed();
    if (this.#streams.length === 0) this.#events.end();
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
      stream.on('error', (error) => this.#events.error(error));
      const next = this.#streams[index + 1];
      if (next !== undefined) stream.pipe(next);
    }
    this.#streams[0]?.on('drain', () => this.#events.drain());
    const last = this.#streams.at(-1);
    last?.on('data', (chunk: Uint8Array) => this.#events.data(chunk));
    last?.on('end', () => this.#events.end());
    return this.#streams[0]?.write(first) ?? true;
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
        ? createInflate(zlibOptions)
        : createInflateRaw(zlibOptions);
    case 'zstd':
      return createZstd?.(chunkSize) ?? new PassThrough();
    default:
      return coding satisfies never;
  }
}

/**
 * Decompresses a gzip or zlib body as browsers do: consecutive members of gzip are one body, bytes
 * after the last one are ignored, so are checksum and length in a trailer, which some servers write
 * wrongly or leave away, and a cut body ends where it is cut, which `isCut` tells. (Node's own
 * decompressors take stray bytes for a broken member, and a missing checksum for a cut; the body is
 * lost with them.) Errors are those of zlib.
 *
 *     header ─▶ data ─its end─▶ trailer ─8 bytes─▶ header … ─no header: over
 *
 * Source: RFC 1952, 2; RFC 1950, 2.2; Chromium, gzip_source_stream.cc, for the trailer.
 */
import { Transform, type TransformCallback } from 'node:stream';
import { constants, createInflateRaw, type InflateRaw } from 'node:zlib';

/** The header and trailer around deflated data. */
type Wrapper = {
  /** Returns the length of the header at the start of the bytes; `more`: it is not complete. */
  readonly headerBytes: (bytes: Buffer) => number | 'more' | 'none';
  readonly trailerBytes: number;
  readonly membersMax: number;
};
/** Limit of a header with its name and comment. */
const headerBytesMax = 64 << 10;
/** Empty members cost time and produce no bytes that a limit would count. */
const membersMax = 10_000;
const zlibDictionary = 0x20;
const flags = { sum: 2, extra: 4, name: 8, comment: 16 } as const;

const wrappers: Readonly<Record<'gzip' | 'zlib', Wrapper>> = {
  gzip: { headerBytes: gzipHeaderBytes, trailerBytes: 8, membersMax },
  zlib: { headerBytes: zlibHeaderBytes, trailerBytes: 4, membersMax: 1 },
};

export class Gunzip extends Transform {
  readonly #chunkSize: number;
  readonly #wrapper: Wrapper;
  #state: 'header' | 'data' | 'trailer' | 'over' = 'header';
  #members = 0;
  #isCut = false;
  /** A header, or a trailer, that is not complete. */
  #held: Buffer = Buffer.alloc(0);
  #raw: InflateRaw | undefined;
  /** Bytes given to `#raw`. */
  #fed = 0;
  /** Called when `#raw` has ended, with the number of its unused input bytes. */
  #onRawEnd: (left: number) => void = () => {};
  #onRawError: (error: Error) => void = () => {};

  constructor(chunkSize: number, format: 'gzip' | 'zlib' = 'gzip') {
    super({ readableHighWaterMark: chunkSize });
    this.#wrapper = wrappers[format];
    this.#chunkSize = chunkSize;
  }

  /** Known at the end: a member began and its data did not end. A missing trailer is none. */
  get isCut(): boolean {
    return this.#isCut;
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    switch (this.#state) {
      case 'over':
        done();
        return;
      case 'data':
        this.#inflate(chunk, done);
        return;
      case 'header':
      case 'trailer':
        this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
        if (this.#state === 'header') this.#readHeader(done);
        else this.#readTrailer(done);
        return;
      default:
        this.#state satisfies never;
    }
  }

  override _flush(done: TransformCallback): void {
    if (this.#state !== 'data' || this.#raw === undefined) {
      this.#isCut = this.#state === 'header' && this.#members === 0 && this.#held.length > 0;
      done();
      return;
    }
    this.#onRawEnd = () => done();
    this.#onRawError = (error) => {
      this.#isCut = isUnfinished(error);
      done(this.#isCut ? null : error);
    };
    this.#raw.end();
  }

  override _read(size: number): void {
    super._read(size);
    this.#raw?.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#dropRaw();
    done(error);
  }

  #readHeader(done: TransformCallback): void {
    const bytes = this.#wrapper.headerBytes(this.#held);
    if (bytes === 'more' && this.#held.length <= headerBytesMax) {
      done();
    } else if (typeof bytes === 'number' && this.#members < this.#wrapper.membersMax) {
      const rest = this.#held.subarray(bytes);
      this.#held = Buffer.alloc(0);
      this.#openRaw();
      if (rest.length > 0) this.#inflate(rest, done);
      else done();
    } else if (this.#members > 0) {
      this.#finish(done);
    } else {
      done(dataError('incorrect header check'));
    }
  }

  #readTrailer(done: TransformCallback): void {
    const { trailerBytes } = this.#wrapper;
    if (this.#held.length < trailerBytes) {
      done();
      return;
    }
    this.#held = this.#held.subarray(trailerBytes);
    this.#state = 'header';
    if (this.#held.length > 0) this.#readHeader(done);
    else done();
  }

  #openRaw(): void {
    const { Z_SYNC_FLUSH, Z_FINISH } = constants;
    // All output of the input so far; at the end, an error if more was to come.
    const raw = createInflateRaw({
      chunkSize: this.#chunkSize,
      flush: Z_SYNC_FLUSH,
      finishFlush: Z_FINISH,
    });
    this.#state = 'data';
    this.#members++;
    this.#raw = raw;
    this.#fed = 0;
    raw.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) raw.pause();
    });
    raw.on('error', (error) => this.#onRawError(error));
    raw.on('end', () => this.#onRawEnd(this.#fed - raw.bytesWritten));
  }

  #inflate(chunk: Buffer, done: TransformCallback): void {
    const raw = this.#raw;
    if (raw === undefined) return;
    this.#fed += chunk.length;
    this.#onRawError = (error) => {
      this.#dropRaw();
      // Bytes after a whole member need not be another one.
      if (this.#members > 1) this.#finish(done);
      else done(error);
    };
    this.#onRawEnd = (left) => {
      this.#dropRaw();
      this.#state = 'trailer';
      this.#held = chunk.subarray(chunk.length - left);
      this.#readTrailer(done);
    };
    raw.write(chunk, (error) => {
      // Otherwise its end was in this chunk, or an error, and the event is under way.
      if (!error && this.#raw === raw && raw.bytesWritten === this.#fed) done();
    });
  }

  #dropRaw(): void {
    const raw = this.#raw;
    if (raw === undefined) return;
    this.#raw = undefined;
    raw.removeAllListeners();
    // A late error of a destroyed stream has no receiver.
    raw.on('error', () => {});
    raw.destroy();
  }

  #finish(done: TransformCallback): void {
    this.#state = 'over';
    this.push(null);
    done();
  }
}

/** Whether a decompressor says that its input ended before its data did. */
export function isUnfinished(error: Error): boolean {
  return 'code' in error && error.code === 'Z_BUF_ERROR';
}

function dataError(message: string): Error {
  return Object.assign(new Error(message), { code: 'Z_DATA_ERROR' });
}

function zlibHeaderBytes(bytes: Buffer): number | 'more' | 'none' {
  const [method = 8, flag] = bytes;
  if ((method & 0x0f) !== 8) return 'none';
  if (flag === undefined) return 'more';
  // A dictionary of the two sides is known to nobody else.
  return (method * 256 + flag) % 31 === 0 && !(flag & zlibDictionary) ? 2 : 'none';
}

function gzipHeaderBytes(bytes: Buffer): number | 'more' | 'none' {
  const begins = [0x1f, 0x8b, 8].every((byte, i) => (bytes[i] ?? byte) === byte);
  if (!begins) return 'none';
  if (bytes.length < 10) return 'more';
  const flag = bytes[3] ?? 0;
  let at = 10;
  if (flag & flags.extra) {
    if (bytes.length < at + 2) return 'more';
    at += 2 + bytes.readUInt16LE(at);
  }
  for (const text of [flags.name, flags.comment]) {
    if (!(flag & text)) continue;
    const end = bytes.indexOf(0, at);
    if (end < 0) return 'more';
    at = end + 1;
  }
  if (flag & flags.sum) at += 2;
  return bytes.length < at ? 'more' : at;
}

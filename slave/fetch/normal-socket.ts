/**
 * A connection to a host whose answers undici refused to parse, which corrects the head of the
 * answer. A connection carries one answer, so that no part of it can be taken for the beginning of
 * the next. The clients put it between a socket and undici, so that guard, limits, decompression
 * and time-outs apply as usual.
 *
 *     head ─1xx─▶ head ─the last one─▶ body (as it comes | chunks, framed anew)
 */
import { Duplex } from 'node:stream';
import { ChunkFraming } from './chunk-framing.ts';
import { MalformedError, mayBeStatusLine, notHttp, readHead } from './response-head.ts';

/** Limit of all heads of an answer together, including those of 1xx. */
export const headBytesMax = 64 << 10;
const lineFeed = 10;
const carriageReturn = 13;

type HostSocket = Duplex & { ref(): unknown; unref(): unknown };

export class NormalSocket extends Duplex {
  readonly #socket: HostSocket;
  readonly #onEnd: (isOdd: boolean) => void;
  #state: 'head' | 'body' = 'head';
  #head: Buffer = Buffer.alloc(0);
  /** The start of the incomplete line, and the position from which to search its end. */
  #lineAt = 0;
  #scannedTo = 0;
  #headBytes = 0;
  #chunks: ChunkFraming | undefined;
  #isOdd = false;
  #isEnded = false;

  /** `onEnd`: the answer was read; `isOdd`: something was corrected. */
  constructor(socket: HostSocket, onEnd: (isOdd: boolean) => void) {
    super({ allowHalfOpen: false, readableHighWaterMark: socket.readableHighWaterMark });
    this.#socket = socket;
    this.#onEnd = onEnd;
    socket
      .on('data', (chunk: Buffer) => this.#take(chunk))
      .on('end', () => this.#ended())
      .on('error', (error) => this.destroy(error))
      .on('close', () => this.#ended());
  }

  ref(): this {
    this.#socket.ref();
    return this;
  }

  unref(): this {
    this.#socket.unref();
    return this;
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (this.#state === 'body') this.#onEnd(this.#isOdd || this.#chunks?.isOdd === true);
    this.#socket.destroy();
    done(error);
  }

  /** Bytes that were read may still wait for the reader, so the stream is not destroyed. */
  #ended(): void {
    if (this.#isEnded || this.destroyed) return;
    this.#isEnded = true;
    this.push(null);
  }

  #take(chunk: Buffer): void {
    if (this.destroyed || this.#isEnded) return;
    try {
      const body = this.#state === 'head' ? this.#takeHead(chunk) : chunk;
      if (body.length > 0) this.#takeBody(body);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new MalformedError('unreadable'));
    }
  }

  #takeBody(bytes: Buffer): void {
    for (const part of this.#chunks?.write(bytes) ?? [bytes]) {
      if (part.length > 0 && !this.push(part)) this.#socket.pause();
    }
  }

  /** Returns the bytes after the head. */
  #takeHead(chunk: Buffer): Buffer {
    this.#head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk]);
    for (;;) {
      const end = this.#headEnd();
      if (this.#headBytes + (end ?? this.#head.length) > headBytesMax) {
        throw new MalformedError('headers longer than 64 KiB', 'too-large');
      }
      if (end === undefined) return Buffer.alloc(0);
      this.#headBytes += end;
      const head = readHead(this.#head.subarray(0, end));
      this.#head = this.#head.subarray(end);
      this.#lineAt = 0;
      this.#scannedTo = 0;
      this.#isOdd ||= head.isOdd;
      if (head.kind === 'interim') continue;
      this.#state = 'body';
      if (head.isChunked) this.#chunks = new ChunkFraming();
      this.push(head.bytes);
      return this.#head;
    }
  }

  /** Returns the end of the head, after its empty line; undefined: not yet. Reads each byte
   *  once. */
  #headEnd(): number | undefined {
    this.#skipBlankLines();
    if (!mayBeStatusLine(this.#head)) {
      if (this.#head.length >= 5 || this.#head.includes(lineFeed)) throw notHttp(this.#head);
      return undefined;
    }
    for (;;) {
      const end = this.#head.indexOf(lineFeed, this.#scannedTo);
      if (end < 0) {
        this.#scannedTo = this.#head.length;
        return undefined;
      }
      const line = this.#head.subarray(this.#lineAt, end);
      this.#lineAt = end + 1;
      this.#scannedTo = end + 1;
      // Some hosts end their lines with two.
      if (line.every((byte) => byte === carriageReturn)) return end + 1;
    }
  }

  /** Skips blank lines before a status line. */
  #skipBlankLines(): void {
    let at = 0;
    while (this.#head[at] === lineFeed || this.#head[at] === carriageReturn) at++;
    if (at === 0) return;
    this.#headBytes += at;
    this.#head = this.#head.subarray(at);
  }
}

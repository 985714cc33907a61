/**
 * Rewrites the framing of a chunked body: bare LF line ends, blanks around a size, extensions and
 * trailers are removed, the data is unchanged; all data that came at once is one chunk. Pure; the
 * normal socket calls it.
 *
 *     size ─line─▶ data ─all of it─▶ end of data ─empty line─▶ size … ─size 0─▶ over
 *
 * Source: RFC 9112, 7.1; Chromium, http_chunked_decoder.cc.
 */
import { MalformedError } from './response-head.ts';

const lineFeed = 10;
const none: Buffer = Buffer.alloc(0);
/** A chunk's size and its extensions. */
const lineBytesMax = 16 << 10;
/** The possible beginnings of a size, in the bytes that are there. */
const sizeStart = /^[ \t]*(?:[0-9a-fA-F]|\r?$)/;
const sizeLine = /^[ \t]*([0-9a-fA-F]{1,12})[ \t]*(;.*)?\r?$/s;
/** A writer that sends each byte in a chunk of its own has 5 bytes of framing for it. */
const framingPerByteMax = 16;
const framingAheadMax = 1 << 20;

/** The framing, head and all, that an answer may have with so many bytes of a body. One that has
 *  more is made to hold nothing: no limit of the body would ever end it. */
export function framingBytesMax(bodyBytes: number): number {
  return framingAheadMax + framingPerByteMax * bodyBytes;
}

export function endlessFraming(): MalformedError {
  return new MalformedError('framing that holds nothing');
}

export class ChunkFraming {
  #state: 'size' | 'data' | 'end of data' | 'over' = 'size';
  #line = none;
  /** Missing bytes of this chunk. */
  #left = 0;
  #bodyBytes = 0;
  #framingBytes = 0;
  /** Something did not follow the standard. */
  isOdd = false;

  /** Returns these bytes for a strict reader.
   *  @throws MalformedError */
  write(bytes: Buffer): Buffer[] {
    // Bytes after the last chunk are ignored.
    if (this.#state === 'over') return [];
    const data: Buffer[] = [];
    let rest = bytes;
    while (rest.length > 0 && !this.#isOver) {
      if (this.#state === 'data') {
        const part = rest.subarray(0, this.#left);
        data.push(part);
        this.#bodyBytes += part.length;
        rest = rest.subarray(part.length);
        this.#left -= part.length;
        if (this.#left === 0) this.#state = 'end of data';
        continue;
      }
      const end = rest.indexOf(lineFeed);
      this.#count(end < 0 ? rest.length : end + 1);
      const part = end < 0 ? rest : rest.subarray(0, end);
      const read = this.#line.length === 0 ? part : Buffer.concat([this.#line, part]);
      if (read.length > lineBytesMax) throw new MalformedError('an endless chunk size');
      if (end < 0) {
        // A body without chunks may have no line end at all.
        if (this.#state === 'size') checkStart(read);
        this.#line = read;
        break;
      }
      rest = rest.subarray(end + 1);
      this.#line = none;
      const line = read.toString('latin1');
      this.isOdd ||= !line.endsWith('\r');
      if (this.#state === 'size') this.#begin(line);
      else if (line === '' || line === '\r') this.#state = 'size';
      else throw new MalformedError('a chunk longer than its size');
    }
    return this.#isOver ? [...chunkOf(data), lastChunk] : chunkOf(data);
  }

  get #isOver(): boolean {
    return this.#state === 'over';
  }

  #begin(line: string): void {
    const [, digits = ''] = sizeLine.exec(line) ?? [];
    if (digits === '') throw new MalformedError('a chunk without a size');
    this.isOdd ||= !/^[0-9a-fA-F]+(?:;[^\r]*)?\r?$/.test(line);
    this.#left = Number.parseInt(digits, 16);
    this.#state = this.#left === 0 ? 'over' : 'data';
  }

  #count(bytes: number): void {
    this.#framingBytes += bytes;
    if (this.#framingBytes > framingBytesMax(this.#bodyBytes)) throw endlessFraming();
  }
}

const lastChunk = Buffer.from('0\r\n\r\n');

/** One chunk of all data, if there is any. */
function chunkOf(parts: readonly Buffer[]): Buffer[] {
  const [first] = parts;
  if (first === undefined) return [];
  const data = parts.length === 1 ? first : Buffer.concat(parts);
  return [Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')];
}

function checkStart(line: Buffer): void {
  if (!sizeStart.test(line.toString('latin1'))) throw new MalformedError('a chunk without a size');
}

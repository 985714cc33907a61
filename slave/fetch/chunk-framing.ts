/**
 * Rewrites the framing of a chunked body: bare LF line ends, blanks around a size, extensions and
 * trailers are removed, the data is unchanged. Pure; called by the normal socket.
 *
 *     size ─line─▶ data ─all of it─▶ end of data ─empty line─▶ size … ─size 0─▶ over
 *
 * Source: RFC 9112, 7.1; Chromium, http_chunked_decoder.cc.
 */
import { MalformedError } from './response-head.ts';

const lineFeed = 10;
/** A chunk's size and its extensions. */
const lineBytesMax = 16 << 10;
/** The possible beginnings of a size, in the bytes that are there. */
const sizeStart = /^[ \t]*(?:[0-9a-fA-F]|\r?$)/;
const sizeLine = /^[ \t]*([0-9a-fA-F]{1,12})[ \t]*(;.*)?\r?$/s;

export class ChunkFraming {
  #state: 'size' | 'data' | 'end of data' | 'over' = 'size';
  #line: Buffer = Buffer.alloc(0);
  /** Missing bytes of this chunk. */
  #left = 0;
  /** Something did not follow the standard. */
  isOdd = false;

  /** Returns these bytes for a strict reader.
   *  @throws MalformedError */
  write(bytes: Buffer): Buffer[] {
    const out: Buffer[] = [];
    let rest = bytes;
    // Bytes after the last chunk are ignored.
    while (rest.length > 0 && this.#state !== 'over') {
      if (this.#state === 'data') {
        const data = rest.subarray(0, this.#left);
        out.push(data);
        rest = rest.subarray(data.length);
        this.#left -= data.length;
        if (this.#left === 0) this.#state = 'end of data';
        continue;
      }
      const end = rest.indexOf(lineFeed);
      this.#line = Buffer.concat([this.#line, end < 0 ? rest : rest.subarray(0, end)]);
      if (this.#line.length > lineBytesMax) throw new MalformedError('an endless chunk size');
      if (end < 0) {
        // A body without chunks may have no line end at all.
        if (this.#state === 'size') checkStart(this.#line);
        break;
      }
      rest = rest.subarray(end + 1);
      const line = this.#line.toString('latin1');
      this.#line = Buffer.alloc(0);
      this.isOdd ||= !line.endsWith('\r');
      if (this.#state === 'size') out.push(this.#begin(line));
      else if (line === '' || line === '\r') {
        out.push(Buffer.from('\r\n'));
        this.#state = 'size';
      } else throw new MalformedError('a chunk longer than its size');
    }
    return out;
  }

  /** Begins a chunk; returns its size line in correct form. */
  #begin(line: string): Buffer {
    const [, digits = ''] = sizeLine.exec(line) ?? [];
    if (digits === '') throw new MalformedError('a chunk without a size');
    this.isOdd ||= !/^[0-9a-fA-F]+(?:;[^\r]*)?\r?$/.test(line);
    this.#left = Number.parseInt(digits, 16);
    this.#state = this.#left === 0 ? 'over' : 'data';
    return Buffer.from(this.#left === 0 ? '0\r\n\r\n' : `${digits}\r\n`);
  }
}

function checkStart(line: Buffer): void {
  if (!sizeStart.test(line.toString('latin1'))) throw new MalformedError('a chunk without a size');
}

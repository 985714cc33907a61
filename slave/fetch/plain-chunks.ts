/**
 * Reads the chunks of a body as long as they are plain: a size of digits, no extension, no trailer.
 * Small chunks are given together, since each piece costs its readers as much as a long one. Pure;
 * the plain connection uses it.
 *
 *     size ─▶ data ─all of it─▶ end of data ─▶ size … ─size 0─▶ over
 *
 * Source: RFC 9112, 7.1.
 */

/** `used`: bytes that were read, the first of which may be `data`. */
type Read = {
  readonly used: number;
  readonly data?: Buffer;
  /** `more`: the rest is too short to be read. */
  readonly state: 'reading' | 'more' | 'over' | 'odd';
};

const carriageReturn = 13;
const lineFeed = 10;
const digitsMax = 8;
const smallBytes = 1_024;
const more: Read = { used: 0, state: 'more' };
const odd: Read = { used: 0, state: 'odd' };
const afterData: Read = { used: 2, state: 'reading' };

export class PlainChunks {
  #state: 'size' | 'data' | 'end of data' = 'size';
  /** Missing bytes of this chunk. */
  #left = 0;

  /** Its last chunk has ended, the line end after its data excepted. */
  get isAfterData(): boolean {
    return this.#state === 'end of data';
  }

  /** Reads one step of `bytes`, or several that have little data; they begin where the step before
   *  ended. After `odd` nothing may be read. */
  read(bytes: Buffer): Read {
    const first = this.#step(bytes);
    if (first.data === undefined || first.data.length >= smallBytes) return first;
    const parts = [first.data];
    let { used } = first;
    while (used < bytes.length) {
      const next = this.#step(bytes.subarray(used));
      // It changed nothing, and is read again.
      if (next.state !== 'reading') break;
      used += next.used;
      if (next.data !== undefined) parts.push(next.data);
    }
    return parts.length === 1 ? { ...first, used } : { ...first, used, data: Buffer.concat(parts) };
  }

  #step(bytes: Buffer): Read {
    if (this.#state === 'size') return this.#readSize(bytes);
    if (this.#state === 'end of data') {
      const isEnd = isByte(bytes[0], carriageReturn) && isByte(bytes[1], lineFeed);
      if (!isEnd) return odd;
      if (bytes.length < 2) return more;
      this.#state = 'size';
      return afterData;
    }
    const data = bytes.subarray(0, this.#left);
    this.#left -= data.length;
    if (this.#left === 0) this.#state = 'end of data';
    return { used: data.length, data, state: 'reading' };
  }

  #readSize(bytes: Buffer): Read {
    let size = 0;
    let at = 0;
    for (; at < bytes.length; at++) {
      const digit = digitOf(bytes[at] ?? 0);
      if (digit < 0) break;
      if (at === digitsMax) return odd;
      size = size * 16 + digit;
    }
    if (at === bytes.length) return more;
    // The empty line after the last chunk belongs to it.
    const end = size === 0 ? lastEnd : dataStart;
    if (at === 0 || !end.every((byte, i) => isByte(bytes[at + i], byte))) return odd;
    const used = at + end.length;
    if (bytes.length < used) return more;
    if (size === 0) return { used, state: 'over' };
    this.#left = size;
    this.#state = 'data';
    return { used, state: 'reading' };
  }
}

const dataStart = [carriageReturn, lineFeed];
const lastEnd = [...dataStart, ...dataStart];

/** It may be that byte, as far as it is there. */
function isByte(given: number | undefined, byte: number): boolean {
  return given === undefined || given === byte;
}

function digitOf(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

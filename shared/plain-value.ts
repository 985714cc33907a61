/**
 * The subset of msgpack that we use: null, booleans, numbers, texts, bytes, arrays and maps with
 * text or number keys. Extensions are refused before the decoder sees them, because its built-in
 * ones make dates, sets, errors, regular expressions and functions, and may keep state beyond a
 * message.
 *
 * Source: PROTOCOL.md [F-6]; the msgpack specification, "Formats".
 */

import { limits } from './protocol.ts';

const depthMax = limits.messageDepthMax;
/** Values still to come, by depth; one array, because the walk is never re-entered. */
const left = new Uint32Array(depthMax + 1);

/** Checks the bytes without building anything: a decoder trusts lengths, and five bytes can
 *  announce 30 million values.
 *  @throws RangeError when they are not one whole plain value, or have more than `valuesMax`
 *  values. */
export function assertPlain(bytes: Uint8Array, valuesMax = Number.POSITIVE_INFINITY): void {
  left[0] = 1;
  let depth = 0;
  let at = 0;
  let total = 1;
  while (true) {
    while (left[depth] === 0) {
      if (depth === 0) {
        if (at !== bytes.length)
          throw new RangeError(`${bytes.length - at} bytes follow the value`);
        return;
      }
      depth--;
    }
    left[depth] = (left[depth] ?? 0) - 1;
    if (at >= bytes.length) throw new RangeError('the bytes end too early');
    const kind = bytes[at] ?? 0;
    const size = headBytes[kind] ?? 0;
    if (size === 0) throw new RangeError(`0x${kind.toString(16)} is not plain msgpack`);
    const count = countOf(bytes, at, kind, size);
    at += size;
    if (isContainer(kind)) {
      if (count > bytes.length - at) throw new RangeError('the bytes end too early');
      total += count;
      if (total > valuesMax) throw new RangeError(`more than ${valuesMax} values`);
      if (++depth > depthMax) throw new RangeError('arrays and maps are nested too deep');
      left[depth] = count;
    } else {
      at += count;
    }
  }
}

/** Bytes up to the content: the kind, and a length or a number. 0: refused. */
const headBytes = new Uint8Array(256).fill(1);
headBytes.set(
  // nil, never, false, true, bin 8 16 32, ext 8 16 32, float 32 64, uint 8 16 32 64,
  // int 8 16 32 64, fixext 1 2 4 8 16, str 8 16 32, array 16 32, map 16 32
  [1, 0, 1, 1, 2, 3, 5, 0, 0, 0, 5, 9, 2, 3, 5, 9, 2, 3, 5, 9, 0, 0, 0, 0, 0, 2, 3, 5, 3, 5, 3, 5],
  0xc0,
);

function isContainer(kind: number): boolean {
  return (kind >= 0x80 && kind < 0xa0) || (kind >= 0xdc && kind < 0xe0);
}

/** Values in a container (keys count), or bytes of a text or of bytes; 0 for everything else. */
function countOf(bytes: Uint8Array, at: number, kind: number, size: number): number {
  if (kind < 0x80) return 0;
  if (kind < 0x90) return (kind & 15) * 2;
  if (kind < 0xa0) return kind & 15;
  if (kind < 0xc0) return kind & 31;
  if (!((kind >= 0xc4 && kind <= 0xc6) || (kind >= 0xd9 && kind < 0xe0))) return 0;
  let count = 0;
  for (let i = 1; i < size; i++) count = count * 256 + (bytes[at + i] ?? 0);
  return kind >= 0xde ? count * 2 : count;
}

/** Steps through bytes that `assertPlain` has passed, without building what it steps over. */
export class PlainWalk {
  readonly #bytes: Uint8Array;
  /** Where the next value begins. */
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Enters a list; returns the number of its values. Undefined: something else is next. */
  list(): number | undefined {
    const kind = this.#bytes[this.at] ?? 0;
    return isList(kind) ? this.#enter() : undefined;
  }

  /** Enters a map; returns the number of its pairs. Undefined: something else is next. */
  map(): number | undefined {
    const kind = this.#bytes[this.at] ?? 0;
    return isContainer(kind) && !isList(kind) ? this.#enter() / 2 : undefined;
  }

  /** Returns the text that is next; undefined: something else is. */
  ascii(): string | undefined {
    const begin = this.at;
    if (!this.#text()) return undefined;
    const head = headBytes[this.#bytes[begin] ?? 0] ?? 0;
    const { buffer, byteOffset } = this.#bytes;
    return Buffer.from(buffer, byteOffset, this.at).toString('latin1', begin + head);
  }

  /** Steps over a value of JSON: no bytes, and keys are texts. False: it is none, or is nested
   *  deeper. */
  json(levels: number): boolean {
    const kind = this.#bytes[this.at] ?? 0;
    if (!isContainer(kind)) {
      const length = this.#enter();
      this.at += length;
      return !isBytes(kind);
    }
    if (levels === 0) return false;
    const isMap = !isList(kind);
    let count = this.#enter();
    for (; count > 0; count--) {
      if (isMap && count % 2 === 0 ? !this.#text() : !this.json(levels - 1)) return false;
    }
    return true;
  }

  #text(): boolean {
    if (!isText(this.#bytes[this.at] ?? 0)) return false;
    const length = this.#enter();
    this.at += length;
    return true;
  }

  /** Steps over the head of a value; returns its count. */
  #enter(): number {
    const kind = this.#bytes[this.at] ?? 0;
    const size = headBytes[kind] ?? 0;
    const count = countOf(this.#bytes, this.at, kind, size);
    this.at += size;
    return count;
  }
}

function isList(kind: number): boolean {
  return (kind >= 0x90 && kind < 0xa0) || kind === 0xdc || kind === 0xdd;
}

function isText(kind: number): boolean {
  return (kind >= 0xa0 && kind < 0xc0) || (kind >= 0xd9 && kind < 0xdc);
}

function isBytes(kind: number): boolean {
  return kind >= 0xc4 && kind <= 0xc6;
}

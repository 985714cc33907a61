/**
 * A Bloom filter that grows: it answers *surely new* or *maybe seen*. It errs on the side of
 * *maybe*, which costs one read of the store and never a page.
 *
 * It is a row of filters: when the last one holds as many keys as it was sized for, one is added
 * that doubles the capacity of the row. A large row grows by half instead, since memory for keys
 * that never come costs more there than a look-up in one more filter. Each has at most `rate` false
 * *maybe*s, so a row of n has at most n times as many. A tighter rate would cost memory to save a
 * few reads.
 * Source: Bloom (1970); Almeida et al., "Scalable Bloom Filters" (2007); Kirsch & Mitzenmacher,
 * "Less Hashing, Same Performance" (2006).
 */
import type { Span } from './run-order.ts';

type Filter = {
  readonly bits: Uint32Array;
  readonly hashes: number;
  /** Keys it is sized for. */
  readonly capacity: number;
  count: number;
};

/** 512 MiB: the range of a 32-bit hash. */
const bitsMax = 2 ** 32;

/** Room for some thousand keys, even if little memory is left. */
const bitsMin = 1 << 16;
const expectedMin = 1024;
const defaultRate = 0.01;

/** Beyond any useful rate. */
const hashesMax = 64;

/** Keys from which on the row grows by half. */
const largeRow = 4_000_000;

export class Bloom {
  readonly rate: number;
  readonly #filters: Filter[] = [];
  readonly #expected: number;
  readonly #bytesLeft: () => number;

  /** `expected` keys fit before a second filter is added; `rate` bounds the false *maybe*s of one
   *  filter, while `bytesLeft` allows it to grow. */
  constructor(
    expected: number,
    options: { readonly rate?: number; readonly bytesLeft?: (() => number) | undefined } = {},
  ) {
    this.rate = options.rate ?? defaultRate;
    this.#expected = Math.max(expectedMin, expected);
    this.#bytesLeft = options.bytesLeft ?? (() => Number.POSITIVE_INFINITY);
  }

  get count(): number {
    return this.#filters.reduce((sum, filter) => sum + filter.count, 0);
  }

  get bytes(): number {
    return this.#filters.reduce((sum, filter) => sum + filter.bits.byteLength, 0);
  }

  /** Returns the number of a filter of the row that may have the key; -1: it is surely new.
   *  `words` holds fingerprints; `at` is the index of the first word of one. */
  find(words: Uint32Array, at: number): number {
    // The later ones have more keys.
    for (let i = this.#filters.length - 1; i >= 0; i--) {
      const filter = this.#filters[i];
      if (filter !== undefined && hasAll(filter, words, at)) return i;
    }
    return -1;
  }

  /** Returns which keys a filter of the row has, by their numbers in the order of `add`. */
  span(number: number): Span {
    const before = this.#filters.slice(0, number);
    const from = before.reduce((sum, filter) => sum + filter.count, 0);
    return { from, to: from + (this.#filters[number]?.count ?? 0) };
  }

  add(words: Uint32Array, at: number): void {
    let filter = this.#filters.at(-1);
    if (filter === undefined || filter.count >= filter.capacity) {
      filter = this.#next();
      this.#filters.push(filter);
    }
    setAll(filter, words, at);
    filter.count++;
  }

  /** The filters as bytes: what `restore` reads. The arrays are live, not copies: bits set while
   *  they are being written only add *maybe*s. */
  *save(): Generator<Uint8Array> {
    for (const { bits, hashes, capacity, count } of this.#filters) {
      const head = new Float64Array([bits.byteLength, hashes, capacity, count]);
      yield new Uint8Array(head.buffer);
      yield new Uint8Array(bits.buffer);
    }
  }

  /** Replaces the present filters. `read` fills its argument with the next bytes from `save`, so
   *  that no byte is in memory twice.
   *  @throws RangeError the bytes are invalid; nothing has changed. */
  restore(size: number, read: (into: Uint8Array) => void): void {
    const filters: Filter[] = [];
    for (let left = size; left > 0; ) {
      const head = new Float64Array(4);
      read(new Uint8Array(head.buffer));
      const [bytes = 0, hashes = 0, capacity = 0, count = 0] = head;
      left -= head.byteLength;
      const isSound =
        isWhole(bytes, 4, left) &&
        bytes % 4 === 0 &&
        isWhole(hashes, 1, hashesMax) &&
        isWhole(capacity, 1, Number.MAX_SAFE_INTEGER) &&
        isWhole(count, 0, capacity);
      if (!isSound) throw new RangeError('not a Bloom filter');
      left -= bytes;
      const bits = new Uint32Array(bytes / 4);
      read(new Uint8Array(bits.buffer));
      filters.push({ bits, hashes, capacity, count });
    }
    this.#filters.splice(0, this.#filters.length, ...filters);
  }

  /** Returns the next filter of the row. */
  #next(): Filter {
    const row = this.#filters.reduce((sum, last) => sum + last.capacity, 0);
    const capacity = row < largeRow ? row || this.#expected : Math.ceil(row / 2);
    const room = Math.max(bitsMin, Math.floor(this.#bytesLeft() / 4) * 32);
    const bits = Math.min(bitsMax, bitsFor(capacity, this.rate), room);
    return {
      bits: new Uint32Array(bits / 32),
      hashes: Math.max(1, Math.round((bits / capacity) * Math.LN2)),
      capacity,
      count: 0,
    };
  }
}

/** Returns the size of a filter for `expected` keys. */
export function bloomBytesFor(expected: number): number {
  return Math.min(bitsMax, bitsFor(Math.max(expectedMin, expected), defaultRate)) / 8;
}

function bitsFor(capacity: number, rate: number): number {
  const bitsPerKey = -Math.log(rate) / Math.LN2 ** 2;
  return Math.ceil((capacity * bitsPerKey) / 32) * 32;
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max;
}

// Bit i of a key: (a + i*b + (i^3-i)/6) scaled from 32 bits to the size of the filter (enhanced
// double hashing, Dillinger & Manolios 2004). Word 0 is left to the table in recent.ts.
function hasAll({ bits, hashes }: Filter, words: Uint32Array, at: number): boolean {
  const scale = bits.length * 2 ** -27;
  let a = words[at + 1] ?? 0;
  let b = words[at + 2] ?? 0;
  for (let i = 1; i <= hashes; i++) {
    const bit = Math.floor(a * scale);
    if (((bits[Math.floor(bit / 32)] ?? 0) & (1 << (bit & 31))) === 0) return false;
    a = (a + b) >>> 0;
    b = (b + i) >>> 0;
  }
  return true;
}

function setAll({ bits, hashes }: Filter, words: Uint32Array, at: number): void {
  const scale = bits.length * 2 ** -27;
  let a = words[at + 1] ?? 0;
  let b = words[at + 2] ?? 0;
  for (let i = 1; i <= hashes; i++) {
    const bit = Math.floor(a * scale);
    const word = Math.floor(bit / 32);
    bits[word] = (bits[word] ?? 0) | (1 << (bit & 31));
    a = (a + b) >>> 0;
    b = (b + i) >>> 0;
  }
}

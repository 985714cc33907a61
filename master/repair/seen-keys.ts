/**
 * Fingerprints of one crawl that a repair has found, in any order and more than once. Those with
 * the same first byte are a part of their own, which grows and is sorted by itself: of a hundred
 * million there is never a second copy.
 */
import { firstOf } from '../store/runs.ts';

const wordsPerKey = 4;
const partCount = 256;
/** Of the first four bytes: what is left after the first byte, beside a place in a part. */
const placeMax = 2 ** 28;
const none = new Uint32Array(0);

export class SeenKeys {
  /** Words of keys, by the first byte of these. */
  readonly #parts = Array.from({ length: partCount }, () => none);
  /** Words that are used of each. */
  readonly #ends = new Uint32Array(partCount);

  /** `bytes` holds fingerprints from `at` on. */
  addAll(bytes: Buffer, at = 0): void {
    for (let i = at; i + 16 <= bytes.length; i += 16) {
      const part = bytes[i] ?? 0;
      const to = this.#room(part);
      const words = this.#parts[part] ?? none;
      for (let w = 0; w < wordsPerKey; w++) words[to + w] = bytes.readUInt32LE(i + w * 4);
    }
  }

  add(key: Uint32Array): void {
    // The first byte is the lowest of the first word.
    const part = (key[0] ?? 0) & 0xff;
    const to = this.#room(part);
    this.#parts[part]?.set(key.subarray(0, wordsPerKey), to);
  }

  /** Returns their number, each counted once. */
  count(): number {
    let words = 0;
    for (const part of this.sorted()) words += part.length;
    return words / wordsPerKey;
  }

  /** Gives them in the order of a run, each once, in pieces. They stay here in this order. */
  *sorted(): Generator<Uint32Array> {
    for (const [part, words] of this.#parts.entries()) {
      const end = this.#ends[part] ?? 0;
      if (end === 0) continue;
      const sorted = sortedOnce(words.subarray(0, end));
      words.set(sorted);
      this.#ends[part] = sorted.length;
      yield words.subarray(0, sorted.length);
    }
  }

  /** Makes room for a key in a part, and returns its place. */
  #room(part: number): number {
    const to = this.#ends[part] ?? 0;
    const end = to + wordsPerKey;
    this.#ends[part] = end;
    const words = this.#parts[part] ?? none;
    if (end > words.length) {
      const keys = Math.max(4, Math.ceil((end / wordsPerKey) * 1.25));
      const more = new Uint32Array(keys * wordsPerKey);
      more.set(words);
      this.#parts[part] = more;
    }
    return to;
  }
}

/** A copy of keys that begin with the same byte, in order, each once. */
function sortedOnce(words: Uint32Array): Uint32Array {
  const sorted = new Uint32Array(words.length);
  let to = 0;
  for (const place of orderOf(words)) {
    const at = (place % placeMax) * wordsPerKey;
    if (isIn(sorted, to, words, at)) continue;
    for (let w = 0; w < wordsPerKey; w++) sorted[to++] = words[at + w] ?? 0;
  }
  return sorted.subarray(0, to);
}

/** Places of the keys, as the last bits of numbers, in order. */
function orderOf(words: Uint32Array): Float64Array {
  const order = new Float64Array(words.length / wordsPerKey);
  for (let i = 0; i < order.length; i++) {
    const rest = firstOf(words[i * wordsPerKey] ?? 0) & 0xffffff;
    order[i] = rest * placeMax + i;
  }
  return order.sort();
}

/** Is the key at `at` among the last ones before `end` with its first four bytes? */
function isIn(sorted: Uint32Array, end: number, words: Uint32Array, at: number): boolean {
  for (let i = end - 4; i >= 0 && sorted[i] === words[at]; i -= 4) {
    const isSame =
      sorted[i + 1] === words[at + 1] &&
      sorted[i + 2] === words[at + 2] &&
      sorted[i + 3] === words[at + 3];
    if (isSame) return true;
  }
  return false;
}

/** Fingerprints of one crawl that a repair has found, in any order and more than once. */
import { firstOf } from '../store/runs.ts';

const wordsPerKey = 4;
/** Of the first four bytes: what is left after the first byte, beside a place in a part. */
const placeMax = 2 ** 28;

export class SeenKeys {
  #words = new Uint32Array(64 * wordsPerKey);
  #count = 0;

  /** `bytes` holds fingerprints from `at` on. */
  addAll(bytes: Buffer, at = 0): void {
    for (let i = at; i + 16 <= bytes.length; i += 16) {
      const to = this.#room();
      for (let w = 0; w < wordsPerKey; w++) this.#words[to + w] = bytes.readUInt32LE(i + w * 4);
    }
  }

  add(words: Uint32Array): void {
    const to = this.#room();
    for (let w = 0; w < wordsPerKey; w++) this.#words[to + w] = words[w] ?? 0;
  }

  /** Returns them in the order of a run, each once. They stay here in this order. */
  sorted(): Uint32Array {
    const parts = this.#parts();
    const sorted = new Uint32Array(this.#count * wordsPerKey);
    let to = 0;
    for (let part = 0; part < 256; part++) {
      const [from = 0, end = 0] = [parts.starts[part], parts.starts[part + 1]];
      for (const place of orderOf(parts.words, from, end)) {
        const at = (from + (place % placeMax)) * wordsPerKey;
        if (isIn(sorted, to, parts.words, at)) continue;
        for (let w = 0; w < wordsPerKey; w++) sorted[to++] = parts.words[at + w] ?? 0;
      }
    }
    this.#words = sorted;
    this.#count = to / wordsPerKey;
    return sorted.subarray(0, to);
  }

  #room(): number {
    const to = this.#count++ * wordsPerKey;
    if (to + wordsPerKey > this.#words.length) {
      const more = new Uint32Array(Math.max(64, this.#count * 2) * wordsPerKey);
      more.set(this.#words);
      this.#words = more;
    }
    return to;
  }

  /** By their first byte, which is the lowest of the first word. */
  #parts(): { readonly words: Uint32Array; readonly starts: Uint32Array } {
    const starts = new Uint32Array(257);
    const end = this.#count * wordsPerKey;
    for (let at = 0; at < end; at += wordsPerKey) {
      const part = (this.#words[at] ?? 0) & 0xff;
      starts[part + 1] = (starts[part + 1] ?? 0) + 1;
    }
    for (let part = 0; part < 256; part++) {
      starts[part + 1] = (starts[part + 1] ?? 0) + (starts[part] ?? 0);
    }
    const next = starts.slice();
    const words = new Uint32Array(end);
    for (let at = 0; at < end; at += wordsPerKey) {
      const part = (this.#words[at] ?? 0) & 0xff;
      const to = (next[part] ?? 0) * wordsPerKey;
      next[part] = (next[part] ?? 0) + 1;
      for (let w = 0; w < wordsPerKey; w++) words[to + w] = this.#words[at + w] ?? 0;
    }
    return { words, starts };
  }
}

/** Places of the keys from `from` up to `end`, as the last bits of numbers, in order. */
function orderOf(words: Uint32Array, from: number, end: number): Float64Array {
  const order = new Float64Array(end - from);
  for (let i = 0; i < order.length; i++) {
    const rest = firstOf(words[(from + i) * wordsPerKey] ?? 0) & 0xffffff;
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

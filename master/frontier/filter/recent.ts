/**
 * Fingerprints in typed arrays, 16 bytes each.
 *
 * `RecentTable` remembers fingerprints that need no further look-up: known to the store, or out of
 * scope. It is bounded and forgets; it errs by a miss, never by a false hit. It changes speed,
 * never answers.
 */

const ways = 4;

export class RecentTable {
  readonly #words: Uint32Array;
  readonly #setMask: number;
  #victim = 0;

  /** `entries` is rounded up to a power of two; 16 bytes each, taken at once. */
  constructor(entries: number) {
    const sets = 2 ** Math.ceil(Math.log2(Math.max(ways, entries) / ways));
    // Written once, so that the memory is allocated from the start and never grows.
    this.#words = new Uint32Array(sets * ways * 4).fill(0xffffffff);
    this.#setMask = sets - 1;
  }

  has(words: Uint32Array, at: number): boolean {
    const table = this.#words;
    const w0 = words[at] ?? 0;
    const w1 = words[at + 1] ?? 0;
    const first = (w0 & this.#setMask) * ways * 4;
    for (let entry = first; entry < first + ways * 4; entry += 4) {
      if (
        table[entry] === w0 &&
        table[entry + 1] === w1 &&
        table[entry + 2] === words[at + 2] &&
        table[entry + 3] === words[at + 3]
      ) {
        return true;
      }
    }
    return false;
  }

  add(words: Uint32Array, at: number): void {
    this.#victim = (this.#victim + 1) % ways;
    const entry = (((words[at] ?? 0) & this.#setMask) * ways + this.#victim) * 4;
    for (let i = 0; i < 4; i++) this.#words[entry + i] = words[at + i] ?? 0;
  }

  /** Forgets everything. */
  clear(): void {
    this.#words.fill(0xffffffff);
  }
}

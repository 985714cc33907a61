/**
 * Fingerprints in typed arrays, 16 bytes each.
 *
 * `RecentTable` remembers fingerprints that need no further look-up: known to the store, or out of
 * scope. It is bounded and forgets; it errs by a miss, never by a false hit. It changes speed,
 * never answers. `PendingSet` holds exactly the fingerprints that are being committed, which the
 * store cannot show yet.
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

/** An exact set that only grows; drop it when its commit is on the disk. */
export class PendingSet {
  #slots: Uint32Array;
  #used: Uint8Array;
  #mask: number;
  #count = 0;

  constructor(slots = 1 << 12) {
    this.#slots = new Uint32Array(slots * 4);
    this.#used = new Uint8Array(slots);
    this.#mask = slots - 1;
  }

  get count(): number {
    return this.#count;
  }

  has(words: Uint32Array, at: number): boolean {
    return this.#used[this.#find(words, at)] === 1;
  }

  /** Returns false if it was there already. */
  add(words: Uint32Array, at: number): boolean {
    const slot = this.#find(words, at);
    if (this.#used[slot] === 1) return false;
    this.#used[slot] = 1;
    for (let i = 0; i < 4; i++) this.#slots[slot * 4 + i] = words[at + i] ?? 0;
    this.#count++;
    if (this.#count * 2 > this.#mask) this.#grow();
    return true;
  }

  clear(): void {
    this.#used.fill(0);
    this.#count = 0;
  }

  /** Moves all of it to the recent table. */
  moveTo(recent: RecentTable): void {
    for (let slot = 0; this.#count > 0; slot++) {
      if (this.#used[slot] !== 1) continue;
      recent.add(this.#slots, slot * 4);
      this.#used[slot] = 0;
      this.#count--;
    }
  }

  /** Returns the slot of the fingerprint, or the free slot where it belongs. */
  #find(words: Uint32Array, at: number): number {
    let slot = (words[at + 3] ?? 0) & this.#mask;
    while (this.#used[slot] === 1) {
      const entry = slot * 4;
      if (
        this.#slots[entry] === words[at] &&
        this.#slots[entry + 1] === words[at + 1] &&
        this.#slots[entry + 2] === words[at + 2] &&
        this.#slots[entry + 3] === words[at + 3]
      ) {
        break;
      }
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }

  #grow(): void {
    const old = { slots: this.#slots, used: this.#used };
    this.#slots = new Uint32Array(old.slots.length * 2);
    this.#used = new Uint8Array(old.used.length * 2);
    this.#mask = this.#used.length - 1;
    this.#count = 0;
    for (let slot = 0; slot < old.used.length; slot++) {
      if (old.used[slot] === 1) this.add(old.slots, slot * 4);
    }
  }
}

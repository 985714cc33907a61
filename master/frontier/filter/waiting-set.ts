/**
 * Fingerprints that are in the journal, but not in a sorted run yet: an exact set that only grows.
 * Open addressing in the order of the keys, so that it can be written as a run without being
 * sorted: a key's place is given by its first four bytes, and if that is taken, it is the next free
 * one behind. 17 bytes a place, of which at least three in sixteen are free. When it grows, each
 * new key moves some of the old ones: all at once would hold the event loop for some 50 ms.
 */
import { firstOf } from '../../store/runs.ts';

const placesMin = 1 << 10;
/** The share of places that keys may have: a key that is not there is looked for in 15 then. */
const fullShare = 13 / 16;
/** Behind the last place, for keys that are displaced: nothing wraps around. */
const tailPlaces = 1 << 10;
/** Old places that a new key moves: all have moved long before the set is full again. */
const movedPlaces = 8;

/** The places that a set had before it grew; those before `at` have moved. */
type Old = {
  readonly words: Uint32Array;
  readonly used: Uint8Array;
  readonly scale: number;
  at: number;
};

export class WaitingSet {
  readonly #most: number;
  #places = 0;
  /** Of a key's first four bytes, as a number, to its place. */
  #scale = 0;
  #words = new Uint32Array(0);
  #used = new Uint8Array(0);
  #count = 0;
  #old: Old | undefined;
  /** While it is read in order: keys of a bucket, by their first four bytes. */
  #firsts = new Float64Array(512);
  #found = new Uint32Array(512);

  /** `keys`: for so many nothing has to be moved. `most`: it takes no more memory than for so many
   *  until more come. */
  constructor(keys = 0, most = 0) {
    this.#most = placesFor(most);
    this.#resize(placesFor(keys));
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    const old = this.#old;
    const oldBytes = old === undefined ? 0 : old.words.byteLength + old.used.byteLength;
    return this.#words.byteLength + this.#used.byteLength + oldBytes;
  }

  /** `words` holds fingerprints; `at` is the index of the first word of one. */
  has(words: Uint32Array, at: number): boolean {
    return this.#used[this.#find(words, at)] === 1 || this.#isOld(words, at);
  }

  /** Returns false if it was there already. */
  add(words: Uint32Array, at: number): boolean {
    const place = this.#find(words, at);
    if (this.#used[place] === 1 || this.#isOld(words, at)) return false;
    if (place + 1 >= this.#used.length || this.#count >= this.#places * fullShare) {
      this.#grow();
      return this.add(words, at);
    }
    this.#put(place, words, at);
    this.#count++;
    if (this.#old !== undefined) this.#move(this.#old, movedPlaces);
    return true;
  }

  /** Forgets all keys, and keeps its memory. */
  clear(): void {
    this.#used.fill(0);
    this.#old = undefined;
    this.#count = 0;
  }

  /** Calls `visit` for each key with first four bytes from `from` up to `to`, in order. Returns how
   *  many there are. */
  between(from: number, to: number, visit: (words: Uint32Array, at: number) => void): number {
    this.#moveAll();
    const end = Math.floor((to - 1) * this.#scale);
    let count = 0;
    // Keys may stand behind their places, as far as the next free one.
    for (let place = Math.floor(from * this.#scale); place < this.#used.length; place++) {
      if (this.#used[place] !== 1) {
        if (place >= end) break;
        continue;
      }
      const first = firstOf(this.#words[place * 4] ?? 0);
      if (first >= from && first < to) this.#sortIn(count++, first, place * 4);
    }
    for (let i = 0; i < count; i++) visit(this.#words, this.#found[i] ?? 0);
    return count;
  }

  /** The keys are almost in order, so that few have to move. */
  #sortIn(count: number, first: number, at: number): void {
    if (count === this.#firsts.length) {
      const [firsts, found] = [this.#firsts, this.#found];
      this.#firsts = new Float64Array(count * 2);
      this.#found = new Uint32Array(count * 2);
      this.#firsts.set(firsts);
      this.#found.set(found);
    }
    let i = count;
    for (; i > 0 && (this.#firsts[i - 1] ?? 0) > first; i--) {
      this.#firsts[i] = this.#firsts[i - 1] ?? 0;
      this.#found[i] = this.#found[i - 1] ?? 0;
    }
    this.#firsts[i] = first;
    this.#found[i] = at;
  }

  /** Returns the place of the fingerprint, or the free place where it belongs. */
  #find(words: Uint32Array, at: number): number {
    return placeOf(this.#words, this.#used, this.#scale, words, at);
  }

  /** True: it is among the old places. */
  #isOld(words: Uint32Array, at: number): boolean {
    const old = this.#old;
    return old !== undefined && old.used[placeOf(old.words, old.used, old.scale, words, at)] === 1;
  }

  #put(place: number, words: Uint32Array, at: number): void {
    this.#used[place] = 1;
    const to = place * 4;
    for (let i = 0; i < 4; i++) this.#words[to + i] = words[at + i] ?? 0;
  }

  /** Its keys are in the old places now, and move bit by bit. */
  #grow(): void {
    this.#moveAll();
    this.#old = { words: this.#words, used: this.#used, scale: this.#scale, at: 0 };
    this.#enlarge();
  }

  #enlarge(): void {
    const places = this.#places * 2;
    this.#resize(this.#places < this.#most ? Math.min(places, this.#most) : places);
  }

  #resize(places: number): void {
    this.#places = places;
    this.#scale = places / 2 ** 32;
    this.#words = new Uint32Array((places + tailPlaces) * 4);
    this.#used = new Uint8Array(places + tailPlaces);
  }

  /** A key of other places: it is not among these, and they may have no room behind them. */
  #take(words: Uint32Array, at: number): void {
    let place = this.#find(words, at);
    while (place + 1 >= this.#used.length) {
      const [all, used] = [this.#words, this.#used];
      this.#enlarge();
      for (let i = 0; i < used.length; i++) if (used[i] === 1) this.#take(all, i * 4);
      place = this.#find(words, at);
    }
    this.#put(place, words, at);
  }

  #moveAll(): void {
    if (this.#old !== undefined) this.#move(this.#old, Number.POSITIVE_INFINITY);
  }

  /** Moves the keys of that many old places, which keep them until all have moved: a key that was
   *  displaced is found only while no place before it is free. */
  #move(old: Old, places: number): void {
    const end = Math.min(old.used.length, old.at + places);
    for (; old.at < end; old.at++) {
      if (old.used[old.at] === 1) this.#take(old.words, old.at * 4);
    }
    if (old.at === old.used.length) this.#old = undefined;
  }
}

function placesFor(keys: number): number {
  return Math.max(placesMin, Math.ceil((keys + 1) / fullShare));
}

/** The place of the fingerprint, or the free place where it belongs. */
function placeOf(
  set: Uint32Array,
  used: Uint8Array,
  scale: number,
  words: Uint32Array,
  at: number,
): number {
  const w0 = words[at] ?? 0;
  let place = Math.floor(firstOf(w0) * scale);
  for (; used[place] === 1; place++) {
    const entry = place * 4;
    if (
      set[entry] === w0 &&
      set[entry + 1] === words[at + 1] &&
      set[entry + 2] === words[at + 2] &&
      set[entry + 3] === words[at + 3]
    ) {
      break;
    }
  }
  return place;
}

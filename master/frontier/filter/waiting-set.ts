/**
 * Fingerprints that are in the journal, but not in a sorted run yet: an exact set that only grows.
 * Open addressing in the order of the keys, so that it can be written as a run without being
 * sorted: a key's place is given by its first four bytes, and if that is taken, it is the next free
 * one behind. 17 bytes a place, of which at least three in sixteen are free. When it grows, or
 * gets the memory of another set, each new key moves some of the old ones: all at once would hold
 * the event loop for some 50 ms.
 */
import { firstOf } from '../../store/runs.ts';

const placesMin = 1 << 10;
/** The share of places that keys may have: a key that is not there is looked for in 15 then. */
const fullShare = 13 / 16;
/** Behind the last place, for keys that are displaced: nothing wraps around. */
const tailPlaces = 1 << 10;
/** Old places that a new key moves: all have moved long before the set is full again. */
const movedPlaces = 8;

type Places = {
  readonly words: Uint32Array;
  readonly used: Uint8Array;
  /** Of a key's first four bytes, as a number, to its place. */
  readonly scale: number;
};

/** The places that a set had before; those before `at` have moved. `heir` gets their memory then. */
type Old = { readonly places: Places; readonly heir: WaitingSet | undefined; at: number };

export class WaitingSet {
  readonly #most: number;
  #places: Places;
  #count = 0;
  #old: Old | undefined;
  /** While it is read in order: keys of a bucket, by their first four bytes. */
  #firsts = new Float64Array(512);
  #found = new Uint32Array(512);

  /** `keys`: for so many nothing has to be moved. `most`: it takes no more memory than for so many
   *  until more come. */
  constructor(keys = 0, most = 0) {
    this.#most = placesFor(most);
    this.#places = makePlaces(placesFor(keys));
  }

  get count(): number {
    return this.#count;
  }

  get bytes(): number {
    return bytesOf(this.#places) + (this.#old === undefined ? 0 : bytesOf(this.#old.places));
  }

  /** `words` holds fingerprints; `at` is the index of the first word of one. */
  has(words: Uint32Array, at: number): boolean {
    return hasAt(this.#places, words, at) || this.#isOld(words, at);
  }

  /** Returns false if it was there already. */
  add(words: Uint32Array, at: number): boolean {
    const { used } = this.#places;
    const place = placeOf(this.#places, words, at);
    if (used[place] === 1 || this.#isOld(words, at)) return false;
    if (place + 1 >= used.length || this.#count >= countOf(this.#places) * fullShare) {
      this.#moveTo(this.#larger(), undefined);
      return this.add(words, at);
    }
    put(this.#places, place, words, at);
    this.#count++;
    if (this.#old !== undefined) this.#move(this.#old, movedPlaces);
    return true;
  }

  /** Forgets all keys, and keeps its memory. */
  clear(): void {
    this.#places.used.fill(0);
    this.#old = undefined;
    this.#count = 0;
  }

  /** Gets the memory of `other`, if that is more: `other` forgets its keys, and gets the memory of
   *  this one once all keys have moved. Returns false if it is not more. */
  exchange(other: WaitingSet): boolean {
    if (countOf(other.#places) <= countOf(this.#places)) return false;
    other.clear();
    this.#moveTo(other.#places, other);
    other.#places = makePlaces(placesMin);
    return true;
  }

  /** Moves all keys that have not moved yet. */
  settle(): void {
    if (this.#old !== undefined) this.#move(this.#old, Number.POSITIVE_INFINITY);
  }

  /** Calls `visit` for each key with first four bytes from `from` up to `to`, in order. Returns how
   *  many there are. */
  between(from: number, to: number, visit: (words: Uint32Array, at: number) => void): number {
    this.settle();
    const { words, used, scale } = this.#places;
    const end = Math.floor((to - 1) * scale);
    let count = 0;
    // Keys may stand behind their places, as far as the next free one.
    for (let place = Math.floor(from * scale); place < used.length; place++) {
      if (used[place] !== 1) {
        if (place >= end) break;
        continue;
      }
      const first = firstOf(words[place * 4] ?? 0);
      if (first >= from && first < to) this.#sortIn(count++, first, place * 4);
    }
    for (let i = 0; i < count; i++) visit(words, this.#found[i] ?? 0);
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

  /** True: it is among the old places. */
  #isOld(words: Uint32Array, at: number): boolean {
    return this.#old !== undefined && hasAt(this.#old.places, words, at);
  }

  /** Its keys are in the old places now, and move bit by bit. */
  #moveTo(places: Places, heir: WaitingSet | undefined): void {
    this.settle();
    this.#old = { places: this.#places, heir, at: 0 };
    this.#places = places;
  }

  /** Twice as many; to the most that it may take it grows from half of that. */
  #larger(): Places {
    const doubled = countOf(this.#places) * 2;
    const half = Math.ceil(this.#most / 2);
    if (doubled < this.#most) return makePlaces(Math.min(doubled, half));
    return makePlaces(doubled < this.#most * 2 ? this.#most : doubled);
  }

  /** A key of other places: it is not among these, and they may have no room behind them. */
  #take(words: Uint32Array, at: number): void {
    let place = placeOf(this.#places, words, at);
    while (place + 1 >= this.#places.used.length) {
      const before = this.#places;
      this.#places = this.#larger();
      for (let i = 0; i < before.used.length; i++) {
        if (before.used[i] === 1) this.#take(before.words, i * 4);
      }
      place = placeOf(this.#places, words, at);
    }
    put(this.#places, place, words, at);
  }

  /** Moves the keys of that many old places, which keep them until all have moved: a key that was
   *  displaced is found only while no place before it is free. */
  #move(old: Old, count: number): void {
    const { words, used } = old.places;
    const end = Math.min(used.length, old.at + count);
    for (; old.at < end; old.at++) {
      if (used[old.at] === 1) this.#take(words, old.at * 4);
    }
    if (old.at < used.length) return;
    this.#old = undefined;
    if (old.heir === undefined) return;
    used.fill(0);
    old.heir.#places = old.places;
  }
}

function makePlaces(count: number): Places {
  return {
    words: new Uint32Array((count + tailPlaces) * 4),
    used: new Uint8Array(count + tailPlaces),
    scale: count / 2 ** 32,
  };
}

function countOf({ used }: Places): number {
  return used.length - tailPlaces;
}

function bytesOf({ words, used }: Places): number {
  return words.byteLength + used.byteLength;
}

function placesFor(keys: number): number {
  return Math.max(placesMin, Math.ceil((keys + 1) / fullShare));
}

/** The place of the fingerprint, or the free place where it belongs. */
function placeOf(places: Places, words: Uint32Array, at: number): number {
  const { words: all, used } = places;
  const w0 = words[at] ?? 0;
  let place = Math.floor(firstOf(w0) * places.scale);
  for (; used[place] === 1; place++) {
    const entry = place * 4;
    if (
      all[entry] === w0 &&
      all[entry + 1] === words[at + 1] &&
      all[entry + 2] === words[at + 2] &&
      all[entry + 3] === words[at + 3]
    ) {
      break;
    }
  }
  return place;
}

function hasAt(places: Places, words: Uint32Array, at: number): boolean {
  return places.used[placeOf(places, words, at)] === 1;
}

function put({ words: all, used }: Places, place: number, words: Uint32Array, at: number): void {
  used[place] = 1;
  const to = place * 4;
  for (let i = 0; i < 4; i++) all[to + i] = words[at + i] ?? 0;
}

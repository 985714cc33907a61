/** A binary heap whose items know their place, so that one of them can move or leave. */

type HeapItem = { heapIndex: number };

export class Heap<T extends HeapItem> {
  readonly #items: T[] = [];
  readonly #before: (a: T, b: T) => boolean;

  /** An item outside of a heap has `heapIndex` -1. */
  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  /** Counts the items of which `holds` is true, up to `max`. If it is true of one, it must be true of
   *  all that come before it. */
  countFirst(holds: (item: T) => boolean, max: number): number {
    const places = [0];
    let found = 0;
    for (let at = places.pop(); at !== undefined && found < max; at = places.pop()) {
      const item = this.#items[at];
      if (item === undefined || !holds(item)) continue;
      found++;
      places.push(2 * at + 1, 2 * at + 2);
    }
    return found;
  }

  /** Adds the item, or moves it after its order changed. Among equals it stays where it is. */
  set(item: T): void {
    const { heapIndex } = item;
    this.#rise(item, heapIndex < 0 ? this.#items.length : heapIndex);
    if (item.heapIndex === heapIndex) this.#sink(item);
  }

  pop(): T | undefined {
    const first = this.#items[0];
    if (first !== undefined) this.remove(first);
    return first;
  }

  /** Takes the item out, if it is in this heap. */
  remove(item: T): void {
    const index = item.heapIndex;
    if (this.#items[index] !== item) return;
    item.heapIndex = -1;
    const last = this.#items.pop();
    if (last !== undefined && last !== item) this.#rise(last, this.#vacate(index));
  }

  /** In no particular order. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#items.values();
  }

  /** Fills the place from below, up to a leaf. Returns the leaf's place, which is free then. What
   *  fills a place comes from the bottom, and most often belongs there: to look for its place from
   *  there takes half of the comparisons. Source: Wegener, "Bottom-up heapsort" (1993). */
  #vacate(index: number): number {
    const items = this.#items;
    for (let at = index; ; ) {
      let below = at * 2 + 1;
      let child = items[below];
      if (child === undefined) return at;
      const right = items[below + 1];
      if (right !== undefined && this.#before(right, child)) {
        child = right;
        below++;
      }
      items[at] = child;
      child.heapIndex = at;
      at = below;
    }
  }

  /** Moves the item down to its place. */
  #sink(item: T): void {
    const items = this.#items;
    let at = item.heapIndex;
    while (true) {
      let below = at * 2 + 1;
      let child = items[below];
      if (child === undefined) break;
      const right = items[below + 1];
      if (right !== undefined && this.#before(right, child)) {
        child = right;
        below++;
      }
      if (!this.#before(child, item)) break;
      items[at] = child;
      child.heapIndex = at;
      at = below;
    }
    items[at] = item;
    item.heapIndex = at;
  }

  /** Places the item at a free place, or above it. */
  #rise(item: T, free: number): void {
    const items = this.#items;
    let at = free;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = items[above];
      if (parent === undefined || !this.#before(item, parent)) break;
      items[at] = parent;
      parent.heapIndex = at;
      at = above;
    }
    items[at] = item;
    item.heapIndex = at;
  }
}

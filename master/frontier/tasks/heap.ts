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

  /** Adds the item, or moves it after its order changed. */
  set(item: T): void {
    if (item.heapIndex < 0) {
      item.heapIndex = this.#items.length;
      this.#items.push(item);
    }
    this.#up(item);
    this.#down(item);
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
    if (last === undefined || last === item) return;
    this.#items[index] = last;
    last.heapIndex = index;
    this.#up(last);
    this.#down(last);
  }

  /** In no particular order. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#items.values();
  }

  #up(item: T): void {
    while (item.heapIndex > 0) {
      const parent = this.#items[(item.heapIndex - 1) >> 1];
      if (parent === undefined || !this.#before(item, parent)) return;
      this.#swap(item, parent);
    }
  }

  #down(item: T): void {
    while (true) {
      const left = this.#items[item.heapIndex * 2 + 1];
      if (left === undefined) return;
      const right = this.#items[item.heapIndex * 2 + 2];
      const child = right !== undefined && this.#before(right, left) ? right : left;
      if (!this.#before(child, item)) return;
      this.#swap(child, item);
    }
  }

  #swap(a: T, b: T): void {
    const index = a.heapIndex;
    a.heapIndex = b.heapIndex;
    b.heapIndex = index;
    this.#items[a.heapIndex] = a;
    this.#items[b.heapIndex] = b;
  }
}

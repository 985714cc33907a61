/**
 * The items of one user queue, first in first out, in memory and in the store.
 *
 *     append --> fresh --commit--> in a row of the store --all of the row finished--> deleted
 *                  |                    |
 *                  +------ take --------+--> with the taker --finish--> gone
 *                            ^                    |
 *                            +------ giveBack ----+
 *
 * An item can be taken at once; one that is finished before its commit is never written. The items
 * of one commit share rows, so that a thousand puts cost some dozens of writes; a row is rewritten
 * when some of its items are finished. In memory are the fresh items, taken ones (large ones
 * without their values), and a window of the next ones.
 */
import assert from 'node:assert/strict';
import { decodeItemRow, encodeItemRow, itemKeys, parseItemKey } from '../store/records.ts';
import { batches, type Change, type Store } from '../store/store.ts';
import { type ItemBudget, largeBytes } from './item-budget.ts';

export type Item = {
  readonly id: number;
  /** Approximate size in memory and in a reply. */
  readonly bytes: number;
  /** Undefined: it is only in the store, in a row of its own. */
  value: Uint8Array | undefined;
  /** Its taker has received its value. */
  isOut: boolean;
  /** Its row in the store, from the commit on that writes it. Only this file sets it. */
  row: Row | undefined;
  isFinished: boolean;
};

/** A taken item: it has its value until `rest`. */
export type TakenItem = Item & { value: Uint8Array };

/** Unfinished items whose ids follow each other; its key is the id of the first one. So they have
 *  the same ids again after a start: notes on items are by id. */
type Row = { key: number; items: Item[] };

/** A row is always rewritten whole, so it is short. */
const rowItemsMax = 64;
const rowBytesMax = largeBytes;
/** Limits of the window; one refill may exceed the bytes. */
const windowMax = 1024;
const windowBytesMax = 8 << 20;
const refillRows = 8;
/** Bytes of one commit, which one item may exceed: a commit keeps several copies in memory. */
const commitBytesMax = 16 << 20;
/** Unwritten bytes beyond which a put has to wait. */
const freshBytesMax = 16 << 20;

export class QueueItems {
  readonly #store: Store;
  readonly #budget: ItemBudget;
  readonly #keyOf: (id: number) => Buffer;
  #window: Item[] = [];
  #windowBytes = 0;
  /** This item and all before it have been in the window or taken. */
  #lastLoaded: Item | undefined;
  /** No item up to this one is fresh. */
  #storedTo = 0;
  #nextId = 1;
  #size = 0;
  /** All items beyond `storedTo`, in order; those of commits under way first. */
  #fresh: Item[] = [];
  #freshBytes = 0;
  #gatheredCount = 0;
  /** Rows that hold finished items. */
  readonly #touched = new Set<Row>();

  constructor(name: string, store: Store, budget: ItemBudget) {
    this.#store = store;
    this.#budget = budget;
    this.#keyOf = itemKeys(name);
  }

  /** Number of waiting items. */
  get size(): number {
    return this.#size;
  }

  /** The item that was put last. */
  get lastId(): number {
    return this.#nextId - 1;
  }

  /** True: the disk does not keep up. */
  get isBehind(): boolean {
    return this.#freshBytes > freshBytesMax;
  }

  /** Counts the stored items, at the start. */
  load(): void {
    const all = { from: this.#keyOf(0), to: this.#keyOf(2 ** 48 - 1) };
    for (const rows of batches(this.#store, 'items', all, 256)) {
      for (const { key, value } of rows) {
        const count = decodeItemRow(value).length;
        this.#size += count;
        this.#storedTo = parseItemKey(key).seq + count - 1;
      }
    }
    this.#nextId = this.#storedTo + 1;
  }

  append(value: Uint8Array): void {
    const item = makeItem(this.#nextId++, value, undefined);
    this.#fresh.push(item);
    this.#freshBytes += item.bytes;
    this.#size++;
    // Otherwise it is loaded later, in order.
    const isNext = this.#loadedTo + 1 === item.id;
    if (isNext && !this.#isWindowFull && !this.#budget.isShort) this.#load(item);
  }

  /** Takes the next item; the caller must finish it or give it back. */
  takeOne(): TakenItem | undefined {
    return this.take(1, 0)[0];
  }

  /** Takes the next items; the first one whatever its size. */
  take(countMax: number, bytesMax: number): TakenItem[] {
    this.#fill(countMax);
    let bytes = 0;
    let count = 0;
    for (const item of this.#window) {
      if (count === countMax || (count > 0 && bytes + item.bytes > bytesMax)) break;
      bytes += item.bytes;
      count++;
    }
    this.#countWindow(-bytes);
    this.#size -= count;
    return this.#window.splice(0, count).map((item) => this.#whole(item));
  }

  /** The takers have received the values, so values with a row of their own leave memory. */
  rest(items: readonly Item[]): void {
    for (const item of items) {
      item.isOut = true;
      if (item.id <= this.#storedTo) forgetValue(item);
    }
  }

  /** Puts items back, before all later ones. */
  giveBack(items: readonly Item[]): void {
    this.#size += items.length;
    for (const item of items) {
      item.isOut = false;
      this.#countWindow(item.bytes);
    }
    this.#window = [...items, ...this.#window].sort((a, b) => a.id - b.id);
  }

  /** Returns the value of a taken item, which may be in the store alone. */
  valueOf(item: Item): Uint8Array {
    return this.#whole(item).value;
  }

  /** Deletes a taken item, on the disk with the next commit. */
  finish(item: Item): void {
    item.isFinished = true;
    if (item.row !== undefined) this.#touched.add(item.row);
  }

  /** Returns the changes for the next commit; commits are flushed in the order of their gathering.
   *  `upTo`: the last item that is then on the disk or in the commit. */
  gather(): { changes: Change[]; upTo: number; flushed: () => void } {
    const changes: Change[] = [];
    for (const row of this.#touched) {
      const { key } = row;
      const rows = splitRow(row);
      if (rows[0]?.key !== key) changes.push(this.#changeOf({ key, items: [] }));
      for (const part of rows) changes.push(this.#changeOf(part));
    }
    this.#touched.clear();
    const gathered: Item[] = [];
    for (let bytes = 0; bytes < commitBytesMax; ) {
      const item = this.#fresh[this.#gatheredCount];
      if (item === undefined) break;
      gathered.push(item);
      this.#gatheredCount++;
      bytes += item.bytes;
    }
    for (const row of rowsOf(gathered)) changes.push(this.#changeOf(row));
    const upTo = this.#fresh[this.#gatheredCount - 1]?.id ?? this.#storedTo;
    return { changes, upTo, flushed: () => this.#flushed(gathered.length) };
  }

  #changeOf({ key, items }: Row): Change {
    const values = items.map((item) => this.#whole(item).value);
    return {
      table: 'items',
      key: this.#keyOf(key),
      value: values.length === 0 ? undefined : encodeItemRow(values),
    };
  }

  #flushed(count: number): void {
    const stored = this.#fresh.splice(0, count);
    this.#gatheredCount -= count;
    this.#storedTo = stored.at(-1)?.id ?? this.#storedTo;
    for (const item of stored) {
      this.#freshBytes -= item.bytes;
      if (item.isOut) forgetValue(item);
    }
  }

  #whole(item: Item): TakenItem {
    if (item.value === undefined) {
      const row = this.#store.get('items', this.#keyOf(item.id));
      assert(row !== undefined, 'a large item is in a row of its own');
      item.value = decodeItemRow(row)[0];
    }
    return item as TakenItem;
  }

  #countWindow(bytes: number): void {
    this.#windowBytes += bytes;
    this.#budget.windowBytes += bytes;
  }

  get #loadedTo(): number {
    return this.#lastLoaded?.id ?? 0;
  }

  get #isWindowFull(): boolean {
    return this.#window.length >= windowMax || this.#windowBytes >= windowBytesMax;
  }

  #load(item: Item): void {
    this.#window.push(item);
    this.#countWindow(item.bytes);
    this.#lastLoaded = item;
  }

  /** Fills the window up to `count` items, within its limits. */
  #fill(count: number): void {
    const isWanted = () => this.#window.length < count && !this.#isWindowFull;
    if (!isWanted()) return;
    while (isWanted() && this.#loadedTo < this.#storedTo) {
      const items = this.#nextStored();
      if (items.length === 0) break;
      for (const item of items) this.#load(item);
    }
    const [oldest] = this.#fresh;
    if (oldest === undefined) return;
    for (let at = this.#loadedTo + 1 - oldest.id; isWanted(); at++) {
      const item = this.#fresh[at];
      if (item === undefined) return;
      this.#load(item);
    }
  }

  /** Returns the rest of the row in which the window ends, else some further rows. The store may
   *  already show items that are fresh here, so reading stops before them. */
  #nextStored(): Item[] {
    const loadedTo = this.#loadedTo;
    const rest = this.#lastLoaded?.row?.items.filter(({ id }) => id > loadedTo) ?? [];
    if (rest.length > 0) return rest;
    const rows = this.#store.range('items', {
      from: this.#keyOf(loadedTo),
      after: true,
      to: this.#keyOf(this.#storedTo + 1),
      limit: this.#budget.isShort ? 1 : refillRows,
    });
    return rows.flatMap(({ key, value }) => {
      const first = parseItemKey(key).seq;
      const row: Row = { key: first, items: [] };
      row.items = decodeItemRow(value).map((itemValue, index) => {
        return makeItem(first + index, itemValue, row);
      });
      return row.items;
    });
  }
}

/** Groups the items to write into rows. */
function rowsOf(gathered: readonly Item[]): Row[] {
  const rows: Row[] = [];
  let row: Row | undefined;
  let bytes = 0;
  for (const item of gathered) {
    if (item.isFinished) continue;
    bytes += item.bytes;
    const isNext = row?.items.at(-1)?.id === item.id - 1;
    if (row === undefined || !isNext || row.items.length === rowItemsMax || bytes > rowBytesMax) {
      row = { key: item.id, items: [] };
      rows.push(row);
      bytes = item.bytes;
    }
    row.items.push(item);
    item.row = row;
  }
  return rows;
}

/** Drops the finished items, and returns a row for each run of others. The last one is the row
 *  itself: items that are not in the window yet are found in it. */
function splitRow(row: Row): Row[] {
  const runs: Item[][] = [];
  let last: Item | undefined;
  for (const item of row.items) {
    if (item.isFinished) continue;
    if (last === undefined || item.id !== last.id + 1) runs.push([]);
    runs.at(-1)?.push(item);
    last = item;
  }
  row.items = runs.pop() ?? [];
  row.key = row.items[0]?.id ?? row.key;
  const rows = runs.map((items): Row => ({ key: items[0]?.id ?? 0, items }));
  for (const part of rows) for (const item of part.items) item.row = part;
  if (row.items.length > 0) rows.push(row);
  return rows;
}

function makeItem(id: number, value: Uint8Array, row: Row | undefined): Item {
  return { id, bytes: value.length + 64, value, isOut: false, row, isFinished: false };
}

/** For an item with a row of its own: see `rowsOf`. */
function forgetValue(item: Item): void {
  if (item.bytes > rowBytesMax) item.value = undefined;
}

/**
 * The items of one user queue, first in first out, in memory and in the store.
 *
 *     append --> fresh --commit--> in a row of the store --all of the row finished--> deleted
 *                  |                    |
 *                  +------ take --------+--> with the taker --finish--> gone
 *                            ^                    |
 *                            +------ giveBack ----+
 *
 * An item can be had from its first moment; one that is finished before its commit is never
 * written. What a commit takes along shares rows, so that a thousand puts cost some dozens of
 * writes; a row of which some items are finished is written again without them. In memory are the
 * fresh ones, those with takers (large ones without their values), and a window of those that come
 * next.
 */
import assert from 'node:assert/strict';
import { decodeItemRow, encodeItemRow, itemKeys, parseItemKey } from '../store/records.ts';
import { batches, type Change, type Store } from '../store/store.ts';
import { type ItemRoom, largeBytes } from './item-room.ts';

export type Item = {
  readonly id: number;
  /** What it takes in memory and in a reply, about. */
  readonly bytes: number;
  /** Undefined: it is in the store alone, in a row of its own. */
  value: Uint8Array | undefined;
  /** Its taker was told its value. */
  isOut: boolean;
  /** Where it lies in the store, from the commit on that takes it there. Set here alone. */
  row: Row | undefined;
  isFinished: boolean;
};

/** One that was taken: its value is there until `rest`. */
export type TakenItem = Item & { value: Uint8Array };

/** Items that are not finished, in order; its key is the id of what was its first one. */
type Row = { readonly key: number; items: Item[] };

/** A row is written again whole, so it is not long. */
const rowItemsMax = 64;
const rowBytesMax = largeBytes;
/** The window in items and in bytes; the latter exceeded by one refill. */
const windowMax = 1024;
const windowBytesMax = 8 << 20;
const refillRows = 8;
/** Bytes of one commit, exceeded by one item: a commit holds what it writes several times. */
const commitBytesMax = 16 << 20;
/** Bytes that may be on their way to the disk before a put has to wait. */
const freshBytesMax = 16 << 20;

export class QueueItems {
  readonly #store: Store;
  readonly #room: ItemRoom;
  readonly #keyOf: (id: number) => Buffer;
  #window: Item[] = [];
  #windowBytes = 0;
  /** It and all before it are in the window or taken, or were. */
  #lastLoaded: Item | undefined;
  /** Nothing up to this one is fresh. */
  #storedTo = 0;
  #nextId = 1;
  #size = 0;
  /** All beyond `storedTo`, in order; those of commits under way first. */
  #fresh: Item[] = [];
  #freshBytes = 0;
  #gatheredCount = 0;
  /** Rows that hold finished items. */
  readonly #touched = new Set<Row>();

  constructor(name: string, store: Store, room: ItemRoom) {
    this.#store = store;
    this.#room = room;
    this.#keyOf = itemKeys(name);
  }

  /** Items that wait. */
  get size(): number {
    return this.#size;
  }

  /** The item that was put last. */
  get lastId(): number {
    return this.#nextId - 1;
  }

  /** The disk does not keep up. */
  get isBehind(): boolean {
    return this.#freshBytes > freshBytesMax;
  }

  /** Counts what is in the store, at the start. */
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
    // Otherwise it is loaded in its turn.
    const isNext = this.#loadedTo + 1 === item.id;
    if (isNext && !this.#isWindowFull && !this.#room.isShort) this.#load(item);
  }

  /** The next one: it is to be finished or given back. */
  takeOne(): TakenItem | undefined {
    return this.take(1, 0)[0];
  }

  /** The next ones; the first is taken whatever its size. */
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

  /** Their takers were told the values: those that the store has to itself need not be here. */
  rest(items: readonly Item[]): void {
    for (const item of items) {
      item.isOut = true;
      if (item.id <= this.#storedTo) forgetValue(item);
    }
  }

  /** They wait again, before all that came later. */
  giveBack(items: readonly Item[]): void {
    this.#size += items.length;
    for (const item of items) {
      item.isOut = false;
      this.#countWindow(item.bytes);
    }
    this.#window = [...items, ...this.#window].sort((a, b) => a.id - b.id);
  }

  /** Forgets one that was taken, on the disk with the next commit. */
  finish(item: Item): void {
    item.isFinished = true;
    if (item.row !== undefined) this.#touched.add(item.row);
  }

  /** What the next commit has to do; commits are flushed in the order of their gathering. `upTo`:
   *  the last item that is on the disk then, or in the commit. */
  gather(): { changes: Change[]; upTo: number; flushed: () => void } {
    const changes: Change[] = [];
    for (const row of this.#touched) {
      row.items = row.items.filter(({ isFinished }) => !isFinished);
      changes.push(this.#changeOf(row));
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
    this.#room.windowBytes += bytes;
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

  /** Brings the window to `count` items, if it may have and there are so many. */
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

  /** The rest of the row that the window ends in, else some rows more. The store may show what is
   *  still fresh here: it is read up to that. */
  #nextStored(): Item[] {
    const loadedTo = this.#loadedTo;
    const rest = this.#lastLoaded?.row?.items.filter(({ id }) => id > loadedTo) ?? [];
    if (rest.length > 0) return rest;
    const rows = this.#store.range('items', {
      from: this.#keyOf(loadedTo),
      after: true,
      to: this.#keyOf(this.#storedTo + 1),
      limit: this.#room.isShort ? 1 : refillRows,
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

/** Puts the items that are to be written into rows. */
function rowsOf(gathered: readonly Item[]): Row[] {
  const rows: Row[] = [];
  let row: Row | undefined;
  let bytes = 0;
  for (const item of gathered) {
    if (item.isFinished) continue;
    bytes += item.bytes;
    if (row === undefined || row.items.length === rowItemsMax || bytes > rowBytesMax) {
      row = { key: item.id, items: [] };
      rows.push(row);
      bytes = item.bytes;
    }
    row.items.push(item);
    item.row = row;
  }
  return rows;
}

function makeItem(id: number, value: Uint8Array, row: Row | undefined): Item {
  return { id, bytes: value.length + 64, value, isOut: false, row, isFinished: false };
}

/** One that has its row to itself: see `rowsOf`. */
function forgetValue(item: Item): void {
  if (item.bytes > rowBytesMax) item.value = undefined;
}

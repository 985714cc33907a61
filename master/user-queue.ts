/**
 * One user queue: durable, first in first out, shared by all connected programs.
 *
 *     put --> waiting --get--> held by a session --done--> gone
 *                ^                  |
 *                +--- session ends -+
 *
 * An item can be had from its first moment. It is `fresh` until the next commit takes it to the
 * disk; one that is done before never goes there. In memory are the fresh ones, the held ones (once
 * they are on the disk, without their values), and a window of those that come next; the rest is in
 * the store alone. A queue with a maximum has waiters for room, too.
 */
import assert from 'node:assert/strict';
import { CommandError } from '../shared/errors.ts';
import { limits } from '../shared/protocol.ts';
import type { ItemRoom } from './item-room.ts';
import type { Part } from './store/group-commit.ts';
import { itemKeys, parseItemKey } from './store/records.ts';
import type { Change, Store } from './store/store.ts';

export type Item = {
  readonly id: number;
  /** What it takes in memory and in a reply, about. */
  readonly bytes: number;
  /** Undefined: it is to be read from the store. */
  value: Uint8Array | undefined;
  /** Somebody has it, and was told its value. */
  isOut: boolean;
  /** `stored`: on the disk, or on its way. `done`: gone before it went there. Set here alone. */
  state: 'fresh' | 'stored' | 'done';
};

/** One that was taken: its value is there until `rest`. */
export type TakenItem = Item & { value: Uint8Array };

/** Whoever can hold items: a session. */
export type ItemHolder = object;

type Waiter = {
  readonly holder: ItemHolder;
  /** So many, at most. */
  readonly count: () => number;
  timer: NodeJS.Timeout | undefined;
  /** Its wait is over: these are what it has taken. */
  readonly settle: (items: TakenItem[]) => void;
};

/** Items of one queue in memory that come next; and their bytes, exceeded by one refill. */
const windowMax = 1024;
const windowBytesMax = 8 << 20;
const refillCount = 16;
/** Bytes of one queue that may be on their way to the disk before a put has to wait. */
const freshBytesMax = 16 << 20;
/** The longest wait that a timer knows; a longer one has no end. */
const timerMsMax = 2 ** 31 - 1;

export class UserQueue {
  readonly name: string;
  readonly #store: Store;
  readonly #room: ItemRoom;
  readonly #countMax: number;
  readonly #onChanged: (queue: UserQueue) => void;
  readonly #keyOf: (id: number) => Buffer;
  #window: Item[] = [];
  #windowBytes = 0;
  /** Everything up to this one is in the window or held, or was. */
  #loadedTo = 0;
  /** Nothing up to this one is fresh: it is in the store, or gone. */
  #storedTo = 0;
  #nextId = 1;
  #size = 0;
  /** Every item beyond `storedTo`, in order; those of commits under way first. */
  #fresh: Item[] = [];
  #freshBytes = 0;
  #gatheredCount = 0;
  /** Items in the store that the next commit deletes. */
  #doneIds: number[] = [];
  readonly #held = new Map<ItemHolder, Map<number, Item>>();
  readonly #waiters = new Set<Waiter>();
  #waitingForCommit: (() => void)[] = [];
  readonly #waitingForRoom = new Set<() => void>();
  #isClosed = false;

  /** `onChanged` says that there is something for the next commit. */
  constructor(
    name: string,
    options: {
      store: Store;
      room: ItemRoom;
      countMax: number;
      onChanged: (queue: UserQueue) => void;
    },
  ) {
    this.name = name;
    this.#store = options.store;
    this.#room = options.room;
    this.#countMax = options.countMax;
    this.#onChanged = options.onChanged;
    this.#keyOf = itemKeys(name);
  }

  /** Items that wait. */
  get size(): number {
    return this.#size;
  }

  /** Has as many items as it may have. */
  get isFull(): boolean {
    return this.#size >= this.#countMax;
  }

  /** The disk does not keep up: who puts has to wait for the commit. */
  get isBehind(): boolean {
    return this.#freshBytes > freshBytesMax;
  }

  /** Resolves when all that was put and done so far is on the disk. */
  committed(): Promise<void> {
    this.#onChanged(this);
    return new Promise((resolve) => this.#waitingForCommit.push(resolve));
  }

  /** Counts what is in the store. */
  load(): void {
    let from = this.#keyOf(0);
    const to = this.#keyOf(2 ** 48 - 1);
    for (let after = false; ; after = true) {
      const rows = this.#store.range('items', { from, after, to, limit: 4096 });
      const last = rows.at(-1);
      if (last === undefined) return;
      this.#size += rows.length;
      this.#storedTo = parseItemKey(last.key).seq;
      this.#nextId = this.#storedTo + 1;
      from = last.key;
    }
  }

  /** Appends a value, on the disk with the next commit. */
  add(value: Uint8Array): void {
    this.#append(value);
    if (this.#waiters.size > 0) this.#serve();
    this.#onChanged(this);
  }

  #append(value: Uint8Array): void {
    const item = makeItem(this.#nextId++, value, 'fresh');
    this.#fresh.push(item);
    this.#freshBytes += item.bytes;
    this.#size++;
    // Otherwise it is loaded in its turn.
    if (this.#loadedTo + 1 === item.id && !this.#isWindowFull && !this.#room.isShort) {
      this.#push(item);
    }
  }

  /** Appends values; resolves when they are on the disk. */
  put(values: readonly Uint8Array[]): Promise<void> {
    for (const value of values) this.#append(value);
    this.#serve();
    return this.committed();
  }

  /** Appends one value as soon as there is room; false after `waitMs` without. */
  async addWithin(value: Uint8Array, waitMs: number, signal: AbortSignal): Promise<boolean> {
    const deadline = performance.now() + waitMs;
    while (this.isFull) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || this.#isClosed || signal.aborted) return false;
      await this.#roomMade(leftMs, signal);
    }
    // In the same turn: the next one who waits must see it.
    this.add(value);
    return true;
  }

  /** Resolves when an item was taken, or the wait is over. */
  #roomMade(waitMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = waitMs <= timerMsMax ? setTimeout(() => done(), waitMs) : undefined;
      const done = () => {
        clearTimeout(timer);
        this.#waitingForRoom.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#waitingForRoom.add(done);
      signal.addEventListener('abort', done);
    });
  }

  /** The next item, if there is one: the caller has to `finish` it or to give it back. */
  take(): TakenItem | undefined {
    // Who waits has been given all that there is, so nobody is passed by.
    return this.#takeUpTo(1)[0];
  }

  /** Those who took them were told their values, which the store has, or will have. */
  rest(items: readonly Item[]): void {
    for (const item of items) {
      item.isOut = true;
      if (item.id <= this.#storedTo) item.value = undefined;
    }
  }

  /** As `take`, when the first one comes; undefined after `waitMs`. */
  async takeWithin(waiter: ItemHolder, waitMs: number): Promise<TakenItem | undefined> {
    const [item] = await this.#wait(waiter, () => 1, waitMs);
    return item;
  }

  /** Up to `count` items, now or when the first comes; [] after `waitMs`. The holder has them
   *  until it says `done` or ends.
   *  @throws CommandError E_QUEUE_FULL the holder has too much already */
  get(holder: ItemHolder, count: number, waitMs: number): Promise<TakenItem[]> {
    if (this.#room.leftFor(holder) === 0) {
      throw new CommandError('E_QUEUE_FULL', 'this session holds too much: say queue.done first');
    }
    const hold = (items: Item[]) => this.#hold(holder, items);
    const countMax = () => Math.max(1, Math.min(count, this.#room.leftFor(holder)));
    return this.#wait(holder, countMax, waitMs, hold);
  }

  /** `onTaken` is told in the same turn. */
  #wait(
    holder: ItemHolder,
    count: Waiter['count'],
    waitMs: number,
    onTaken: (items: Item[]) => void = () => {},
  ): Promise<TakenItem[]> {
    return new Promise((resolve) => {
      const settle = (items: TakenItem[]) => {
        clearTimeout(waiter.timer);
        this.#waiters.delete(waiter);
        onTaken(items);
        resolve(items);
      };
      const waiter: Waiter = { holder, count, settle, timer: undefined };
      this.#waiters.add(waiter);
      this.#serve();
      if (!this.#waiters.has(waiter)) return;
      if (waitMs === 0) settle([]);
      else if (waitMs <= timerMsMax) waiter.timer = setTimeout(() => settle([]), waitMs);
    });
  }

  #hold(holder: ItemHolder, items: readonly Item[]): void {
    if (items.length === 0) return;
    let held = this.#held.get(holder);
    if (held === undefined) {
      held = new Map();
      this.#held.set(holder, held);
    }
    for (const item of items) {
      held.set(item.id, item);
      this.#room.hold(holder, item.bytes);
    }
  }

  /** Forgets items that the holder has; resolves when the disk has forgotten them. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    const held = this.#held.get(holder);
    for (const id of ids) {
      const item = held?.get(id);
      if (item === undefined) continue;
      held?.delete(id);
      this.#room.release(holder, item.bytes);
      this.finish(item);
    }
    if (held?.size === 0) this.#held.delete(holder);
    return this.committed();
  }

  /** Forgets an item that was taken, on the disk with the next commit. */
  finish(item: Item): void {
    if (item.state === 'stored') this.#doneIds.push(item.id);
    else item.state = 'done';
    this.#onChanged(this);
  }

  /** Items that were taken wait again, before all that came later. */
  giveBack(items: readonly Item[]): void {
    this.#size += items.length;
    for (const item of items) {
      item.isOut = false;
      this.#countWindow(item.bytes);
    }
    this.#window = [...items, ...this.#window].sort((a, b) => a.id - b.id);
    this.#serve();
  }

  removeHolder(holder: ItemHolder): void {
    for (const waiter of this.#waiters) {
      if (waiter.holder !== holder) continue;
      // Nobody is there to be told.
      clearTimeout(waiter.timer);
      this.#waiters.delete(waiter);
    }
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#held.delete(holder);
    for (const item of held.values()) this.#room.release(holder, item.bytes);
    this.giveBack([...held.values()]);
  }

  close(): void {
    for (const waiter of this.#waiters) waiter.settle([]);
    this.#isClosed = true;
    this.#wakeForRoom();
  }

  /** What the next commit has to do for this queue. */
  gather(): Part {
    const changes: Change[] = [];
    const gathered = this.#fresh.length - this.#gatheredCount;
    for (const item of this.#fresh.slice(this.#gatheredCount)) {
      if (item.state === 'done') continue;
      item.state = 'stored';
      changes.push({ table: 'items', key: this.#keyOf(item.id), value: item.value });
    }
    for (const id of this.#doneIds) {
      changes.push({ table: 'items', key: this.#keyOf(id), value: undefined });
    }
    this.#gatheredCount += gathered;
    this.#doneIds = [];
    const waiting = this.#waitingForCommit;
    this.#waitingForCommit = [];
    return { changes, done: () => this.#flushed(gathered, waiting) };
  }

  /** Commits end in order, so these are the oldest fresh ones. */
  #flushed(count: number, waiting: readonly (() => void)[]): void {
    const stored = this.#fresh.splice(0, count);
    this.#gatheredCount -= count;
    this.#storedTo = stored.at(-1)?.id ?? this.#storedTo;
    for (const item of stored) {
      this.#freshBytes -= item.bytes;
      if (item.isOut) item.value = undefined;
    }
    for (const resolve of waiting) resolve();
  }

  /** Everybody who waits for room looks again, in turn. */
  #wakeForRoom(): void {
    for (const wake of this.#waitingForRoom) wake();
  }

  #serve(): void {
    for (const waiter of this.#waiters) {
      const items = this.#takeUpTo(waiter.count());
      if (items.length === 0) return;
      waiter.settle(items);
    }
  }

  /** The next items, as many as one reply takes. */
  #takeUpTo(countMax: number): TakenItem[] {
    this.#fill(countMax);
    let bytes = 0;
    let count = 0;
    for (const item of this.#window) {
      if (count === countMax || (count > 0 && bytes + item.bytes > limits.queueReplyBytesMax)) {
        break;
      }
      bytes += item.bytes;
      count++;
    }
    const items = this.#window.splice(0, count);
    this.#countWindow(-bytes);
    this.#size -= count;
    if (this.#waitingForRoom.size > 0) this.#wakeForRoom();
    return items.map((item) => this.#whole(item));
  }

  #whole(item: Item): TakenItem {
    const value = item.value ?? this.#store.get('items', this.#keyOf(item.id));
    assert(value !== undefined, 'an item that was given back is in the store');
    return Object.assign(item, { value });
  }

  get #isWindowFull(): boolean {
    return this.#window.length >= windowMax || this.#windowBytes >= windowBytesMax;
  }

  #push(item: Item): void {
    this.#window.push(item);
    this.#countWindow(item.bytes);
    this.#loadedTo = item.id;
  }

  #countWindow(bytes: number): void {
    this.#windowBytes += bytes;
    this.#room.windowBytes += bytes;
  }

  /** Brings the window to `count` items, if it may have and there are so many. */
  #fill(count: number): void {
    const isWanted = () => this.#window.length < count && !this.#isWindowFull;
    if (!isWanted()) return;
    while (isWanted() && this.#loadedTo < this.#storedTo) this.#loadStored();
    const [oldest] = this.#fresh;
    if (oldest === undefined) return;
    for (let at = this.#loadedTo + 1 - oldest.id; isWanted(); at++) {
      const item = this.#fresh[at];
      if (item === undefined) return;
      this.#push(item);
    }
  }

  /** Some items more. The store may show what is still fresh here: it is read up to that. */
  #loadStored(): void {
    const limit = this.#room.isShort ? 1 : refillCount;
    const rows = this.#store.range('items', {
      from: this.#keyOf(this.#loadedTo),
      after: true,
      to: this.#keyOf(this.#storedTo + 1),
      limit,
    });
    for (const { key, value } of rows) {
      this.#push(makeItem(parseItemKey(key).seq, value, 'stored'));
    }
    if (rows.length < limit) this.#loadedTo = this.#storedTo;
  }
}

function makeItem(id: number, value: Uint8Array, state: Item['state']): Item {
  return { id, bytes: value.length + 64, value, isOut: false, state };
}

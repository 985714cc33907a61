/**
 * One user queue: durable, first in first out, shared by all connected programs.
 *
 *     put --> waiting --get--> held by a session --done--> gone
 *                ^                  |
 *                +--- session ends -+
 *
 * An item can be had from its first moment. It is `fresh` until the next commit takes it to the
 * disk; one that is done before never goes there. In memory are the fresh ones, the held ones, and
 * a window of those that come next; the rest is in the store alone. A queue with a maximum has
 * waiters for room, too.
 */
import { CommandError } from '../shared/errors.ts';
import { limits } from '../shared/protocol.ts';
import type { Part } from './store/group-commit.ts';
import { itemKeys, parseItemKey } from './store/records.ts';
import type { Change, Store } from './store/store.ts';

export type Item = { readonly id: number; readonly value: Uint8Array };

/** `stored`: on the disk, or on its way. `done`: gone before it went there. */
type KnownItem = Item & { state: 'fresh' | 'stored' | 'done' };

/** Whoever can hold items: a session. */
export type ItemHolder = object;

type Waiter = {
  readonly holder: ItemHolder;
  readonly count: number;
  timer: NodeJS.Timeout | undefined;
  readonly resolve: (items: Item[]) => void;
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
  readonly #heldBytes: HeldBytes;
  readonly #countMax: number;
  readonly #onChanged: (queue: UserQueue) => void;
  readonly #keyOf: (id: number) => Buffer;
  #window: KnownItem[] = [];
  #windowBytes = 0;
  /** Everything up to this one is in the window or held, or was. */
  #loadedTo = 0;
  /** Nothing up to this one is fresh: it is in the store, or gone. */
  #storedTo = 0;
  #nextId = 1;
  #size = 0;
  /** Every item beyond `storedTo`, in order; those of commits under way first. */
  #fresh: KnownItem[] = [];
  #freshBytes = 0;
  #gatheredCount = 0;
  /** Items in the store that the next commit deletes. */
  #doneIds: number[] = [];
  readonly #held = new Map<ItemHolder, Map<number, KnownItem>>();
  readonly #waiters = new Set<Waiter>();
  #waitingForCommit: (() => void)[] = [];
  readonly #waitingForRoom = new Set<() => void>();
  #isClosed = false;

  /** `onChanged` says that there is something for the next commit. */
  constructor(
    name: string,
    options: {
      store: Store;
      heldBytes: HeldBytes;
      countMax: number;
      onChanged: (queue: UserQueue) => void;
    },
  ) {
    this.name = name;
    this.#store = options.store;
    this.#heldBytes = options.heldBytes;
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
    const item: KnownItem = { id: this.#nextId++, value, state: 'fresh' };
    this.#fresh.push(item);
    this.#freshBytes += sizeOf(item);
    this.#size++;
    // Otherwise it is loaded in its turn.
    if (this.#loadedTo + 1 === item.id && !this.#isWindowFull) this.#push(item);
    if (this.#waiters.size > 0) this.#serve();
    this.#onChanged(this);
  }

  /** Appends values; resolves when they are on the disk. */
  put(values: readonly Uint8Array[]): Promise<void> {
    for (const value of values) this.add(value);
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

  /** Up to `count` items, now or when the first comes; [] after `waitMs`.
   *  @throws CommandError E_QUEUE_FULL the holder has too much already */
  get(holder: ItemHolder, count: number, waitMs: number): Promise<Item[]> {
    this.#checkHeld(holder);
    return new Promise((resolve) => {
      const waiter: Waiter = { holder, count, resolve, timer: undefined };
      this.#waiters.add(waiter);
      this.#serve();
      if (!this.#waiters.has(waiter)) return;
      const giveUp = () => {
        this.#waiters.delete(waiter);
        resolve([]);
      };
      if (waitMs === 0) giveUp();
      else if (waitMs <= timerMsMax) waiter.timer = setTimeout(giveUp, waitMs);
    });
  }

  /** The next item, if there is one. @throws CommandError as `get` */
  getNow(holder: ItemHolder): Item | undefined {
    this.#checkHeld(holder);
    // Who waits has been given all that there is, so nobody is passed by.
    if (this.#window.length === 0) this.#refill();
    const item = this.#window.shift();
    if (item === undefined) return undefined;
    this.#windowBytes -= sizeOf(item);
    this.#hand(holder, [item]);
    return item;
  }

  #checkHeld(holder: ItemHolder): void {
    if (this.#heldBytes.of(holder) < limits.queueHeldBytesMax) return;
    throw new CommandError('E_QUEUE_FULL', 'this session holds too much: say queue.done first');
  }

  /** Forgets items that the holder has; resolves when the disk has forgotten them. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    for (const id of ids) this.finish(holder, id);
    return this.committed();
  }

  /** Forgets an item that the holder has, on the disk with the next commit. */
  finish(holder: ItemHolder, id: number): void {
    const held = this.#held.get(holder);
    const item = held?.get(id);
    if (item === undefined) return;
    held?.delete(id);
    this.#heldBytes.add(holder, -sizeOf(item));
    if (item.state === 'stored') this.#doneIds.push(id);
    else item.state = 'done';
    this.#onChanged(this);
  }

  removeHolder(holder: ItemHolder): void {
    for (const waiter of this.#waiters) {
      if (waiter.holder !== holder) continue;
      clearTimeout(waiter.timer);
      this.#waiters.delete(waiter);
    }
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#held.delete(holder);
    this.#size += held.size;
    for (const item of held.values()) {
      this.#windowBytes += sizeOf(item);
      this.#heldBytes.add(holder, -sizeOf(item));
    }
    if (this.#heldBytes.of(holder) === 0) this.#heldBytes.forget(holder);
    if (held.size === 0) return;
    this.#window = [...held.values(), ...this.#window].sort((a, b) => a.id - b.id);
    this.#serve();
  }

  close(): void {
    for (const { timer, resolve } of this.#waiters) {
      clearTimeout(timer);
      resolve([]);
    }
    this.#waiters.clear();
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
    for (const item of stored) this.#freshBytes -= sizeOf(item);
    for (const resolve of waiting) resolve();
  }

  /** Everybody who waits for room looks again, in turn. */
  #wakeForRoom(): void {
    for (const wake of this.#waitingForRoom) wake();
  }

  #serve(): void {
    for (const waiter of this.#waiters) {
      if (this.#window.length === 0) this.#refill();
      if (this.#window.length === 0) return;
      this.#waiters.delete(waiter);
      clearTimeout(waiter.timer);
      waiter.resolve(this.#take(waiter.holder, waiter.count));
    }
  }

  /** The next items, as many as one reply takes; the holder has them now. */
  #take(holder: ItemHolder, countMax: number): Item[] {
    let bytes = 0;
    let count = 0;
    for (const item of this.#window) {
      if (count === countMax || (count > 0 && bytes + sizeOf(item) > limits.queueReplyBytesMax)) {
        break;
      }
      bytes += sizeOf(item);
      count++;
    }
    const items = this.#window.splice(0, count);
    this.#windowBytes -= bytes;
    this.#hand(holder, items);
    return items;
  }

  #hand(holder: ItemHolder, items: readonly KnownItem[]): void {
    let held = this.#held.get(holder);
    if (held === undefined) {
      held = new Map();
      this.#held.set(holder, held);
    }
    for (const item of items) {
      held.set(item.id, item);
      this.#heldBytes.add(holder, sizeOf(item));
    }
    this.#size -= items.length;
    if (this.#waitingForRoom.size > 0) this.#wakeForRoom();
  }

  get #isWindowFull(): boolean {
    return this.#window.length >= windowMax || this.#windowBytes >= windowBytesMax;
  }

  #push(item: KnownItem): void {
    this.#window.push(item);
    this.#windowBytes += sizeOf(item);
    this.#loadedTo = item.id;
  }

  #refill(): void {
    while (!this.#isWindowFull && this.#loadedTo < this.#storedTo) this.#loadStored();
    const [oldest] = this.#fresh;
    if (oldest === undefined) return;
    for (let at = this.#loadedTo + 1 - oldest.id; !this.#isWindowFull; at++) {
      const item = this.#fresh[at];
      if (item === undefined) return;
      this.#push(item);
    }
  }

  /** Some items more. The store may show what is still fresh here, so it is read only up to that. */
  #loadStored(): void {
    const rows = this.#store.range('items', {
      from: this.#keyOf(this.#loadedTo),
      after: true,
      to: this.#keyOf(this.#storedTo + 1),
      limit: refillCount,
    });
    for (const { key, value } of rows) {
      this.#push({ id: parseItemKey(key).seq, value, state: 'stored' });
    }
    if (rows.length < refillCount) this.#loadedTo = this.#storedTo;
  }
}

/** Bytes that the sessions hold, over all queues. */
export class HeldBytes {
  readonly #bytes = new Map<ItemHolder, number>();

  of(holder: ItemHolder): number {
    return this.#bytes.get(holder) ?? 0;
  }

  add(holder: ItemHolder, bytes: number): void {
    this.#bytes.set(holder, this.of(holder) + bytes);
  }

  forget(holder: ItemHolder): void {
    this.#bytes.delete(holder);
  }
}

/** What an item takes in memory and in a reply, about. */
function sizeOf({ value }: Item): number {
  return value.length + 64;
}

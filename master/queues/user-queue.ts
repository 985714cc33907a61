/**
 * One user queue: durable, first in first out, shared by all connected programs.
 *
 *     put --> waiting --get--> held by a session --done--> gone
 *                ^                  |
 *                +--- session ends -+
 *
 * Here is who waits for items or for room, and who holds which; what is in memory and what on the
 * disk is the business of `queue-items.ts`.
 */
import { CommandError } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';
import type { Part } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ItemRoom } from './item-room.ts';
import { type Item, QueueItems, type TakenItem } from './queue-items.ts';

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

/** The longest wait that a timer knows; a longer one has no end. */
const timerMsMax = 2 ** 31 - 1;

export class UserQueue {
  readonly name: string;
  readonly #items: QueueItems;
  readonly #room: ItemRoom;
  readonly #countMax: number;
  readonly #onChanged: (queue: UserQueue) => void;
  readonly #held = new Map<ItemHolder, Map<number, Item>>();
  readonly #waiters = new Set<Waiter>();
  /** Who waits until this item is on the disk, and all that was done before. */
  #waitingForCommit: { readonly id: number; readonly resolve: () => void }[] = [];
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
    this.#items = new QueueItems(name, options.store, options.room);
    this.#room = options.room;
    this.#countMax = options.countMax;
    this.#onChanged = options.onChanged;
  }

  /** Items that wait. */
  get size(): number {
    return this.#items.size;
  }

  /** There may be so many items, and no more. */
  get isBounded(): boolean {
    return this.#countMax !== Number.POSITIVE_INFINITY;
  }

  /** Has as many items as it may have. */
  get isFull(): boolean {
    return this.#items.size >= this.#countMax;
  }

  /** The disk does not keep up: who puts has to wait for the commit. */
  get isBehind(): boolean {
    return this.#items.isBehind;
  }

  /** Resolves when all that was put and done so far is on the disk. */
  committed(): Promise<void> {
    this.#onChanged(this);
    const id = this.#items.lastId;
    return new Promise((resolve) => this.#waitingForCommit.push({ id, resolve }));
  }

  /** Counts what is in the store, at the start. */
  load(): void {
    this.#items.load();
  }

  /** Appends a value, on the disk with the next commit. */
  add(value: Uint8Array): void {
    this.#items.append(value);
    if (this.#waiters.size > 0) this.#serve();
    this.#onChanged(this);
  }

  /** Appends values; resolves when they are on the disk. */
  put(values: readonly Uint8Array[]): Promise<void> {
    for (const value of values) this.#items.append(value);
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
    const item = this.#items.takeOne();
    if (item !== undefined) this.#wakeForRoom();
    return item;
  }

  /** Those who took them were told their values. */
  rest(items: readonly Item[]): void {
    this.#items.rest(items);
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
    if (!this.#room.mayHold(holder)) {
      throw new CommandError('E_QUEUE_FULL', 'this session holds too much: say queue.done first');
    }
    const countMax = () => (this.#room.isFull ? 1 : count);
    return this.#wait(holder, countMax, waitMs, (items) => this.#hold(holder, items));
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
    this.#items.finish(item);
    this.#onChanged(this);
  }

  /** Items that were taken wait again, before all that came later. */
  giveBack(items: readonly Item[]): void {
    this.#items.giveBack(items);
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
    const { changes, upTo, flushed } = this.#items.gather();
    const waiting = this.#waitingForCommit.filter(({ id }) => id <= upTo);
    this.#waitingForCommit = this.#waitingForCommit.filter(({ id }) => id > upTo);
    // One commit does not take very much: the rest is the next one's.
    if (upTo < this.#items.lastId) this.#onChanged(this);
    const done = () => {
      flushed();
      for (const { resolve } of waiting) resolve();
    };
    return { changes, done };
  }

  /** Everybody who waits for room looks again, in turn. */
  #wakeForRoom(): void {
    for (const wake of this.#waitingForRoom) wake();
  }

  #serve(): void {
    for (const waiter of this.#waiters) {
      const items = this.#items.take(waiter.count(), limits.queueReplyBytesMax);
      if (items.length === 0) return;
      this.#wakeForRoom();
      waiter.settle(items);
    }
  }
}

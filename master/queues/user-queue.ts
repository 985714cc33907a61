/**
 * One user queue: durable, first in first out, shared by all connected programs.
 *
 *     put --> waiting --get--> held by a session --done--> gone
 *                ^                  |
 *                +--- session ends -+
 *
 * This file knows who waits for items or for room, and who holds which items. `queue-items.ts`
 * decides which items are in memory and which on the disk.
 */
import { CommandError } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';
import type { Part } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ItemBudget } from './item-budget.ts';
import { type Item, QueueItems, type TakenItem } from './queue-items.ts';

/** A holder of items: a session. */
export type ItemHolder = object;

type Waiter = {
  readonly holder: ItemHolder;
  /** The maximum number of items. */
  readonly count: () => number;
  timer: NodeJS.Timeout | undefined;
  /** Called when the wait is over, with the items taken. */
  readonly settle: (items: TakenItem[]) => void;
};

/** The longest delay of a timer; a longer wait has no end. */
const timerMsMax = 2 ** 31 - 1;

export class UserQueue {
  readonly name: string;
  readonly #items: QueueItems;
  readonly #budget: ItemBudget;
  readonly #countMax: number;
  readonly #onChanged: (queue: UserQueue) => void;
  readonly #held = new Map<ItemHolder, Map<number, Item>>();
  readonly #waiters = new Set<Waiter>();
  /** Callers that wait until this item, and all earlier work, is on the disk. */
  #waitingForCommit: { readonly id: number; readonly resolve: () => void }[] = [];
  readonly #waitingForRoom = new Set<() => void>();
  #isClosed = false;

  /** `onChanged` is called when there is something for the next commit. */
  constructor(
    name: string,
    options: {
      store: Store;
      budget: ItemBudget;
      countMax: number;
      onChanged: (queue: UserQueue) => void;
    },
  ) {
    this.name = name;
    this.#items = new QueueItems(name, options.store, options.budget);
    this.#budget = options.budget;
    this.#countMax = options.countMax;
    this.#onChanged = options.onChanged;
  }

  /** Number of waiting items. */
  get size(): number {
    return this.#items.size;
  }

  /** True: the queue has a maximum number of items. */
  get isBounded(): boolean {
    return this.#countMax !== Number.POSITIVE_INFINITY;
  }

  /** True: it has its maximum number of items. */
  get isFull(): boolean {
    return this.#items.size >= this.#countMax;
  }

  /** True: the disk does not keep up, so a put must wait for its commit. */
  get isBehind(): boolean {
    return this.#items.isBehind;
  }

  /** Resolves when all puts and dones so far are on the disk. */
  committed(): Promise<void> {
    this.#onChanged(this);
    const id = this.#items.lastId;
    return new Promise((resolve) => this.#waitingForCommit.push({ id, resolve }));
  }

  /** Counts the stored items, at the start. */
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
    // In the same turn, so that the next waiting caller sees it.
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

  /** Takes the next item, if there is one; the caller must `finish` it or give it back. */
  take(): TakenItem | undefined {
    // Waiting callers have taken all items that there were, so this overtakes none of them.
    const item = this.#items.takeOne();
    if (item !== undefined) this.#wakeForRoom();
    return item;
  }

  /** The takers have received the values. */
  rest(items: readonly Item[]): void {
    this.#items.rest(items);
  }

  /** As `take`, when the first one comes; undefined after `waitMs`. */
  async takeWithin(waiter: ItemHolder, waitMs: number): Promise<TakenItem | undefined> {
    const [item] = await this.#wait(waiter, () => 1, waitMs);
    return item;
  }

  /** Takes up to `count` items, now or when the first comes; [] after `waitMs`. The holder has them
   *  until it calls `done` or ends.
   *  @throws CommandError E_QUEUE_FULL the holder has too many items already */
  get(holder: ItemHolder, count: number, waitMs: number): Promise<TakenItem[]> {
    if (!this.#budget.mayHold(holder)) {
      throw new CommandError(
        'E_QUEUE_FULL',
        'this session holds too many items; say queue.done first',
      );
    }
    const countMax = () => (this.#budget.isFull ? 1 : count);
    return this.#wait(holder, countMax, waitMs, (items) => this.#hold(holder, items));
  }

  /** `onTaken` is called in the same turn. */
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
      this.#budget.hold(holder, item.bytes);
    }
  }

  /** Deletes items that the holder has; resolves when that is on the disk. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    const held = this.#held.get(holder);
    for (const id of ids) {
      const item = held?.get(id);
      if (item === undefined) continue;
      held?.delete(id);
      this.#budget.release(holder, item.bytes);
      this.finish(item);
    }
    if (held?.size === 0) this.#held.delete(holder);
    return this.committed();
  }

  /** Deletes a taken item, on the disk with the next commit. */
  finish(item: Item): void {
    this.#items.finish(item);
    this.#onChanged(this);
  }

  /** Puts taken items back, before all later ones. */
  giveBack(items: readonly Item[]): void {
    this.#items.giveBack(items);
    this.#serve();
  }

  removeHolder(holder: ItemHolder): void {
    for (const waiter of this.#waiters) {
      if (waiter.holder !== holder) continue;
      // The waiting caller is gone.
      clearTimeout(waiter.timer);
      this.#waiters.delete(waiter);
    }
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#held.delete(holder);
    for (const item of held.values()) this.#budget.release(holder, item.bytes);
    this.giveBack([...held.values()]);
  }

  close(): void {
    for (const waiter of this.#waiters) waiter.settle([]);
    this.#isClosed = true;
    this.#wakeForRoom();
  }

  /** Returns the changes of this queue for the next commit. */
  gather(): Part {
    const { changes, upTo, flushed } = this.#items.gather();
    const waiting = this.#waitingForCommit.filter(({ id }) => id <= upTo);
    this.#waitingForCommit = this.#waitingForCommit.filter(({ id }) => id > upTo);
    // A commit has a size limit: the rest waits for the next one.
    if (upTo < this.#items.lastId) this.#onChanged(this);
    const done = () => {
      flushed();
      for (const { resolve } of waiting) resolve();
    };
    return { changes, done };
  }

  /** Lets all callers that wait for room try again, in order. */
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

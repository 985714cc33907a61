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
import { AwakeTimer } from '../../shared/awake.ts';
import { CommandError } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';
import { clockMs } from '../machine/clock.ts';
import type { Part } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ItemBudget } from './item-budget.ts';
import { ItemNotes } from './item-notes.ts';
import { type Item, QueueItems, type TakenItem } from './queue-items.ts';

/** A holder of items: a session. */
export type ItemHolder = object;

/** `holdMs`: items that are not done by then return. `attempts`: one that has returned so often is a
 *  dead letter. */
type HoldOptions = {
  readonly holdMs?: number | undefined;
  readonly attempts?: number | undefined;
};
/** The items of one `get` that are not done, and when they return. */
type Hold = { readonly items: Set<Held>; timer: AwakeTimer | undefined };
type Held = {
  readonly item: Item;
  readonly attemptsMax: number | undefined;
  readonly hold: Hold | undefined;
};

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
/** Delayed items that enter at once, and how soon others are looked at. */
const dueMax = 1_000;
const dueLookMs = 20;

export class UserQueue {
  readonly name: string;
  readonly #items: QueueItems;
  readonly #budget: ItemBudget;
  readonly #countMax: number;
  readonly #onChanged: (queue: UserQueue) => void;
  readonly #notes: ItemNotes;
  readonly #onDead: (queue: UserQueue, value: Uint8Array) => Promise<void>;
  readonly #held = new Map<ItemHolder, Map<number, Held>>();
  /** Items that were delayed, and whose entry is not in a commit yet. */
  #entered: { readonly id: number; readonly key: Buffer }[] = [];
  #dueTimer: NodeJS.Timeout | undefined;
  readonly #holdTimers = new Set<AwakeTimer>();
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
      /** Keeps a dead letter; resolves when that is on the disk. */
      onDead: (queue: UserQueue, value: Uint8Array) => Promise<void>;
    },
  ) {
    this.name = name;
    this.#notes = new ItemNotes(name, options.store, options.budget);
    this.#onDead = options.onDead;
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
    this.#notes.load(this.#items.lastId, clockMs());
    this.#enterDue();
  }

  /** Number of items that are not in it yet. */
  get delayedCount(): number {
    return this.#notes.delayedCount;
  }

  /** How often a taken item has returned. */
  attemptsOf({ id }: Item): number {
    return this.#notes.attemptsOf(id);
  }

  /** As `put`, after a while. @throws CommandError E_QUEUE_FULL too many items are delayed */
  putLater(values: readonly Uint8Array[], delayMs: number): Promise<void> {
    this.#budget.checkDelayed(values.length);
    for (const value of values) this.#notes.delay(value, 0, delayMs, clockMs());
    this.#enterDue();
    return this.committed();
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
  get(
    holder: ItemHolder,
    count: number,
    waitMs: number,
    how: HoldOptions = {},
  ): Promise<TakenItem[]> {
    if (!this.#budget.mayHold(holder)) {
      throw new CommandError(
        'E_QUEUE_FULL',
        'this session holds too many items; say queue.done first',
      );
    }
    const countMax = () => (this.#budget.isFull ? 1 : count);
    return this.#wait(holder, countMax, waitMs, (items) => this.#hold(holder, items, how));
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

  #hold(holder: ItemHolder, items: readonly Item[], { holdMs, attempts }: HoldOptions): void {
    if (items.length === 0) return;
    let held = this.#held.get(holder);
    if (held === undefined) {
      held = new Map();
      this.#held.set(holder, held);
    }
    const hold: Hold | undefined =
      holdMs === undefined ? undefined : { items: new Set(), timer: undefined };
    for (const item of items) {
      const one = { item, attemptsMax: attempts, hold };
      held.set(item.id, one);
      hold?.items.add(one);
      this.#budget.hold(holder, item.bytes);
    }
    if (hold === undefined || holdMs === undefined) return;
    const timer = new AwakeTimer(() => {
      this.#holdTimers.delete(timer);
      const late = Array.from(hold.items, ({ item }) => item.id);
      void this.release(holder, late);
    }, holdMs);
    hold.timer = timer;
    this.#holdTimers.add(timer);
  }

  /** Takes an item from its holder; undefined: it does not have it. */
  #takeFrom(holder: ItemHolder, id: number): Held | undefined {
    const held = this.#held.get(holder);
    const one = held?.get(id);
    if (held === undefined || one === undefined) return undefined;
    held.delete(id);
    if (held.size === 0) this.#held.delete(holder);
    this.#budget.release(holder, one.item.bytes);
    const { hold } = one;
    hold?.items.delete(one);
    // Otherwise it would keep the items in memory until it is over.
    if (hold?.timer !== undefined && hold.items.size === 0) {
      hold.timer.clear();
      this.#holdTimers.delete(hold.timer);
    }
    return one;
  }

  /** Gives items back that the holder has, after a while. Resolves when that is on the disk.
   *  @throws CommandError E_QUEUE_FULL too many items are delayed: it still has them */
  release(holder: ItemHolder, ids: readonly number[], delayMs = 0): Promise<void> {
    if (delayMs > 0) this.#budget.checkDelayed(ids.length);
    const back = ids.flatMap((id) => this.#takeFrom(holder, id) ?? []);
    this.#return(back, delayMs);
    return this.committed();
  }

  /** Puts items back that the holder was never told of: no return is counted. */
  unget(holder: ItemHolder, items: readonly Item[]): void {
    const back = items.filter(({ id }) => this.#takeFrom(holder, id) !== undefined);
    if (back.length > 0) this.giveBack(back);
  }

  /** Items that were not done wait again, or are dead letters. */
  #return(back: readonly Held[], delayMs = 0): void {
    const now: Item[] = [];
    for (const { item, attemptsMax } of back) {
      const attempts = this.#notes.attemptsOf(item.id) + (attemptsMax === undefined ? 0 : 1);
      if (attemptsMax !== undefined && attempts >= attemptsMax) {
        // It is in the other queue before it leaves this one: a crash may leave it in both.
        void this.#onDead(this, this.#items.valueOf(item)).then(
          () => this.finish(item),
          // There is no room for another queue.
          () => this.giveBack([item]),
        );
      } else if (delayMs > 0) {
        this.#notes.delay(this.#items.valueOf(item), attempts, delayMs, clockMs());
        this.finish(item);
      } else {
        this.#notes.setAttempts(item.id, attempts);
        now.push(item);
      }
    }
    this.#enterDue();
    this.#onChanged(this);
    if (now.length > 0) this.giveBack(now);
  }

  /** Appends delayed items that are due, and waits for the next. */
  #enterDue(): void {
    clearTimeout(this.#dueTimer);
    if (this.#isClosed) return;
    const due = this.#items.isBehind ? [] : this.#notes.due(clockMs(), dueMax);
    for (const { value, attempts, key } of due) {
      this.#items.append(value);
      this.#notes.setAttempts(this.#items.lastId, attempts);
      this.#entered.push({ id: this.#items.lastId, key });
    }
    if (due.length > 0) {
      this.#serve();
      this.#onChanged(this);
    }
    const { nextDueAt } = this.#notes;
    if (nextDueAt === undefined) return;
    const waitMs = Math.min(Math.max(nextDueAt - clockMs(), dueLookMs), timerMsMax);
    this.#dueTimer = setTimeout(() => this.#enterDue(), waitMs);
  }

  /** Deletes items that the holder has; resolves when that is on the disk. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    for (const id of ids) {
      const one = this.#takeFrom(holder, id);
      if (one !== undefined) this.finish(one.item);
    }
    return this.committed();
  }

  /** Deletes a taken item, on the disk with the next commit. */
  finish(item: Item): void {
    this.#items.finish(item);
    this.#notes.setAttempts(item.id, 0);
    this.#onChanged(this);
  }

  /** Puts taken items back, before all later ones. */
  giveBack(items: readonly Item[]): void {
    this.#items.giveBack(items);
    this.#serve();
  }

  /** Ends the wait of a `takeWithin`, without an item. False: there is none. */
  endWait(waiter: ItemHolder): boolean {
    const waits = [...this.#waiters].filter(({ holder }) => holder === waiter);
    for (const wait of waits) wait.settle([]);
    return waits.length > 0;
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
    this.#return([...held.keys()].flatMap((id) => this.#takeFrom(holder, id) ?? []));
  }

  close(): void {
    for (const waiter of this.#waiters) waiter.settle([]);
    this.#isClosed = true;
    clearTimeout(this.#dueTimer);
    for (const timer of this.#holdTimers) timer.clear();
    this.#wakeForRoom();
  }

  /** Returns the changes of this queue for the next commit. */
  gather(): Part {
    const { changes, upTo, flushed } = this.#items.gather();
    const waiting = this.#waitingForCommit.filter(({ id }) => id <= upTo);
    this.#waitingForCommit = this.#waitingForCommit.filter(({ id }) => id > upTo);
    // A commit has a size limit: the rest waits for the next one.
    if (upTo < this.#items.lastId) this.#onChanged(this);
    for (const { key } of this.#entered.filter(({ id }) => id <= upTo)) this.#notes.forget(key);
    this.#entered = this.#entered.filter(({ id }) => id > upTo);
    changes.push(...this.#notes.gather());
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

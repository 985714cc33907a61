/**
 * User queues: named, durable, first in first out, shared by all connected programs.
 *
 *     put --on disk--> waiting --get--> held by a session --done--> gone
 *                         ^                  |
 *                         +--- session ends -+
 *
 * The store holds all items; in memory is a window of those that come next. A queue with a maximum
 * has waiters for room, too; a put that is answered before its commit counts from its first moment.
 */
import { CommandError } from '../shared/errors.ts';
import { limits } from '../shared/protocol.ts';
import type { GroupCommit } from './store/group-commit.ts';
import { afterPrefix, itemKey, parseItemKey } from './store/records.ts';
import type { Store } from './store/store.ts';

export type Item = { readonly id: number; readonly value: Uint8Array };

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
const queuesMax = 10_000;
/** Bytes of one queue whose puts were answered and are not on the disk yet. */
const committingBytesMax = 16 << 20;
/** The longest wait that a timer knows; a longer one has no end. */
const timerMsMax = 2 ** 31 - 1;

export class UserQueues {
  readonly #store: Store;
  readonly #commits: GroupCommit;
  readonly #queues = new Map<string, UserQueue>();
  readonly #heldBytes = new HeldBytes();
  readonly #maxima: ReadonlyMap<string, number>;

  /** `maxima`: how many items a queue may have; default: any number. */
  constructor(
    store: Store,
    commits: GroupCommit,
    maxima: ReadonlyMap<string, number> = new Map<string, number>(),
  ) {
    this.#store = store;
    this.#commits = commits;
    this.#maxima = maxima;
    this.#load();
  }

  /** The queue of that name, made by its first use. */
  queue(name: string): UserQueue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= queuesMax) {
        throw new CommandError('E_QUEUE_FULL', `there are ${queuesMax} queues already`);
      }
      const countMax = this.#maxima.get(name) ?? Number.POSITIVE_INFINITY;
      queue = new UserQueue(name, this.#store, this.#commits, this.#heldBytes, countMax);
      this.#queues.set(name, queue);
    }
    return queue;
  }

  /** The queue of that name if anybody has put or wanted something there. */
  find(name: string): UserQueue | undefined {
    return this.#queues.get(name);
  }

  /** The session ended: what it held waits again. */
  removeHolder(holder: ItemHolder): void {
    for (const queue of this.#queues.values()) queue.removeHolder(holder);
    this.#heldBytes.forget(holder);
  }

  /** Answers everybody who waits, with nothing. */
  close(): void {
    for (const queue of this.#queues.values()) queue.close();
  }

  #load(): void {
    let from: Buffer = Buffer.from([0]);
    const to = Buffer.alloc(64, 0xff);
    while (true) {
      const [row] = this.#store.range('items', { from, to, limit: 1 });
      if (row === undefined) return;
      const { queue } = parseItemKey(row.key);
      this.queue(queue).load();
      from = afterPrefix(Buffer.from(`${queue}\0`, 'latin1'));
    }
  }
}

export class UserQueue {
  readonly name: string;
  readonly #store: Store;
  readonly #commits: GroupCommit;
  #window: Item[] = [];
  #windowBytes = 0;
  /** Everything up to this one is in the window or held; beyond it only in the store. */
  #loadedTo = 0;
  #nextId = 1;
  #size = 0;
  readonly #held = new Map<ItemHolder, Map<number, Item>>();
  readonly #waiters = new Set<Waiter>();
  readonly #heldBytes: HeldBytes;
  readonly #countMax: number;
  /** Items, and their bytes, that are on the way to the disk. */
  #committing = 0;
  #committingBytes = 0;
  readonly #waitingForCommit: (() => void)[] = [];
  readonly #waitingForRoom = new Set<() => void>();
  #isClosed = false;

  constructor(
    name: string,
    store: Store,
    commits: GroupCommit,
    heldBytes: HeldBytes,
    countMax: number = Number.POSITIVE_INFINITY,
  ) {
    this.name = name;
    this.#countMax = countMax;
    this.#heldBytes = heldBytes;
    this.#store = store;
    this.#commits = commits;
  }

  /** Items that wait. */
  get size(): number {
    // The store shows items a moment before their put is acknowledged and counted.
    return Math.max(0, this.#size);
  }

  /** Items that wait, those included whose put is on the way to the disk. */
  get promised(): number {
    return Math.max(0, this.#size + this.#committing);
  }

  /** Has as many items as it may have. */
  get isFull(): boolean {
    return this.promised >= this.#countMax;
  }

  /** Something is on the way to the disk. */
  get isCommitting(): boolean {
    return this.#committing > 0;
  }

  /** Resolves when a put has reached the disk. */
  committed(): Promise<void> {
    if (!this.isCommitting) return Promise.resolve();
    return new Promise((resolve) => this.#waitingForCommit.push(resolve));
  }

  /** Appends one value as soon as there is room; false after `waitMs` without. Resolves when it is
   *  on its way: before its commit, unless too much is under way already. */
  async putWithin(value: Uint8Array, waitMs: number, signal: AbortSignal): Promise<boolean> {
    const deadline = performance.now() + waitMs;
    while (this.isFull) {
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || this.#isClosed || signal.aborted) return false;
      await this.#roomMade(leftMs, signal);
    }
    // In the same turn: the next one who waits must see it.
    const put = this.put([value]);
    if (this.#committingBytes > committingBytesMax) await put;
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

  /** Counts what is in the store. */
  load(): void {
    let from = itemKey(this.name, 0);
    const to = itemKey(this.name, 2 ** 48 - 1);
    for (let after = false; ; after = true) {
      const rows = this.#store.range('items', { from, after, to, limit: 4096 });
      const last = rows.at(-1);
      if (last === undefined) return;
      this.#size += rows.length;
      this.#nextId = parseItemKey(last.key).seq + 1;
      from = last.key;
    }
  }

  /** Resolves when the items are on the disk. */
  async put(values: readonly Uint8Array[]): Promise<void> {
    const items = values.map((value) => ({ id: this.#nextId++, value }));
    const changes = items.map(({ id, value }) => ({
      table: 'items' as const,
      key: itemKey(this.name, id),
      value,
    }));
    const bytes = items.reduce((sum, item) => sum + sizeOf(item), 0);
    this.#committing += items.length;
    this.#committingBytes += bytes;
    await new Promise<void>((done) => this.#commits.submit(changes, done));
    this.#committing -= items.length;
    this.#committingBytes -= bytes;
    this.#size += items.length;
    for (const item of items) {
      // Otherwise it is read from the store in its turn, or a refill was faster than we.
      if (this.#loadedTo + 1 === item.id && !this.#isWindowFull) this.#push(item);
    }
    this.#serve();
    for (const resolve of this.#waitingForCommit.splice(0)) resolve();
  }

  /** Up to `count` items, now or when the first comes; [] after `waitMs`.
   *  @throws CommandError E_QUEUE_FULL the holder has too much already */
  get(holder: ItemHolder, count: number, waitMs: number): Promise<Item[]> {
    if (this.#heldBytes.of(holder) >= limits.queueHeldBytesMax) {
      throw new CommandError('E_QUEUE_FULL', 'this session holds too much: say queue.done first');
    }
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

  /** Forgets items that the holder has. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    const held = this.#held.get(holder);
    const known = ids.filter((id) => {
      const item = held?.get(id);
      if (item === undefined) return false;
      held?.delete(id);
      this.#heldBytes.add(holder, -sizeOf(item));
      return true;
    });
    if (held?.size === 0) this.#held.delete(holder);
    if (known.length === 0) return Promise.resolve();
    const changes = known.map((id) => ({
      table: 'items' as const,
      key: itemKey(this.name, id),
      value: undefined,
    }));
    return new Promise((done) => this.#commits.submit(changes, done));
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
    this.#size -= count;
    let held = this.#held.get(holder);
    if (held === undefined) {
      held = new Map();
      this.#held.set(holder, held);
    }
    for (const item of items) held.set(item.id, item);
    this.#heldBytes.add(holder, bytes);
    if (this.#waitingForRoom.size > 0) this.#wakeForRoom();
    return items;
  }

  get #isWindowFull(): boolean {
    return this.#window.length >= windowMax || this.#windowBytes >= windowBytesMax;
  }

  #push(item: Item): void {
    this.#window.push(item);
    this.#windowBytes += sizeOf(item);
    this.#loadedTo = item.id;
  }

  #refill(): void {
    while (!this.#isWindowFull) {
      const rows = this.#store.range('items', {
        from: itemKey(this.name, this.#loadedTo),
        after: true,
        to: itemKey(this.name, 2 ** 48 - 1),
        limit: refillCount,
      });
      for (const { key, value } of rows) this.#push({ id: parseItemKey(key).seq, value });
      if (rows.length < refillCount) return;
    }
  }
}

/** Bytes that the sessions hold, over all queues. */
class HeldBytes {
  readonly #bytes = new Map<ItemHolder, number>();

  of(holder: ItemHolder): number {
    return this.#bytes.get(holder) ?? 0;
  }

  add(holder: ItemHolder, bytes: number): void {
    const held = this.of(holder) + bytes;
    if (held > 0) this.#bytes.set(holder, held);
    else this.#bytes.delete(holder);
  }

  forget(holder: ItemHolder): void {
    this.#bytes.delete(holder);
  }
}

/** What an item takes in memory and in a reply, about. */
function sizeOf({ value }: Item): number {
  return value.length + 64;
}

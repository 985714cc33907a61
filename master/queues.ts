/**
 * User queues: named, durable, first in first out, shared by all connected programs.
 *
 *     put --on disk--> waiting --get--> held by a session --done--> gone
 *                         ^                  |
 *                         +--- session ends -+
 *
 * The store holds all items; in memory is a window of those that come next.
 */
import { CommandError } from '../shared/errors.ts';
import type { GroupCommit } from './store/group-commit.ts';
import { afterPrefix, itemKey, parseItemKey } from './store/records.ts';
import type { Store } from './store/store.ts';

export type Item = { readonly id: number; readonly value: Uint8Array };

/** Whoever can hold items: a session. */
export type ItemHolder = object;

type Waiter = {
  readonly holder: ItemHolder;
  readonly count: number;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (items: Item[]) => void;
};

const windowMax = 1024;
const queuesMax = 10_000;

export class UserQueues {
  readonly #store: Store;
  readonly #commits: GroupCommit;
  readonly #queues = new Map<string, UserQueue>();

  constructor(store: Store, commits: GroupCommit) {
    this.#store = store;
    this.#commits = commits;
    this.#load();
  }

  /** The queue of that name, made by its first use. */
  queue(name: string): UserQueue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= queuesMax) {
        throw new CommandError('E_QUEUE_FULL', `there are ${queuesMax} queues already`);
      }
      queue = new UserQueue(name, this.#store, this.#commits);
      this.#queues.set(name, queue);
    }
    return queue;
  }

  /** The session ended: what it held waits again. */
  removeHolder(holder: ItemHolder): void {
    for (const queue of this.#queues.values()) queue.removeHolder(holder);
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
  /** Everything up to this one is in the window or held; beyond it only in the store. */
  #loadedTo = 0;
  #nextId = 1;
  #size = 0;
  readonly #held = new Map<ItemHolder, Map<number, Item>>();
  #waiters: Waiter[] = [];

  constructor(name: string, store: Store, commits: GroupCommit) {
    this.name = name;
    this.#store = store;
    this.#commits = commits;
  }

  /** Items that wait. */
  get size(): number {
    // The store shows items a moment before their put is acknowledged and counted.
    return Math.max(0, this.#size);
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
    await new Promise<void>((done) => this.#commits.submit(changes, done));
    this.#size += items.length;
    for (const item of items) {
      // Otherwise it is read from the store in its turn, or a refill was faster than we.
      if (this.#loadedTo + 1 === item.id && this.#window.length < windowMax) {
        this.#window.push(item);
        this.#loadedTo = item.id;
      }
    }
    this.#serve();
  }

  /** Up to `count` items, now or when the first comes; [] after `waitMs`. */
  get(holder: ItemHolder, count: number, waitMs: number): Promise<Item[]> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((waiter) => waiter.timer !== timer);
        resolve([]);
      }, waitMs);
      this.#waiters.push({ holder, count, timer, resolve });
      this.#serve();
    });
  }

  /** Forgets items that the holder has. */
  done(holder: ItemHolder, ids: readonly number[]): Promise<void> {
    const held = this.#held.get(holder);
    const known = ids.filter((id) => held?.delete(id));
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
      if (waiter.holder === holder) clearTimeout(waiter.timer);
    }
    this.#waiters = this.#waiters.filter((waiter) => waiter.holder !== holder);
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#held.delete(holder);
    this.#size += held.size;
    this.#window = [...held.values(), ...this.#window].sort((a, b) => a.id - b.id);
    this.#serve();
  }

  close(): void {
    for (const { timer, resolve } of this.#waiters) {
      clearTimeout(timer);
      resolve([]);
    }
    this.#waiters = [];
  }

  #serve(): void {
    while (this.#waiters.length > 0) {
      if (this.#window.length === 0) this.#refill();
      if (this.#window.length === 0) return;
      const waiter = this.#waiters.shift();
      if (waiter === undefined) return;
      clearTimeout(waiter.timer);
      const items = this.#window.splice(0, waiter.count);
      this.#size -= items.length;
      let held = this.#held.get(waiter.holder);
      if (held === undefined) {
        held = new Map();
        this.#held.set(waiter.holder, held);
      }
      for (const item of items) held.set(item.id, item);
      waiter.resolve(items);
    }
  }

  #refill(): void {
    const rows = this.#store.range('items', {
      from: itemKey(this.name, this.#loadedTo),
      after: true,
      to: itemKey(this.name, 2 ** 48 - 1),
      limit: windowMax,
    });
    this.#window = rows.map(({ key, value }) => ({ id: parseItemKey(key).seq, value }));
    this.#loadedTo = this.#window.at(-1)?.id ?? this.#loadedTo;
  }
}

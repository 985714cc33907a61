/**
 * Where the open tasks of all crawls are in the store. Most are in `tasks`, by host. Those of a
 * commit to many hosts, with few tasks each, wait in `unsorted` (see `unsorted-rows.ts`) until a
 * commit *moves* them, bin by bin in the order of hosts, so that a host gets many at once:
 *
 *     added --few hosts, or many of this host--> tasks <--changed: tried again-- unsorted
 *        \--many hosts--> unsorted --move: above `countMax` tasks, as many as came--> tasks
 *
 * All others name a task by its key in `tasks`. The changes that this returns must be committed in
 * the order of the calls, and `landed`, `gone` and `done` be called when they are on the disk.
 * Small crawls never meet any of it. An index in memory says what is in `unsorted`.
 */
import assert from 'node:assert/strict';
import { crawlKey, encodeTask, hostBytes, type TaskRecord } from '../../store/records.ts';
import type { Change, Peeked, Row, Rows } from '../../store/store.ts';
import { taskKey, taskKeyBytes, taskKeys } from '../../store/task-keys.ts';
import {
  merged,
  newUnsortedKey,
  readTask,
  taskKeyOf,
  unsortedKey,
} from '../../store/unsorted-rows.ts';
import { UnsortedIndex } from './unsorted-index.ts';

/** When tasks wait in `unsorted`. */
export type UnsortedLimits = {
  /** New tasks of a commit have more hosts than these. */
  readonly hostsMin: number;
  /** Their host has fewer of them than these: a leaf of `tasks` for so many is cheap. */
  readonly perHost: number;
  /** Tasks of all crawls, above which a commit moves some: 8 MB of memory. */
  readonly countMax: number;
};

export type NewTask = {
  readonly host: { readonly hash: Buffer };
  readonly record: TaskRecord;
  readonly rank: number;
  readonly seq: number;
};

const usualLimits: UnsortedLimits = { hostsMin: 256, perHost: 8, countMax: 2 ** 18 };
/** A commit moves a quarter more than came, and these, until no more are there than may be. */
const moreMoved = 256;
/** Keys read at once at the start. */
const readKeys = 8_192;

export class TaskRows {
  readonly #store: Rows;
  readonly #limits: UnsortedLimits;
  /** Of crawls that have tasks in `unsorted`; some more. */
  readonly #indexes = new Map<number, UnsortedIndex>();

  constructor(store: Rows, limits = usualLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Reads in what an earlier master left in `unsorted`. */
  restore(crawl: number): void {
    const to = crawlKey(crawl + 1);
    for (let range = { from: crawlKey(crawl), to, limit: readKeys, after: false }; ; ) {
      const keys = this.#store.keys('unsorted', range);
      for (const key of keys) {
        const named = taskKeyOf(key);
        if (named !== undefined) this.#indexOf(crawl).land(named, 0);
      }
      const last = keys.at(-1);
      if (last === undefined || keys.length < readKeys) return;
      range = { ...range, from: last, after: true };
    }
  }

  /** The crawl is cancelled: none of its tasks moves any more. */
  forget(crawl: number): void {
    this.#indexes.delete(crawl);
  }

  /** The crawl is over: an index of nothing takes no memory. */
  rest(crawl: number): void {
    if (this.#indexes.get(crawl)?.isEmpty) this.#indexes.delete(crawl);
  }

  /** Returns the record of an open task; undefined: it is done. */
  get(key: Buffer): Buffer | undefined {
    // Without an index nothing of the crawl is in `unsorted`.
    const isPlain = !this.#indexes.has(key.readUInt32BE(0));
    return isPlain ? this.#store.get('tasks', key) : readTask(this.#store, key);
  }

  /** Returns the row of a URL that was given up. */
  buried(key: Buffer): Buffer | undefined {
    return this.#store.get('buried', key);
  }

  /** Rows of a host, in the order of their keys, from the key `from` on, or after it. */
  ofHost(
    crawl: number,
    host: Buffer,
    { from, after = false, limit }: { from: Buffer; after?: boolean; limit: number },
  ): Row[] {
    const early: Row[] = [];
    for (const key of this.#indexes.get(crawl)?.keysOf(host) ?? []) {
      if (early.length >= limit) break;
      const order = key.compare(from);
      if (order > 0 || (order === 0 && !after)) this.#read(key, early);
    }
    const to = taskKey(crawl, host, 0xffffffff, 2 ** 48 - 1);
    const rows = this.#store.range('tasks', { from, after, to, limit });
    return early.length === 0 ? rows : merged(early, rows).slice(0, limit);
  }

  /** A row of the crawl's first host from `from` on, a key or the beginning of one. */
  firstFrom(crawl: number, from: Buffer): Row | undefined {
    const to = crawlKey(crawl + 1);
    if (from.compare(to) >= 0) return undefined;
    const early: Row[] = [];
    const index = this.#indexes.get(crawl);
    for (let at = index && hostFrom(from); at !== undefined && early.length === 0; ) {
      const keys = index?.firstHost(at) ?? [];
      for (const key of keys) {
        if (early.length === 0 && key.compare(from) >= 0) this.#read(key, early);
      }
      // Of one that was passed; or all of them have moved, or ended, a moment ago.
      at = keys[0] && hostAfter(keys[0]);
    }
    const [row] = this.#store.range('tasks', { from, to, limit: 1 });
    return merged(early, row ? [row] : [])[0];
  }

  /** New tasks of one commit. `landed`: when they are on the disk. */
  added(crawl: number, tasks: readonly NewTask[]): { changes: Change[]; landed: () => void } {
    const { hostsMin, perHost } = this.#limits;
    const counts = tasks.length > hostsMin ? countsOf(tasks) : undefined;
    const isSpread = counts !== undefined && counts.size > hostsMin;
    const spread: NewTask[] = [];
    const changes = tasks.map((task): Change => {
      const { host, rank, seq, record } = task;
      const value = encodeTask(record);
      if (!isSpread || (counts.get(hostMark(host.hash)) ?? 0) >= perHost) {
        return { table: 'tasks', key: taskKey(crawl, host.hash, rank, seq), value };
      }
      spread.push(task);
      return { table: 'unsorted', key: newUnsortedKey(crawl, host.hash, rank, seq), value };
    });
    return { changes, landed: this.#coming(crawl, taskKeys(crawl, spread)) };
  }

  /** Tasks with these keys come into `unsorted`. Returns what is to be called when they are
   *  there. */
  #coming(crawl: number, keys: Buffer): () => void {
    if (keys.length === 0) return () => {};
    // From now on a task may be in either table.
    const index = this.#indexOf(crawl);
    index.coming += keys.length / taskKeyBytes;
    return () => {
      if (this.#indexes.get(crawl) !== index) return;
      index.coming -= keys.length / taskKeyBytes;
      for (let at = 0; at < keys.length; at += taskKeyBytes) index.land(keys, at);
    };
  }

  /** A task gets another record. */
  changed(key: Buffer, value: Buffer): Change[] {
    const put: Change = { table: 'tasks', key, value };
    return this.#leaves(key) ? [put, dropped(key)] : [put];
  }

  /** A task has ended. */
  removed(key: Buffer): Change {
    return this.#leaves(key) ? dropped(key) : { table: 'tasks', key, value: undefined };
  }

  /** To be called when the changes of `changed` or `removed` are on the disk. */
  gone(key: Buffer): void {
    this.#gone(key, 0);
  }

  #gone(keys: Buffer, at: number): void {
    this.#indexes.get(keys.readUInt32BE(at))?.gone(keys, at);
  }

  /** Moves tasks to their hosts if there are too many here. `came`: new ones of this commit. */
  move(came: number): { changes: Change[]; done: () => void } | undefined {
    let over = -this.#limits.countMax;
    for (const { count } of this.#indexes.values()) over += count;
    const most = Math.min(over, Math.ceil(came * 1.25) + moreMoved);
    const changes: Change[] = [];
    const moved: Buffer[] = [];
    while (moved.length < most) {
      const keys = this.#largest()?.leaveSome(most - moved.length) ?? [];
      if (keys.length === 0) break;
      for (const key of keys) {
        const from = unsortedKey(key);
        const row = this.#store.peek('unsorted', from);
        assert.ok(row, 'a task that rests in `unsorted` has its row there');
        changes.push({ table: 'tasks', key, value: copyOf(row) });
        changes.push({ table: 'unsorted', key: from, value: undefined });
        moved.push(key);
      }
    }
    return moved.length > 0 ? { changes, done: this.#leaving(Buffer.concat(moved)) } : undefined;
  }

  /** Tasks with these keys leave `unsorted`. Returns what is to be called when they are gone. */
  #leaving(keys: Buffer): () => void {
    return () => {
      for (let at = 0; at < keys.length; at += taskKeyBytes) this.#gone(keys, at);
    };
  }

  #leaves(key: Buffer): boolean {
    return this.#indexes.get(key.readUInt32BE(0))?.leave(key) ?? false;
  }

  #read(key: Buffer, into: Row[]): void {
    const value = this.#store.get('unsorted', unsortedKey(key));
    if (value !== undefined) into.push({ key, value });
  }

  #indexOf(crawl: number): UnsortedIndex {
    let index = this.#indexes.get(crawl);
    if (index === undefined) {
      index = new UnsortedIndex(crawl);
      this.#indexes.set(crawl, index);
    }
    return index;
  }

  #largest(): UnsortedIndex | undefined {
    let largest: UnsortedIndex | undefined;
    for (const index of this.#indexes.values()) {
      if (index.count > (largest?.count ?? 0)) largest = index;
    }
    return largest;
  }
}

function dropped(key: Buffer): Change {
  return { table: 'unsorted', key: unsortedKey(key), value: undefined };
}

/** By hand: the copies of `get` have memory of their own, which costs more than the look-up. */
function copyOf({ bytes, length }: Peeked): Buffer {
  const copy = Buffer.allocUnsafe(length);
  for (let i = 0; i < length; i++) copy[i] = bytes[i] ?? 0;
  return copy;
}

/** Tasks by their hosts, as `hostMark` tells these apart. */
function countsOf(tasks: readonly NewTask[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { host } of tasks) {
    const mark = hostMark(host.hash);
    counts.set(mark, (counts.get(mark) ?? 0) + 1);
  }
  return counts;
}

/** Four bytes of a host's hash: two hosts in one are no harm. */
function hostMark(hash: Buffer): number {
  return hash.readInt32BE(0);
}

/** The lowest hash of a host with keys from `from` on. */
function hostFrom(from: Buffer): Buffer {
  return Buffer.concat([from.subarray(4, 4 + hostBytes), Buffer.alloc(hostBytes)], hostBytes);
}

/** The hash after that of a task's host; undefined: there is none. */
function hostAfter(key: Buffer): Buffer | undefined {
  const hash = key.readBigUInt64BE(4) + 1n;
  if (hash >= 2n ** 64n) return undefined;
  const host = Buffer.allocUnsafe(hostBytes);
  host.writeBigUInt64BE(hash);
  return host;
}

/**
 * The task queue of one host within one crawl. The store holds all of it; memory has a window of
 * the next tasks, which is small when the windows of all hosts together are large.
 *
 *     waiting --lease--> leased --report--> committing --on disk--> gone
 *        ^                  |
 *        +--- release ------+      (delayed: waiting, but not before a time)
 *
 * Invariant: every task of the store whose key is at most `#loadedTo` is in `#live`; with
 * `#loadedTo` at the end, all of them are.
 */

import { clockMs } from '../../machine/clock.ts';
import { Heap } from '../../machine/heap.ts';
import { decodeTask, type TaskRecord } from '../../store/records.ts';
import type { Row } from '../../store/store.ts';
import { parseTaskKey, taskKey } from '../../store/task-keys.ts';
import type { TaskRows } from './task-rows.ts';

/** The queue of a task. */
export interface TaskHome {
  readonly crawl: number;
  /** The host's hash: its place in the store. */
  readonly host: Buffer;
  /** Tasks of this host, the leased ones included: at least so many. */
  readonly waiting: number;
  lease(task: Task): void;
  /** Makes a task wait again, with `record`, which the store already holds. */
  release(task: Task, record: TaskRecord): void;
  /** Its report is on the way to the disk, so it is not leased again. */
  commit(task: Task): void;
  /** It has left the store. */
  remove(task: Task): void;
}

export type Task = TaskRecord & {
  readonly queue: TaskHome;
  readonly rank: number;
  readonly seq: number;
  state: 'waiting' | 'leased' | 'committing';
  /** Leases that ended without a message from the slave. */
  losses: number;
  heapIndex: number;
};

/** Returns a task's key in the store. */
export function keyOf({ queue, rank, seq }: Task): Buffer {
  return taskKey(queue.crawl, queue.host, rank, seq);
}

type Position = { readonly rank: number; readonly seq: number };
const theEnd: Position = { rank: Number.POSITIVE_INFINITY, seq: 0 };
const theStart: Position = { rank: -1, seq: 0 };

/** Tasks of one host in memory, and tasks read from the store at once; and the same with little
 *  room: a host that is one of thousands is asked now and then. */
const wide = { windowMax: 512, refillCount: 32 };
const narrow = { windowMax: 4, refillCount: 4 };

/** Counts the tasks in memory of all hosts. */
export class TaskBudget {
  readonly #countMax: number;
  count = 0;

  /** Above `countMax` a host keeps few. */
  constructor(countMax = Number.POSITIVE_INFINITY) {
    this.#countMax = countMax;
  }

  get size(): typeof wide {
    return this.count < this.#countMax ? wide : narrow;
  }
}

export class TaskQueue implements TaskHome {
  readonly crawl: number;
  readonly host: Buffer;
  /** When it came into memory. */
  readonly since = clockMs();
  /** A task of it was handed out. */
  wasLeased = false;
  readonly #rows: TaskRows;
  readonly #budget: TaskBudget;
  readonly #ready = new Heap<Task>(isNext);
  readonly #delayed = new Heap<Task>(isDueSooner);
  readonly #live = new Map<number, Task>();
  #loadedTo: Position;
  /** Tasks in the store up to there; after a restart they are counted bit by bit. */
  #count = 0;
  #countedTo: Position;

  /** `empty`: nothing of this host is in the store yet. */
  constructor(options: {
    crawl: number;
    host: Buffer;
    rows: TaskRows;
    empty: boolean;
    /** Shared by all queues; default: no limit. */
    budget?: TaskBudget;
  }) {
    this.crawl = options.crawl;
    this.host = options.host;
    this.#rows = options.rows;
    this.#budget = options.budget ?? new TaskBudget();
    this.#loadedTo = options.empty ? theEnd : theStart;
    this.#countedTo = this.#loadedTo;
  }

  /** Tasks of this host, the leased ones included: at least as many while `isCounted` is false. */
  get waiting(): number {
    return this.#count;
  }

  get isCounted(): boolean {
    return this.#countedTo === theEnd;
  }

  /** Counts up to `limit` further rows of the store. Returns their number. */
  countMore(limit: number): number {
    if (this.isCounted) return 0;
    const rows = this.#readAfter(this.#countedTo, limit);
    const last = rows.at(-1);
    const parts = last && parseTaskKey(last.key);
    this.#count += rows.length;
    this.#countedTo = rows.length < limit || !parts ? theEnd : { rank: parts.rank, seq: parts.seq };
    return rows.length;
  }

  /** True: a task of this position would stay in the store alone. */
  isBeyond(position: Position): boolean {
    return isAfter(position, this.#loadedTo);
  }

  /** Takes in a task that has reached the store; without its record it is read there if it is
   *  wanted in memory. Returns false if `dueAt` is what it was. */
  add(position: Position, record?: TaskRecord): boolean {
    const wasDue = this.#isDue;
    if (!isAfter(position, this.#countedTo)) this.#count++;
    // Beyond the window it is only in the store; and a refill may have read it already.
    if (this.isBeyond(position) || this.#live.has(position.seq)) return !wasDue;
    if (record === undefined) this.find(position);
    else this.#enqueue(this.#make(record, position));
    if (this.#ready.size > this.#budget.size.windowMax) this.#shrink();
    return !wasDue;
  }

  /** The next task that is due, or undefined. It stays in place until `lease`. */
  peek(now: number): Task | undefined {
    for (let task = this.#delayed.peek(); task && task.notBefore <= now; ) {
      this.#delayed.pop();
      this.#ready.set(task);
      task = this.#delayed.peek();
    }
    // A window full of delayed tasks waits for them, so that a failing host is not read to its end.
    if (this.#delayed.size < this.#budget.size.windowMax) this.#refill(now);
    return this.#ready.peek();
  }

  /** Returns when `peek` may return a task, without reading the store: `now`, later, or undefined:
   *  not before a task is added. It errs towards `now`. */
  dueAt(now: number): number | undefined {
    return this.#isDue ? now : this.delayedUntil;
  }

  /** When the first task that is tried again, and is not due yet, will be. */
  get delayedUntil(): number | undefined {
    return this.#delayed.peek()?.notBefore;
  }

  /** True: some task is due, or the store may have one. */
  get #isDue(): boolean {
    if (this.#ready.size > 0) return true;
    return this.#loadedTo !== theEnd && this.#delayed.size < this.#budget.size.windowMax;
  }

  lease(task: Task): void {
    this.#ready.remove(task);
    task.state = 'leased';
    this.wasLeased = true;
  }

  release(task: Task, record: TaskRecord): void {
    this.#enqueue(this.#make(record, task, task.losses));
  }

  commit(task: Task): void {
    this.#ready.remove(task);
    this.#delayed.remove(task);
    task.state = 'committing';
  }

  remove(task: Task): void {
    if (!isAfter(task, this.#countedTo)) this.#count = Math.max(0, this.#count - 1);
    this.#forget(task);
  }

  /** True: no task is at a slave or on the way to the disk, so the store has everything. */
  get isIdle(): boolean {
    return [...this.#live.values()].every(({ state }) => state === 'waiting');
  }

  /** Returns a task that is in memory, by its number. */
  inMemory(seq: number): Task | undefined {
    return this.#live.get(seq);
  }

  /** Drops the queue and its tasks from memory. */
  close(): void {
    this.#budget.count -= this.#live.size;
    this.#live.clear();
  }

  /** Returns the task at a position, from the store if necessary; undefined if it is done. */
  find(position: Position): Task | undefined {
    const live = this.#live.get(position.seq);
    if (live !== undefined) return live;
    const value = this.#rows.get(taskKey(this.crawl, this.host, position.rank, position.seq));
    if (value === undefined) return undefined;
    const task = this.#make(decodeTask(value), position);
    this.#enqueue(task);
    return task;
  }

  /** True: no task in memory or in the store. */
  get isEmpty(): boolean {
    return this.#live.size === 0 && this.#loadedTo === theEnd;
  }

  #make(record: TaskRecord, { rank, seq }: Position, losses = 0): Task {
    const { kind, level, url, depth, priority, attempts, notBefore, from } = record;
    const task: Task = {
      kind,
      level,
      url,
      depth,
      priority,
      attempts,
      notBefore,
      from,
      queue: this,
      rank,
      seq,
      state: 'waiting',
      losses,
      heapIndex: -1,
    };
    if (!this.#live.has(seq)) this.#budget.count++;
    this.#live.set(seq, task);
    return task;
  }

  #forget({ seq }: Task): void {
    if (this.#live.delete(seq)) this.#budget.count--;
  }

  #enqueue(task: Task): void {
    if (task.notBefore > 0) this.#delayed.set(task);
    else this.#ready.set(task);
  }

  /** True when the store may hold a task that comes before all that are ready here. */
  get #isBehind(): boolean {
    const first = this.#ready.peek();
    return this.#loadedTo !== theEnd && (first === undefined || isAfter(first, this.#loadedTo));
  }

  #refill(now: number): void {
    while (this.#isBehind) {
      const { refillCount, windowMax } = this.#budget.size;
      const rows = this.#readAfter(this.#loadedTo, refillCount);
      for (const { key, value } of rows) {
        const parts = parseTaskKey(key);
        if (parts === undefined || this.#live.has(parts.seq)) continue;
        const record = decodeTask(value, now);
        this.#enqueue(
          this.#make(record.notBefore > now ? record : { ...record, notBefore: 0 }, parts),
        );
      }
      const last = rows.at(-1);
      const parts = last && parseTaskKey(last.key);
      this.#loadedTo =
        rows.length < refillCount || !parts ? theEnd : { rank: parts.rank, seq: parts.seq };
      if (this.#delayed.size >= windowMax) return;
    }
  }

  #readAfter({ rank, seq }: Position, limit: number): Row[] {
    const first = rank < 0;
    const from = taskKey(this.crawl, this.host, first ? 0 : rank, first ? 0 : seq);
    return this.#rows.ofHost(this.crawl, this.host, { from, after: !first, limit });
  }

  /** Drops the last half of the window; the store still has it. */
  #shrink(): void {
    const tasks = [...this.#ready].sort((a, b) => (isBefore(a, b) ? -1 : 1));
    for (const task of tasks.splice(this.#budget.size.windowMax / 2)) {
      this.#ready.remove(task);
      this.#forget(task);
    }
    const last = tasks.at(-1);
    // A task that `find` fetched may lie beyond what was loaded.
    if (last !== undefined && isBefore(last, this.#loadedTo)) {
      this.#loadedTo = { rank: last.rank, seq: last.seq };
    }
  }
}

/** Of tasks alone: a function that meets objects of one shape only is twice as fast. */
function isNext(a: Task, b: Task): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.seq < b.seq);
}

function isDueSooner(a: Task, b: Task): boolean {
  return a.notBefore < b.notBefore;
}

function isBefore(a: Position, b: Position): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.seq < b.seq);
}

function isAfter(a: Position, b: Position): boolean {
  return isBefore(b, a);
}

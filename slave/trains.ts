/**
 * Trains: pages of a host with a delay that came together, each to be asked for at its time.
 *
 *     waiting --its turn--> begun --request leaves--> left --answer--> ended
 *        |
 *        +-- a failure, a redirect, too slow, task.recall --> given back
 *
 * The next one begins a gap after the last request has left, and only while fewer than `atOnce` are
 * under way. Any end but a definite answer ends the train: pages that have not begun go back to the
 * master, which knows better when the host may be asked.
 * Source: PROTOCOL.md [T-146] to [T-149].
 */
import type { MasterClient } from '../shared/client.ts';
import type { TaskPush } from '../shared/protocol.ts';

/** A train that takes so much longer than planned is ended. */
const lateMsMax = 1_000;
/** Reports of a train wait so long for those of its other pages. */
const holdMsMax = 3_000;

type TrainsOptions = {
  /** Its turn has come. */
  readonly begin: (task: TaskPush) => void;
  readonly master: () => MasterClient | undefined;
};

type Train = {
  readonly gapMs: number;
  readonly atOnce: number;
  /** Pages that have not begun by then go back. */
  readonly endsBy: number;
  waiting: TaskPush[];
  readonly underWay: Set<number>;
  /** Of all its pages. */
  readonly leases: readonly number[];
  /** One has begun whose request has not left. */
  isStarting: boolean;
  /** The last request that has left. */
  last: { readonly lease: number; readonly leftAt: number } | undefined;
  /** The rest was given back. */
  isCut: boolean;
  timer: NodeJS.Timeout | undefined;
};

export class Trains {
  readonly #options: TrainsOptions;
  readonly #byLease = new Map<number, Train>();

  constructor(options: TrainsOptions) {
    this.#options = options;
  }

  /** Those that wait for their turns. */
  get waiting(): TaskPush[] {
    return [...new Set(this.#byLease.values())].flatMap(({ waiting }) => waiting);
  }

  /** Takes the trains of a push; returns its other tasks. */
  take(tasks: readonly TaskPush[]): readonly TaskPush[] {
    if (tasks.every(({ train }) => train === undefined)) return tasks;
    const trains = new Map<number, TaskPush[]>();
    for (const task of tasks) {
      if (task.train === undefined) continue;
      const { first } = task.train;
      trains.set(first, [...(trains.get(first) ?? []), task]);
    }
    for (const train of trains.values()) this.#add(train);
    return tasks.filter(({ train }) => train === undefined);
  }

  /** A request of this task has left. Returns whether the master is to be told: it takes the last
   *  one of a train for all before it. */
  left({ lease }: TaskPush): boolean {
    const train = this.#byLease.get(lease);
    if (train === undefined) return true;
    train.last = { lease, leftAt: performance.now() };
    train.isStarting = false;
    this.#step(train);
    return train.isCut || train.waiting.length === 0;
  }

  /** This task needs the master before it goes on, which gives its host's turns from now on. */
  interrupted({ lease }: TaskPush): void {
    const train = this.#byLease.get(lease);
    if (train !== undefined) this.#cut(train);
  }

  /** Its fetch is over. `isFine`: with a definite answer. */
  ended({ lease }: TaskPush, isFine: boolean): void {
    const train = this.#byLease.get(lease);
    if (train === undefined || !train.underWay.delete(lease)) return;
    if (isFine) this.#step(train);
    else this.#cut(train);
    this.#forgetEnded(train);
  }

  /** How long a report of this lease may wait for those of its train, in ms; undefined: none of it
   *  is to begin. The master counts what is not reported as under way, so it must not wait for slow
   *  ones. */
  holdMs(lease: number): number | undefined {
    const train = this.#byLease.get(lease);
    return train !== undefined && train.waiting.length > 0 ? holdMsMax : undefined;
  }

  /** The master wants back what has not begun. */
  recall(leases: ReadonlySet<number>): void {
    for (const train of this.#all()) {
      if (train.waiting.some(({ lease }) => leases.has(lease))) this.#cut(train);
    }
  }

  /** Gives back all that has not begun: the process stood still. */
  giveBack(): void {
    for (const train of this.#all()) this.#cut(train);
  }

  /** These leases are lost. */
  cancel(leases: ReadonlySet<number>): void {
    for (const train of this.#all()) {
      train.waiting = train.waiting.filter(({ lease }) => !leases.has(lease));
      const lost = [...train.underWay].filter((lease) => leases.has(lease));
      for (const lease of lost) train.underWay.delete(lease);
      if (lost.length > 0) this.#cut(train);
      this.#forgetEnded(train);
    }
  }

  /** The master is gone. Returns what had not begun. */
  clear(): TaskPush[] {
    const waiting = this.waiting;
    for (const train of this.#all()) clearTimeout(train.timer);
    this.#byLease.clear();
    return waiting;
  }

  #all(): Set<Train> {
    return new Set(this.#byLease.values());
  }

  #add(tasks: TaskPush[]): void {
    const [first] = tasks;
    if (first?.train === undefined) return;
    const { gapMs, atOnce } = first.train;
    const train: Train = {
      gapMs,
      atOnce,
      endsBy: performance.now() + tasks.length * gapMs + lateMsMax,
      waiting: tasks,
      underWay: new Set(),
      leases: tasks.map(({ lease }) => lease),
      isStarting: false,
      last: undefined,
      isCut: false,
      timer: undefined,
    };
    for (const lease of train.leases) this.#byLease.set(lease, train);
    this.#step(train);
  }

  /** Begins what may begin, or looks again when something may. */
  #step(train: Train): void {
    clearTimeout(train.timer);
    if (train.waiting.length === 0) return;
    const now = performance.now();
    if (now >= train.endsBy) {
      this.#cut(train);
      return;
    }
    const isFree = !train.isStarting && train.underWay.size < train.atOnce;
    const dueAt = train.last === undefined ? now : train.last.leftAt + train.gapMs;
    if (!isFree || dueAt > now) {
      const at = isFree ? Math.min(dueAt, train.endsBy) : train.endsBy;
      train.timer = setTimeout(() => this.#step(train), Math.ceil(at - now));
      return;
    }
    const task = train.waiting.shift();
    if (task === undefined) return;
    train.isStarting = true;
    train.underWay.add(task.lease);
    this.#options.begin(task);
  }

  #cut(train: Train): void {
    clearTimeout(train.timer);
    const { waiting, last } = train;
    const master = this.#options.master();
    if (train.isCut || waiting.length === 0) return;
    train.isCut = true;
    train.waiting = [];
    if (last !== undefined) {
      const agoMs = Math.floor(performance.now() - last.leftAt);
      master?.notify('task.started', { lease: last.lease, agoMs });
    }
    giveBack(master, waiting);
    this.#forgetEnded(train);
  }

  #forgetEnded(train: Train): void {
    if (train.waiting.length > 0 || train.underWay.size > 0) return;
    clearTimeout(train.timer);
    for (const lease of train.leases) this.#byLease.delete(lease);
  }
}

/** The master gets these tasks back unfetched. */
export function giveBack(master: MasterClient | undefined, tasks: Iterable<TaskPush>): void {
  for (const { task, lease } of tasks) {
    master?.request('task.release', { task, lease }).catch(() => {});
  }
}

/**
 * The hosts with a task queue in memory, of all crawls. A crawl of the whole web meets ever new
 * hosts, so their number is limited: a host beyond it is *parked*. Its tasks are in the store, as
 * all tasks are, and it takes no memory. Fewer are in memory as long as enough of them may be asked
 * at once:
 *
 *     in memory --its last task is done--> gone
 *        |  ^
 *        |  +--unpark: there is room, and its crawl is running--+
 *        |                                                      |
 *        +--park: its crawl is not running any more--------> parked <-- add: there is no room
 *        +--rotate: others want its room, and it has to wait--> parked
 *                   or was asked for a while
 *
 * Parked hosts are found by reading the table of tasks in rounds, one row per host. `#rounds` errs
 * towards reading: a crawl in it may have none. After a restart all hosts are parked. Owned by the
 * crawls; the frontier reports tasks on the disk, the dispatcher asks for new ones.
 */

import { hostKeyOf } from '../../../shared/url.ts';
import { clockMs } from '../../machine/clock.ts';
import { afterPrefix, crawlKey, decodeTask, type TaskRecord } from '../../store/records.ts';
import type { Row, Store } from '../../store/store.ts';
import { parseTaskKey, taskKeyBytes, taskKeys } from '../../store/task-keys.ts';
import type { Crawl, Place } from '../crawl/crawl.ts';
import { crawlKindOf } from '../kinds/kinds.ts';
import type { Host, HostClient, Line } from '../politeness/host.ts';
import { workDueAt } from '../politeness/next-task.ts';
import type { Politeness } from '../politeness/politeness.ts';
import { type NewTask, TaskRows, type UnsortedLimits } from './task-rows.ts';
import { type Task, TaskBudget, TaskQueue } from './tasks.ts';

export type TaskQueuesOptions = {
  readonly store: Store;
  readonly politeness: Politeness;
  /** Queues in memory, of all crawls. */
  readonly queuesMax: number;
  /** Hosts that may be asked at once: if so many are in memory, of those that answer or of those
   *  that nobody has tried, no more are read in. Each crawl may have so many. Default: 1,024. */
  readonly dueMin?: number | undefined;
  /** Tasks in memory; above it each queue keeps few. */
  readonly tasksMax: number;
  /** When new tasks of many hosts wait to be sorted; undefined: as usual. */
  readonly unsorted?: UnsortedLimits | undefined;
};

/** Minimum number of queues of a crawl, so that it always makes progress. */
const queuesMin = 16;
/** Rows read by one `unpark`, which blocks the event loop. */
const unparkReads = 128;

/** See `dueMin`; and how many of such hosts there may be for each slot of the slaves. */
const dueHosts = 1_024;
const duePerSlot = 4;
const counted = ['timed', 'free', 'fresh'] as const;
const lookMs = 50;

/** Queues that one `rotate` checks, and the wait after which a host loses its place. */
const rotatedQueues = 256;
const waitMs = 5_000;
/** Least time of a request of a group without a delay, for `isFarBack`. */
const requestMs = 20;
/** Hosts far back in their group that one `rotate` parks: others of it may be read in for them. */
const farBackMax = 64;
/** A host that was asked makes room for others after so long: so each gets its turn. */
const turnMs = 30_000;
/** Rows that are counted at once, after a restart. */
const countedRows = 512;
/** After so long `unpark` and `countWaiting` read no more: rows may have to come from the disk. */
const readMsMax = 8;

/** The position at which the reading of a crawl continues. */
type Round = {
  from: Buffer;
  /** True: nothing was parked since it began, so at its end nothing is. */
  isLast: boolean;
};
type Position = { readonly rank: number; readonly seq: number };

export class TaskQueues {
  /** Their tasks in the store. */
  readonly rows: TaskRows;
  readonly #politeness: Politeness;
  readonly #queuesMax: number;
  readonly #queuesMin: number;
  readonly #dueMin: number;
  /** Further hosts that may come into memory until the next look at how many may be asked. */
  #dueRoom: number;
  /** There are enough that answer. */
  #isSated = false;
  #lookedAt = Number.NEGATIVE_INFINITY;
  readonly #budget: TaskBudget;
  readonly #rounds = new Map<Crawl, Round>();
  /** Finished crawls with tasks in the store: those of a page limit. They are in no round, so that
   *  thousands of them cost nothing. */
  readonly #resting = new Set<Crawl>();
  /** Those that `rotate` checks next are first. No iterator of them may be kept: it would keep all
   *  that there were since its last step. */
  readonly #places = new Set<Place>();
  readonly #uncounted = new Set<TaskQueue>();

  constructor(options: TaskQueuesOptions) {
    this.rows = new TaskRows(options.store, options.unsorted);
    this.#politeness = options.politeness;
    this.#queuesMax = options.queuesMax;
    this.#dueMin = options.dueMin ?? dueHosts;
    this.#dueRoom = this.#dueMin;
    this.#queuesMin = Math.min(queuesMin, options.queuesMax, this.#dueMin);
    this.#budget = new TaskBudget(options.tasksMax);
  }

  /** Queues in memory. */
  get count(): number {
    return this.#places.size;
  }

  /** True: some running crawl may have parked hosts. */
  get hasParked(): boolean {
    return [...this.#rounds.keys()].some(({ isRunning }) => isRunning);
  }

  /** A crawl of an earlier master: its tasks are in the store. */
  restored(crawl: Crawl): void {
    if (crawl.isOpen || crawl.open.waiting > 0) this.rows.restore(crawl.id);
    if (crawl.isOpen) this.parked(crawl);
    else if (crawl.state === 'finished' && crawl.open.waiting > 0) this.#resting.add(crawl);
  }

  /** The crawl has finished, and has no queue in memory. */
  rest(crawl: Crawl): void {
    if (this.#rounds.delete(crawl)) this.#resting.add(crawl);
    this.rows.rest(crawl.id);
  }

  /** The crawl has work again. */
  #stir(crawl: Crawl): void {
    if (this.#resting.delete(crawl)) this.parked(crawl);
  }

  /** Records that a host of the crawl may be parked. */
  parked(crawl: Crawl): void {
    const round = this.#rounds.get(crawl);
    if (round === undefined) this.#rounds.set(crawl, { from: crawlKey(crawl.id), isLast: true });
    else round.isLast = false;
  }

  /** Tasks of a commit that is under way. Returns what is to be called when it is on the disk; that
   *  returns the hosts to be woken. Of tasks that only the store is to have, as most of a large
   *  crawl, it keeps the keys alone. */
  coming(crawl: Crawl, tasks: readonly NewTask[]): () => Set<Host> {
    const [near, far] = [[] as NewTask[], [] as NewTask[]];
    for (const task of tasks) (this.#isNear(crawl, task) ? near : far).push(task);
    return this.#landing(crawl, near, taskKeys(crawl.id, far));
  }

  /** Is the task wanted in memory, as things stand? */
  #isNear(crawl: Crawl, task: NewTask): boolean {
    const known = crawl.queues.get(mapKey(task.host.hash));
    return known === undefined ? this.#hasRoomFor(crawl) : !known.queue.isBeyond(task);
  }

  #landing(crawl: Crawl, near: readonly NewTask[], far: Buffer): () => Set<Host> {
    return () => {
      const woken = new Set<Host>();
      const wake = (host: Host | undefined) => host && woken.add(host);
      for (const task of near) wake(this.#add(crawl, mapKey(task.host.hash), task, task.record));
      for (let at = 0; at < far.length; at += taskKeyBytes) {
        const key = far.subarray(at, at + taskKeyBytes);
        const parts = parseTaskKey(key);
        if (parts !== undefined) wake(this.#addFar(crawl, key, parts));
      }
      return woken;
    };
  }

  #addFar(crawl: Crawl, key: Buffer, task: Position & { host: Buffer }): Host | undefined {
    const mark = mapKey(task.host);
    // A host may have gone, or room have come, since the commit began.
    const isNear = !crawl.queues.has(mark) && this.#hasRoomFor(crawl);
    const value = isNear ? this.rows.get(key) : undefined;
    return this.#add(crawl, mark, task, value && decodeTask(value));
  }

  /** A task has reached the store. Returns its host if that is to be woken. */
  #add(crawl: Crawl, mark: string, task: Position, record?: TaskRecord): Host | undefined {
    this.#stir(crawl);
    const known = crawl.queues.get(mark);
    if (known !== undefined) {
      const isSooner = known.queue.add(task, record);
      // Whether the crawl holds the host depends on the kind of its next task.
      return isSooner || crawl.images.areWanted ? known.host : undefined;
    }
    if (record === undefined || !this.#hasRoomFor(crawl)) {
      this.parked(crawl);
      return undefined;
    }
    // Others of its tasks may be parked.
    const { host, queue } = this.#make(crawl, record.url, !this.#rounds.has(crawl));
    queue.add(task, record);
    return host;
  }

  /** Returns the task of that key; undefined if it is done. */
  find(
    crawl: Crawl,
    key: Buffer,
    position: Position & { readonly host: Buffer },
  ): Task | undefined {
    this.#stir(crawl);
    const known = crawl.queues.get(mapKey(position.host));
    if (known !== undefined) return known.queue.find(position);
    const value = this.#rounds.has(crawl) ? this.rows.get(key) : undefined;
    if (value === undefined) return undefined;
    const { host, queue } = this.#make(crawl, decodeTask(value).url, false);
    // Others of its tasks wait in the store, and nothing else may wake it.
    this.#politeness.wake(host, clockMs());
    return queue.find(position);
  }

  /** Drops a queue without tasks, or without work: such a host takes no memory. */
  leaveIfDone(crawl: Crawl, hash: Buffer): void {
    const place = crawl.queues.get(mapKey(hash));
    if (place?.queue.isEmpty) this.#leave(place);
    else if (place !== undefined && !crawl.isRunning) this.#park(place);
  }

  /** The crawl no longer runs: its hosts are parked to make room for others. */
  park(crawl: Crawl): void {
    for (const place of [...crawl.queues.values()]) this.#park(place);
  }

  /** Parks hosts while parked hosts need room: those that have to wait, so that many unreachable
   *  hosts delay no others, and those that had their turn. Called about once a second. */
  rotate(now: number): void {
    if (!this.#isCrowded) return;
    const isFull = this.#places.size >= this.#queuesMax;
    let farBack = farBackMax;
    let left = Math.min(rotatedQueues, this.#places.size);
    for (const place of this.#places) {
      if (left-- === 0) break;
      this.#places.delete(place);
      this.#places.add(place);
      if (this.#isOver(place, isFull, now)) this.#park(place);
      else if (isFull && farBack > 0 && isFarBack(place.host)) {
        farBack--;
        this.#park(place);
      }
    }
  }

  /** True: others may have the room of this host. One that waits keeps it unless memory is full; so
   *  does any as long as few that answer may be asked, and one that does not answer, whose failures
   *  in a row only memory knows. */
  #isOver({ crawl, host, queue }: Place, isFull: boolean, now: number): boolean {
    if (isFull && waits(host, now, waitMs)) return true;
    const hadTurn = queue.wasLeased && now - queue.since >= turnMs;
    if (!this.#isSated || !hadTurn || !host.breaker.isProved) return false;
    // A crawl that has all its hosts in memory would only read it in again.
    return this.#rounds.has(crawl) && !waits(host, now, 0);
  }

  /** Counts some of the tasks that an earlier master left. Called about once a second. */
  countWaiting(): void {
    const until = clockMs() + readMsMax;
    for (const queue of this.#uncounted) {
      while (!queue.isCounted && clockMs() < until) queue.countMore(countedRows);
      if (!queue.isCounted) return;
      this.#uncounted.delete(queue);
    }
  }

  /** Reads in hosts while there is room. `slots`: how many fetches the slaves can have under way.
   *  Returns true if there may be more of them. */
  unpark(slots: () => number): boolean {
    this.#look(slots);
    const until = clockMs() + readMsMax;
    for (let reads = 0; reads < unparkReads && clockMs() < until; ) {
      const crawls = [...this.#rounds.keys()].filter((crawl) => this.#hasRoomFor(crawl));
      if (crawls.length === 0) return false;
      for (const crawl of crawls) {
        reads++;
        const row = this.#next(crawl);
        if (row !== undefined) this.#load(crawl, row);
      }
    }
    return true;
  }

  /** Looks at how many hosts may be asked: now and then, since it looks at each, and when none may.
   *  Hosts that failed do not count: thousands of them may wait for a few that are tried again. */
  #look(slots: () => number): void {
    const [now, politeness] = [clockMs(), this.#politeness];
    const isHungry = !counted.some((line) => politeness.has(line, now));
    if (now - this.#lookedAt < lookMs && !isHungry) return;
    this.#lookedAt = now;
    const dueMax = Math.max(this.#dueMin, duePerSlot * slots());
    const { size } = this.#places;
    const count = (among: readonly Line[]) =>
      size < this.#dueMin ? size : politeness.countDue(now, among, dueMax);
    const answering = count(['timed', 'free']);
    // With very many slots memory may be full before so many are due.
    this.#isSated = answering >= Math.max(this.#dueMin, Math.min(dueMax, this.#queuesMax / 2));
    this.#dueRoom = dueMax - Math.max(answering, count(['fresh']));
  }

  /** Re-evaluates all hosts of a crawl, whose tasks may now be handed out, or not. */
  wake(crawl: Crawl): void {
    if (crawl.isOpen) this.#stir(crawl);
    const now = clockMs();
    for (const { host } of crawl.queues.values()) this.#politeness.wake(host, now);
  }

  /** The options of a crawl have changed: so does how it treats its hosts. */
  respec(crawl: Crawl): void {
    const treated = [...crawl.queues.values()].map(
      ({ host }) => [host, treatmentOf(crawl, new URL(host.key))] as const,
    );
    this.#politeness.rejoin(crawl.id, treated, clockMs());
  }

  /** Removes a cancelled crawl's queues from their hosts. */
  leaveAll(crawl: Crawl): void {
    for (const place of [...crawl.queues.values()]) this.#leave(place);
    this.#rounds.delete(crawl);
    this.#resting.delete(crawl);
    this.rows.forget(crawl.id);
  }

  /** True: a running crawl has hosts without room. */
  get #isCrowded(): boolean {
    for (const crawl of this.#rounds.keys()) {
      if (crawl.isRunning && !this.#hasRoomFor(crawl)) return true;
    }
    return false;
  }

  #hasRoomFor({ isRunning, queues }: Crawl): boolean {
    if (!isRunning || queues.size < this.#queuesMin) return isRunning;
    if (this.#places.size >= this.#queuesMax) return false;
    return this.#dueRoom > 0 || queues.size < this.#dueMin;
  }

  /** Returns the first row of the next host with tasks; undefined at the end of a round. */
  #next(crawl: Crawl): Row | undefined {
    const round = this.#rounds.get(crawl);
    if (round === undefined) return undefined;
    const row = this.rows.firstFrom(crawl.id, round.from);
    const parts = row && parseTaskKey(row.key);
    if (parts !== undefined) {
      round.from = afterPrefix(Buffer.concat([crawlKey(crawl.id), parts.host]));
      return row;
    }
    this.#rounds.delete(crawl);
    if (!round.isLast) this.parked(crawl);
    return undefined;
  }

  #load(crawl: Crawl, { key, value }: Row): void {
    const parts = parseTaskKey(key);
    if (parts === undefined || crawl.queues.has(mapKey(parts.host))) return;
    const { host } = this.#make(crawl, decodeTask(value).url, false);
    this.#politeness.wake(host, clockMs());
  }

  /** `empty`: the store has no task of it. */
  #make(crawl: Crawl, taskUrl: string, empty: boolean): Place {
    const url = new URL(taskUrl);
    const host = this.#politeness.host(hostKeyOf(url));
    const { hash } = host;
    const [rows, budget] = [this.rows, this.#budget];
    const queue = new TaskQueue({ crawl: crawl.id, host: hash, rows, empty, budget });
    const made = { crawl, host, queue };
    this.#dueRoom--;
    if (!queue.isCounted) this.#uncounted.add(queue);
    crawl.queues.set(mapKey(hash), made);
    this.#places.add(made);
    const active = () => crawl.active;
    this.#politeness.join(host, crawl.id, { queue, active, ...treatmentOf(crawl, url) });
    return made;
  }

  /** Parks a host, unless it has work at a slave or on the way to the disk. */
  #park(place: Place): void {
    if (!place.queue.isIdle) return;
    this.#leave(place);
    this.parked(place.crawl);
  }

  #leave(place: Place): void {
    const { crawl, host, queue } = place;
    crawl.queues.delete(mapKey(host.hash));
    this.#places.delete(place);
    this.#uncounted.delete(queue);
    queue.close();
    this.#politeness.leave(host, crawl.id, clockMs());
  }
}

/** Returns how a crawl treats the host of this URL. */
function treatmentOf(crawl: Crawl, url: URL): Pick<HostClient, 'manners' | 'leavesOut' | 'holds'> {
  const leavesOut = (task: Task) => crawlKindOf(task).leavesOut(crawl, task);
  const holds = (task: Task) => crawlKindOf(task).isLimited === true && crawl.images.holdPages;
  return {
    holds: crawl.images.areWanted ? holds : undefined,
    manners: crawl.manners(url),
    leavesOut: crawl.isNarrowed ? leavesOut : undefined,
  };
}

/** Returns true if no task of the host can start within `ms`, and none is under way. */
function waits(host: Host, now: number, ms: number): boolean {
  if (host.inFlight > 0 || host.isUnplaced) return false;
  const dueAt = Math.max(workDueAt(host, now) ?? Number.POSITIVE_INFINITY, host.group.nextAt);
  return dueAt > now + ms;
}

/** Returns true if so many hosts of its group wait that those behind them wait as long. */
function isFarBack({ group, inFlight, isUnplaced }: Host): boolean {
  if (inFlight > 0 || isUnplaced) return false;
  return (group.waiting.size - 1) * Math.max(group.delayMs, requestMs) > waitMs;
}

function mapKey(hash: Buffer): string {
  return hash.toString('latin1');
}

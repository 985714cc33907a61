/**
 * Which hosts of which crawls have a task queue in memory. A crawl of the whole web meets ever new
 * hosts, so there is an end to it: a host beyond it is *parked*. Its tasks are in the store as all
 * tasks are, and nothing else of it is anywhere:
 *
 *     in memory --its last task is done--> gone
 *        |  ^
 *        |  +--unpark: there is room, and its crawl is running--+
 *        |                                                      |
 *        +--park: its crawl is not running any more--------> parked <-- add: there is no room
 *        +--rotate: it has to wait, and others want its room--> parked
 *
 * Parked hosts are found by reading the table of tasks, round and round, one row a host. `#rounds`
 * errs towards reading: a crawl in it may have none. After a restart all hosts are parked.
 * Owned by the crawls; the frontier tells it what is on the disk, the dispatcher what is wanted.
 */

import { hostKeyOf } from '../../../shared/url.ts';
import { clockMs } from '../../machine/clock.ts';
import {
  afterPrefix,
  crawlKey,
  decodeTask,
  parseTaskKey,
  type TaskRecord,
} from '../../store/records.ts';
import type { Row, Store } from '../../store/store.ts';
import type { Crawl, Place } from '../crawl/crawl.ts';
import type { Host, HostName } from '../politeness/host.ts';
import { workDueAt } from '../politeness/host-work.ts';
import type { Politeness } from '../politeness/politeness.ts';
import { type Task, TaskQueue, TaskRoom } from './tasks.ts';

export type TaskQueuesOptions = {
  readonly store: Store;
  readonly politeness: Politeness;
  /** Queues in memory, of all crawls. */
  readonly queuesMax: number;
  /** Tasks in memory; above it each queue keeps few. */
  readonly tasksMax: number;
};

/** A crawl has as many whatever the others have, so that it goes on. */
const queuesMin = 16;
/** Rows read by one `unpark`: nobody else is served meanwhile. */
const unparkReads = 128;

/** Queues that one `rotate` looks at, and how long a host has to wait to lose its room. */
const rotatedQueues = 256;
const waitMs = 5_000;

/** Where a crawl's reading goes on. */
type Round = {
  from: Buffer;
  /** Nothing was parked since it began: at its end, nothing is. */
  isLast: boolean;
};
type Position = { readonly rank: number; readonly seq: number };

export class TaskQueues {
  readonly #store: Store;
  readonly #politeness: Politeness;
  readonly #queuesMax: number;
  readonly #queuesMin: number;
  readonly #room: TaskRoom;
  readonly #rounds = new Map<Crawl, Round>();
  readonly #places = new Set<Place>();
  /** What `rotate` looks at next. */
  #rotation = this.#places.values();

  constructor(options: TaskQueuesOptions) {
    this.#store = options.store;
    this.#politeness = options.politeness;
    this.#queuesMax = options.queuesMax;
    this.#queuesMin = Math.min(queuesMin, options.queuesMax);
    this.#room = new TaskRoom(options.tasksMax);
  }

  /** Queues in memory. */
  get count(): number {
    return this.#places.size;
  }

  /** Some crawl that is running may have parked hosts. */
  get hasParked(): boolean {
    return [...this.#rounds.keys()].some(({ isRunning }) => isRunning);
  }

  /** Some host of the crawl may be parked. */
  parked(crawl: Crawl): void {
    const round = this.#rounds.get(crawl);
    if (round === undefined) this.#rounds.set(crawl, { from: crawlKey(crawl.id), isLast: true });
    else round.isLast = false;
  }

  /** A task has reached the store. Gives its host if that has a queue now. */
  add(crawl: Crawl, name: HostName, record: TaskRecord, position: Position): Host | undefined {
    let known = crawl.queues.get(mapKey(name.hash));
    if (known === undefined) {
      if (!this.#hasRoomFor(crawl)) {
        this.parked(crawl);
        return undefined;
      }
      // Others of its tasks may be parked.
      known = this.#make(crawl, record.url, !this.#rounds.has(crawl));
    }
    known.queue.add(record, position);
    return known.host;
  }

  /** The task of that key; undefined when it is done. */
  find(
    crawl: Crawl,
    key: Buffer,
    position: Position & { readonly host: Buffer },
  ): Task | undefined {
    const known = crawl.queues.get(mapKey(position.host));
    if (known !== undefined) return known.queue.find(position);
    const value = this.#rounds.has(crawl) ? this.#store.get('tasks', key) : undefined;
    if (value === undefined) return undefined;
    const { host, queue } = this.#make(crawl, decodeTask(value).url, false);
    // Others of its tasks wait in the store, and nothing else may look at it.
    this.#politeness.wake(host, clockMs());
    return queue.find(position);
  }

  /** Forgets a queue that has nothing left, or nothing to do: such a host costs no memory. */
  leaveIfDone(crawl: Crawl, hash: Buffer): void {
    const place = crawl.queues.get(mapKey(hash));
    if (place?.queue.isEmpty) this.#leave(place);
    else if (place !== undefined && !crawl.isRunning) this.#park(place);
  }

  /** The crawl is not running any more: its hosts leave the room to those of others. */
  park(crawl: Crawl): void {
    for (const place of [...crawl.queues.values()]) this.#park(place);
  }

  /** While parked hosts want room, those that have to wait are parked for them, so that many that
   *  are out of reach hold up nobody. To be called about once a second. */
  rotate(now: number): void {
    for (let i = Math.min(rotatedQueues, this.#places.size); i > 0 && this.#isCrowded; i--) {
      let { value: place } = this.#rotation.next();
      if (place === undefined) {
        this.#rotation = this.#places.values();
        place = this.#rotation.next().value;
      }
      if (place !== undefined && mustWait(place.host, now)) this.#park(place);
    }
  }

  /** Reads in hosts for which there is room. True when there may be more of them. */
  unpark(): boolean {
    for (let reads = 0; reads < unparkReads; ) {
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

  /** Looks at all hosts of a crawl again: it may hand out tasks now, or may not. */
  wake(crawl: Crawl): void {
    const now = clockMs();
    for (const { host } of crawl.queues.values()) this.#politeness.wake(host, now);
  }

  /** Takes a cancelled crawl's queues away from their hosts. */
  leaveAll(crawl: Crawl): void {
    for (const place of [...crawl.queues.values()]) this.#leave(place);
    this.#rounds.delete(crawl);
  }

  /** A crawl that is running has hosts for which there is no room. */
  get #isCrowded(): boolean {
    for (const crawl of this.#rounds.keys()) {
      if (crawl.isRunning && !this.#hasRoomFor(crawl)) return true;
    }
    return false;
  }

  #hasRoomFor({ isRunning, queues }: Crawl): boolean {
    return isRunning && (this.#places.size < this.#queuesMax || queues.size < this.#queuesMin);
  }

  /** The first row of the next host with tasks; undefined at the end of a round. */
  #next(crawl: Crawl): Row | undefined {
    const round = this.#rounds.get(crawl);
    if (round === undefined) return undefined;
    const to = crawlKey(crawl.id + 1);
    const [row] = this.#store.range('tasks', { from: round.from, to, limit: 1 });
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

  /** `empty`: nothing of it is in the store. */
  #make(crawl: Crawl, taskUrl: string, empty: boolean): Place {
    const url = new URL(taskUrl);
    const host = this.#politeness.host(hostKeyOf(url));
    const { hash } = host;
    const [store, room] = [this.#store, this.#room];
    const queue = new TaskQueue({ crawl: crawl.id, host: hash, store, empty, room });
    const made = { crawl, host, queue };
    crawl.queues.set(mapKey(hash), made);
    this.#places.add(made);
    const manners = crawl.manners(url);
    this.#politeness.join(host, crawl.id, { queue, manners, active: () => crawl.active });
    return made;
  }

  /** Unless it has something at a slave, or on the way to the disk. */
  #park(place: Place): void {
    if (!place.queue.isIdle) return;
    this.#leave(place);
    this.parked(place.crawl);
  }

  #leave(place: Place): void {
    const { crawl, host, queue } = place;
    crawl.queues.delete(mapKey(host.hash));
    this.#places.delete(place);
    queue.close();
    this.#politeness.leave(host, crawl.id, clockMs());
  }
}

/** Nothing of the host can start soon, and nothing of it is under way. */
function mustWait(host: Host, now: number): boolean {
  if (host.inFlight > 0 || host.isUnplaced) return false;
  const dueAt = Math.max(workDueAt(host, now) ?? Number.POSITIVE_INFINITY, host.group.nextAt);
  return dueAt > now + waitMs;
}

function mapKey(hash: Buffer): string {
  return hash.toString('latin1');
}

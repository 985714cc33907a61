/**
 * Politeness for the whole cluster: which host may be asked next, and when. Pure: time is an
 * argument, `take` hands out tasks, `ended` ends them.
 *
 * Delay and concurrency apply to a group of hosts. While a group has work and may have one more
 * fetch under way, it is in one heap, ordered by the next time it may be asked: the heap of
 * redirects, if one of its fetches waits with one, which goes before any new task; else the heap of
 * its line (see `host`). One of the line `free` that is visited keeps its place for a while
 * (`visit.ts`).
 *
 * Within a group the host that has waited longest is next. When several crawls ask the same group,
 * the longest of their delays and the smallest of their concurrencies apply, and they take turns.
 */

import { Heap } from '../../machine/heap.ts';
import type { RobotsBudget } from '../robots/budget.ts';
import type { Task } from '../tasks/tasks.ts';
import { Group, type Hop, Host, type HostClient, type Line, lines } from './host.ts';
import { nextTask, type WorkEvents, workDueAt } from './next-task.ts';

/** The records of hosts and groups: `StoredHosts`. */
export interface HostSource {
  /** Returns the store key of a host or group. */
  hashOf(key: string): Buffer;
  /** Returns the group of a host, by its key; undefined: `met` finds it. */
  groupOf(hostKey: string): string | undefined;
  /** Returns the robots.txt of a host. */
  robotsFile(hash: Buffer): Uint8Array | undefined;
  /** A host is new here: loads its stored state, and has it placed if its group is not known. */
  met(host: Host, places: Places): void;
  /** A group is new here: loads its stored state. */
  metGroup(group: Group): void;
}

export type Places = Pick<Politeness, 'place'>;

export type PolitenessOptions = {
  readonly hosts: HostSource;
  /** Limit for parsed files; default: none. */
  readonly robotsBudget?: RobotsBudget;
  /** Until then an earlier master may have asked any host; -Infinity: there was none. */
  readonly askedUntil: number;
};

/** Maximum difference between the times that two requests take to the server. */
export const guardMs = 30;
/** A redirect waits through a hold of at most this length; it keeps a slot of its slave. */
const holdMsMax = 10_000;
/** Requests of a browser that count as one of ours: they load a host less than pages do. */
const requestsPerDelay = 10;

export class Politeness {
  readonly #hosts = new Map<string, Host>();
  readonly #groups = new Map<string, Group>();
  readonly #hops = new Heap<Group>((a, b) => a.dueAt < b.dueAt);
  readonly #lines = new Map(
    lines.map((line) => [line, new Heap<Group>((a, b) => a.dueAt < b.dueAt)]),
  );
  readonly #options: PolitenessOptions;
  #events: WorkEvents = { met: () => {}, refused: () => {} };

  constructor(options: PolitenessOptions) {
    this.#options = options;
  }

  /** Tells the listener from now on, in the middle of `take`. */
  tell(listener: WorkEvents): void {
    this.#events = listener;
  }

  /** The hosts in memory. */
  [Symbol.iterator](): IterableIterator<Host> {
    return this.#hosts.values();
  }

  get hostCount(): number {
    return this.#hosts.size;
  }

  /** Returns the store key of a host, which need not be in memory. */
  hashOf(key: string): Buffer {
    return this.#hosts.get(key)?.hash ?? this.#options.hosts.hashOf(key);
  }

  /** Returns the host if it is in memory. */
  known(key: string): Host | undefined {
    return this.#hosts.get(key);
  }

  host(key: string): Host {
    let host = this.#hosts.get(key);
    if (host === undefined) {
      const { hosts, robotsBudget } = this.#options;
      const groupKey = hosts.groupOf(key);
      const group = this.#group(groupKey ?? key);
      const hash = group.key === key ? group.hash : hosts.hashOf(key);
      host = new Host(key, hash, group, () => hosts.robotsFile(hash), robotsBudget);
      host.isUnplaced = groupKey === undefined;
      host.group.members.add(host);
      this.#hosts.set(key, host);
      hosts.met(host, this);
    }
    return host;
  }

  /** Puts the host into its group; until now none of its tasks was handed out. */
  place(host: Host, groupKey: string, now: number): void {
    const before = host.group;
    host.isUnplaced = false;
    if (before.key !== groupKey && this.#hosts.get(host.key) === host) {
      before.waiting.remove(host);
      before.members.delete(host);
      before.agreeAnew();
      this.#forget(before, now);
      host.group = this.#group(groupKey);
      host.group.members.add(host);
      for (const { manners } of host.clients.values()) host.group.agree(host, manners);
    }
    this.wake(host, now);
  }

  join(host: Host, crawl: number, client: HostClient): void {
    host.clients.set(crawl, client);
    host.group.agree(host, client.manners);
  }

  /** A crawl has other options: how it treats each of its hosts from now on. */
  rejoin(
    crawl: number,
    treated: Iterable<readonly [host: Host, as: Pick<HostClient, 'manners' | 'leavesOut'>]>,
    now: number,
  ): void {
    const hosts: Host[] = [];
    for (const [host, { manners, leavesOut }] of treated) {
      const client = host.clients.get(crawl);
      if (client === undefined) continue;
      client.manners = manners;
      client.leavesOut = leavesOut;
      // Its sitemaps are offered once more: it may want others.
      client.told = undefined;
      hosts.push(host);
    }
    // Once a group: it may have thousands of hosts.
    for (const group of new Set(hosts.map(({ group }) => group))) this.agreeAnew(group, now);
    for (const host of hosts) this.wake(host, now);
  }

  /** The host's robots.txt is known. */
  learned(host: Host, now: number): void {
    this.agreeAnew(host.group, now);
    this.wake(host, now);
  }

  /** The settings on which the crawls of a group agree have changed. */
  agreeAnew(group: Group, now: number): void {
    const hadDelay = group.delayMs > 0;
    group.agreeAnew();
    // Without one nobody said when the last request left; it was before now.
    if (!hadDelay && group.delayMs > 0) group.lastAt = Math.max(group.lastAt, now);
  }

  /** The crawl has no more tasks on this host. */
  leave(host: Host, crawl: number, now: number): void {
    host.clients.delete(crawl);
    host.group.agreeAnew();
    this.wake(host, now);
    this.#forget(host.group, now);
  }

  /** Drops groups without tasks whose delay is over. Called from time to time. */
  sweep(now: number): void {
    for (const group of this.#groups.values()) this.#forget(group, now);
  }

  /** Re-evaluates the host: it has new tasks, or a fetch of it has ended, or its pace changed. */
  wake(host: Host, now: number): void {
    const { waiting } = host.group;
    const dueAt = workDueAt(host, now);
    if (dueAt === undefined) waiting.remove(host);
    else {
      // Its turn in the group does not get later by being woken.
      if (host.heapIndex < 0 || dueAt > now || host.dueAt > dueAt) host.dueAt = dueAt;
      waiting.set(host);
    }
    this.#order(host.group, now);
  }

  /** The group's pace has changed. */
  paced(group: Group, now: number): void {
    this.#order(group, now);
  }

  /** Returns whether `take` of that line may return a task now. */
  has(line: Line, now: number): boolean {
    const dueAt = this.#lines.get(line)?.peek()?.dueAt;
    return dueAt !== undefined && dueAt <= now;
  }

  /** Counts the groups of these lines of which `take` may return a task now, up to `max`. */
  countDue(now: number, among: readonly Line[], max: number): number {
    const isDue = (group: Group) => group.dueAt <= now;
    let due = 0;
    for (const line of among) due += this.#lines.get(line)?.countFirst(isDue, max - due) ?? 0;
    return due;
  }

  /** Do at least this many answering hosts wait for a slot, each longer than any fresh host? */
  isCrowded(groups: number): boolean {
    const free = this.#lines.get('free');
    const fresh = this.#lines.get('fresh')?.peek();
    const first = free?.peek();
    if (free === undefined || first === undefined || free.size < groups) return false;
    return fresh === undefined || first.dueAt <= fresh.dueAt;
  }

  /** Returns a task that may start now, and its host, from the group of these lines that has waited
   *  longest; undefined: none. */
  take(now: number, among: readonly Line[]): { host: Host; task: Task } | undefined {
    for (let group = this.#first(among); group && group.dueAt <= now; group = this.#first(among)) {
      if (group.heap !== this.#lines.get(group.line(now))) {
        // A dead host is given another chance.
        this.#order(group, now);
        continue;
      }
      const host = group.waiting.peek();
      const task = host && nextTask(host, now, this.#events);
      if (host !== undefined && task !== undefined) {
        group.visit.request(group.dueAt, now);
        took(host, task, now);
      }
      if (host === undefined) this.#order(group, now);
      else this.wake(host, now);
      if (host !== undefined && task !== undefined) return { host, task };
    }
    return undefined;
  }

  /** Returns one more task of a group with a delay, for a request that leaves a delay after the one
   *  before; undefined: the next one does not fit, or there is none. */
  takeMore(
    group: Group,
    now: number,
    fits: (task: Task) => boolean,
  ): { host: Host; task: Task } | undefined {
    const host = group.waiting.peek();
    if (host === undefined || host.dueAt > now || host.line(now) !== undefined) return undefined;
    if (group.hops.length > 0) return undefined;
    const { turn } = host;
    const task = nextTask(host, now, this.#events);
    const isTaken = task !== undefined && fits(task);
    if (isTaken) took(host, task, now);
    else host.turn = turn;
    this.wake(host, now);
    return isTaken ? { host, task } : undefined;
  }

  /** A fetch was redirected: `serveHops` calls `settle` when it may continue. */
  addHop(hop: Hop, now: number): void {
    hop.group.lend(hop.delayMs);
    hop.group.hops.push(hop);
    this.#order(hop.group, now);
  }

  /** Drops a redirect whose fetch has ended. */
  dropHop(hop: Hop, now: number): void {
    const { group } = hop;
    const index = group.hops.indexOf(hop);
    if (index >= 0) group.hops.splice(index, 1);
    this.#order(group, now);
  }

  /** Lets redirects continue whose turn it is; puts off those of a group that holds for long. */
  serveHops(now: number): void {
    for (let group = this.#hops.peek(); group && group.dueAt <= now; group = this.#hops.peek()) {
      const turn = group.pace.holdUntil > now + holdMsMax ? 'later' : 'go';
      const hop = group.hops.find(({ hasSlot }) => hasSlot || group.hasSlot || turn === 'later');
      if (hop !== undefined) {
        group.hops.splice(group.hops.indexOf(hop), 1);
        if (turn === 'go') {
          if (!hop.hasSlot) group.inFlight++;
          group.lastAt = now + Math.max(0, hop.delayMs - group.delayMs);
        }
        hop.settle(turn);
      }
      this.#order(group, now);
    }
  }

  /** A slave has the task, and will say when its request leaves; until then no other request
   *  starts. */
  starting(group: Group, now: number): void {
    group.unstarted++;
    this.#order(group, now);
  }

  /** A request has left: `isAwaited` is one that `starting` announced. The delay counts from here,
   *  so that the way to the slave, a look-up and a handshake shorten no gap. */
  started(group: Group, isAwaited: boolean, now: number): void {
    if (isAwaited) group.unstarted--;
    group.lastAt = Math.max(group.lastAt, now + guardMs);
    this.#order(group, now);
  }

  /** A request that `starting` announced will not leave. If none has since it was taken, the next
   *  one owes it no delay. */
  spared(group: Group, now: number): void {
    group.unstarted--;
    if (group.lastAt === group.takenAt) group.lastAt = group.lastAtBefore;
    this.#order(group, now);
  }

  /** A page in a browser made this many further requests until now: the next one waits the delay
   *  for every ten of them, too. [T-142] */
  burdened(group: Group, requests: number, now: number): void {
    if (group.delayMs === 0) return;
    const restMs = (group.delayMs * requests) / requestsPerDelay;
    group.lastAt = Math.max(group.lastAt, now + restMs);
    this.#order(group, now);
  }

  /** A fetch frees its slot: it has ended, or a redirect leads to another group. */
  vacate(group: Group, now: number): void {
    group.inFlight--;
    this.#order(group, now);
  }

  /** A task from `take` has ended, with any outcome. */
  ended(host: Host, now: number): void {
    host.inFlight--;
    this.wake(host, now);
  }

  /** True: `take` may return a task, now or at a known time, without the end of a fetch. */
  get hasDue(): boolean {
    return this.waitingGroups > 0;
  }

  /** Groups that `take` or `serveHops` may serve, now or at a known time. */
  get waitingGroups(): number {
    return [this.#hops, ...this.#lines.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /** Returns when, after `now`, `take` or `serveHops` may have more; undefined: only after a
   *  `wake`. */
  nextDueAt(now: number): number | undefined {
    let first: number | undefined;
    for (const heap of [this.#hops, ...this.#lines.values()]) {
      const dueAt = heap.peek()?.dueAt;
      if (dueAt !== undefined && dueAt > now && dueAt < (first ?? dueAt + 1)) first = dueAt;
    }
    return first;
  }

  #first(among: readonly Line[]): Group | undefined {
    let first: Group | undefined;
    for (const line of among) {
      const group = this.#lines.get(line)?.peek();
      if (group !== undefined && (first === undefined || group.dueAt < first.dueAt)) first = group;
    }
    return first;
  }

  #group(key: string): Group {
    let group = this.#groups.get(key);
    if (group === undefined) {
      const { hosts, askedUntil } = this.#options;
      group = new Group(key, hosts.hashOf(key), askedUntil);
      this.#groups.set(key, group);
      hosts.metGroup(group);
    }
    return group;
  }

  /** Puts the group where it belongs. */
  #order(group: Group, now: number): void {
    const isHopping = group.hops.length > 0;
    const dueAt = isHopping ? hopDueAt(group, now) : taskDueAt(group);
    if (dueAt === undefined) {
      group.heap?.remove(group);
      group.heap = undefined;
      return;
    }
    const heap = isHopping ? this.#hops : this.#lines.get(group.line(now));
    if (group.heap !== heap) group.heap?.remove(group);
    // While something of it is under way another request would need a connection of its own.
    const isVisited = heap === this.#lines.get('free') && group.inFlight === 0;
    group.dueAt = isVisited ? group.visit.place(dueAt, now) : dueAt;
    group.heap = heap;
    heap?.set(group);
  }

  #forget(group: Group, now: number): void {
    if (group.inFlight > 0 || group.hops.length > 0 || group.lastAt + group.delayMs > now) return;
    for (const host of group.members) {
      if (host.clients.size > 0 || host.inFlight > 0) continue;
      group.members.delete(host);
      this.#hosts.delete(host.key);
      this.#options.robotsBudget?.leave(host.robots);
    }
    if (group.members.size === 0) this.#groups.delete(group.key);
  }
}

/** A task is handed out; its host goes to the end of its group. */
function took(host: Host, task: Task, now: number): void {
  const { group } = host;
  task.queue.lease(task);
  host.inFlight++;
  group.inFlight++;
  group.lastAtBefore = group.lastAt;
  group.takenAt = now;
  group.lastAt = now;
  group.waiting.remove(host);
}

/** Returns when the group may start its next task. */
function taskDueAt(group: Group): number | undefined {
  const first = group.waiting.peek()?.dueAt;
  if (first === undefined || group.unstarted > 0 || !group.hasSlot) return undefined;
  return Math.max(first, group.nextAt);
}

/** Returns when the first of its redirects may continue, or must be refused. */
function hopDueAt(group: Group, now: number): number | undefined {
  if (group.pace.holdUntil > now + holdMsMax) return now;
  const isStuck = !group.hasSlot && !group.hops.some(({ hasSlot }) => hasSlot);
  if (group.unstarted > 0 || isStuck) return undefined;
  return group.nextAt;
}

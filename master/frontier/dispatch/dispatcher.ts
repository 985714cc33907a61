/**
 * Who gets which task when: matches hosts that are due with slaves that have room, in turn, and
 * takes leases back however they end.
 *
 *     due host + slave with room --> lease --> claim (report, failure) | release | lost | expired
 *
 * A host's robots.txt goes to a holder who takes such tasks; until one has room it is parked. Who
 * has room for what is told by `holders`.
 */
import { randomBytes } from 'node:crypto';
import { clockMs } from '../../machine/clock.ts';
import type { Crawls } from '../crawl/crawls.ts';
import { kindOf } from '../kinds/kinds.ts';
import { type Host, type Line, lines, type Turn } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { TaskNames } from '../tasks/task-names.ts';
import type { Task } from '../tasks/tasks.ts';
import { Holders, type Place } from './holders.ts';
import { type Lease, type LeaseHolder, Leases } from './leases.ts';
import { type Probe, Probes } from './probes.ts';
import { TrialRamp, youngMsMin } from './trial-ramp.ts';

/** A lost lease counts against its page only when it happens again and again. */
const lossesFree = 3;
const lossesMax = 12;
const lossFirstMs = 1_000;
const tickMs = 1_000;
const timerMsMax = 60_000;
/** Hosts that answer and wait, for each slot, before new ones have to wait for them. */
const crowdPerSlot = 2;

export type DispatcherOptions = {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly names: TaskNames;
  readonly leaseMs: number;
  /** How much longer than two fetches may take a lease lasts, extended or not. */
  readonly leaseMarginMs: number;
  /** False while nothing should be fetched: sinks lag behind. */
  readonly mayFetch: () => boolean;
  /** About once a second. */
  readonly onTick: (now: number) => void;
  /** A task whose slaves are lost again and again; it is claimed already. */
  readonly onHopeless: (task: Task, slave: string) => void;
  /** Pages wait for a robots.txt, and nobody is there who takes such tasks. */
  readonly onFilesWanted: () => void;
};

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #leases: Leases;
  readonly #holders = new Holders();
  readonly #parked: Probes;
  readonly #ticker = setInterval(() => this.#tick(), tickMs);
  readonly #ramp = new TrialRamp();
  /** A host waits for its first trial because others are young. */
  #isRamping = false;
  #timer: NodeJS.Timeout | undefined;
  #isQueued = false;
  #state: 'working' | 'draining' = 'working';

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#parked = new Probes(options.politeness);
    // Ids differ from start to start, so that one of an earlier master means nothing.
    this.#leases = new Leases(options.leaseMs, randomBytes(5).readUIntBE(0, 5) * 1024);
  }

  get leaseCount(): number {
    return this.#leases.count;
  }

  /** Some host may be asked for something, now or at a known time, without a fetch ending first. */
  get hasDue(): boolean {
    const { politeness, crawls } = this.#options;
    return politeness.hasDue || crawls.queues.hasParked;
  }

  /** From now on gets tasks as its credit allows. */
  add(holder: LeaseHolder): void {
    this.#holders.add(holder);
    this.dispatchSoon();
  }

  /** It said something, whatever it was: it works. */
  heard(holder: LeaseHolder): void {
    if (this.#holders.heard(holder)) this.dispatchSoon();
  }

  /** Its session ended: its leases return at once. */
  remove(holder: LeaseHolder): void {
    this.#holders.remove(holder);
    for (const lease of [...holder.leases]) this.#lost(lease);
  }

  /** The task that a report or failure is about, taken out of whatever state it was in, for its
   *  end to be committed, and the host if it was leased; undefined when it is done already or being
   *  committed. */
  claim(
    holder: LeaseHolder,
    leaseId: number,
    name: Uint8Array,
  ): { task: Task; host: Host | undefined } | undefined {
    const { task, held } = this.#named(holder, leaseId, name);
    if (task === undefined) return undefined;
    this.#holders.reported(holder);
    const lease = held ?? (task.state === 'leased' ? this.#leases.of(task) : undefined);
    task.queue.commit(task);
    if (lease !== undefined) {
      if (lease !== held) lease.holder.cancel([lease]);
      this.#ramp.answered(lease, clockMs());
      this.#end(lease);
    }
    return { task, host: lease?.host };
  }

  /** The task that such a word is about, left as it is; undefined when it is done already. */
  open(holder: LeaseHolder, leaseId: number, name: Uint8Array): Task | undefined {
    return this.#named(holder, leaseId, name).task;
  }

  /** The open task of that name, and its lease if this is the one. Without its lease (one of before
   *  a restart, or one that ran out) a task counts if it is open. */
  #named(
    holder: LeaseHolder,
    leaseId: number,
    name: Uint8Array,
  ): { task: Task | undefined; held?: Lease } {
    const held = this.#leases.held(leaseId, holder);
    if (held?.name.equals(name)) return { task: held.task, held };
    const key = this.#options.names.keyIn(name);
    const task = key && this.#options.crawls.find(key);
    return { task: task?.state === 'committing' ? undefined : task };
  }

  /** A task comes back unfetched. False when the holder did not have it. */
  release(holder: LeaseHolder, leaseId: number): boolean {
    const lease = this.#leases.held(leaseId, holder);
    if (lease === undefined) return false;
    lease.task.queue.release(lease.task, lease.task);
    this.#end(lease);
    return true;
  }

  /** The request of this lease leaves now; or it was a redirect's next one. */
  started(holder: LeaseHolder, leaseId: number): void {
    const lease = this.#leases.held(leaseId, holder);
    if (lease?.group === undefined || lease.timing === 'free') return;
    this.#options.politeness.started(lease.group, lease.timing === 'awaited', clockMs());
    lease.timing = 'started';
    this.dispatchSoon();
  }

  /** The lease if this holder has it. */
  held(holder: LeaseHolder, leaseId: number): Lease | undefined {
    return this.#leases.held(leaseId, holder);
  }

  /** The fetch of a lease was redirected to this host, where its crawl wants a delay of `delayMs`.
   *  Resolves when it may go on, or with why it may not. A slot elsewhere is given back first, so
   *  that two hosts which redirect to each other do not wait for each other. */
  hop(lease: Lease, { group }: Host, delayMs: number): Promise<Turn> {
    if (this.#state !== 'working') return Promise.resolve('later');
    const { politeness } = this.#options;
    const now = clockMs();
    this.#settleStart(lease, now);
    if (lease.group !== undefined && lease.group !== group) {
      politeness.vacate(lease.group, now);
      lease.group = undefined;
    }
    // Of no more hops than a fetch may have: else one that never ends could be had by them.
    if (lease.hopCount++ < this.#hopsMax(lease)) this.#leases.hold(lease, now);
    return new Promise((resolve) => {
      const hasSlot = lease.group === group;
      const settle = (turn: Turn) => {
        lease.hop = undefined;
        this.#leases.goOn(lease, clockMs());
        if (turn === 'go') {
          lease.group = group;
          lease.timing = group.delayMs > 0 ? 'awaited' : 'free';
          if (lease.timing === 'awaited') politeness.starting(group, clockMs());
        }
        resolve(turn);
      };
      lease.hop = { group, hasSlot, delayMs, settle };
      politeness.addHop(lease.hop, now);
      this.dispatchSoon();
    });
  }

  /** No redirect of this crawl (of any, without one) waits any longer. */
  putOffHops(crawlId?: number): void {
    for (const { task, hop } of this.#leases) {
      if (hop === undefined || (crawlId !== undefined && task.queue.crawl !== crawlId)) continue;
      this.#options.politeness.dropHop(hop, clockMs());
      hop.settle('later');
    }
  }

  /** More time for these; gives those that are not held any more. */
  extend(holder: LeaseHolder, leaseIds: readonly number[]): number[] {
    const now = clockMs();
    return leaseIds.filter((id) => {
      const lease = this.#leases.held(id, holder);
      if (lease !== undefined) this.#leases.extend(lease, now);
      return lease === undefined;
    });
  }

  /** Takes all leases of a crawl away. */
  cancel(crawlId: number): void {
    for (const lease of [...this.#leases]) {
      if (lease.task.queue.crawl !== crawlId) continue;
      lease.holder.cancel([lease]);
      // Another crawl may need it.
      if (kindOf(lease.task).owner === 'host') lease.task.queue.release(lease.task, lease.task);
      this.#end(lease);
    }
    this.#parked.cancel(crawlId, clockMs());
  }

  /** No more leases; those that there are may end as they do. */
  drain(): void {
    this.#state = 'draining';
    clearTimeout(this.#timer);
    this.putOffHops();
  }

  close(): void {
    this.drain();
    clearInterval(this.#ticker);
  }

  /** Hands out tasks, once in this turn of the event loop, however often it is asked for. */
  dispatchSoon(): void {
    if (this.#isQueued) return;
    this.#isQueued = true;
    setImmediate(() => {
      this.#isQueued = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    clearTimeout(this.#timer);
    const { politeness, mayFetch, crawls } = this.#options;
    if (this.#state !== 'working') return;
    if (crawls.queues.unpark()) this.dispatchSoon();
    const now = clockMs();
    politeness.serveHops(now);
    this.#isRamping = false;
    if (!this.#holders.isEmpty && mayFetch()) this.#handOut(now);
    const dueAt = politeness.nextDueAt(now) ?? Number.POSITIVE_INFINITY;
    const waitMs = Math.min(dueAt - now, this.#isRamping ? youngMsMin : timerMsMax);
    if (waitMs === timerMsMax && dueAt === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#dispatch(), waitMs);
  }

  #handOut(now: number): void {
    const pushes = new Map<LeaseHolder, Lease[]>();
    const give = (place: Place, file: Probe) => {
      const lease = this.#give(place, file, now);
      const list = pushes.get(place.holder);
      if (list === undefined) pushes.set(place.holder, [lease]);
      else list.push(lease);
    };
    for (let file = this.#parked.first(now); file !== undefined; file = this.#parked.first(now)) {
      const place = this.#holders.place(file.host.line(now) ?? 'timed', 'files');
      if (place === undefined) break;
      this.#parked.shift();
      give(place, file);
    }
    while (!this.#parked.isFull) {
      const taken = this.#take(now);
      if (taken === undefined) break;
      const { host, task, place } = taken;
      const { takers } = kindOf(task);
      const { takes } = place.holder;
      const isSuited = takes === 'all' || takes === takers;
      const taker = isSuited ? place : this.#holders.place(host.line(now) ?? 'timed', takers);
      if (taker === undefined) this.#parked.park(taken, now);
      else give(taker, { host, task, isTimed: false });
    }
    for (const [holder, leases] of pushes) holder.push(leases);
    if (!this.#parked.isEmpty && this.#holders.lacksFiles) this.#options.onFilesWanted();
  }

  /** The next task that somebody has room for. Of hosts that have not proved that they answer comes
   *  first, since what they may have is theirs alone. */
  #take(now: number): { host: Host; task: Task; place: Place } | undefined {
    const { politeness } = this.#options;
    const of = (place: Place | undefined, among: readonly Line[]) => {
      const taken = place && politeness.take(now, among);
      return taken && place && { ...taken, place };
    };
    for (const line of ['fresh', 'failing', 'relayed'] as const) {
      if (line === 'fresh' && politeness.has(line, now) && this.#holdsFresh(now)) continue;
      const taken = politeness.has(line, now) && of(this.#holders.place(line, 'pages'), [line]);
      if (taken) return taken;
    }
    const timely = this.#holders.place('timed', 'pages');
    if (timely === undefined) return of(this.#holders.place('free', 'pages'), ['free']);
    // A program that takes pages alone is asked for no share: whatever waits longest.
    if (timely.holder.takes === 'pages') return of(timely, lines);
    return of(timely, ['timed']) ?? of(timely, ['free']);
  }

  /** Hosts that were tried are to have pages first, so that their connections are used. */
  #holdsFresh(now: number): boolean {
    const { slots, trials } = this.#holders.sums;
    this.#isRamping = !this.#ramp.allows(slots, trials, now);
    return this.#isRamping || this.#options.politeness.isCrowded(crowdPerSlot * slots);
  }

  #give({ holder, room }: Place, { task, host, isTimed }: Probe, now: number): Lease {
    const { politeness, crawls, names } = this.#options;
    const crawl = crawls.of(task);
    const fetchesMs = kindOf(task).fetchesOfLease * (crawl?.spec.fetch.timeoutMs ?? 0);
    const lifeMs = this.#options.leaseMarginMs + fetchesMs;
    const name = names.of(task);
    const lease = this.#leases.give({ task, name, host, holder, room, lifeMs }, now);
    this.#holders.took(lease);
    if (room.kind === 'trial' && room.line === 'fresh') this.#ramp.took(lease, now);
    if (isTimed) lease.timing = 'awaited';
    else if (lease.timing === 'awaited') politeness.starting(host.group, now);
    crawl?.open.lease();
    return lease;
  }

  #hopsMax({ task }: Lease): number {
    const { hopsMax } = kindOf(task);
    if (hopsMax !== 'crawl') return hopsMax;
    return this.#options.crawls.of(task)?.spec.fetch.redirectsMax ?? 0;
  }

  #end(lease: Lease): void {
    const { crawls, politeness } = this.#options;
    this.#leases.end(lease);
    this.#holders.ended(lease);
    crawls.of(lease.task)?.open.unlease();
    const now = clockMs();
    if (lease.hop !== undefined) {
      politeness.dropHop(lease.hop, now);
      lease.hop.settle('lost');
    }
    this.#settleStart(lease, now);
    if (lease.group !== undefined) politeness.vacate(lease.group, now);
    politeness.ended(lease.host, now);
    this.dispatchSoon();
  }

  /** Its slave never said that the request leaves: it may have begun at the last moment. */
  #settleStart(lease: Lease, now: number): void {
    if (lease.timing !== 'awaited' || lease.group === undefined) return;
    this.#options.politeness.started(lease.group, true, now);
    lease.timing = 'started';
  }

  /** A lease ended without a word. The task waits again; a page that keeps losing its slaves waits
   *  longer and longer, and is given up at last. */
  #lost(lease: Lease): void {
    const { task } = lease;
    task.losses++;
    if (task.losses >= lossesMax) {
      task.queue.commit(task);
      this.#options.onHopeless(task, lease.holder.name);
    } else {
      const again = Math.max(0, task.losses - lossesFree);
      const notBefore = again === 0 ? 0 : clockMs() + lossFirstMs * 2 ** again;
      task.queue.release(task, { ...task, notBefore });
    }
    this.#end(lease);
  }

  #tick(): void {
    const now = clockMs();
    for (let lease = this.#leases.expired(now); lease; lease = this.#leases.expired(now)) {
      this.#holders.ranOut(lease.holder);
      lease.holder.cancel([lease]);
      this.#lost(lease);
    }
    this.#options.politeness.sweep(now);
    this.#options.crawls.queues.rotate(now);
    this.#options.onTick(now);
    this.dispatchSoon();
  }
}

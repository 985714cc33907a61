/**
 * Hands out tasks: matches due hosts with slaves that have room, in rotation, and takes leases back
 * at any end.
 *
 *     due host + slave with room --> lease --> claim (report, failure) | release | lost | expired
 *
 * A host's robots.txt goes to a holder that takes such tasks; until one has room it is parked.
 * `holders` knows the room of each, `abilities` what crawls need of them.
 */
import { randomBytes } from 'node:crypto';
import { standstillsOf } from '../../../shared/awake.ts';
import { clockMs } from '../../machine/clock.ts';
import { kindOf } from '../kinds/kinds.ts';
import { type Host, type Line, lines, type Turn } from '../politeness/host.ts';
import type { Task } from '../tasks/tasks.ts';
import { Abilities, takersOf } from './abilities.ts';
import type { DispatcherOptions, LossEvents } from './dispatcher-options.ts';
import { Holders, isSuited, type Place, type Takers } from './holders.ts';
import { hopsMaxOf, lifeMsOf } from './lease-life.ts';
import { type Claim, type HeldLease, type Lease, type LeaseHolder, Leases } from './leases.ts';
import { type Probe, Probes } from './probes.ts';
import { Trains } from './trains.ts';
import { TrialRamp, youngMsMin } from './trial-ramp.ts';

/** Lost leases of a page that are not counted against it. */
const lossesFree = 3;
const lossesMax = 12;
const lossFirstMs = 1_000;
const tickMs = 1_000;
const timerMsMax = 60_000;
/** In a turn; then requests are served first. To read the next tasks of a host waits for the disk
 *  if they are not in the page cache. */
const handOutMsMax = 8;
/** Waiting hosts that answer, per slot, above which new hosts have to wait for them. */
const crowdPerSlot = 2;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  #losses: LossEvents | undefined;
  readonly #leases: Leases;
  readonly #holders = new Holders();
  readonly #abilities: Abilities;
  readonly #parked: Probes;
  /** The same for tasks with a request. */
  readonly #parkedRequests: Probes;
  readonly #standstillMs: () => number;
  readonly #ticker = setInterval(() => this.#tick(), tickMs);
  readonly #ramp = new TrialRamp();
  readonly #trains: Trains;
  /** A host waits for its first trial because others are young. */
  #isRamping = false;
  #timer: NodeJS.Timeout | undefined;
  #isQueued = false;
  #state: 'working' | 'draining' = 'working';

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#standstillMs = options.standstillMs ?? standstillsOf(tickMs);
    this.#abilities = new Abilities(options.crawls, this.#holders);
    this.#trains = new Trains(options, this.#holders, this.#abilities);
    this.#parked = new Probes(options.politeness);
    this.#parkedRequests = new Probes(options.politeness);
    // Ids differ at each start, so that one of an earlier master is invalid.
    this.#leases = new Leases(options.leaseMs, randomBytes(5).readUIntBE(0, 5) * 1024);
  }

  /** Tells the listener from now on. */
  tell(listener: LossEvents): void {
    this.#losses = listener;
  }

  get isDraining(): boolean {
    return this.#state === 'draining';
  }

  get leaseCount(): number {
    return this.#leases.count;
  }

  /** True: some host may be asked now or at a known time, without the end of a fetch. */
  get hasDue(): boolean {
    const { politeness, crawls } = this.#options;
    return politeness.hasDue || crawls.queues.hasParked;
  }

  /** From now on the holder gets tasks as its credit allows. Called again when that has grown. */
  give(holder: LeaseHolder): void {
    this.#holders.add(holder);
    this.#abilities.noteHolders();
    this.dispatchSoon();
  }

  /** A holder sent a message of any kind: it works. */
  heard(holder: LeaseHolder): void {
    if (this.#holders.heard(holder)) this.dispatchSoon();
  }

  /** Its session ended: its leases end at once. */
  remove(holder: LeaseHolder): void {
    this.#holders.remove(holder);
    this.#abilities.noteHolders();
    for (const lease of [...holder.leases]) this.#lost(lease);
  }

  /** Takes the task of a report or failure out of its state, so that its end can be committed.
   *  Returns it, with the host if it was leased; undefined if it is done or being committed. */
  claim(claim: Claim): { task: Task; host: Host | undefined } | undefined {
    const { task, held } = this.#named(claim);
    if (task === undefined) return undefined;
    this.#holders.reported(claim.holder);
    const lease = held ?? (task.state === 'leased' ? this.#leases.of(task) : undefined);
    task.queue.commit(task);
    if (lease !== undefined) {
      if (lease !== held) lease.holder.cancel([lease]);
      this.#ramp.answered(lease, clockMs());
      this.#end(lease);
    }
    return { task, host: lease?.host };
  }

  /** Returns the task of such a message, unchanged; undefined if it is done. */
  open(claim: Claim): Task | undefined {
    return this.#named(claim).task;
  }

  /** Returns the open task of that name, and its lease if the id matches. Without its lease
   *  (expired, or from before a restart) a task counts if it is open. */
  #named(claim: Claim): { task: Task | undefined; held?: Lease } {
    const held = this.#leases.held(claim);
    if (held?.name.equals(claim.name)) return { task: held.task, held };
    const { names, crawls } = this.#options;
    const task = names.taskOf(claim.name, (key) => crawls.find(key));
    return { task: task?.state === 'committing' ? undefined : task };
  }

  /** A task comes back unfetched, and waits for `waitMs`; false: the holder did not have it. */
  release(held: HeldLease, waitMs = 0): boolean {
    const lease = this.#leases.held(held);
    if (lease === undefined) return false;
    this.#trains.broke(lease);
    const { task } = lease;
    const now = clockMs();
    task.queue.release(task, waitMs > 0 ? { ...task, notBefore: now + waitMs } : task);
    // There may be many of them, which must not take the turns of what can be fetched.
    if (waitMs > 0) this.#spare(lease, now);
    this.#end(lease);
    return true;
  }

  /** The request of this lease, the first or that of a redirect, has left `agoMs` ago. */
  started(held: HeldLease, agoMs = 0): void {
    const lease = this.#leases.held(held);
    if (lease?.group === undefined || lease.timing === 'free') return;
    const at = clockMs() - Math.min(agoMs, lease.group.tellMs);
    for (const one of this.#trains.startedWith(lease)) {
      this.#options.politeness.started(one.group ?? lease.group, one.timing === 'awaited', at);
      one.timing = 'started';
    }
    this.dispatchSoon();
  }

  /** Returns the lease if this holder has it. */
  held(held: HeldLease): Lease | undefined {
    return this.#leases.held(held);
  }

  /** The fetch of a lease was redirected to this host, where its crawl wants a delay of `delayMs`.
   *  Resolves when it may continue, or with the reason why not. A slot elsewhere is freed first, so
   *  that two hosts that redirect to each other do not wait for each other. */
  hop(lease: Lease, { group }: Host, delayMs: number): Promise<Turn> {
    if (this.#state !== 'working') return Promise.resolve('later');
    const { politeness } = this.#options;
    const now = clockMs();
    this.#settleStart(lease, now);
    if (lease.group !== undefined && lease.group !== group) {
      politeness.vacate(lease.group, now);
      lease.group = undefined;
    }
    // Only for the number of hops of a fetch: otherwise hops could extend a lease endlessly.
    const { fetch } = this.#options.crawls.of(lease.task)?.spec ?? {};
    if (lease.hopCount++ < hopsMaxOf(lease.task, fetch)) this.#leases.hold(lease, now);
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

  /** A page in a browser wants this frame, which takes no slot: its fetch has one, and the hosts of
   *  frames must not wait for each other's. Resolves when its host may be asked. */
  frame(lease: Lease, { group }: Host, delayMs: number): Promise<Turn> {
    if (this.#state !== 'working') return Promise.resolve('later');
    const now = clockMs();
    return new Promise((resolve) => {
      const settle = (turn: Turn) => {
        lease.hop = undefined;
        resolve(turn);
      };
      lease.hop = { group, hasSlot: true, delayMs, settle };
      this.#options.politeness.addHop(lease.hop, now);
      this.dispatchSoon();
    });
  }

  /** Ends the waits of all redirects of this crawl (without one, of all crawls). */
  putOffHops(crawlId?: number): void {
    for (const { task, hop } of this.#leases) {
      if (hop === undefined || (crawlId !== undefined && task.queue.crawl !== crawlId)) continue;
      this.#options.politeness.dropHop(hop, clockMs());
      hop.settle('later');
    }
  }

  /** Extends these leases; returns those that the holder no longer has. */
  extend(holder: LeaseHolder, leaseIds: readonly number[]): number[] {
    const now = clockMs();
    return leaseIds.filter((id) => {
      const lease = this.#leases.held({ id, holder });
      if (lease !== undefined) this.#leases.extend(lease, now);
      return lease === undefined;
    });
  }

  /** A fetch of this crawl may take this much longer from now on: so may its leases. */
  prolong(crawlId: number, fetchMs: number): void {
    for (const lease of this.#leases) {
      if (lease.task.queue.crawl !== crawlId) continue;
      this.#leases.prolong(lease, kindOf(lease.task).fetchesOfLease * fetchMs);
    }
  }

  /** Cancels all leases of a crawl. */
  cancel(crawlId: number): void {
    for (const lease of [...this.#leases]) {
      if (lease.task.queue.crawl !== crawlId) continue;
      lease.holder.cancel([lease]);
      // Another crawl may need it.
      if (kindOf(lease.task).owner === 'host') lease.task.queue.release(lease.task, lease.task);
      this.#end(lease);
    }
    this.#parked.cancel(crawlId, clockMs());
    this.#parkedRequests.cancel(crawlId, clockMs());
  }

  /** Returns the name of the slave that has a task. */
  slaveOf(task: Task): string | undefined {
    return this.#leases.of(task)?.holder.name;
  }

  /** True: some slave is connected, with room or without. */
  get hasSlaves(): boolean {
    return !this.#holders.isEmpty;
  }

  /** Takes tasks back that slaves have: they wait again. */
  takeBack(isWanted: (of: Pick<Lease, 'host' | 'task'>) => boolean): void {
    for (const lease of [...this.#leases]) {
      if (!isWanted(lease)) continue;
      lease.holder.cancel([lease]);
      lease.task.queue.release(lease.task, lease.task);
      this.#end(lease);
    }
    this.#parked.takeBack(isWanted, clockMs());
    this.#parkedRequests.takeBack(isWanted, clockMs());
  }

  /** Wants back what waits in slaves to be asked at once, of hosts that have a delay by now. */
  recallHasty(): void {
    for (const holder of new Set([...this.#leases].map((lease) => lease.holder))) {
      const hasty = [...holder.leases].filter(
        ({ timing, group }) => timing === 'free' && group !== undefined && group.delayMs > 0,
      );
      if (hasty.length > 0) holder.recall?.(hasty);
    }
  }

  /** Gives no more leases; present ones may end normally. */
  drain(): void {
    this.#state = 'draining';
    clearTimeout(this.#timer);
    this.putOffHops();
  }

  close(): void {
    this.drain();
    clearInterval(this.#ticker);
  }

  /** Hands out tasks, once per turn of the event loop, however often it is called. */
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
    const { politeness, results, crawls } = this.#options;
    if (this.#state !== 'working') return;
    if (crawls.queues.unpark(() => this.#holders.sums.slots)) this.dispatchSoon();
    this.#abilities.match();
    const now = clockMs();
    politeness.serveHops(now);
    this.#trains.recall(now);
    this.#isRamping = false;
    if (!this.#holders.isEmpty && !results.isFull) this.#handOut(now);
    const dueAt = politeness.nextDueAt(now) ?? Number.POSITIVE_INFINITY;
    const waitMs = Math.min(dueAt - now, this.#isRamping ? youngMsMin : timerMsMax);
    if (waitMs === timerMsMax && dueAt === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#dispatch(), waitMs);
  }

  #handOut(now: number): void {
    const pushes = new Map<LeaseHolder, Lease[]>();
    const give = (place: Place, probe: Probe, waitMs = 0): Lease => {
      const lease = this.#give(place, probe, now, waitMs);
      const list = pushes.get(place.holder);
      if (list === undefined) pushes.set(place.holder, [lease]);
      else list.push(lease);
      return lease;
    };
    for (const parked of [this.#parked, this.#parkedRequests]) {
      for (let probe = parked.first(now); probe; probe = parked.first(now)) {
        const { host, task } = probe;
        const place = this.#placeFor(host, task, takersOf(task), now);
        if (place === undefined) break;
        parked.shift();
        give(place, probe);
      }
    }
    const isLate = () => pushes.size > 0 && clockMs() - now > handOutMsMax;
    while (!this.#parked.isFull && !this.#parkedRequests.isFull && !isLate()) {
      const taken = this.#take(now);
      if (taken === undefined) break;
      const { host, task, place } = taken;
      const takers = takersOf(task);
      const fits = isSuited(place.holder, takers, this.#abilities.needsOf(task));
      const taker = fits ? place : this.#placeFor(host, task, takers, now);
      if (taker === undefined) {
        (takers === 'requests' ? this.#parkedRequests : this.#parked).park(taken, now);
        continue;
      }
      this.#trains.couple(give(taker, { host, task, isTimed: false }), now, give);
    }
    if (isLate()) this.dispatchSoon();
    for (const [holder, leases] of pushes) holder.push(leases);
    if (!this.#parked.isEmpty && this.#holders.lacksFiles) this.#options.events.robotsWanted();
  }

  #placeFor(host: Host, task: Task, takers: Takers, now: number): Place | undefined {
    return this.#holders.place(host.line(now) ?? 'timed', takers, this.#abilities.needsOf(task));
  }

  /** Returns the next task for which a holder has room. Tasks of unproved hosts come first, since
   *  their room is for them alone. */
  #take(now: number): { host: Host; task: Task; place: Place } | undefined {
    const { politeness } = this.#options;
    const of = (place: Place | undefined, among: readonly Line[]) => {
      const taken = place && politeness.take(now, among);
      return taken && place && { host: taken.host, task: taken.task, place };
    };
    for (const line of ['fresh', 'failing', 'relayed'] as const) {
      if (line === 'fresh' && politeness.has(line, now) && this.#holdsFresh(now)) continue;
      const taken = politeness.has(line, now) && of(this.#holders.place(line, 'pages'), [line]);
      if (taken) return taken;
    }
    const timely = this.#holders.place('timed', 'pages');
    if (timely === undefined) return of(this.#holders.place('free', 'pages'), ['free']);
    // A program that takes only pages has no share: it gets the task that has waited longest.
    if (timely.holder.takes === 'pages') return of(timely, lines);
    return of(timely, ['timed']) ?? of(timely, ['free']);
  }

  /** True: hosts already tried get pages first, so that their connections are used. */
  #holdsFresh(now: number): boolean {
    const { slots, trials } = this.#holders.sums;
    this.#isRamping = !this.#ramp.allows(slots, trials, now);
    return this.#isRamping || this.#options.politeness.isCrowded(crowdPerSlot * slots);
  }

  #give({ holder, room }: Place, { task, host, isTimed }: Probe, now: number, waitMs: number) {
    const { politeness, crawls, names } = this.#options;
    const crawl = crawls.of(task);
    const lifeMs = this.#options.leaseMarginMs + lifeMsOf(task, crawl?.spec.fetch);
    const name = names.of(task);
    const lease = this.#leases.give({ task, name, host, holder, room, lifeMs, waitMs }, now);
    this.#holders.took(lease);
    if (room.kind === 'trial' && room.line === 'fresh') this.#ramp.took(lease, now);
    if (isTimed) lease.timing = 'awaited';
    else if (lease.timing === 'awaited') politeness.starting(host.group, now);
    crawl?.open.lease();
    this.#options.trace?.leased(lease);
    return lease;
  }

  #end(lease: Lease): void {
    const { crawls, politeness } = this.#options;
    this.#leases.end(lease);
    this.#holders.ended(lease);
    const next = this.#trains.ended(lease);
    if (next !== undefined) this.#holders.advance(next);
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

  /** Its slave never said that the request leaves: it may have started at the last moment. */
  #settleStart(lease: Lease, now: number): void {
    if (lease.timing !== 'awaited' || lease.group === undefined) return;
    this.#trains.left(lease);
    this.#options.politeness.started(lease.group, true, now);
    lease.timing = 'started';
  }

  /** Its slave says that the request never left: the next one need not wait for it. */
  #spare(lease: Lease, now: number): void {
    if (lease.timing !== 'awaited' || lease.group === undefined) return;
    this.#trains.left(lease);
    this.#options.politeness.spared(lease.group, now);
    lease.timing = 'free';
  }

  /** A lease ended without a message. The task waits again; a page that keeps losing its slaves
   *  waits longer and longer, and is finally given up. */
  #lost(lease: Lease): void {
    const { task } = lease;
    this.#trains.broke(lease);
    task.losses++;
    if (task.losses >= lossesMax) {
      task.queue.commit(task);
      this.#losses?.hopeless(task, lease.holder.name);
    } else {
      const again = Math.max(0, task.losses - lossesFree);
      const notBefore = again === 0 ? 0 : clockMs() + lossFirstMs * 2 ** again;
      task.queue.release(task, { ...task, notBefore });
      this.#options.trace?.lost(lease, notBefore);
    }
    this.#end(lease);
  }

  #tick(): void {
    const now = clockMs();
    this.#leases.postpone(this.#standstillMs());
    for (let lease = this.#leases.expired(now); lease; lease = this.#leases.expired(now)) {
      this.#holders.ranOut(lease.holder);
      lease.holder.cancel([lease]);
      this.#lost(lease);
    }
    const { politeness, crawls, records, events } = this.#options;
    politeness.sweep(now);
    crawls.queues.rotate(now);
    crawls.queues.countWaiting();
    records.sweep(now);
    events.counted(crawls);
    this.dispatchSoon();
  }
}

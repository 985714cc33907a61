/**
 * Who gets which task when: matches hosts that are due with slaves that have room, in turn, and
 * takes leases back however they end.
 *
 *     due host + slave with room --> lease --> claim (report, failure) | release | lost | expired
 */
import { randomBytes } from 'node:crypto';
import { clockMs } from '../../shared/clock.ts';
import type { Crawls } from './crawls.ts';
import { keyOf } from './gathering.ts';
import { type Lease, type LeaseHolder, Leases } from './leases.ts';
import type { Host, Politeness } from './politeness.ts';
import type { TaskNames } from './task-names.ts';
import type { Task } from './tasks.ts';

/** A lost lease counts against its page only when it happens again and again. */
const lossesFree = 3;
const lossesMax = 12;
const lossFirstMs = 1_000;
const tickMs = 1_000;
const timerMsMax = 60_000;

export type DispatcherOptions = {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly names: TaskNames;
  readonly leaseMs: number;
  /** False while nothing should be fetched: sinks lag behind. */
  readonly mayFetch: () => boolean;
  /** A task whose slaves are lost again and again; it is claimed already. */
  readonly onHopeless: (task: Task, slave: string) => void;
};

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #leases: Leases;
  readonly #holders: LeaseHolder[] = [];
  /** Whose leases ran out and who has not been heard of since: they would only keep tasks. */
  readonly #late = new Set<LeaseHolder>();
  readonly #ticker = setInterval(() => this.#tick(), tickMs);
  #nextHolder = 0;
  #timer: NodeJS.Timeout | undefined;
  #isQueued = false;
  #state: 'working' | 'draining' = 'working';

  constructor(options: DispatcherOptions) {
    this.#options = options;
    // Ids differ from start to start, so that one of an earlier master means nothing.
    this.#leases = new Leases(options.leaseMs, randomBytes(5).readUIntBE(0, 5) * 1024);
  }

  get leaseCount(): number {
    return this.#leases.count;
  }

  /** From now on gets tasks as its credit allows. */
  add(holder: LeaseHolder): void {
    this.#holders.push(holder);
    this.dispatchSoon();
  }

  /** It said something, whatever it was: it works. */
  heard(holder: LeaseHolder): void {
    if (this.#late.delete(holder)) this.dispatchSoon();
  }

  /** Its session ended: its leases return at once. */
  remove(holder: LeaseHolder): void {
    this.#late.delete(holder);
    const index = this.#holders.indexOf(holder);
    if (index >= 0) this.#holders.splice(index, 1);
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
    const key = this.#options.names.keyIn(name);
    if (key === undefined) return undefined;
    const held = this.#leases.held(leaseId, holder);
    const isHeld = held !== undefined && keyOf(held.task).equals(key);
    // Without its lease (one of before a restart, or one that ran out) it counts if it is open.
    const task = isHeld ? held.task : this.#options.crawls.find(key);
    if (task === undefined || task.state === 'committing') return undefined;
    const lease = isHeld || task.state !== 'leased' ? held : this.#leases.of(task);
    const wasLeased = task.state === 'leased';
    task.queue.commit(task);
    if (lease !== undefined && wasLeased) {
      if (!isHeld) lease.holder.cancel([lease]);
      this.#end(lease);
    }
    return { task, host: lease?.host };
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
    if (lease === undefined || lease.timing === 'free') return;
    this.#options.politeness.started(lease.host, lease.timing === 'awaited', clockMs());
    lease.timing = 'started';
    this.dispatchSoon();
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
      // Another crawl may need the robots.txt.
      if (lease.task.kind === 'robots') lease.task.queue.release(lease.task, lease.task);
      this.#end(lease);
    }
  }

  /** No more leases; those that there are may end as they do. */
  drain(): void {
    this.#state = 'draining';
    clearTimeout(this.#timer);
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
    const { politeness, crawls, mayFetch } = this.#options;
    if (this.#state !== 'working' || this.#holders.length === 0 || !mayFetch()) return;
    const now = clockMs();
    const pushes = new Map<LeaseHolder, Lease[]>();
    while (true) {
      // A host with a delay needs a slave that begins at once; others may wait in the slave.
      const timely = this.#holderWith((holder) => Math.min(holder.slots, holder.credit));
      const holder = timely ?? this.#holderWith(({ credit }) => credit);
      const taken = holder && politeness.take(now, timely === undefined);
      if (holder === undefined || taken === undefined) break;
      this.#nextHolder = (this.#holders.indexOf(holder) + 1) % this.#holders.length;
      const lease = this.#leases.give(taken.task, taken.host, holder, now);
      if (lease.timing === 'awaited') politeness.starting(taken.host, now);
      const crawl = crawls.of(taken.task);
      if (crawl !== undefined) crawl.leased++;
      const list = pushes.get(holder);
      if (list === undefined) pushes.set(holder, [lease]);
      else list.push(lease);
    }
    for (const [holder, leases] of pushes) holder.push(leases);
    const dueAt = politeness.nextDueAt();
    if (dueAt === undefined || dueAt <= now) return;
    this.#timer = setTimeout(() => this.#dispatch(), Math.min(dueAt - now, timerMsMax));
  }

  /** The next holder in turn that has room. */
  #holderWith(room: (holder: LeaseHolder) => number): LeaseHolder | undefined {
    const { length } = this.#holders;
    for (let i = 0; i < length; i++) {
      const holder = this.#holders[(this.#nextHolder + i) % length];
      if (holder === undefined || this.#late.has(holder)) continue;
      if (holder.leases.size < room(holder)) return holder;
    }
    return undefined;
  }

  #end(lease: Lease): void {
    const { crawls, politeness } = this.#options;
    this.#leases.end(lease);
    const crawl = crawls.of(lease.task);
    if (crawl !== undefined) crawl.leased--;
    const now = clockMs();
    // It may have begun at the last moment.
    if (lease.timing === 'awaited') politeness.started(lease.host, true, now);
    politeness.ended(lease.host, now);
    this.dispatchSoon();
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
    for (const lease of this.#leases.expired(now)) {
      this.#late.add(lease.holder);
      lease.holder.cancel([lease]);
      this.#lost(lease);
    }
    this.#options.politeness.sweep(now);
    this.dispatchSoon();
  }
}

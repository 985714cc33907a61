/**
 * Trains: several pages of a host with a delay, which a slave gets at once and asks for one after
 * the other, so that master and slave have work together every few seconds instead of for each
 * page. The host gives nothing else out until the last of them has left.
 *
 *     lease --coupled--> train --reports--> a longer one next time
 *                          |
 *                          +-- released, lost, recalled --> one page, then longer again
 *
 * Only where few hosts want room: a train keeps a slot for longer than its pages do. Owned by the
 * dispatcher. Source: PROTOCOL.md [T-146] to [T-149].
 */
import type { Crawls } from '../crawl/crawls.ts';
import { kindOf } from '../kinds/kinds.ts';
import { guardMs, type Politeness } from '../politeness/politeness.ts';
import { hasRequest } from '../tasks/task-requests.ts';
import type { Task } from '../tasks/tasks.ts';
import { type Abilities, takersOf } from './abilities.ts';
import { type Holders, isSuited, type Place } from './holders.ts';
import type { Lease, Train } from './leases.ts';
import type { Probe } from './probes.ts';

/** From the first request of a train to the last. */
const spanMsMax = 3_000;
/** Slots for each host that wants room or has a train. */
const slotsPerHost = 4;
const atOnceMax = 16;

type TrainsOptions = { readonly crawls: Crawls; readonly politeness: Politeness };

/** Leases a task; `waitMs`: its request leaves so much later. */
type Give = (place: Place, task: Probe, waitMs: number) => Lease;

export class Trains {
  readonly #options: TrainsOptions;
  readonly #holders: Holders;
  readonly #abilities: Abilities;
  readonly #trains = new Set<Train>();

  constructor(options: TrainsOptions, holders: Holders, abilities: Abilities) {
    this.#options = options;
    this.#holders = holders;
    this.#abilities = abilities;
  }

  /** Couples further tasks of the host to a lease that was just given, if there may be some. */
  couple(first: Lease, now: number, give: Give): void {
    const { politeness } = this.#options;
    const { group } = first;
    const ranks = new Map<number, number>();
    const fits = (task: Task) => this.#fits(task, first, ranks);
    if (group === undefined || !this.#hasRoom(first) || !fits(first.task)) return;
    const gapMs = group.delayMs + guardMs;
    const atOnce = Math.min(group.room + 1, atOnceMax);
    // With so few under way at once a host that answers slowly would be asked more rarely.
    if (atOnce * gapMs < group.pace.answerMs) return;
    const countMax = Math.min(1 + Math.floor(spanMsMax / gapMs), group.trainMax);
    const leases = [first];
    while (leases.length < countMax) {
      const taken = politeness.takeMore(group, now, fits);
      if (taken === undefined) break;
      const place = { holder: first.holder, room: { kind: 'train', line: 'timed' } } as const;
      leases.push(give(place, { ...taken, isTimed: false }, leases.length * gapMs));
    }
    if (countMax === 1) group.trainMax = 2;
    if (leases.length === 1) return;
    const train: Train = { leases, gapMs, atOnce, isRecalled: false };
    for (const lease of leases) {
      lease.train = train;
      lease.isAhead = lease !== first;
      if (lease.isAhead) lease.host.ahead++;
    }
    this.#trains.add(train);
  }

  /** The request of this lease has left, so those before it have. Returns these leases. */
  startedWith(lease: Lease): readonly Lease[] {
    const { train } = lease;
    if (train === undefined) return [lease];
    const upTo = train.leases.slice(0, train.leases.indexOf(lease));
    const all = [...upTo.filter(isAwaited), lease];
    for (const one of all) this.left(one);
    return all;
  }

  /** Its request has left, or will not leave. */
  left(lease: Lease): void {
    if (lease.isAhead) lease.host.ahead--;
    lease.isAhead = false;
  }

  /** It came back unfetched, or is lost. */
  broke({ train, host }: Lease): void {
    if (train !== undefined) host.group.trainMax = 1;
  }

  /** A lease has ended. Returns the one that takes over the slot of their train. */
  ended({ train, room, host }: Lease): Lease | undefined {
    if (train === undefined) return undefined;
    const next = train.leases.find(isHeld);
    if (next !== undefined) return room.kind === 'slot' ? next : undefined;
    this.#trains.delete(train);
    const { group } = host;
    if (group.trainMax > 1) group.trainMax = Math.max(group.trainMax, train.leases.length * 2);
    return undefined;
  }

  /** Wants pages back that must not be asked for any more, or not so soon. */
  recall(now: number): void {
    for (const train of this.#trains) {
      if (train.isRecalled) continue;
      const waiting = train.leases.filter((lease) => isHeld(lease) && isAwaited(lease));
      if (!waiting.some((lease) => this.#isOver(lease, train, now))) continue;
      train.isRecalled = true;
      waiting[0]?.holder.recall?.(waiting);
    }
  }

  #hasRoom({ holder, room, timing, group }: Lease): boolean {
    if (holder.hasTrains !== true || timing !== 'awaited' || group === undefined) return false;
    if (room.kind !== 'slot' || room.line !== 'timed') return false;
    // A delay that follows the response times may grow with each of them.
    if (group.delayMs > group.pace.delayMs(group.baseMs, false)) return false;
    const hosts = this.#options.politeness.waitingGroups + this.#trains.size;
    return hosts < Math.max(1, this.#holders.sums.slots / slotsPerHost);
  }

  /** May it be one of a train? `ranks`: of the others, by crawls. Links of a page must not
   *  have to go before the rest. */
  #fits(task: Task, { holder }: Lease, ranks: Map<number, number>): boolean {
    const crawl = this.#options.crawls.of(task);
    if (crawl === undefined || kindOf(task).inTrains !== true || hasRequest(task)) return false;
    // It may be the fault of the page, and would cost the others their turns.
    if (task.attempts > 0 || task.losses > 0) return false;
    const { order, fetch } = crawl.spec;
    if (order === 'dfs' || fetch.follow || fetch.login || fetch.render) return false;
    if (fetch.proxies.length > 0) return false;
    if (!isSuited(holder, takersOf(task), this.#abilities.needsOf(task))) return false;
    const rank = crawl.rank(task.depth, task.priority);
    const before = ranks.get(crawl.id) ?? rank;
    ranks.set(crawl.id, before);
    return rank === before;
  }

  #isOver({ task, host }: Lease, { gapMs }: Train, now: number): boolean {
    const { group, setting, breaker } = host;
    const crawl = this.#options.crawls.of(task);
    if (crawl?.isRunning !== true || setting?.blocked) return true;
    if (group.pace.holdUntil > now || group.delayMs + guardMs > gapMs) return true;
    if (breaker.sleepsUntil > now) return true;
    return host.clients.get(crawl.id)?.leavesOut?.(task) === true;
  }
}

function isHeld(lease: Lease): boolean {
  return lease.holder.leases.has(lease);
}

function isAwaited({ timing }: Lease): boolean {
  return timing === 'awaited';
}

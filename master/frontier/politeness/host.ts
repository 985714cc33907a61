/**
 * The state of a host, and of the group of hosts that share one delay and one concurrency (by
 * default each host is a group of its own). Data only: the rules are in `politeness`.
 */

import { Heap } from '../../machine/heap.ts';
import type { RobotsBudget } from '../robots/budget.ts';
import { RobotsGate } from '../robots/gate.ts';
import type { Task, TaskQueue } from '../tasks/tasks.ts';
import { Breaker } from './breaker.ts';
import { Pace } from './pace.ts';
import { Visit } from './visit.ts';

/** The settings of one crawl for a host. */
export type Manners = {
  readonly delayMs: number;
  readonly perHost: number;
  /** The delay is a default: it follows the response times. */
  readonly follows?: boolean;
  /** Our name in robots.txt; undefined: it is not fetched. */
  readonly robots?: string | undefined;
  /** A longer Crawl-delay counts as this. */
  readonly crawlDelayMaxMs?: number;
  /** Failed fetches of a robots.txt after which its host counts as unreachable. */
  readonly attemptsMax?: number;
  /** It is fetched through proxies, which carry each connection. */
  readonly isRelayed?: boolean;
};

/** Settings of an operator for a host. */
export type HostSetting = {
  /** In place of the crawls' delay; a longer Crawl-delay still counts, and what answers taught. */
  readonly delayMs?: number;
  /** Nothing is fetched. */
  readonly blocked?: true;
};

/** The last answer of a host, or why there was none; Unix time in ms. */
type LastAnswer = { readonly at: number } & (
  | { readonly status: number }
  | { readonly error: string }
);

/** A crawl's queue on a host; `active` is false while the crawl is paused or at its limit. */
export type HostClient = {
  readonly queue: TaskQueue;
  manners: Manners;
  /** Is a task left out that was admitted by earlier options? Undefined: none is. */
  leavesOut?: ((task: Task) => boolean) | undefined;
  /** The edition of the host's robots.txt that it has seen. */
  told?: number | undefined;
  active(): boolean;
  /** Is the next task of a kind that the crawl takes no more of? Undefined: never. */
  holds?: ((next: Task) => boolean) | undefined;
};

/** A slave may say this late that a request has left, as a part of the delay, and at most. */
const tellPart = 1 / 2;
const tellMsMax = 1_000;

/** Where a group waits for somebody to take its next task. The last three are of hosts that have
 *  not proved that they answer soon:
 *
 *     timed    it has a delay: its tasks must start when they are handed out, so they only go to a
 *              slave with a free slot
 *     free     it has none
 *     fresh    nobody knows whether its host answers
 *     failing  its host did not, the last time, or takes long for its answers
 *     relayed  the same of both, where proxies ask it
 */
export const lines = ['timed', 'free', 'fresh', 'failing', 'relayed'] as const;
export type Line = (typeof lines)[number];

/** The decision about a redirect: `go`: it may start. `later`: its group holds for too long to wait
 *  for it. `lost`: its lease has ended. */
export type Turn = 'go' | 'later' | 'lost';

/** The next request of a redirected fetch; it waits for its turn. */
export type Hop = {
  readonly group: Group;
  /** Its fetch holds a slot of the group already. */
  readonly hasSlot: boolean;
  /** The delay of the crawl, which need not have tasks there. */
  readonly delayMs: number;
  readonly settle: (turn: Turn) => void;
};

export type HostName = {
  /** Scheme, host and port. */
  readonly key: string;
  /** Its place in the store. */
  readonly hash: Buffer;
};

export class Host implements HostName {
  readonly key: string;
  readonly hash: Buffer;
  readonly clients = new Map<number, HostClient>();
  readonly robots: RobotsGate;
  readonly breaker = new Breaker();
  group: Group;
  /** True: its group is being looked up, so none of its tasks may start. */
  isUnplaced = false;
  setting: HostSetting | undefined;
  last: LastAnswer | undefined;
  /** Failed fetches since it is in memory. */
  failed = 0;
  /** Tasks at slaves. */
  inFlight = 0;
  /** Those among them that wait there for their turn in a train. */
  ahead = 0;
  /** Refused tasks that are not yet stored as such. */
  refused = 0;
  turn = 0;
  /** The time when it may have work, without regard to its group; the order in the group. */
  dueAt = 0;
  heapIndex = -1;

  constructor(
    key: string,
    hash: Buffer,
    group: Group,
    load: () => Uint8Array | undefined,
    budget?: RobotsBudget,
  ) {
    this.key = key;
    this.hash = hash;
    this.group = group;
    this.robots = new RobotsGate(key, hash, load, budget);
  }

  /** Returns the line of its tasks, if it depends on the host. Tasks of a dead host are given up,
   *  which needs no slave. */
  line(now: number): Line | undefined {
    const { isProved, isFailing } = this.breaker;
    const isSlow = this.group.pace.isSlow;
    if ((isProved && !isSlow) || this.breaker.dead(now) !== undefined) return undefined;
    // If it is slow, it was the proxy, perhaps; and a proxy has no connections beyond the slots.
    for (const { manners } of this.clients.values()) {
      if (manners.isRelayed) return isProved ? undefined : 'relayed';
    }
    return isFailing || isSlow ? 'failing' : 'fresh';
  }

  /** The operator wants URLs of this host, so it is tried again even if it was given up. */
  retry(): void {
    this.robots.retry();
    this.breaker.retry();
  }
}

export class Group {
  readonly key: string;
  /** Its place in the store. */
  readonly hash: Buffer;
  readonly members = new Set<Host>();
  /** Hosts with work, in the order of their turns. */
  readonly waiting = new Heap<Host>(isSooner);
  readonly hops: Hop[] = [];
  readonly pace = new Pace();
  readonly visit = new Visit();
  /** Time of the last start; the next one is a delay later, with the delay of that moment. */
  lastAt: number;
  /** When a task was taken last, and what `lastAt` was before. */
  takenAt = 0;
  lastAtBefore = 0;
  /** Fetches that hold a slot. */
  inFlight = 0;
  /** Those among them whose request has not left its slave. */
  unstarted = 0;
  /** The delay that the crawls agreed on. */
  baseMs = 0;
  perHost = Number.POSITIVE_INFINITY;
  /** The delay is a default and follows the response times. */
  follows = true;
  /** Tasks that its next train may have: see `Trains`. */
  trainMax = 2;
  /** The time of its next evaluation; the order in its heap. */
  dueAt = 0;
  heapIndex = -1;
  heap: Heap<Group> | undefined;
  #isIdle = false;

  constructor(key: string, hash: Buffer, lastAt: number) {
    this.key = key;
    this.hash = hash;
    this.lastAt = lastAt;
  }

  get delayMs(): number {
    return this.pace.delayMs(this.baseMs, this.follows);
  }

  /** So much later a slave may say that a request has left: the next one has to wait longer. */
  get tellMs(): number {
    return Math.min(Math.floor(this.delayMs * tellPart), tellMsMax);
  }

  /** Time of the next allowed start. */
  get nextAt(): number {
    return Math.max(this.lastAt + this.delayMs, this.pace.holdUntil);
  }

  /** Returns its line, with its next host. */
  line(now: number): Line {
    return this.waiting.peek()?.line(now) ?? (this.delayMs > 0 ? 'timed' : 'free');
  }

  /** How many more fetches may be under way. */
  get room(): number {
    return Math.min(this.perHost, this.pace.atOnceMax) - this.inFlight;
  }

  get hasSlot(): boolean {
    return this.room > 0;
  }

  /** See `Host`. */
  get ahead(): number {
    let sum = 0;
    for (const { ahead } of this.members) sum += ahead;
    return sum;
  }

  /** Adds a crawl on one of its hosts: the longest delay and the smallest concurrency apply. */
  agree(host: Host, { delayMs, perHost, follows, robots, crawlDelayMaxMs }: Manners): void {
    if (this.#isIdle) this.#disagree();
    const crawlDelayMs = robots === undefined ? 0 : host.robots.crawlDelayMs(robots);
    const limitedMs = Math.min(crawlDelayMs, crawlDelayMaxMs ?? Number.POSITIVE_INFINITY);
    const wantedMs = host.setting?.delayMs ?? delayMs;
    this.baseMs = Math.max(this.baseMs, wantedMs, limitedMs);
    this.perHost = Math.min(this.perHost, perHost);
    this.follows &&= follows === true && host.setting?.delayMs === undefined;
  }

  /** A crawl is gone, or has other settings. When no crawl is left, the last agreement applies
   *  until one comes, since the gap after the last request still counts. */
  agreeAnew(): void {
    const clients = [...this.members].flatMap((host) =>
      [...host.clients.values()].map(({ manners }) => ({ host, manners })),
    );
    this.#isIdle = clients.length === 0;
    if (this.#isIdle) return;
    this.#disagree();
    for (const { host, manners } of clients) this.agree(host, manners);
  }

  /** A redirect leads here, of a crawl with this delay. Without a crawl that has tasks here, it
   *  applies until one comes, as a last agreement does. */
  lend(delayMs: number): void {
    for (const { clients } of this.members) if (clients.size > 0) return;
    this.#isIdle = true;
    this.baseMs = Math.max(this.baseMs, delayMs);
  }

  #disagree(): void {
    this.#isIdle = false;
    this.baseMs = 0;
    this.perHost = Number.POSITIVE_INFINITY;
    this.follows = true;
  }
}

/** One function for all heaps: with a closure for each, a host would take 60 bytes more. */
function isSooner(a: Host, b: Host): boolean {
  return a.dueAt < b.dueAt;
}

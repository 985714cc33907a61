/**
 * What the politeness knows of a host, and of the group of hosts that share one delay and one
 * concurrency (by default each host is a group of its own). Data: the rules are in `politeness`.
 */

import { RobotsGate } from '../robots/gate.ts';
import type { RobotsRoom } from '../robots/room.ts';
import { Heap } from '../tasks/heap.ts';
import type { TaskQueue } from '../tasks/tasks.ts';
import { Breaker } from './breaker.ts';
import { Pace } from './pace.ts';
import { Visit } from './visit.ts';

/** What one crawl wants for a host. */
export type Manners = {
  readonly delayMs: number;
  readonly perHost: number;
  /** The delay is a default: it follows the response times. */
  readonly follows?: boolean;
  /** Our name in a robots.txt; undefined: it is not asked for. */
  readonly robots?: string | undefined;
  /** A longer Crawl-delay counts as this. */
  readonly crawlDelayMaxMs?: number;
  /** Fetches of a robots.txt before its host counts as out of reach. */
  readonly attemptsMax?: number;
  /** It is asked through proxies, which have to bear each connection. */
  readonly isRelayed?: boolean;
};

/** A crawl's queue on a host; `active` is false while the crawl is paused or at its limit. */
export type HostClient = {
  readonly queue: TaskQueue;
  readonly manners: Manners;
  /** The edition of the host's robots.txt that it was told of. */
  told?: number;
  active(): boolean;
};

/** Where a group waits for somebody to take its next task. The last three are of hosts that have
 *  not proved that they answer:
 *
 *     timed    it has a delay: its tasks must start when they are handed out, so they only go to a
 *              slave with a free slot
 *     free     it has none
 *     fresh    nobody knows whether its host answers
 *     failing  its host did not, the last time
 *     relayed  the same of both, where proxies ask it
 */
export const lines = ['timed', 'free', 'fresh', 'failing', 'relayed'] as const;
export type Line = (typeof lines)[number];

/** What becomes of a redirect: `go`: it may start. `later`: its group holds for too long to wait for
 *  it. `lost`: its lease has ended. */
export type Turn = 'go' | 'later' | 'lost';

/** The next request of a fetch that was redirected; it waits for its turn. */
export type Hop = {
  readonly group: Group;
  /** Its fetch holds a slot of the group already. */
  readonly hasSlot: boolean;
  /** Of the crawl that asks, which need not have tasks there. */
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
  /** Its group is being looked up: nothing of it may start. */
  isUnplaced = false;
  /** Tasks at slaves. */
  inFlight = 0;
  /** Tasks that were refused and are not yet on record as such. */
  refused = 0;
  turn = 0;
  /** When it may have something to do, whatever its group says; the order in the group. */
  dueAt = 0;
  heapIndex = -1;

  constructor(
    key: string,
    hash: Buffer,
    group: Group,
    load: () => Uint8Array | undefined,
    room?: RobotsRoom,
  ) {
    this.key = key;
    this.hash = hash;
    this.group = group;
    this.robots = new RobotsGate(key, hash, load, room);
  }

  /** Where its tasks wait, as far as that is not its group's affair. Those of a dead host are given
   *  up, for which nobody is needed. */
  line(now: number): Line | undefined {
    if (this.breaker.isProved || this.breaker.dead(now) !== undefined) return undefined;
    for (const { manners } of this.clients.values()) if (manners.isRelayed) return 'relayed';
    return this.breaker.isFailing ? 'failing' : 'fresh';
  }

  /** The operator asks for URLs of this host: what was given up is tried again. */
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
  /** Those that have something to do, in the order of their turns. */
  readonly waiting = new Heap<Host>((a, b) => a.dueAt < b.dueAt);
  readonly hops: Hop[] = [];
  readonly pace = new Pace();
  readonly visit = new Visit();
  /** Time of the last start; the next one is a delay later, as long as that is by then. */
  lastAt: number;
  /** Fetches that hold a slot. */
  inFlight = 0;
  /** Of them those whose request has not left its slave. */
  unstarted = 0;
  /** What the crawls agreed on. */
  baseMs = 0;
  perHost = Number.POSITIVE_INFINITY;
  /** The delay is a default and follows the response times. */
  follows = true;
  /** When it is looked at next; the order in its heap. */
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

  /** Time of the next allowed start. */
  get nextAt(): number {
    return Math.max(this.lastAt + this.delayMs, this.pace.holdUntil);
  }

  /** Where it waits with its next host. */
  line(now: number): Line {
    return this.waiting.peek()?.line(now) ?? (this.delayMs > 0 ? 'timed' : 'free');
  }

  get hasSlot(): boolean {
    return this.inFlight < Math.min(this.perHost, this.pace.atOnceMax);
  }

  /** One more crawl on one of its hosts: the longest delay and the smallest concurrency hold. */
  agree(host: Host, { delayMs, perHost, follows, robots, crawlDelayMaxMs }: Manners): void {
    if (this.#isIdle) this.#disagree();
    const crawlDelayMs = robots === undefined ? 0 : host.robots.crawlDelayMs(robots);
    const limitedMs = Math.min(crawlDelayMs, crawlDelayMaxMs ?? Number.POSITIVE_INFINITY);
    this.baseMs = Math.max(this.baseMs, delayMs, limitedMs);
    this.perHost = Math.min(this.perHost, perHost);
    this.follows &&= follows === true;
  }

  /** A crawl is gone, or wants something else. When nobody is left, the last agreement holds until
   *  somebody comes: the gap after the last request is still to be kept. */
  agreeAnew(): void {
    const clients = [...this.members].flatMap((host) =>
      [...host.clients.values()].map(({ manners }) => ({ host, manners })),
    );
    this.#isIdle = clients.length === 0;
    if (this.#isIdle) return;
    this.#disagree();
    for (const { host, manners } of clients) this.agree(host, manners);
  }

  #disagree(): void {
    this.#isIdle = false;
    this.baseMs = 0;
    this.perHost = Number.POSITIVE_INFINITY;
    this.follows = true;
  }
}

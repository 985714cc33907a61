/**
 * Good manners, kept for the whole cluster: which host may be asked next, and when. Pure: time is
 * an argument, tasks are handed out by `take` and come back by `ended`.
 *
 * A host is in one of two heaps, ordered by the next time it may be asked, while it has tasks and
 * fewer fetches under way than it may have. Hosts with a delay are apart from those without:
 * their tasks must start when they are handed out, so they only go to a slave with a free slot.
 *
 * When several crawls ask the same host, the longest of their delays and the smallest of their
 * concurrencies hold, and they take turns.
 */
import { Heap } from './heap.ts';
import { Pace } from './pace.ts';
import { type Access, RobotsGate } from './robots-gate.ts';
import type { Task, TaskQueue } from './tasks.ts';

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
};

/** A crawl's queue on a host; `active` is false while the crawl is paused or at its limit. */
export type HostClient = {
  readonly queue: TaskQueue;
  readonly manners: Manners;
  /** The edition of the host's robots.txt that it was told of. */
  told?: number;
  active(): boolean;
};

export class Host {
  /** Scheme, host and port. */
  readonly key: string;
  /** Its place in the store. */
  readonly hash: Buffer;
  readonly clients = new Map<number, HostClient>();
  /** Time of the next allowed start. */
  nextAt = 0;
  inFlight = 0;
  delayMs = 0;
  /** Tasks at slaves whose request has not left. */
  unstarted = 0;
  perHost = Number.POSITIVE_INFINITY;
  /** When it is looked at next; the order in the heap. */
  dueAt = 0;
  heapIndex = -1;
  heap: Heap<Host> | undefined;
  turn = 0;
  readonly robots: RobotsGate;
  readonly pace = new Pace();
  /** The delay is a default and follows the response times. */
  follows = false;
  /** Tasks that were refused and are not yet on record as such. */
  refused = 0;

  constructor(key: string, hash: Buffer, load: () => Uint8Array | undefined) {
    this.key = key;
    this.hash = hash;
    this.robots = new RobotsGate(key, hash, load);
  }

  /** The operator asks for URLs of this host: what was given up is tried again. */
  retry(): void {
    this.robots.retry();
    this.pace.retry();
  }
}

export type PolitenessOptions = {
  /** A host key's place in the store. */
  readonly hashOf: (key: string) => Buffer;
  /** The robots.txt of a host, from the store. */
  readonly robotsOf: (hash: Buffer) => Uint8Array | undefined;
  /** A host came into being: gives it what is on record of it. */
  readonly onMade: (host: Host) => void;
  /** A crawl is about to ask a host for the first time, or since its robots.txt is another. */
  readonly onMet: (host: Host, crawl: number) => void;
  /** A task that must not be fetched. It is out of its queue, and `refused` of its host counts it
   *  until it is on the disk. */
  readonly onRefused: (host: Host, task: Task, access: Exclude<Access, 'fetch'>) => void;
};

/** Refused tasks of a host that may wait for the disk. */
const refusedMax = 256;
/** How much longer one request may take to its server than the next. */
const guardMs = 30;

export class Politeness {
  readonly #hosts = new Map<string, Host>();
  readonly #timed = new Heap<Host>((a, b) => a.dueAt < b.dueAt);
  readonly #free = new Heap<Host>((a, b) => a.dueAt < b.dueAt);
  readonly #options: PolitenessOptions;

  constructor(options: PolitenessOptions) {
    this.#options = options;
  }

  get hostCount(): number {
    return this.#hosts.size;
  }

  host(key: string): Host {
    let host = this.#hosts.get(key);
    if (host === undefined) {
      const hash = this.#options.hashOf(key);
      host = new Host(key, hash, () => this.#options.robotsOf(hash));
      this.#hosts.set(key, host);
      this.#options.onMade(host);
    }
    return host;
  }

  join(host: Host, crawl: number, client: HostClient): void {
    host.clients.set(crawl, client);
    this.#agree(host);
  }

  /** The host's robots.txt is known, or its pace has changed. */
  learned(host: Host, now: number): void {
    this.#agree(host);
    this.wake(host, now);
  }

  /** The crawl has no tasks on this host any more. */
  leave(host: Host, crawl: number, now: number): void {
    host.clients.delete(crawl);
    this.#agree(host);
    this.#forget(host, now);
  }

  /** Forgets hosts without tasks whose delay is over. To be called now and then. */
  sweep(now: number): void {
    for (const host of this.#hosts.values()) this.#forget(host, now);
  }

  /** Looks at the host again: it has new tasks, or a fetch of it has ended. */
  wake(host: Host, now: number): void {
    const dueAt = this.#dueAt(host, now);
    if (dueAt === undefined) {
      host.heap?.remove(host);
      host.heap = undefined;
      return;
    }
    const heap = host.delayMs > 0 ? this.#timed : this.#free;
    if (host.heap !== heap) host.heap?.remove(host);
    host.dueAt = dueAt;
    host.heap = heap;
    heap.set(host);
  }

  /** A task that may start now, and its host; undefined when none may. `prefetch`: only of hosts
   *  without a delay. */
  take(now: number, prefetch: boolean): { host: Host; task: Task } | undefined {
    for (const heap of prefetch ? [this.#free] : [this.#timed, this.#free]) {
      for (let host = heap.peek(); host && host.dueAt <= now; host = heap.peek()) {
        const task = this.#nextTask(host, now);
        if (task !== undefined) {
          task.queue.lease(task);
          host.inFlight++;
          host.nextAt = now + host.delayMs;
        }
        this.wake(host, now);
        if (task !== undefined) return { host, task };
      }
    }
    return undefined;
  }

  /** A slave has the task, and will say when its request leaves: until then nobody else begins. */
  starting(host: Host, now: number): void {
    host.unstarted++;
    this.wake(host, now);
  }

  /** A request has left: `isFirst` of what `starting` announced, else a redirect's. The delay counts
   *  from here, so that the way to the slave, a look-up and a handshake shorten no gap. */
  started(host: Host, isFirst: boolean, now: number): void {
    if (isFirst) host.unstarted--;
    host.nextAt = Math.max(host.nextAt, now + host.delayMs + guardMs);
    this.wake(host, now);
  }

  /** A fetch that `take` began has ended, whatever came of it. */
  ended(host: Host, now: number): void {
    host.inFlight--;
    this.wake(host, now);
  }

  /** `take` may have something, now or at a known time, without a fetch ending first. */
  get hasDue(): boolean {
    return this.#timed.peek() !== undefined || this.#free.peek() !== undefined;
  }

  /** When `take` may have something again; undefined: only after a `wake`. */
  nextDueAt(): number | undefined {
    const timed = this.#timed.peek()?.dueAt;
    const free = this.#free.peek()?.dueAt;
    if (timed === undefined || free === undefined) return timed ?? free;
    return Math.min(timed, free);
  }

  #dueAt(host: Host, now: number): number | undefined {
    const atOnceMax = host.pace.isProbing ? 1 : host.perHost;
    if (host.inFlight >= atOnceMax || host.refused >= refusedMax) return undefined;
    if (host.unstarted > 0) return undefined;
    const robotsAt = host.robots.waitsUntil(now);
    let earliest: number | undefined;
    for (const client of host.clients.values()) {
      if (!client.active()) continue;
      let at = client.queue.dueAt(now);
      if (at === undefined) continue;
      if (client.manners.robots !== undefined) at = Math.max(at, robotsAt);
      if (at < (earliest ?? Number.POSITIVE_INFINITY)) earliest = at;
    }
    if (earliest === undefined) return undefined;
    // What a dead host has is given up at once.
    return host.pace.dead(now) ? earliest : Math.max(earliest, host.nextAt, host.pace.holdUntil);
  }

  /** The crawls of a host take turns. */
  #nextTask(host: Host, now: number): Task | undefined {
    const clients = [...host.clients.values()];
    for (let i = 0; i < clients.length; i++) {
      const client = clients[(host.turn + i) % clients.length];
      const task = client?.active() ? this.#taskOf(host, client, now) : undefined;
      if (task === undefined) continue;
      host.turn = (host.turn + i + 1) % clients.length;
      return task;
    }
    return undefined;
  }

  /** The host's robots.txt first; then what it does not forbid. */
  #taskOf(host: Host, client: HostClient, now: number): Task | undefined {
    const { queue, manners } = client;
    const dead = host.pace.dead(now);
    const { robots } = manners;
    let task = queue.peek(now);
    if (task !== undefined && dead === undefined && robots !== undefined) {
      if (!host.robots.isOpen(now)) return host.robots.task(queue.crawl, now);
    }
    if (task !== undefined && client.told !== host.robots.edition) {
      client.told = host.robots.edition;
      this.#options.onMet(host, queue.crawl);
    }
    for (; task !== undefined && host.refused < refusedMax; task = queue.peek(now)) {
      const access: Access = dead
        ? { error: dead, attempts: task.attempts }
        : robots === undefined
          ? 'fetch'
          : host.robots.access(robots, task.url);
      if (access === 'fetch') return task;
      queue.commit(task);
      host.refused++;
      this.#options.onRefused(host, task, access);
    }
    return undefined;
  }

  #agree(host: Host): void {
    host.delayMs = 0;
    host.perHost = Number.POSITIVE_INFINITY;
    host.follows = host.clients.size > 0;
    for (const { manners } of host.clients.values()) {
      const { robots, crawlDelayMaxMs = Number.POSITIVE_INFINITY } = manners;
      const crawlDelayMs = robots === undefined ? 0 : host.robots.crawlDelayMs(robots);
      host.delayMs = Math.max(
        host.delayMs,
        manners.delayMs,
        Math.min(crawlDelayMs, crawlDelayMaxMs),
      );
      host.perHost = Math.min(host.perHost, manners.perHost);
      host.follows &&= manners.follows === true;
    }
    host.delayMs = host.pace.delayMs(host.delayMs, host.follows);
  }

  #forget(host: Host, now: number): void {
    if (host.clients.size === 0 && host.inFlight === 0 && host.nextAt <= now) {
      this.#hosts.delete(host.key);
    }
  }
}

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
import type { Task, TaskQueue } from './tasks.ts';

/** What one crawl wants for a host. */
export type Manners = { readonly delayMs: number; readonly perHost: number };

/** A crawl's queue on a host; `active` is false while the crawl is paused or at its limit. */
export type HostClient = {
  readonly queue: TaskQueue;
  readonly manners: Manners;
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
  perHost = Number.POSITIVE_INFINITY;
  /** When it is looked at next; the order in the heap. */
  dueAt = 0;
  heapIndex = -1;
  heap: Heap<Host> | undefined;
  turn = 0;

  constructor(key: string, hash: Buffer) {
    this.key = key;
    this.hash = hash;
  }
}

export class Politeness {
  readonly #hosts = new Map<string, Host>();
  readonly #timed = new Heap<Host>((a, b) => a.dueAt < b.dueAt);
  readonly #free = new Heap<Host>((a, b) => a.dueAt < b.dueAt);
  readonly #hashOf: (key: string) => Buffer;

  /** `hashOf` gives a host key's place in the store. */
  constructor(hashOf: (key: string) => Buffer) {
    this.#hashOf = hashOf;
  }

  get hostCount(): number {
    return this.#hosts.size;
  }

  host(key: string): Host {
    let host = this.#hosts.get(key);
    if (host === undefined) {
      host = new Host(key, this.#hashOf(key));
      this.#hosts.set(key, host);
    }
    return host;
  }

  join(host: Host, crawl: number, client: HostClient): void {
    host.clients.set(crawl, client);
    this.#agree(host);
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

  /** A fetch that `take` began has ended, whatever came of it. */
  ended(host: Host, now: number): void {
    host.inFlight--;
    this.wake(host, now);
  }

  /** When `take` may have something again; undefined: only after a `wake`. */
  nextDueAt(): number | undefined {
    const timed = this.#timed.peek()?.dueAt;
    const free = this.#free.peek()?.dueAt;
    if (timed === undefined || free === undefined) return timed ?? free;
    return Math.min(timed, free);
  }

  #dueAt(host: Host, now: number): number | undefined {
    if (host.inFlight >= host.perHost) return undefined;
    let earliest: number | undefined;
    for (const client of host.clients.values()) {
      if (!client.active()) continue;
      const at = client.queue.dueAt(now);
      if (at !== undefined && (earliest === undefined || at < earliest)) earliest = at;
    }
    return earliest === undefined ? undefined : Math.max(earliest, host.nextAt);
  }

  /** The crawls of a host take turns. */
  #nextTask(host: Host, now: number): Task | undefined {
    const clients = [...host.clients.values()];
    for (let i = 0; i < clients.length; i++) {
      const client = clients[(host.turn + i) % clients.length];
      const task = client?.active() ? client.queue.peek(now) : undefined;
      if (task === undefined) continue;
      host.turn = (host.turn + i + 1) % clients.length;
      return task;
    }
    return undefined;
  }

  #agree(host: Host): void {
    host.delayMs = 0;
    host.perHost = Number.POSITIVE_INFINITY;
    for (const { manners } of host.clients.values()) {
      host.delayMs = Math.max(host.delayMs, manners.delayMs);
      host.perHost = Math.min(host.perHost, manners.perHost);
    }
  }

  #forget(host: Host, now: number): void {
    if (host.clients.size === 0 && host.inFlight === 0 && host.nextAt <= now) {
      this.#hosts.delete(host.key);
    }
  }
}

/**
 * Leases: which task is held by which slave until when. A lease ends by report, release,
 * deadline, or with its session; it is never on disk, so a restart has all tasks waiting.
 * Every lease runs equally long from when it was given or extended, so the order of a Map is the
 * order of the deadlines.
 */
import type { Group, Hop, Host } from './host.ts';
import type { Task } from './tasks.ts';

/** Whoever can hold leases: a session of a slave. */
export interface LeaseHolder {
  readonly name: string;
  /** Leases it may hold at once. */
  readonly credit: number;
  /** Fetches it can run at once: a task whose start time matters must not wait in the slave. */
  readonly slots: number;
  /** Which tasks it takes: `files` are those that tell of a host, as robots.txt does. */
  readonly takes: 'all' | 'pages' | 'files';
  readonly leases: Set<Lease>;
  /** New leases: tell the slave. */
  push(leases: readonly Lease[]): void;
  /** Leases that were taken away. */
  cancel(leases: readonly Lease[]): void;
}

export type Lease = {
  readonly id: number;
  readonly task: Task;
  /** The task's name on the wire. */
  readonly name: Buffer;
  readonly host: Host;
  readonly holder: LeaseHolder;
  deadline: number;
  /** Where it holds a slot; undefined while a redirect waits for one elsewhere. */
  group: Group | undefined;
  /** `awaited`: its host has a delay, which counts from when the slave says `started`. */
  timing: 'free' | 'awaited' | 'started';
  /** A redirect of it that waits for its turn. */
  hop: Hop | undefined;
};

type Given = Pick<Lease, 'task' | 'name' | 'host' | 'holder'>;

export class Leases {
  readonly #leaseMs: number;
  readonly #byId = new Map<number, Lease>();
  #lastId: number;

  /** `firstId` differs from start to start, so that an id of an earlier master means nothing. */
  constructor(leaseMs: number, firstId: number) {
    this.#leaseMs = leaseMs;
    this.#lastId = firstId;
  }

  get count(): number {
    return this.#byId.size;
  }

  give(given: Given, now: number): Lease {
    const { task, name, host, holder } = given;
    const lease: Lease = {
      id: ++this.#lastId,
      task,
      name,
      host,
      holder,
      deadline: now + this.#leaseMs,
      group: host.group,
      timing: host.group.delayMs > 0 ? 'awaited' : 'free',
      hop: undefined,
    };
    this.#byId.set(lease.id, lease);
    holder.leases.add(lease);
    return lease;
  }

  /** The lease if this holder has it. */
  held(id: number, holder: LeaseHolder): Lease | undefined {
    const lease = this.#byId.get(id);
    return lease?.holder === holder ? lease : undefined;
  }

  extend(lease: Lease, now: number): void {
    this.#byId.delete(lease.id);
    lease.deadline = now + this.#leaseMs;
    this.#byId.set(lease.id, lease);
  }

  end(lease: Lease): void {
    this.#byId.delete(lease.id);
    lease.holder.leases.delete(lease);
  }

  /** The lease of a task, whoever holds it. Rare: only a report of an older lease asks. */
  of(task: Task): Lease | undefined {
    for (const lease of this.#byId.values()) if (lease.task === task) return lease;
    return undefined;
  }

  [Symbol.iterator](): IterableIterator<Lease> {
    return this.#byId.values();
  }

  /** The leases whose deadline has passed. */
  expired(now: number): Lease[] {
    const expired: Lease[] = [];
    for (const lease of this.#byId.values()) {
      if (lease.deadline > now) break;
      expired.push(lease);
    }
    return expired;
  }
}

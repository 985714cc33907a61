/**
 * Leases: which slave holds which task until when. A lease ends by report, release, deadline, or
 * with its session. Leases are never on disk, so after a restart all tasks wait.
 *
 * Its holder may extend it, but it ends at the latest `lifeMs` after it was given. That clock stops
 * while the master makes the holder wait.
 */

import { Heap } from '../../machine/heap.ts';
import type { Group, Hop, Host, Line } from '../politeness/host.ts';
import type { Task } from '../tasks/tasks.ts';

/** A holder of leases: a session of a slave. */
export interface LeaseHolder {
  readonly name: string;
  /** Leases it may hold at once. */
  readonly credit: number;
  /** Concurrent fetches: a task whose start time matters must not wait in the slave. */
  readonly slots: number;
  /** Slots besides these, since their fetches wait for late answers. Default: none. [T-46] */
  readonly lent?: number;
  /** How many of `credit` may be outside the slots: they start at once, on hosts that have not
   *  proved that they answer. */
  readonly trials: number;
  /** Time that its leases last after its last message, without a total limit; undefined: as set for
   *  the master. */
  readonly leaseMs?: number | undefined;
  /** The tasks that it takes: `probes` are those that describe a host, such as robots.txt. */
  readonly takes: 'all' | 'pages' | 'probes';
  /** It evaluates the rules of crawls. [T-80] */
  readonly hasRules?: boolean;
  /** It sends requests that are no GET. Default: it cannot. [T-91] */
  readonly sendsBodies?: boolean;
  /** It takes several pages of a host with a delay at once. [T-146] Default: it does not. */
  readonly hasTrains?: boolean;
  /** Its other abilities: bits of `needs`. Default: none. */
  readonly abilities?: number;
  /** Total time in which it was not read from; its leases do not age in it. */
  readonly heldBackMs?: number;
  readonly leases: Set<Lease>;
  /** Sends new leases to the slave. */
  push(leases: readonly Lease[]): void;
  /** Tells the slave about cancelled leases. */
  cancel(leases: readonly Lease[]): void;
  /** Tells the slave to release those of them that have not begun. [T-149] */
  recall?(leases: readonly Lease[]): void;
}

export type Lease = {
  readonly id: number;
  readonly task: Task;
  /** The task's name on the wire. */
  readonly name: Buffer;
  readonly host: Host;
  readonly holder: LeaseHolder;
  /** The room that it takes of its holder: see `holders`. */
  room: Room;
  /** The time when it ends unless it is extended. */
  deadline: number;
  /** The time when it ends however often it is extended; Infinity while that clock is stopped. */
  endsBy: number;
  /** The remaining life while that clock is stopped. */
  leftMs: number | undefined;
  /** The holder's `heldBackMs` that the two times above include. */
  heldBackMs: number;
  heapIndex: number;
  /** The group whose slot it holds; undefined while a redirect waits for one elsewhere. */
  group: Group | undefined;
  /** `awaited`: its host has a delay, which counts from when the slave says `started`. */
  timing: 'free' | 'awaited' | 'started';
  /** Its redirect that waits for its turn. */
  hop: Hop | undefined;
  /** Redirects that it asked for. */
  hopCount: number;
  /** Undefined: it is alone. */
  train: Train | undefined;
  /** It waits in its slave for its turn in the train. */
  isAhead: boolean;
};

/** Leases of a host with a delay that a slave got at once: see `Trains`. */
export type Train = {
  /** In the order in which their requests leave. */
  readonly leases: readonly Lease[];
  readonly gapMs: number;
  /** Requests that may be under way at once. */
  readonly atOnce: number;
  isRecalled: boolean;
};

/** A lease, as its holder names it. */
export type HeldLease = Pick<Lease, 'holder' | 'id'>;

/** How a holder names the task that it speaks of: by its lease and, in case that is gone, by the
 *  task's name on the wire. A lease is a claim. */
export type Claim = HeldLease & { readonly name: Uint8Array };

/** `slot`: a fetch that it starts now or soon; `trial`: one outside its slots; `share`: a slot from
 *  the share for hosts that have not proved that they answer; `train`: it waits for its turn after
 *  others of its host, one of which has a slot. */
export type Room = { readonly kind: 'slot' | 'trial' | 'share' | 'train'; readonly line: Line };

type Given = Pick<Lease, 'task' | 'name' | 'host' | 'holder' | 'room'> & {
  readonly lifeMs: number;
  /** Its request leaves so much later; default: at once. */
  readonly waitMs?: number;
};

export class Leases {
  readonly #leaseMs: number;
  readonly #byId = new Map<number, Lease>();
  readonly #byEnd = new Heap<Lease>((a, b) => endOf(a) < endOf(b));
  #lastId: number;

  /** `firstId` differs at each start, so that an id of an earlier master is invalid. */
  constructor(leaseMs: number, firstId: number) {
    this.#leaseMs = leaseMs;
    this.#lastId = firstId;
  }

  get count(): number {
    return this.#byId.size;
  }

  give(given: Given, now: number): Lease {
    const { task, name, host, holder, room, lifeMs, waitMs = 0 } = given;
    const lease: Lease = {
      id: ++this.#lastId,
      task,
      name,
      host,
      holder,
      room,
      deadline: now + (holder.leaseMs ?? this.#leaseMs) + waitMs,
      endsBy: holder.leaseMs === undefined ? now + lifeMs + waitMs : Number.POSITIVE_INFINITY,
      leftMs: undefined,
      heldBackMs: holder.heldBackMs ?? 0,
      heapIndex: -1,
      group: host.group,
      timing: host.group.delayMs > 0 ? 'awaited' : 'free',
      hop: undefined,
      hopCount: 0,
      train: undefined,
      isAhead: false,
    };
    this.#byId.set(lease.id, lease);
    this.#byEnd.set(lease);
    holder.leases.add(lease);
    return lease;
  }

  /** Returns the lease if this holder has it. */
  held({ id, holder }: HeldLease): Lease | undefined {
    const lease = this.#byId.get(id);
    return lease?.holder === holder ? lease : undefined;
  }

  extend(lease: Lease, now: number): void {
    this.#age(lease);
    lease.deadline = now + (lease.holder.leaseMs ?? this.#leaseMs);
    this.#byEnd.set(lease);
  }

  /** The master makes its holder wait from now on; that time does not count. */
  hold(lease: Lease, now: number): void {
    if (lease.leftMs !== undefined) return;
    this.#age(lease);
    lease.leftMs = lease.endsBy - now;
    lease.endsBy = Number.POSITIVE_INFINITY;
    this.#byEnd.set(lease);
  }

  /** The holder no longer waits. */
  goOn(lease: Lease, now: number): void {
    if (lease.leftMs === undefined) return;
    this.#age(lease);
    lease.endsBy = now + lease.leftMs;
    lease.leftMs = undefined;
    if (this.#byId.has(lease.id)) this.#byEnd.set(lease);
  }

  /** Its fetch may take this much longer than when it was given. */
  prolong(lease: Lease, ms: number): void {
    if (lease.leftMs === undefined) lease.endsBy += ms;
    else lease.leftMs += ms;
    this.#byEnd.set(lease);
  }

  /** The master stood still for so long; that time does not count. */
  postpone(ms: number): void {
    if (ms === 0) return;
    for (const lease of this.#byId.values()) {
      lease.deadline += ms;
      lease.endsBy += ms;
      this.#byEnd.set(lease);
    }
  }

  end(lease: Lease): void {
    this.#byId.delete(lease.id);
    this.#byEnd.remove(lease);
    lease.holder.leases.delete(lease);
  }

  /** Returns the lease of a task, with any holder. Rare: only for a report of an older lease. */
  of(task: Task): Lease | undefined {
    for (const lease of this.#byId.values()) if (lease.task === task) return lease;
    return undefined;
  }

  [Symbol.iterator](): IterableIterator<Lease> {
    return this.#byId.values();
  }

  /** Returns an expired lease; undefined: none. The caller must end it. */
  expired(now: number): Lease | undefined {
    let first = this.#byEnd.peek();
    while (first !== undefined && endOf(first) <= now && this.#age(first)) {
      first = this.#byEnd.peek();
    }
    return first !== undefined && endOf(first) <= now ? first : undefined;
  }

  /** Excludes the time in which its holder was not read from. Returns whether there was any. */
  #age(lease: Lease): boolean {
    const sinceMs = (lease.holder.heldBackMs ?? 0) - lease.heldBackMs;
    if (sinceMs <= 0) return false;
    lease.heldBackMs += sinceMs;
    lease.deadline += sinceMs;
    lease.endsBy += sinceMs;
    this.#byEnd.set(lease);
    return true;
  }
}

function endOf({ deadline, endsBy }: Lease): number {
  return Math.min(deadline, endsBy);
}

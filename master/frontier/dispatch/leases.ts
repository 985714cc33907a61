/**
 * Leases: which task is held by which slave until when. A lease ends by report, release,
 * deadline, or with its session; it is never on disk, so a restart has all tasks waiting.
 *
 * Its holder may extend it, but not for ever: `lifeMs` after it was given it ends all the same. That
 * clock stands still while the master makes the holder wait.
 */

import type { Group, Hop, Host, Line } from '../politeness/host.ts';
import { Heap } from '../tasks/heap.ts';
import type { Task } from '../tasks/tasks.ts';

/** Whoever can hold leases: a session of a slave. */
export interface LeaseHolder {
  readonly name: string;
  /** Leases it may hold at once. */
  readonly credit: number;
  /** Fetches it can run at once: a task whose start time matters must not wait in the slave. */
  readonly slots: number;
  /** Of `credit` those that are beside the slots: they begin at once, on hosts that have not proved
   *  that they answer. */
  readonly trials: number;
  /** How long its leases run from when it was heard last, without an end to that; undefined: as the
   *  master's run. */
  readonly leaseMs?: number | undefined;
  /** Which tasks it takes: `files` are those that tell of a host, as robots.txt does. */
  readonly takes: 'all' | 'pages' | 'files';
  /** How long it was not read from, in all: its leases do not age meanwhile. */
  readonly heldBackMs?: number;
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
  /** What it takes of its holder: see `holders`. */
  readonly room: Room;
  /** When it ends unless it is extended. */
  deadline: number;
  /** When it ends however often it is extended; Infinity while that clock stands still. */
  endsBy: number;
  /** What is left of its life while that clock stands still. */
  leftMs: number | undefined;
  /** Of its holder, as far as the two times above know. */
  heldBackMs: number;
  heapIndex: number;
  /** Where it holds a slot; undefined while a redirect waits for one elsewhere. */
  group: Group | undefined;
  /** `awaited`: its host has a delay, which counts from when the slave says `started`. */
  timing: 'free' | 'awaited' | 'started';
  /** A redirect of it that waits for its turn. */
  hop: Hop | undefined;
  /** Redirects that it asked for. */
  hopCount: number;
};

/** `slot`: a fetch that it begins now or soon; `trial`: one beside its slots; `share`: a slot, of
 *  the part of all that hosts may have that have not proved that they answer. */
export type Room = { readonly kind: 'slot' | 'trial' | 'share'; readonly line: Line };

type Given = Pick<Lease, 'task' | 'name' | 'host' | 'holder' | 'room'> & {
  readonly lifeMs: number;
};

export class Leases {
  readonly #leaseMs: number;
  readonly #byId = new Map<number, Lease>();
  readonly #byEnd = new Heap<Lease>((a, b) => endOf(a) < endOf(b));
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
    const { task, name, host, holder, room, lifeMs } = given;
    const lease: Lease = {
      id: ++this.#lastId,
      task,
      name,
      host,
      holder,
      room,
      deadline: now + (holder.leaseMs ?? this.#leaseMs),
      endsBy: holder.leaseMs === undefined ? now + lifeMs : Number.POSITIVE_INFINITY,
      leftMs: undefined,
      heldBackMs: holder.heldBackMs ?? 0,
      heapIndex: -1,
      group: host.group,
      timing: host.group.delayMs > 0 ? 'awaited' : 'free',
      hop: undefined,
      hopCount: 0,
    };
    this.#byId.set(lease.id, lease);
    this.#byEnd.set(lease);
    holder.leases.add(lease);
    return lease;
  }

  /** The lease if this holder has it. */
  held(id: number, holder: LeaseHolder): Lease | undefined {
    const lease = this.#byId.get(id);
    return lease?.holder === holder ? lease : undefined;
  }

  extend(lease: Lease, now: number): void {
    this.#age(lease);
    lease.deadline = now + (lease.holder.leaseMs ?? this.#leaseMs);
    this.#byEnd.set(lease);
  }

  /** From now on the master makes its holder wait: that is no part of its life. */
  hold(lease: Lease, now: number): void {
    if (lease.leftMs !== undefined) return;
    this.#age(lease);
    lease.leftMs = lease.endsBy - now;
    lease.endsBy = Number.POSITIVE_INFINITY;
    this.#byEnd.set(lease);
  }

  /** It waits no longer. */
  goOn(lease: Lease, now: number): void {
    if (lease.leftMs === undefined) return;
    this.#age(lease);
    lease.endsBy = now + lease.leftMs;
    lease.leftMs = undefined;
    if (this.#byId.has(lease.id)) this.#byEnd.set(lease);
  }

  end(lease: Lease): void {
    this.#byId.delete(lease.id);
    this.#byEnd.remove(lease);
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

  /** A lease whose time is over; undefined when there is none. To be ended by the caller. */
  expired(now: number): Lease | undefined {
    let first = this.#byEnd.peek();
    while (first !== undefined && endOf(first) <= now && this.#age(first)) {
      first = this.#byEnd.peek();
    }
    return first !== undefined && endOf(first) <= now ? first : undefined;
  }

  /** Leaves out the time in which its holder was not read from. True if there was any. */
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

/**
 * The holders of leases, and the room that each has. There are three kinds of room:
 *
 *     slot     of a host that answers: it begins at once, or waits in the slave for a free slot
 *     trial  of one that has not proved that it answers: beside the slots, so that however many
 *              hosts are dead, nobody else waits for them
 *     share    the same in a slave without such places: of all slots a quarter, one at least
 *
 * The pages of a train have one slot together.
 *
 * Programs that take only pages are not counted: each works on one page, and their reports do not
 * show whether a host answered.
 *
 * A holder whose leases expire repeatedly comes last, with one lease at a time, until it reports
 * something. Owned by the dispatcher. Source: PROTOCOL.md [T-4] [T-13] [T-51] to [T-53].
 */
import { isMet, needs } from '../crawl/needs.ts';
import type { Line } from '../politeness/host.ts';
import type { Lease, LeaseHolder, Room } from './leases.ts';

/** The holders that take a task: of a page, of what describes a host, with a request. */
export type Takers = 'pages' | 'probes' | 'requests';

export type Place = { readonly holder: LeaseHolder; readonly room: Room };

type Standing = {
  /** Its leases outside the slots, and those among them on hosts that failed, and through
   *  proxies. */
  trials: number;
  failing: number;
  relayed: number;
  /** Its leases that wait for others of their train. */
  coupled: number;
  /** True: one of its leases expired, and it has sent nothing since, so it would only keep
   *  tasks. */
  isLate: boolean;
  /** Leases that expired since its last report. */
  ranOut: number;
};

/** Expired leases after which a holder gets one lease at a time. */
const ranOutMax = 2;
const shareOfSlots = 1 / 4;

export class Holders {
  readonly #holders: LeaseHolder[] = [];
  readonly #standings = new Map<LeaseHolder, Standing>();
  /** Pages are only for holders that evaluate rules: others would have to be told apart for each
   *  task, while a crawl with items runs. */
  pagesNeedRules = false;
  #shared = 0;
  #next = 0;

  get isEmpty(): boolean {
    return this.#holders.length === 0;
  }

  /** True: no holder takes tasks that describe a host (robots.txt, sitemaps). */
  get lacksFiles(): boolean {
    return this.#holders.every(({ takes }) => takes === 'pages');
  }

  /** True: some holder may get pages of a crawl with items. Programs do with pages as they like. */
  get knowRules(): boolean {
    return this.#holders.some(({ hasRules, takes }) => hasRules || takes === 'pages');
  }

  /** The abilities of the holders, see `needs`: without repetition, in order. */
  get abilities(): number[] {
    const all = new Set(this.#holders.map(({ abilities = 0 }) => abilities));
    return [...all].sort((a, b) => a - b);
  }

  /** Without effect for a holder that is known. */
  add(holder: LeaseHolder): void {
    if (this.#standings.has(holder)) return;
    this.#holders.push(holder);
    this.#standings.set(holder, {
      trials: 0,
      failing: 0,
      relayed: 0,
      coupled: 0,
      isLate: false,
      ranOut: 0,
    });
  }

  remove(holder: LeaseHolder): void {
    const index = this.#holders.indexOf(holder);
    if (index >= 0) this.#holders.splice(index, 1);
    this.#standings.delete(holder);
  }

  /** A holder sent a message. Returns true if it may get more leases for that. */
  heard(holder: LeaseHolder): boolean {
    const standing = this.#standings.get(holder);
    if (!standing?.isLate) return false;
    standing.isLate = false;
    return true;
  }

  /** A holder reported the outcome of a task. */
  reported(holder: LeaseHolder): void {
    const standing = this.#standings.get(holder);
    if (standing !== undefined) standing.ranOut = 0;
  }

  ranOut(holder: LeaseHolder): void {
    const standing = this.#standings.get(holder);
    if (standing === undefined) return;
    standing.isLate = true;
    standing.ranOut++;
  }

  /** The slots of all slaves, and their trials under way. */
  get sums(): { readonly slots: number; readonly trials: number } {
    let slots = 0;
    let trials = 0;
    for (const holder of this.#holders) if (isSlave(holder)) slots += holder.slots;
    for (const standing of this.#standings.values()) trials += standing.trials;
    return { slots, trials };
  }

  /** Returns the next holder in rotation that has room for a task of this line and takes such
   *  tasks. `needed`: what it must be able to do, see `needs`. */
  place(line: Line, what: Takers, needed: number = needs.nothing): Place | undefined {
    const find = (roomOf: (holder: LeaseHolder) => Room | undefined) =>
      this.#find(what, needed, roomOf);
    switch (line) {
      case 'timed':
        return find((holder) => this.#slot(holder, line, startsAtOnce(holder)));
      case 'free':
        // A holder that can start at once comes before one that would let the task wait.
        return (
          find((holder) => this.#slot(holder, line, startsAtOnce(holder))) ??
          find((holder) => this.#slot(holder, line, creditOfSlots(holder)))
        );
      default: {
        const hasShare = this.#shared < this.#shareMax;
        return find((holder) => this.#trial(holder, line, hasShare));
      }
    }
  }

  /** This lease takes the place. */
  took({ holder, room }: Lease): void {
    const standing = this.#standings.get(holder);
    this.#next = (this.#holders.indexOf(holder) + 1) % this.#holders.length;
    this.#count(room, standing, 1);
  }

  ended({ holder, room }: Lease): void {
    this.#count(room, this.#standings.get(holder), -1);
  }

  /** It takes the slot of its train from now on. */
  advance(lease: Lease): void {
    this.ended(lease);
    lease.room = { kind: 'slot', line: lease.room.line };
  }

  #count({ kind, line }: Room, standing: Standing | undefined, by: 1 | -1): void {
    if (kind === 'share') this.#shared += by;
    if (kind === 'train' && standing !== undefined) standing.coupled += by;
    if (kind !== 'trial' || standing === undefined) return;
    standing.trials += by;
    if (line === 'failing' || line === 'relayed') standing[line] += by;
  }

  #find(
    what: Takers,
    needed: number,
    roomOf: (holder: LeaseHolder) => Room | undefined,
  ): Place | undefined {
    let last: Place | undefined;
    const { length } = this.#holders;
    for (let i = 0; i < length; i++) {
      const holder = this.#holders[(this.#next + i) % length];
      const standing = holder && this.#standings.get(holder);
      if (holder === undefined || standing === undefined || standing.isLate) continue;
      if (!isSuited(holder, what, needed)) continue;
      const needsRules = this.pagesNeedRules && what !== 'probes';
      if (needsRules && isSlave(holder) && !holder.hasRules) continue;
      const isLast = isSlave(holder) && standing.ranOut >= ranOutMax;
      if (isLast && (last !== undefined || holder.leases.size > 0)) continue;
      const room = roomOf(holder);
      if (room === undefined) continue;
      if (!isLast) return { holder, room };
      last = { holder, room };
    }
    return last;
  }

  #slot(holder: LeaseHolder, line: Line, room: number): Room | undefined {
    const { trials = 0, coupled = 0 } = this.#standings.get(holder) ?? {};
    return holder.leases.size - trials - coupled < room ? { kind: 'slot', line } : undefined;
  }

  #trial(holder: LeaseHolder, line: Line, hasShare: boolean): Room | undefined {
    if (!isSlave(holder)) return undefined;
    if (holder.trials === 0) {
      const isFree = hasShare && holder.leases.size < startsAtOnce(holder);
      return isFree ? { kind: 'share', line } : undefined;
    }
    const standing = this.#standings.get(holder);
    const max = Math.min(holder.trials, holder.credit);
    if (standing === undefined || standing.trials >= max) return undefined;
    // Half of the trials are for unknown hosts, since hosts that failed may take as long as a fetch
    // may.
    if (line === 'failing' && standing.failing >= Math.ceil(max / 2)) return undefined;
    // A proxy gets no more connections than with slots alone.
    if (line === 'relayed' && standing.relayed >= holder.slots) return undefined;
    return { kind: 'trial', line };
  }

  get #shareMax(): number {
    let slots = 0;
    for (const holder of this.#holders) {
      if (isSlave(holder) && holder.credit > 0) slots += holder.slots;
    }
    return Math.max(1, Math.floor(slots * shareOfSlots));
  }
}

/** Does it take such tasks? `needed`: what it must be able to do, see `needs`. */
export function isSuited(holder: LeaseHolder, what: Takers, needed: number): boolean {
  const { takes, sendsBodies, abilities = needs.nothing } = holder;
  if (!isMet(needed, abilities)) return false;
  if (what === 'requests') return takes === 'all' && sendsBodies === true;
  return takes === 'all' || takes === what;
}

function isSlave({ takes }: LeaseHolder): boolean {
  return takes !== 'pages';
}

/** Leases of hosts that answer. */
function creditOfSlots({ credit, trials }: LeaseHolder): number {
  return Math.max(0, credit - trials);
}

/** Returns the number of tasks that a holder can start at once. */
function startsAtOnce(holder: LeaseHolder): number {
  return Math.min(holder.slots + (holder.lent ?? 0), creditOfSlots(holder));
}

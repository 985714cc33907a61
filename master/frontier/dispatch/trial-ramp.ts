/**
 * How many hosts that nobody has asked yet are tried at once. A host that answers does so soon, and
 * then waits for its pages with an open connection: the more hosts are tried ahead of their pages,
 * the more connections are closed again unused. Hosts that do not answer would hold up those behind
 * them: each trial that has had its time without an answer lets another one begin.
 * Pure: time is an argument (ms). Owned by the dispatcher.
 */
import type { Lease } from './leases.ts';

/** A host on the same machine or network answers within this time. */
export const youngMs = 50;
/** Trials for each slot, in their first `youngMs`. */
const perSlot = 2;

export class TrialRamp {
  #young: { readonly lease: Lease; readonly at: number }[] = [];

  /** A host is tried for the first time. */
  took(lease: Lease, now: number): void {
    this.#young.push({ lease, at: now });
  }

  /** May one more be tried, where slaves have so many slots and so many trials under way? */
  allows(slots: number, trials: number, now: number): boolean {
    const { length } = this.#young;
    const old = this.#young.findIndex(({ at }) => now - at < youngMs);
    this.#young = this.#young.slice(old < 0 ? length : old);
    const young = this.#young.filter(({ lease }) => lease.holder.leases.has(lease)).length;
    return young < Math.max(perSlot * slots, trials - young);
  }
}

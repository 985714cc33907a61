/**
 * How many hosts that nobody has asked yet are tried at once. A host that answers does so soon, and
 * then waits for its pages with an open connection: the more hosts are tried ahead of their pages,
 * the more connections are closed again unused. Hosts that do not answer would hold up those behind
 * them: each trial that has had its time without an answer lets another one begin. How long that
 * is follows from how long answers took of late.
 * Pure: time is an argument (ms). Owned by the dispatcher.
 */
import type { Lease } from './leases.ts';

/** An answer on the same machine or network takes no longer. */
export const youngMsMin = 50;
const youngMsMax = 1_000;
/** Trials for each slot that may be young. */
const perSlot = 2;
/** A trial is young for so many times what answers took of late, each of which weighs so much. */
const patience = 3;
const weight = 1 / 8;

export class TrialRamp {
  #young: { readonly lease: Lease; readonly at: number }[] = [];
  readonly #begins = new WeakMap<Lease, number>();
  #answerMs = 0;

  /** A host is tried for the first time. */
  took(lease: Lease, now: number): void {
    this.#young.push({ lease, at: now });
    this.#begins.set(lease, now);
  }

  /** Its slave has said what came of it. */
  answered(lease: Lease, now: number): void {
    const at = this.#begins.get(lease);
    if (at === undefined) return;
    // What took very long was no answer.
    this.#answerMs += (Math.min(now - at, youngMsMax) - this.#answerMs) * weight;
  }

  /** May one more be tried, where slaves have so many slots and so many trials under way? */
  allows(slots: number, trials: number, now: number): boolean {
    const youngMs = Math.min(Math.max(patience * this.#answerMs, youngMsMin), youngMsMax);
    const { length } = this.#young;
    const first = this.#young.findIndex(({ at }) => now - at < youngMs);
    this.#young = this.#young.slice(first < 0 ? length : first);
    const young = this.#young.filter(({ lease }) => lease.holder.leases.has(lease)).length;
    return young < Math.max(perSlot * slots, trials - young);
  }
}

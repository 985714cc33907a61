/**
 * Limits the number of new hosts that are tried at once. A host that answers does so soon, and then
 * its connection waits for its pages: the more hosts are tried ahead of their pages, the more
 * connections are closed unused. Hosts that do not answer would delay those after them, so each
 * trial without an answer lets another one start after a while. That time follows from recent
 * response times. Pure: time is an argument (ms). Owned by the dispatcher.
 */
import type { Lease } from './leases.ts';

/** An answer on the same machine or network takes no longer. */
export const youngMsMin = 50;
const youngMsMax = 1_000;
/** Maximum number of young trials per slot. */
const perSlot = 2;
/** A trial is young for this multiple of the average response time; the weight of each answer in
 *  it. */
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

  /** The slave has reported the outcome of the trial. */
  answered(lease: Lease, now: number): void {
    const at = this.#begins.get(lease);
    if (at === undefined) return;
    // A very long time was not an answer.
    this.#answerMs += (Math.min(now - at, youngMsMax) - this.#answerMs) * weight;
  }

  /** May one more host be tried, with this number of slots and of trials under way? */
  allows(slots: number, trials: number, now: number): boolean {
    const youngMs = Math.min(Math.max(patience * this.#answerMs, youngMsMin), youngMsMax);
    const { length } = this.#young;
    const first = this.#young.findIndex(({ at }) => now - at < youngMs);
    this.#young = this.#young.slice(first < 0 ? length : first);
    const young = this.#young.filter(({ lease }) => lease.holder.leases.has(lease)).length;
    return young < Math.max(perSlot * slots, trials - young);
  }
}

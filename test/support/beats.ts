/**
 * Bounds the time at which an event happened that this process noticed later. A request may arrive
 * some time before a test's own server stamps it, while the process is busy or does not run. Beats
 * show how long before, at most.
 */
import type { TestContext } from 'node:test';

const everyMs = 2;
/** A new connection is accepted in one turn of the event loop and read from in the next. */
const turnsBack = 3;

export class Beats {
  readonly #at: number[] = [performance.now()];

  constructor(test: TestContext) {
    const timer = setInterval(() => this.#at.push(performance.now()), everyMs);
    test.after(() => clearInterval(timer));
  }

  /** Returns a time at which an event noticed at `at` (of `performance.now()`) had not happened
   *  yet. */
  before(at: number): number {
    const next = this.#at.findIndex((beat) => beat >= at);
    const last = next < 0 ? this.#at.length : next;
    return this.#at[Math.max(0, last - turnsBack)] ?? 0;
  }

  /** Returns the gaps between requests of these logs that were certainly shorter than `delayMs`, in
   *  ms. */
  shortGaps(logs: readonly (readonly { at: number }[])[], delayMs: number): number[] {
    const stamps = logs
      .flat()
      .map(({ at }) => at)
      .sort((a, b) => a - b);
    const gaps = stamps.slice(1).map((at, i) => at - this.before(stamps[i] ?? 0));
    return gaps.filter((gap) => gap < delayMs - clockMs).map(Math.round);
  }
}

/** Maximum difference of timers and clocks of several processes. */
const clockMs = 5;

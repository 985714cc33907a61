/**
 * When could something have happened that this process was told of? A request that a test's own
 * server stamps has come some time before, while the process was busy with other things or did
 * not run at all. Beats tell how long before, at most.
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

  /** What was met at `at` (of `performance.now()`) had not come at the time that this gives. */
  before(at: number): number {
    const next = this.#at.findIndex((beat) => beat >= at);
    const last = next < 0 ? this.#at.length : next;
    return this.#at[Math.max(0, last - turnsBack)] ?? 0;
  }

  /** Gaps between requests of these logs that were shorter than `delayMs` for sure, in ms. */
  shortGaps(logs: readonly (readonly { at: number }[])[], delayMs: number): number[] {
    const stamps = logs
      .flat()
      .map(({ at }) => at)
      .sort((a, b) => a - b);
    const gaps = stamps.slice(1).map((at, i) => at - this.before(stamps[i] ?? 0));
    return gaps.filter((gap) => gap < delayMs - clockMs).map(Math.round);
  }
}

/** Timers and clocks of several processes differ by so much. */
const clockMs = 5;

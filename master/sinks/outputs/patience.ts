/**
 * How long an output waits for its server. A server that accepts connections and says nothing more
 * holds up nobody: neither the other outputs, nor the end of the master, nor an operator.
 */
import { HeldError, UnavailableError } from '../sink.ts';

/** For one answer, a wait for a lock included. */
const answerMs = 30_000;
/** The same while an operator waits, and for a connection. */
export const hastyMs = 5_000;
/** The same when the master ends. */
const lastMs = 2_000;

type Wait = {
  timer: NodeJS.Timeout;
  readonly began: number;
  readonly atMostMs: number;
  readonly fail: () => void;
};

export class Patience {
  #limitMs: number;
  #isEnding = false;
  /** Those that are under way. */
  readonly #waits = new Set<Wait>();
  /** When the first question was asked that has no answer. */
  #silentSince: number | undefined;

  constructor(limitMs = answerMs) {
    this.#limitMs = limitMs;
  }

  /** For how long the server has owed an answer; undefined: it owes none. */
  get silentMs(): number | undefined {
    return this.#silentSince === undefined ? undefined : performance.now() - this.#silentSince;
  }

  /** Waits for an answer. `giveUp`: closes the connection, after which no answer comes. `faultOf`:
   *  what an error of the driver means. @throws UnavailableError none comes in time · its errors */
  async timed<T>(
    work: PromiseLike<T>,
    giveUp: () => void,
    faultOf: (error: Error) => Error,
    atMostMs = Number.POSITIVE_INFINITY,
  ): Promise<T> {
    const began = performance.now();
    this.#silentSince ??= began;
    const { promise: late, fail } = lateAfter(began, giveUp);
    const timer = setTimeout(fail, Math.min(this.#limitMs, atMostMs));
    const wait = { timer, began, atMostMs, fail };
    this.#waits.add(wait);
    try {
      const answer = await Promise.race([work, late]);
      this.#silentSince = undefined;
      return answer;
    } catch (error) {
      if (error instanceof LateError) throw error;
      this.#silentSince = undefined;
      const isOurs = error instanceof HeldError || error instanceof UnavailableError;
      throw error instanceof Error && !isOurs ? faultOf(error) : error;
    } finally {
      clearTimeout(wait.timer);
      this.#waits.delete(wait);
    }
  }

  /** An operator waits for what is asked now, or does not any more. A write that is given up is
   *  done again. */
  hasten(isHasty: boolean): void {
    if (!this.#isEnding) this.#limit(isHasty ? hastyMs : answerMs);
  }

  /** The master ends: what is not answered soon has failed. */
  hurry(): void {
    this.#isEnding = true;
    this.#limit(lastMs);
  }

  /** Of waits that are under way, too; these get a second more at least. */
  #limit(ms: number): void {
    this.#limitMs = ms;
    for (const wait of this.#waits) {
      clearTimeout(wait.timer);
      const limitMs = Math.min(ms, wait.atMostMs);
      const leftMs = this.#isEnding ? ms : wait.began + limitMs - performance.now();
      wait.timer = setTimeout(wait.fail, Math.max(leftMs, 1_000));
    }
  }
}

/** No answer came in time: to ask again at once would take as long. */
export class LateError extends UnavailableError {}

function lateAfter(
  began: number,
  giveUp: () => void,
): { readonly promise: Promise<never>; readonly fail: () => void } {
  let fail = () => {};
  const promise = new Promise<never>((_, reject) => {
    fail = () => {
      reject(new LateError(silentText(performance.now() - began)));
      giveUp();
    };
  });
  return { promise, fail };
}

export function silentText(ms: number): string {
  return `the server has not answered for ${Math.round(ms / 1000)} s`;
}

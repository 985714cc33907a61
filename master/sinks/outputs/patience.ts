/**
 * How long an output waits for its server. A server that accepts connections and says nothing more
 * holds up nobody: neither the other outputs, nor the end of the master.
 */
import { HeldError, UnavailableError } from '../sink.ts';

/** For one answer, a wait for a lock included. */
const answerMs = 30_000;
/** The same when the master ends. */
const lastMs = 2_000;

export class Patience {
  #limitMs = answerMs;
  /** Ends of the waits that are under way. */
  readonly #waits = new Set<{ timer: NodeJS.Timeout; readonly fail: () => void }>();

  /** Waits for an answer. `giveUp`: closes the connection, after which no answer comes. `faultOf`:
   *  what an error of the driver means. @throws UnavailableError none comes in time · its errors */
  async timed<T>(
    work: PromiseLike<T>,
    giveUp: () => void,
    faultOf: (error: Error) => Error,
  ): Promise<T> {
    const { promise: late, fail } = this.#late(giveUp);
    const wait = { timer: setTimeout(fail, this.#limitMs), fail };
    this.#waits.add(wait);
    try {
      return await Promise.race([work, late]);
    } catch (error) {
      const isOurs = error instanceof HeldError || error instanceof UnavailableError;
      throw error instanceof Error && !isOurs ? faultOf(error) : error;
    } finally {
      clearTimeout(wait.timer);
      this.#waits.delete(wait);
    }
  }

  /** The master ends: what is not answered soon has failed. */
  hurry(): void {
    this.#limitMs = lastMs;
    for (const wait of this.#waits) {
      clearTimeout(wait.timer);
      wait.timer = setTimeout(wait.fail, lastMs);
    }
  }

  #late(giveUp: () => void): { readonly promise: Promise<never>; readonly fail: () => void } {
    let fail = () => {};
    const promise = new Promise<never>((_, reject) => {
      fail = () => {
        reject(new UnavailableError(`the server has not answered for ${this.#limitMs / 1000} s`));
        giveUp();
      };
    });
    return { promise, fail };
  }
}

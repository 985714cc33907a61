/**
 * The master's memory of client addresses: the number of sessions and of refusals of each. An
 * address that guesses keys waits longer and longer for each verdict (with a short key: for each
 * challenge). A right key resets the wait. Pure: time is an argument, in ms. Its size is bounded:
 * addresses without sessions are forgotten, those refused longest ago first.
 */

/** Wrong keys of an address without a delay: people mistype. */
const freeFailures = 3;
const firstWaitMs = 250;
/** Less than the time for which our clients wait for a reply. */
const waitMsMax = 4_000;
const forgetMs = 600_000;
const addressesMax = 16_384;

/** A wrong key, a pickle with something that is not allowed, or another end of a connection. */
type Refusal = 'key' | 'pickle' | 'other';
type Memory = {
  sessions: number;
  failures: number;
  /** Each kind by itself: a program whose pickles are refused must not hide a wrong key. */
  refusals: Record<Refusal, number>;
  refusedAt: number;
};

const noRefusals = (): Memory['refusals'] => ({ key: 0, pickle: 0, other: 0 });

export class PeerAddresses {
  readonly #perAddress: number;
  /** In order of their last refusal. */
  readonly #memories = new Map<string, Memory>();

  /** `perAddress`: maximum number of sessions of one address; all together they are fewer than
   *  `addressesMax`. */
  constructor(perAddress: number) {
    this.#perAddress = perAddress;
  }

  get size(): number {
    return this.#memories.size;
  }

  /** Returns the delay after the failures so far, in ms: of the verdict on a wrong answer, or of
   *  the challenge that guards a short key. [H-7] */
  waitMs(address: string, now: number): number {
    const memory = this.#memories.get(address);
    if (memory === undefined || now - memory.refusedAt > forgetMs) return 0;
    return waitMsAfter(memory.failures);
  }

  /** Counts a connection that has proved the key. False: its address has too many. `left` undoes
   *  it. */
  joined(address: string, now: number): boolean {
    const memory = this.#recall(address, now);
    // Keep the refusals: a peer with the key could fill the log with a line per connection.
    memory.failures = 0;
    if (memory.sessions >= this.#perAddress) return false;
    memory.sessions++;
    return true;
  }

  left(address: string): void {
    const memory = this.#memories.get(address);
    if (memory === undefined) return;
    memory.sessions--;
    const { key, pickle, other } = memory.refusals;
    if (memory.sessions === 0 && key + pickle + other === 0) this.#memories.delete(address);
  }

  /** Counts a refusal; returns the refusals of its kind so far. */
  refused(address: string, why: Refusal, now: number): number {
    const memory = this.#recall(address, now);
    memory.refusedAt = now;
    const times = ++memory.refusals[why];
    if (why === 'key') memory.failures++;
    this.#memories.delete(address);
    this.#memories.set(address, memory);
    return times;
  }

  #recall(address: string, now: number): Memory {
    const known = this.#memories.get(address);
    if (known !== undefined) {
      if (now - known.refusedAt > forgetMs) {
        known.failures = 0;
        known.refusals = noRefusals();
      }
      return known;
    }
    if (this.#memories.size >= addressesMax) this.#forgetOne();
    const memory = { sessions: 0, failures: 0, refusals: noRefusals(), refusedAt: now };
    this.#memories.set(address, memory);
    return memory;
  }

  /** There are fewer sessions than `addressesMax`, so some address has none. */
  #forgetOne(): void {
    for (const [address, { sessions }] of this.#memories) {
      if (sessions > 0) continue;
      this.#memories.delete(address);
      return;
    }
  }
}

function waitMsAfter(failures: number): number {
  if (failures <= freeFailures) return 0;
  return Math.min(waitMsMax, firstWaitMs * 2 ** (failures - freeFailures - 1));
}

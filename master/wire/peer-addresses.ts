/**
 * What the master remembers of the addresses that connect: how many sessions each has, and how
 * often it was refused. An address that tries keys waits longer and longer for each verdict (with
 * a short key: for each challenge); one that proves the key is forgiven. Pure: time is an argument,
 * in ms. Its size is bounded: addresses without sessions are forgotten, those first that were quiet
 * longest.
 */

/** Wrong keys of an address that cost nothing: people mistype. */
const freeFailures = 3;
const firstWaitMs = 250;
/** Less than any client of ours waits for the master's next word. */
const waitMsMax = 4_000;
const forgetMs = 600_000;
const addressesMax = 16_384;

type Memory = { sessions: number; failures: number; refusals: number; refusedAt: number };

export class PeerAddresses {
  readonly #perAddress: number;
  /** Those that were refused last are at the end. */
  readonly #memories = new Map<string, Memory>();

  /** `perAddress`: sessions that one address may have at once, fewer than `addressesMax` in all. */
  constructor(perAddress: number) {
    this.#perAddress = perAddress;
  }

  get size(): number {
    return this.#memories.size;
  }

  /** How long the verdict on a wrong answer, or the challenge that guards a short key, has to wait
   *  after the failures so far, in ms. [H-7] */
  waitMs(address: string, now: number): number {
    const memory = this.#memories.get(address);
    if (memory === undefined || now - memory.refusedAt > forgetMs) return 0;
    return waitMsAfter(memory.failures);
  }

  /** A connection has proved the key; false: its address has too many. `left` undoes a true. */
  joined(address: string, now: number): boolean {
    const memory = this.#recall(address, now);
    // Not the refusals: who knows the key could fill the log, a line a connection.
    memory.failures = 0;
    if (memory.sessions >= this.#perAddress) return false;
    memory.sessions++;
    return true;
  }

  left(address: string): void {
    const memory = this.#memories.get(address);
    if (memory === undefined) return;
    memory.sessions--;
    if (memory.sessions === 0 && memory.refusals === 0) this.#memories.delete(address);
  }

  /** It was refused, for a wrong key or for something else; gives how often by now. */
  refused(address: string, why: 'key' | 'other', now: number): number {
    const memory = this.#recall(address, now);
    memory.refusedAt = now;
    memory.refusals++;
    if (why === 'key') memory.failures++;
    this.#memories.delete(address);
    this.#memories.set(address, memory);
    return memory.refusals;
  }

  #recall(address: string, now: number): Memory {
    const known = this.#memories.get(address);
    if (known !== undefined) {
      if (now - known.refusedAt > forgetMs) known.failures = known.refusals = 0;
      return known;
    }
    if (this.#memories.size >= addressesMax) this.#forgetOne();
    const memory = { sessions: 0, failures: 0, refusals: 0, refusedAt: now };
    this.#memories.set(address, memory);
    return memory;
  }

  /** There are fewer sessions than addresses may be remembered, so one without any is there. */
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

/**
 * What the master remembers of the addresses that connect: how many connections each has, and how
 * often it was refused. Whoever tries keys waits longer and longer for the next challenge, whoever
 * proves the key is forgiven. Pure: time is an argument, in ms. Its size is bounded: addresses
 * without connections are forgotten, the longest quiet ones first.
 */

/** Wrong keys of an address that cost nothing: people mistype. */
const freeFailures = 3;
const firstWaitMs = 250;
/** Less than any client of ours waits for a challenge. */
const waitMsMax = 4_000;
const forgetMs = 600_000;
const addressesMax = 16_384;

type Memory = { open: number; failures: number; refusals: number; refusedAt: number };

export class PeerAddresses {
  readonly #perAddress: number;
  /** Those that were refused last are at the end. */
  readonly #memories = new Map<string, Memory>();

  /** `perAddress`: connections that one address may have at once. */
  constructor(perAddress: number) {
    this.#perAddress = perAddress;
  }

  get size(): number {
    return this.#memories.size;
  }

  /** A connection comes: how long its challenge has to wait, in ms; undefined: it has too many
   *  already. `closed` ends what was not undefined. */
  opened(address: string, now: number): number | undefined {
    const memory = this.#recall(address, now);
    if (memory.open >= this.#perAddress) return undefined;
    memory.open++;
    return waitMsAfter(memory.failures);
  }

  closed(address: string): void {
    const memory = this.#memories.get(address);
    if (memory === undefined) return;
    memory.open--;
    if (memory.open === 0 && memory.refusals === 0) this.#memories.delete(address);
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

  /** It proved the key. */
  proved(address: string): void {
    const memory = this.#memories.get(address);
    if (memory === undefined) return;
    memory.failures = 0;
    memory.refusals = 0;
  }

  #recall(address: string, now: number): Memory {
    const known = this.#memories.get(address);
    if (known !== undefined) {
      if (now - known.refusedAt > forgetMs) known.failures = known.refusals = 0;
      return known;
    }
    if (this.#memories.size >= addressesMax) this.#forgetOne();
    const memory = { open: 0, failures: 0, refusals: 0, refusedAt: now };
    this.#memories.set(address, memory);
    return memory;
  }

  /** There are fewer connections than addresses may be remembered, so one without any is there. */
  #forgetOne(): void {
    for (const [address, { open }] of this.#memories) {
      if (open > 0) continue;
      this.#memories.delete(address);
      return;
    }
  }
}

function waitMsAfter(failures: number): number {
  if (failures <= freeFailures) return 0;
  return Math.min(waitMsMax, firstWaitMs * 2 ** (failures - freeFailures - 1));
}

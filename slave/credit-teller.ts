/** Says to the master how many leases the slave takes, and again whenever that changes. */
import type { MasterClient } from '../shared/client.ts';
import { limits } from '../shared/protocol.ts';
import { pageDone } from '../shared/warm-up.ts';
import { CreditWindow, trialsOf } from './credit.ts';

type Takes = { readonly slots: number; readonly takes: 'all' | 'probes' };

/** How often the credit is computed anew while tasks end. */
const everyMs = 500;
/** Every so many times, the round trip to the master is measured. */
const looksPerTrip = 10;

export class CreditTeller {
  readonly #takes: Takes;
  readonly #isWorking: () => boolean;
  /** Undefined: there is no connection. */
  #master: MasterClient | undefined;
  #window: CreditWindow;
  /** The count of a window that has measured nothing. */
  readonly #least: number;
  /** Leases that were asked for last, without those for lent slots. */
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #looks = 0;
  #lookedAt = 0;
  /** Tasks that ended since the last look. */
  #ended = 0;
  #lent = 0;

  /** `isWorking`: it still takes leases. */
  constructor(takes: Takes, isWorking: () => boolean) {
    this.#takes = takes;
    this.#isWorking = isWorking;
    this.#window = new CreditWindow(takes.slots);
    this.#least = this.#withTrials(this.#window.count);
  }

  /** A connection begins, whose round-trip time is not known. */
  begin(master: MasterClient): void {
    this.close();
    this.#master = master;
    this.#window = new CreditWindow(this.#takes.slots);
    this.#count = this.#least;
    this.#looks = 0;
    this.#lookedAt = performance.now();
    this.#tell();
    this.#look();
  }

  /** A task has ended. */
  ended(): void {
    pageDone();
    this.#window.ended();
    if (this.#ended++ === 0) this.#lookSoon();
  }

  /** So many slots are lent: there are more for that time. */
  lent(count: number): void {
    this.#lent = count;
    if (this.#isWorking()) this.#tell();
  }

  /** The connection has ended. Idempotent. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#master = undefined;
  }

  #tell(): void {
    const { slots, takes } = this.#takes;
    const lent = this.#lent;
    this.#master?.notify('task.credit', {
      count: Math.min(this.#count + lent, limits.creditMax),
      slots,
      ...(lent > 0 && { lent }),
      trials: trialsOf(slots),
      takes,
    });
  }

  #lookSoon(): void {
    if (this.#master === undefined || this.#timer !== undefined) return;
    this.#lookedAt = performance.now();
    this.#timer = setTimeout(() => this.#look(), everyMs);
  }

  #look(): void {
    const now = performance.now();
    const next = this.#withTrials(this.#window.next(Math.max(now - this.#lookedAt, 1)));
    this.#lookedAt = now;
    this.#timer = undefined;
    // While no task ends, it looks on only until the credit is back at its least.
    if (this.#ended > 0 || next > this.#least) this.#lookSoon();
    this.#ended = 0;
    if (this.#looks++ % looksPerTrip === 0) void this.#measureTrip();
    if (next === this.#count || !this.#isWorking()) return;
    this.#count = next;
    this.#tell();
  }

  /** Trials come on top of what the slots and the way to the master want. */
  #withTrials(wanted: number): number {
    return Math.min(wanted + trialsOf(this.#takes.slots), limits.creditMax);
  }

  async #measureTrip(): Promise<void> {
    const master = this.#master;
    const window = this.#window;
    if (master === undefined) return;
    const askedAt = performance.now();
    try {
      await master.request('ping', {});
      window.measured(performance.now() - askedAt);
    } catch {
      // The next connection may have another round-trip time.
    }
  }
}

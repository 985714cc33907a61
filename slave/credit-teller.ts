/** Says to the master how many leases the slave takes, and again whenever that changes. */
import type { MasterClient } from '../shared/client.ts';
import { limits } from '../shared/protocol.ts';
import { pageDone } from '../shared/warm-up.ts';
import { CreditWindow, trialsOf } from './credit.ts';

type Takes = { readonly slots: number; readonly takes: 'all' | 'probes' };

/** How often the credit is looked at while tasks end, and at how many of these looks the way is
 *  measured. */
const everyMs = 500;
const looksPerTrip = 10;

export class CreditTeller {
  readonly #takes: Takes;
  readonly #isWorking: () => boolean;
  #window: CreditWindow;
  #timer: NodeJS.Timeout | undefined;
  /** Arms the timer; undefined: there is no master. */
  #lookSoon: (() => void) | undefined;
  /** Tells the present credit. */
  #tell: (() => void) | undefined;
  /** Tasks that ended since the last look. */
  #ended = 0;
  #lent = 0;

  /** `isWorking`: it still takes leases. */
  constructor(takes: Takes, isWorking: () => boolean) {
    this.#takes = takes;
    this.#isWorking = isWorking;
    this.#window = new CreditWindow(takes.slots);
  }

  /** A task has ended. */
  ended(): void {
    pageDone();
    this.#window.ended();
    if (this.#ended++ === 0) this.#lookSoon?.();
  }

  /** So many slots are lent: there are more for that time. */
  lent(count: number): void {
    this.#lent = count;
    if (this.#isWorking()) this.#tell?.();
  }

  /** Begins with a master, of which nothing is known. */
  tell(master: MasterClient): void {
    const { slots, takes } = this.#takes;
    const window = new CreditWindow(slots);
    this.#window = window;
    const trials = trialsOf(slots);
    // Beside them, what the slots and the way to the master want.
    const countOf = (wanted: number) => Math.min(wanted + trials, limits.creditMax);
    const tell = () => {
      const lent = this.#lent;
      const all = Math.min(count + lent, limits.creditMax);
      const more = lent > 0 && { lent };
      master.notify('task.credit', { count: all, slots, ...more, trials, takes });
    };
    const least = countOf(window.count);
    let count = least;
    let looks = 0;
    let lookedAt = performance.now();
    const look = () => {
      const now = performance.now();
      const next = countOf(window.next(Math.max(now - lookedAt, 1)));
      lookedAt = now;
      // Without tasks only what was lent for more of them is looked at, until it is back.
      this.#timer = undefined;
      if (this.#ended > 0 || next > least) this.#lookSoon?.();
      this.#ended = 0;
      if (looks++ % looksPerTrip === 0) void measureTrip(master, window);
      if (next === count || !this.#isWorking()) return;
      count = next;
      tell();
    };
    this.close();
    this.#lookSoon = () => {
      if (this.#timer !== undefined) return;
      lookedAt = performance.now();
      this.#timer = setTimeout(look, everyMs);
    };
    this.#tell = tell;
    tell();
    look();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lookSoon = undefined;
    this.#tell = undefined;
  }
}

async function measureTrip(master: MasterClient, window: CreditWindow): Promise<void> {
  const askedAt = performance.now();
  try {
    await master.request('ping', {});
    window.measured(performance.now() - askedAt);
  } catch {
    // The next connection may have another round-trip time.
  }
}

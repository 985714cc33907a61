/**
 * How many leases a slave asks for: those that its slots work on, and those that have to be on
 * their way so that no slot waits for the network. The way to the master and back is measured, and
 * so is how many tasks end meanwhile; twice that many are asked for, so that the window grows from
 * a rate which it limits itself. A slave close to its master asks for twice its slots, whatever
 * else. What it holds is some round trips' work, so that it takes none from others for long, and
 * little is lost with it. Pure: time is an argument (ms). The worker drives it.
 */
import { limits } from '../shared/protocol.ts';

/** Round trips that are looked at; the shortest counts, so that a busy master seems no farther. */
const tripsMax = 6;
/** Leases for each slot, at most: what one dying slave makes wait. */
const perSlotMax = 32;
/** Of the rate that was, so much is still believed in after each look. */
const decay = 0.8;

export class CreditWindow {
  readonly #slots: number;
  readonly #trips: number[] = [];
  #ended = 0;
  /** Tasks a ms. */
  #rate = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  /** The way to the master and back took so long. */
  measured(tripMs: number): void {
    this.#trips.push(tripMs);
    if (this.#trips.length > tripsMax) this.#trips.shift();
  }

  /** A task has ended. */
  ended(): void {
    this.#ended++;
  }

  /** The credit after another `elapsedMs` (> 0). */
  next(elapsedMs: number): number {
    this.#rate = Math.max(this.#ended / elapsedMs, this.#rate * decay);
    this.#ended = 0;
    return this.count;
  }

  get count(): number {
    const slots = this.#slots;
    const tripMs = this.#trips.length === 0 ? 0 : Math.min(...this.#trips);
    const wanted = slots + Math.ceil(2 * this.#rate * tripMs);
    return Math.min(Math.max(wanted, 2 * slots), perSlotMax * slots, limits.creditMax);
  }
}

/**
 * The number of leases that a slave asks for: those in its slots, and those under way so that no
 * slot waits for the network. It measures the round trip to the master and the number of tasks that
 * end in that time. It asks for twice that many, so that the window can grow although it limits the
 * rate itself. A slave close to its master asks for twice its slots at least. It holds the work of
 * a few round trips, so it keeps little from other slaves, and little is lost with it. Pure: time
 * is an argument (ms). The worker drives it.
 */
import { limits } from '../shared/protocol.ts';

/** Round trips that are compared; the shortest counts, so that a busy master does not seem farther
 *  away. */
const tripsMax = 6;
/** Maximum number of leases per slot: they are delayed if the slave dies. */
const perSlotMax = 32;
/** Part of the previous rate that remains after each measurement. */
const decay = 0.8;

/** Trials at once, for each slot, and in all: a connection that is waited for costs little. */
const trialsPerSlot = 32;
const trialsMax = 1_024;

export function trialsOf(slots: number): number {
  return Math.min(slots * trialsPerSlot, trialsMax);
}

export class CreditWindow {
  readonly #slots: number;
  readonly #trips: number[] = [];
  #ended = 0;
  /** Tasks per ms. */
  #rate = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  /** Records a round trip to the master. */
  measured(tripMs: number): void {
    this.#trips.push(tripMs);
    if (this.#trips.length > tripsMax) this.#trips.shift();
  }

  /** A task has ended. */
  ended(): void {
    this.#ended++;
  }

  /** Returns the credit after another `elapsedMs` (> 0). */
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

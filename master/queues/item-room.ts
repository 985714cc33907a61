/**
 * What the items of all user queues take of memory: those that sessions hold, and those that wait
 * in the queues' windows. A session that holds none gets one whatever the others hold.
 */
import { limits } from '../../shared/protocol.ts';

/** An item that takes more has a row of the store to itself: its value need not be in memory. */
export const largeBytes = 8 << 10;

type Held = { bytes: number; memory: number; count: number };

/** What a held item takes besides its value, which a large one leaves in the store. */
const bytesPerHeld = 128;

export class ItemRoom {
  readonly #bytesMax: number;
  readonly #held = new Map<object, Held>();
  #heldBytes = 0;
  /** Values in the windows of all queues. */
  windowBytes = 0;

  /** `bytesMax`: for what is held, and the same for windows. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Windows are to hold what is wanted at once, and nothing more. */
  get isShort(): boolean {
    return this.windowBytes >= this.#bytesMax;
  }

  /** Whoever gets something gets one item. */
  get isFull(): boolean {
    return this.#heldBytes >= this.#bytesMax;
  }

  /** False: it has to say first that some are done. */
  mayHold(holder: object): boolean {
    const held = this.#held.get(holder);
    return held === undefined || (!this.isFull && held.bytes < limits.queueHeldBytesMax);
  }

  /** Bytes of memory that what it holds takes. */
  memoryOf(holder: object): number {
    return this.#held.get(holder)?.memory ?? 0;
  }

  hold(holder: object, bytes: number): void {
    const held = this.#held.get(holder) ?? { bytes: 0, memory: 0, count: 0 };
    this.#held.set(holder, held);
    held.bytes += bytes;
    held.memory += memoryOf(bytes);
    held.count++;
    this.#heldBytes += memoryOf(bytes);
  }

  release(holder: object, bytes: number): void {
    const held = this.#held.get(holder);
    if (held === undefined) return;
    held.bytes -= bytes;
    held.memory -= memoryOf(bytes);
    this.#heldBytes -= memoryOf(bytes);
    if (--held.count === 0) this.#held.delete(holder);
  }
}

function memoryOf(bytes: number): number {
  return bytesPerHeld + (bytes > largeBytes ? 0 : bytes);
}

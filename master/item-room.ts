/**
 * What the items of all user queues take of memory: those that sessions hold, and those that wait
 * in the queues' windows. A session that holds none gets one whatever the others hold.
 */
import { limits } from '../shared/protocol.ts';

type Held = { bytes: number; count: number };

/** What a held item takes, whose value is in the store. */
const bytesPerHeld = 128;

export class ItemRoom {
  readonly #bytesMax: number;
  readonly #held = new Map<object, Held>();
  #heldCount = 0;
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

  /** How many items the holder may still take; 0: it has to say that some are done. */
  leftFor(holder: object): number {
    const bytes = this.#held.get(holder)?.bytes ?? 0;
    if (bytes >= limits.queueHeldBytesMax) return 0;
    const left = Math.floor(this.#bytesMax / bytesPerHeld) - this.#heldCount;
    return Math.max(left, bytes === 0 ? 1 : 0);
  }

  hold(holder: object, bytes: number): void {
    const held = this.#held.get(holder);
    this.#heldCount++;
    if (held === undefined) this.#held.set(holder, { bytes, count: 1 });
    else {
      held.bytes += bytes;
      held.count++;
    }
  }

  release(holder: object, bytes: number): void {
    const held = this.#held.get(holder);
    if (held === undefined) return;
    this.#heldCount--;
    held.bytes -= bytes;
    if (--held.count === 0) this.#held.delete(holder);
  }
}

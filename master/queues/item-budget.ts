/**
 * The memory of the items of all user queues: those that sessions hold, and those that wait in the
 * queues' windows. A session that holds none gets one, however many the others hold.
 */
import { CommandError } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';

/** A larger item has a row of the store to itself: its value need not be in memory. */
export const largeBytes = 8 << 10;

type Held = { bytes: number; memory: number; count: number };

/** Of all queues: some 64 bytes each. */
const delayedMax = 1_000_000;
/** Memory of a held item besides its value; the value of a large one stays in the store. */
const bytesPerHeld = 128;

export class ItemBudget {
  readonly #bytesMax: number;
  readonly #held = new Map<object, Held>();
  #heldBytes = 0;
  /** Values in the windows of all queues. */
  windowBytes = 0;
  /** Items of all queues that are delayed. */
  delayedCount = 0;

  /** `bytesMax`: for held items, and the same again for windows. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** True: windows hold only the items needed at once. */
  get isShort(): boolean {
    return this.windowBytes >= this.#bytesMax;
  }

  /** True: each request gets one item. */
  get isFull(): boolean {
    return this.#heldBytes >= this.#bytesMax;
  }

  /** @throws CommandError E_QUEUE_FULL so many more cannot be delayed */
  checkDelayed(count: number): void {
    if (this.delayedCount + count <= delayedMax) return;
    throw new CommandError('E_QUEUE_FULL', `${delayedMax} items of queues are delayed`);
  }

  /** False: the holder must first say that some items are done. */
  mayHold(holder: object): boolean {
    const held = this.#held.get(holder);
    return held === undefined || (!this.isFull && held.bytes < limits.queueHeldBytesMax);
  }

  /** Returns the bytes of memory of the items that it holds. */
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

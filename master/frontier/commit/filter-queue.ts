/**
 * The filter queue: offers, reports and failures that are not yet in a commit. Bounded in bytes;
 * above the bound its senders have to wait. The frontier puts entries in and takes a batch of them
 * into every commit.
 */
import type { Crawl } from '../crawl/crawl.ts';
import type { Entry } from './entry.ts';

/** Bytes of one commit's entries. */
const gatherBytesMax = 1 << 20;
/** Bytes above which senders have to wait; while memory is tight. */
const bytesMax = 4 << 20;
const tightBytesMax = 256 << 10;
/** Share of that for entries that are put later. */
const expectedShare = 4;

/** The part of an entry that is kept until it is on the disk. */
export type TakenEntry = Pick<Entry, 'crawl' | 'bytes'>;

export class FilterQueue {
  readonly #memory: { readonly isTight: boolean };
  #entries: Entry[] = [];
  #bytes = 0;
  #expectedBytes = 0;
  /** While a sender waits. */
  #roomAgain: Promise<void> | undefined;
  #hasRoom: () => void = () => {};

  constructor(memory: { readonly isTight: boolean }) {
    this.#memory = memory;
  }

  get isFull(): boolean {
    // Expected entries wait for something other than the disk, so they leave room for the rest.
    return this.#bytes > this.#bytesMax || this.#expectedBytes > this.#bytesMax * expectedShare;
  }

  get #bytesMax(): number {
    return this.#memory.isTight ? tightBytesMax : bytesMax;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Entries that no commit has taken. */
  get count(): number {
    return this.#entries.length;
  }

  /** Resolves when there is room again; undefined: there is. */
  room(): Promise<void> | undefined {
    if (!this.isFull) return undefined;
    this.#roomAgain ??= new Promise((resolve) => {
      this.#hasRoom = resolve;
    });
    return this.#roomAgain;
  }

  put(entry: Entry): void {
    entry.crawl.open.offer();
    this.#entries.push(entry);
    this.#bytes += entry.bytes;
  }

  /** Counts an entry that is put later, so that its crawl does not end before. Returns a function
   *  that ends this, called when the entry is put. */
  expect(crawl: Crawl, bytes: number): () => void {
    crawl.open.offer();
    this.#expectedBytes += bytes;
    return () => {
      crawl.open.settle();
      this.#expectedBytes -= bytes;
    };
  }

  /** Takes out a batch, the oldest first; a caller that wants fewer stops early. Their bytes count
   *  until `settle`. */
  *take(): Generator<Entry> {
    let bytes = 0;
    let taken = 0;
    try {
      for (const entry of this.#entries) {
        if (bytes > gatherBytesMax) return;
        bytes += entry.bytes;
        taken++;
        yield entry;
      }
    } finally {
      this.#entries.splice(0, taken);
    }
  }

  /** These are on the disk. */
  settle(entries: readonly TakenEntry[]): void {
    for (const entry of entries) {
      entry.crawl.open.settle();
      this.#bytes -= entry.bytes;
    }
  }

  makeRoom(): void {
    if (this.isFull || this.#bytes > this.#bytesMax / 2) return;
    this.#roomAgain = undefined;
    this.#hasRoom();
  }
}

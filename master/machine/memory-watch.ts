/**
 * Keeps the master's own memory below a limit. Each part has bounds of its own, but the sum over
 * many peers may be large. So the memory is measured:
 *
 *     calm --above 3/4 of the limit, after a collection--> tight --below 5/8--> calm
 *
 * While memory is tight, queues are kept short (`isTight`), so that peers wait in TCP; above the
 * limit the listener of `memoryExceeded` must free some.
 *
 * It also returns memory to the system when the work is done: the engine keeps the memory of a
 * burst until something new needs it, which for an idle daemon may be never.
 */
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';
import { holdYoungHeap } from './young-heap.ts';

const lookMsMin = 100;
const lookMsMax = 1_000;
/** Faster than this, in bytes a ms, memory does not fill: so it is looked at the more rarely the
 *  farther it is from being tight, since each look of an idle master wakes it. */
const fillsMax = 1_000_000;
const tightPart = 0.75;
const calmPart = 0.625;
const collectEveryMs = 1_000;
/** A crawl of one host with a delay commits every second or two. */
const idleMs = 5_000;
/** Commits from one look to the next of a master that is busy. */
const busyCommits = 8;
/** Less garbage than this is not worth the pause of a collection. */
const worthBytes = 4 << 20;

type MemoryWatchOptions = {
  readonly bytesMax: number;
  /** A count of the master's work: while it does not change, a pause disturbs nothing. */
  readonly commits: { readonly count: number };
};

/** Events of the memory limit, for `Notices` and `MasterServer`. */
interface MemoryEvents {
  /** Peers have to wait from now on. */
  memoryShort(usedBytes: number): void;
  /** `bytes`: the amount to free, at least. */
  memoryExceeded(bytes: number): void;
}

type Collect = (options?: { readonly type: 'minor' }) => void;

export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  readonly #collect: Collect;
  readonly #listeners: Partial<MemoryEvents>[] = [];
  #isTight = false;
  #commits = -1;
  #idleSince = 0;
  #collectedAt = Number.NEGATIVE_INFINITY;
  #leftBytes = 0;

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
    v8.setFlagsFromString('--expose-gc');
    this.#collect = runInNewContext('gc') as Collect;
    holdYoungHeap();
    this.#lookIn(lookMsMin);
  }

  subscribe(listener: Partial<MemoryEvents>): void {
    this.#listeners.push(listener);
  }

  /** True: queues must be kept short. */
  get isTight(): boolean {
    return this.#isTight;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#afterWork(performance.now());
      const leftBytes = this.#options.bytesMax * tightPart - this.look();
      const nextMs = Math.min(Math.max(leftBytes / fillsMax, lookMsMin), lookMsMax);
      if (this.#timer !== undefined) this.#lookIn(nextMs);
    }, ms).unref();
  }

  /** Measures now. Called also when something large was read: much may arrive between two
   *  timers. Returns the bytes in use. */
  look(): number {
    const now = performance.now();
    const { bytesMax } = this.#options;
    let used = usedBytes();
    // Much of the memory may be garbage.
    const mayCollect = used > bytesMax || now - this.#collectedAt >= collectEveryMs;
    if (used > bytesMax * tightPart && mayCollect) used = this.#collectNow(now);
    if (!this.#isTight && used > bytesMax * tightPart) {
      this.#isTight = true;
      for (const listener of this.#listeners) listener.memoryShort?.(used);
    } else if (this.#isTight && used < bytesMax * calmPart) this.#isTight = false;
    if (used <= bytesMax) return used;
    for (const listener of this.#listeners) listener.memoryExceeded?.(used - bytesMax * calmPart);
    return used;
  }

  #afterWork(now: number): void {
    const { count } = this.#options.commits;
    if (count !== this.#commits) {
      // V8 makes the young heap smaller between the pages of a slow crawl. To make it larger each
      // time cost such a crawl some 5 ms in ten seconds, and a collection of what filled it.
      if (count - this.#commits >= busyCommits) holdYoungHeap();
      this.#commits = count;
      this.#idleSince = now;
    } else if (now - this.#idleSince >= idleMs) {
      this.#idleSince = now;
      this.#giveBack(now);
    }
  }

  #giveBack(now: number): void {
    const { heapTotal, external } = memoryUsage();
    if (heapTotal + external >= this.#leftBytes + worthBytes) this.#collectNow(now);
  }

  #collectNow(now: number): number {
    this.#collect();
    // Buffers are freed concurrently: only the start of another collection counts them as freed.
    this.#collect({ type: 'minor' });
    this.#collectedAt = now;
    const { heapTotal, heapUsed, external } = memoryUsage();
    this.#leftBytes = heapTotal + external;
    return heapUsed + external;
  }
}

function usedBytes(): number {
  const { heapUsed, external } = memoryUsage();
  return heapUsed + external;
}

/** As `process.memoryUsage` has it, which also reads the size of the process from /proc. */
function memoryUsage(): { heapTotal: number; heapUsed: number; external: number } {
  const heap = v8.getHeapStatistics();
  return {
    heapTotal: heap.total_heap_size,
    heapUsed: heap.used_heap_size,
    external: heap.external_memory,
  };
}

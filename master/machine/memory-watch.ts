/**
 * Keeps the master's own memory below a limit. What has bounds of its own is small; the sum of what
 * many peers send at once is not. So the memory is looked at:
 *
 *     calm --above 3/4 of the limit, after a collection--> tight --below 5/8--> calm
 *
 * While it is tight, queues are kept short (`isTight`), so that peers wait in TCP; above the limit
 * `onExceeded` has to let go of something.
 *
 * It also gives memory back when the work is done: the engine keeps what a burst of traffic has
 * taken until something new needs it, which for a daemon that then idles is for ever.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const lookEveryMs = 100;
const collectEveryMs = 1_000;
const idleMs = 2_000;
/** Less than this is not worth the pause of a collection. */
const worthBytes = 4 << 20;

export type MemoryWatchOptions = {
  readonly bytesMax: number;
  /** Counts what the master does: while it stands still, there is nothing to disturb. */
  readonly commits: () => number;
  readonly onTight: (usedBytes: number) => void;
  /** So much has to go, at least. */
  readonly onExceeded: (bytes: number) => void;
};

type Collect = (options?: { readonly type: 'minor' }) => void;

export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #collect: Collect;
  #isTight = false;
  #commits = -1;
  #idleSince = 0;
  #collectedAt = Number.NEGATIVE_INFINITY;
  #leftBytes = 0;

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
    setFlagsFromString('--expose-gc');
    this.#collect = runInNewContext('gc') as Collect;
    this.#timer = setInterval(() => this.#lookNow(), lookEveryMs);
    this.#timer.unref();
  }

  /** Queues are to be kept short. */
  get isTight(): boolean {
    return this.#isTight;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #lookNow(): void {
    this.#giveBackWhenIdle(performance.now());
    this.look();
  }

  /** To be called, too, when something large was taken: much comes between two looks. */
  look(): void {
    const now = performance.now();
    const { bytesMax, onTight, onExceeded } = this.#options;
    let used = usedBytes();
    // Much of it may be garbage.
    const mayCollect = used > bytesMax || now - this.#collectedAt >= collectEveryMs;
    if (used > bytesMax * 0.75 && mayCollect) used = this.#collectNow(now);
    if (!this.#isTight && used > bytesMax * 0.75) {
      this.#isTight = true;
      onTight(used);
    } else if (this.#isTight && used < bytesMax * 0.625) this.#isTight = false;
    if (used > bytesMax) onExceeded(used - bytesMax * 0.625);
  }

  #giveBackWhenIdle(now: number): void {
    const commits = this.#options.commits();
    if (commits !== this.#commits) this.#idleSince = now;
    this.#commits = commits;
    if (now - this.#idleSince < idleMs) return;
    this.#idleSince = now;
    const { heapTotal, external } = process.memoryUsage();
    if (heapTotal + external >= this.#leftBytes + worthBytes) this.#collectNow(now);
  }

  #collectNow(now: number): number {
    this.#collect();
    // Buffers are swept behind its back: only the start of another collection counts them as gone.
    this.#collect({ type: 'minor' });
    this.#collectedAt = now;
    const { heapTotal, heapUsed, external } = process.memoryUsage();
    this.#leftBytes = heapTotal + external;
    return heapUsed + external;
  }
}

function usedBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

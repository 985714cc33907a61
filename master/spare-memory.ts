/**
 * Gives memory back when the work is done: the engine keeps what a burst of traffic has taken
 * until something new needs it, which for a daemon that then idles is for ever.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const lookEveryMs = 2_000;
/** Less than this is not worth the pause of a collection. */
const worthBytes = 4 << 20;

export class SpareMemory {
  readonly #timer: NodeJS.Timeout;
  readonly #collect: () => void;
  #commits = -1;
  #collectedAt = 0;

  /** `commits` counts what the master does: while it stands still, there is nothing to disturb. */
  constructor(commits: () => number) {
    setFlagsFromString('--expose-gc');
    this.#collect = runInNewContext('gc') as () => void;
    this.#timer = setInterval(() => this.#look(commits()), lookEveryMs);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(commits: number): void {
    const isIdle = commits === this.#commits;
    this.#commits = commits;
    const { heapTotal, external } = process.memoryUsage();
    if (!isIdle || heapTotal + external < this.#collectedAt + worthBytes) return;
    this.#collect();
    const left = process.memoryUsage();
    this.#collectedAt = left.heapTotal + left.external;
  }
}

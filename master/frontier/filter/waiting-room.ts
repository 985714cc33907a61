/**
 * Bounds what the seen sets of all crawls together keep in memory. A single crawl bounds itself;
 * with several, the one with most keys writes them to a run early.
 */
import type { Change } from '../../store/store.ts';
import type { SeenSet } from './seen-set.ts';

/** Keys of a crawl that wait for a run, in its two sets. */
const setsOfCrawl = 2;
/** Work of a commit that makes room, as if so many keys had come. */
const relievedKeys = 4_096;

export class WaitingRoom {
  /** Keys of a crawl that wait before they become a run. */
  readonly freezeKeys: number;
  readonly #sets = new Set<SeenSet>();

  constructor(freezeKeys: number) {
    this.freezeKeys = freezeKeys;
  }

  enter(set: SeenSet): void {
    this.#sets.add(set);
  }

  leave(set: SeenSet): void {
    this.#sets.delete(set);
  }

  /** Keys of all crawls in memory. */
  get waiting(): number {
    let sum = 0;
    for (const set of this.#sets) sum += set.waiting;
    return sum;
  }

  /** The change that makes room in a commit; undefined: there is enough. */
  relieve(): { readonly changes: Change[]; readonly done: () => void } | undefined {
    if (this.#sets.size < 2 || this.waiting <= this.freezeKeys * setsOfCrawl) return undefined;
    let largest: SeenSet | undefined;
    for (const set of this.#sets) {
      if (set.waiting > (largest?.waiting ?? 0)) largest = set;
    }
    if (largest === undefined) return undefined;
    const changes = largest.relieve(relievedKeys);
    return { changes, done: largest.seal() ?? (() => {}) };
  }
}

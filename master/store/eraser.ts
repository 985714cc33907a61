/**
 * Erases the rows of crawls that are over: cancelled or removed. A crawl may have any number of
 * rows, so they go a batch a commit, and the next batch waits until the commits of this one have
 * taken at most a tenth of the time. Nothing is kept in memory but the list of jobs. Its owner
 * has put on record what is to be erased, and adds the jobs again at each start.
 */
import type { GroupCommit } from './group-commit.ts';
import { crawlKey } from './records.ts';
import type { Change, CrawlTable, Store } from './store.ts';

/** Rows of one commit. */
const rowsMax = 2_000;
/** Time that passes after a commit, as a multiple of its duration: it gets a tenth. */
const restFactor = 9;

type Erasure = {
  readonly crawl: number;
  readonly tables: readonly CrawlTable[];
  /** Returns what ends it, for the transaction of its last rows. */
  readonly last: () => Change[];
  /** All of it is on the disk. */
  readonly done: () => void;
};

export class Eraser {
  readonly #store: Store;
  readonly #commits: GroupCommit;
  /** The first one is under way. */
  readonly #erasures = new Set<Erasure>();
  #timer: NodeJS.Timeout | undefined;
  #state: 'idle' | 'working' | 'closed' = 'idle';

  constructor(store: Store, commits: GroupCommit) {
    this.#store = store;
    this.#commits = commits;
  }

  add(erasure: Erasure): void {
    this.#erasures.add(erasure);
    if (this.#state === 'idle') this.#step();
  }

  /** Erases nothing more: the next start goes on. */
  close(): void {
    this.#state = 'closed';
    clearTimeout(this.#timer);
  }

  #step(): void {
    if (this.#state === 'closed') return;
    this.#state = this.#erasures.size > 0 ? 'working' : 'idle';
    if (this.#state === 'idle') return;
    const { changes, ended } = this.#gather();
    this.#commits.submit(changes, (tookMs) => {
      for (const { done } of ended) done();
      if (this.#state === 'closed') return;
      this.#timer = setTimeout(() => this.#step(), tookMs * restFactor);
    });
  }

  /** The next rows, of as many crawls as fit. All that was gathered before is on the disk. */
  #gather(): { readonly changes: Change[]; readonly ended: readonly Erasure[] } {
    const changes: Change[] = [];
    const ended: Erasure[] = [];
    for (const erasure of this.#erasures) {
      changes.push(...this.#rowsOf(erasure, rowsMax - changes.length));
      if (changes.length >= rowsMax) break;
      changes.push(...erasure.last());
      ended.push(erasure);
      this.#erasures.delete(erasure);
      if (changes.length >= rowsMax) break;
    }
    return { changes, ended };
  }

  #rowsOf({ crawl, tables }: Erasure, max: number): Change[] {
    const changes: Change[] = [];
    const all = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
    for (const table of tables) {
      const limit = max - changes.length;
      if (limit <= 0) break;
      const keys = this.#store.keys(table, { ...all, limit });
      for (const key of keys) changes.push({ table, key, value: undefined });
    }
    return changes;
  }
}

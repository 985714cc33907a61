/**
 * A store as slow as a real one, over tables that outlive it: a commit is applied some turns of the
 * event loop after its request, may be readable before it is acknowledged (LMDB shows unflushed
 * data), and `crash` ends the process at any point of that.
 */
import { MemoryStore } from '../../master/store/memory.ts';
import type {
  Change,
  Peeked,
  Range,
  Row,
  Snapshot,
  Store,
  Table,
} from '../../master/store/store.ts';

type Commit = { readonly changes: Change[]; readonly resolve: () => void; isApplied: boolean };

export class LaggingStore implements Store {
  /** The data on the disk. */
  readonly disk: MemoryStore;
  #commits: Commit[] = [];
  #state: 'open' | 'crashed' = 'open';
  #isTurning = false;

  constructor(disk = new MemoryStore()) {
    this.disk = disk;
  }

  has(table: Table, key: Uint8Array): boolean {
    return this.disk.has(table, key);
  }

  get(table: Table, key: Uint8Array): Buffer | undefined {
    return this.disk.get(table, key);
  }

  peek(table: Table, key: Uint8Array): Peeked | undefined {
    return this.disk.peek(table, key);
  }

  range(table: Table, range: Range): Row[] {
    return this.disk.range(table, range);
  }

  keys(table: Table, range: Range): Buffer[] {
    return this.disk.keys(table, range);
  }

  snapshot(): Snapshot {
    return this.disk.snapshot();
  }

  commit(changes: readonly Change[]): Promise<void> {
    if (this.#state === 'crashed') return new Promise(() => {});
    return new Promise((resolve) => {
      this.#commits.push({ changes: [...changes], resolve, isApplied: false });
      this.#turn();
    });
  }

  /** No commit ends any more; of those under way the first `applied` are on the disk. */
  crash(applied: number): void {
    this.#state = 'crashed';
    const open = this.#commits.filter(({ isApplied }) => !isApplied);
    // Before the next start reads them.
    for (const { changes } of open.slice(0, applied)) this.disk.apply(changes);
    this.#commits = [];
  }

  /** Nothing is under way. */
  get isQuiet(): boolean {
    return this.#commits.length === 0;
  }

  async close(): Promise<void> {}

  /** One turn applies the oldest commit, the next one acknowledges it. */
  #turn(): void {
    if (this.#isTurning) return;
    this.#isTurning = true;
    setImmediate(() => {
      this.#isTurning = false;
      const commit = this.#commits[0];
      if (commit === undefined) return;
      if (commit.isApplied) {
        this.#commits.shift();
        commit.resolve();
      } else {
        commit.isApplied = true;
        void this.#apply(commit.changes);
      }
      if (this.#commits.length > 0) this.#turn();
    });
  }

  #apply(changes: readonly Change[]): Promise<void> {
    return this.disk.commit(changes);
  }
}

/**
 * The rows of one crawl that not all of its sinks have, oldest first. They are in the store; the
 * younger ones are in memory, too, as long as all sinks keep up.
 */
import { commitKey, commitOf, crawlKey } from '../store/records.ts';
import { type SealedRow, type Section, sectionsOf } from '../store/result-rows.ts';
import { batches, type Store } from '../store/store.ts';

/** `sections` are undefined where the store alone has them. */
type WaitingRow = {
  readonly commit: number;
  readonly bytes: number;
  /** Bytes of all rows that ever came, this one included. */
  readonly endAt: number;
  sections?: readonly Section[];
};
type HeldRow = { readonly commit: number; readonly sections: readonly Section[] };

/** Rows that are read from the store at once. */
const rowsMax = 64;
/** The same, in bytes, unless one row is larger. */
const readBytesMax = 2 << 20;
/** Bytes of rows in memory; unpacked, they take some times as much. */
const keptBytesMax = 8 << 20;

export class WaitingRows {
  readonly #store: Store;
  readonly #crawl: number;
  #rows: WaitingRow[] = [];
  #bytes = 0;
  #endAt = 0;
  #keptBytes = 0;

  constructor(store: Store, crawl: number) {
    this.#store = store;
    this.#crawl = crawl;
  }

  get count(): number {
    return this.#rows.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of those behind a commit. */
  bytesAfter(commit: number): number {
    const row = this.#rows[this.#firstAfter(commit)];
    return row === undefined ? 0 : this.#endAt - row.endAt + row.bytes;
  }

  /** Number of the first record behind a commit; undefined: none waits. */
  recordAfter(commit: number): number | undefined {
    const row = this.#rows[this.#firstAfter(commit)];
    const [section] = row?.sections ?? (row && this.#read([row]).get(row.commit)) ?? [];
    return section?.seq;
  }

  /** Those that an earlier master left. */
  load(): void {
    const of = { from: crawlKey(this.#crawl), to: crawlKey(this.#crawl + 1) };
    for (const rows of batches(this.#store, 'results', of, rowsMax)) {
      for (const { key, value } of rows) this.#push(commitOf(key), value.length);
    }
  }

  /** Adds a row that is on the disk. `isKept`: all sinks will write it soon. */
  add(commit: number, { bytes: row, sections }: SealedRow, isKept: boolean): void {
    const bytes = row.length;
    if (!isKept || this.#keptBytes > keptBytesMax) this.#push(commit, bytes);
    else {
      this.#push(commit, bytes, sections);
      this.#keptBytes += bytes;
    }
  }

  /** A sink does not keep up: from now on the store alone has the rows. */
  forgetKept(): void {
    for (const row of this.#rows) delete row.sections;
    this.#keptBytes = 0;
  }

  /** All sinks were given the rows up to this commit: from now on the store alone has them. */
  release(upTo: number): void {
    if (this.#keptBytes === 0) return;
    const end = this.#firstAfter(upTo);
    // Those before were released already.
    for (let i = end - 1; i >= 0; i--) {
      const row = this.#rows[i];
      if (row?.sections === undefined) break;
      delete row.sections;
      this.#keptBytes -= row.bytes;
    }
  }

  has(afterCommit: number): boolean {
    return (this.#rows.at(-1)?.commit ?? 0) > afterCommit;
  }

  /** Returns the next rows behind a commit with their sections: all in memory, or a few of the
   *  store. `isMore`: some were left for later. */
  after(commit: number): { readonly rows: readonly HeldRow[]; readonly isMore: boolean } {
    const first = this.#firstAfter(commit);
    const isKept = this.#rows[first]?.sections !== undefined;
    const taken: WaitingRow[] = [];
    for (let i = first, bytes = 0; i < this.#rows.length; i++) {
      const row = this.#rows[i];
      if (row === undefined || (row.sections !== undefined) !== isKept) break;
      bytes += row.bytes;
      if (taken.length > 0 && bytes > readBytesMax) break;
      if (!isKept && taken.length >= rowsMax) break;
      taken.push(row);
    }
    const found = isKept || taken.length === 0 ? undefined : this.#read(taken);
    const rows = taken.map(({ commit: of, sections = found?.get(of) }) => {
      if (sections === undefined) throw new Error(`the row of commit ${of} is gone`);
      return { commit: of, sections };
    });
    return { rows, isMore: first + rows.length < this.#rows.length };
  }

  /** All sinks have the rows up to this commit: they leave. Returns them. */
  drop(upTo: number): readonly WaitingRow[] {
    const gone = this.#rows.splice(0, this.#firstAfter(upTo));
    for (const { bytes, sections } of gone) {
      this.#bytes -= bytes;
      if (sections !== undefined) this.#keptBytes -= bytes;
    }
    return gone;
  }

  get lastCommit(): number {
    return this.#rows.at(-1)?.commit ?? 0;
  }

  get firstCommit(): number {
    return this.#rows[0]?.commit ?? Number.POSITIVE_INFINITY;
  }

  #push(commit: number, bytes: number, sections?: readonly Section[]): void {
    this.#bytes += bytes;
    this.#endAt += bytes;
    this.#rows.push({ commit, bytes, endAt: this.#endAt, ...(sections && { sections }) });
  }

  /** Index of the first row behind a commit; their number: there is none. */
  #firstAfter(commit: number): number {
    let [low, high] = [0, this.#rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#rows[middle]?.commit ?? 0) > commit) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #read(rows: readonly WaitingRow[]): Map<number, readonly Section[]> {
    const from = commitKey(this.#crawl, rows[0]?.commit ?? 0);
    const to = commitKey(this.#crawl, (rows.at(-1)?.commit ?? 0) + 1);
    const found = this.#store.range('results', { from, to });
    return new Map(found.map(({ key, value }) => [commitOf(key), sectionsOf(value)]));
  }
}

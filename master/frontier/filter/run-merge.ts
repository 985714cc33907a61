/**
 * A merge of sorted runs into one, some buckets at a time: it reads the next rows of its sources,
 * writes the next rows of its target, and deletes the rows of the sources that lie behind. All of
 * that is one transaction, so nothing is in memory that a crash could lose.
 */
import { StoreError } from '../../../shared/errors.ts';
import {
  bucketOf,
  firstOf,
  type Merge,
  type Run,
  RunWriter,
  runKey,
  startOf,
  wordsInto,
} from '../../store/runs.ts';
import type { Change, Rows } from '../../store/store.ts';

/** Behind all keys. */
const noMore = 2 ** 32;

export class RunMerge {
  readonly sources: readonly Run[];
  readonly target: Run;
  /** Buckets of the target before this one are on the disk. */
  safeAt: number;
  readonly #crawl: number;
  readonly #writer: RunWriter;
  readonly #cursors: readonly SourceCursor[];

  constructor(store: Rows, crawl: number, { sources, target, at }: Merge, safeAt: number) {
    this.#crawl = crawl;
    this.sources = sources;
    this.target = target;
    this.safeAt = safeAt;
    this.#writer = new RunWriter(crawl, target, at);
    this.#cursors = sources.map((run) => new SourceCursor(store, crawl, run));
    for (const cursor of this.#cursors) cursor.start(startOf(at, target.buckets));
  }

  get isWhole(): boolean {
    return this.#writer.at >= this.target.buckets;
  }

  get state(): Merge {
    return { sources: this.sources, target: this.target, at: this.#writer.at };
  }

  /** True: a key with these first four bytes is on the disk in the target, not in a source. */
  hasMoved(first: number): boolean {
    return bucketOf(first, this.target.buckets) < this.safeAt;
  }

  /** Moves at least `keys` keys, if there are so many. Returns how many.
   *  @throws StoreError a row of a source is missing */
  move(keys: number, changes: Change[]): number {
    const { buckets } = this.target;
    let moved = 0;
    while (moved < keys && !this.isWhole) {
      const end = startOf(this.#writer.at + 1, buckets);
      moved += this.#fill(end);
      changes.push(this.#writer.row());
    }
    const start = startOf(this.#writer.at, buckets);
    for (const cursor of this.#cursors) {
      for (const bucket of cursor.leave(start)) {
        const key = runKey(this.#crawl, cursor.run.id, bucket);
        changes.push({ table: 'runs', key, value: undefined });
      }
    }
    return moved;
  }

  /** Gives the writer all keys up to `end`, in order. */
  #fill(end: number): number {
    for (let count = 0; ; count++) {
      let next: SourceCursor | undefined;
      let first = end;
      for (const cursor of this.#cursors) {
        if (cursor.first >= first) continue;
        next = cursor;
        first = cursor.first;
      }
      if (next === undefined) return count;
      this.#writer.add(next.words, next.at);
      next.step();
    }
  }
}

/** Reads a run in order, a row at a time into the same memory. */
class SourceCursor {
  readonly run: Run;
  words: Uint32Array = new Uint32Array(0);
  #end = 0;
  at = 0;
  /** The first four bytes of the key at hand. */
  first = noMore;
  readonly #store: Rows;
  readonly #crawl: number;
  #nextBucket = 0;
  /** Rows before this one are deleted. */
  #left = 0;

  constructor(store: Rows, crawl: number, run: Run) {
    this.#store = store;
    this.#crawl = crawl;
    this.run = run;
  }

  /** Goes to the first key from `first` on. */
  start(first: number): void {
    this.#left = this.#bucketAt(first);
    this.#nextBucket = this.#left;
    this.at = -4;
    do this.step();
    while (this.first < first);
  }

  step(): void {
    this.at += 4;
    while (this.at >= this.#end) {
      if (this.#nextBucket >= this.run.buckets) {
        this.first = noMore;
        return;
      }
      this.#read(this.#nextBucket++);
      this.at = 0;
    }
    this.first = firstOf(this.words[this.at] ?? 0);
  }

  /** The buckets that lie before `start`, and did not before. */
  *leave(start: number): Generator<number> {
    const to = this.#bucketAt(start);
    while (this.#left < to) yield this.#left++;
  }

  #bucketAt(first: number): number {
    return first >= noMore ? this.run.buckets : bucketOf(first, this.run.buckets);
  }

  #read(bucket: number): void {
    const row = this.#store.peek('runs', runKey(this.#crawl, this.run.id, bucket));
    if (row === undefined) throw new StoreError('a row of seen URLs is missing');
    const { words, count } = wordsInto(row, this.words);
    this.words = words;
    this.#end = count;
  }
}

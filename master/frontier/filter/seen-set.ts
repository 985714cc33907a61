/**
 * The fingerprints that a crawl has admitted, exactly: see `store/runs.ts` for their rows.
 *
 *     add --> gathered, active --commit--> journal row in `recent`
 *                 |  (active is full)
 *                 v
 *              frozen --flush, some buckets a commit--> run of level 0
 *                                                          |  (three of a level)
 *                                                          v
 *                                        merge, some buckets a commit --> run of the next level
 *
 * - All work is done in the commits of new keys, in proportion to them: no commit is large, and
 *   nothing runs in the background. A crash loses none of it; a start goes on in the middle.
 * - Reads see what is committed, which is older or newer than what is on record here: so a merge is
 *   read sources first, then its target. Keys move from there to here in one transaction, so that
 *   they cannot be missed in between.
 * - A merge begins only with sources that are on the disk.
 */
import assert from 'node:assert/strict';
import { commitKey, commitOf, crawlKey } from '../../store/records.ts';
import {
  bucketOf,
  bucketsFor,
  decodeManifest,
  firstOf,
  hasKey,
  type Manifest,
  manifestChange,
  manifestKey,
  mergeWidth,
  noRuns,
  type Run,
  RunWriter,
  runKey,
  runKeyBytes,
  runKeyInto,
  startOf,
  wordsOf,
} from '../../store/runs.ts';
import { batches, type Change, type Rows } from '../../store/store.ts';
import { fingerprintBytes } from './fingerprint.ts';
import { RunMerge } from './run-merge.ts';
import { type Asked, allKeys, inOrder, levelOf, type Span } from './run-order.ts';
import { WaitingSet } from './waiting-set.ts';

/** Keys that are moved for each new one, at most: five are needed at 100 M. */
const movedPerKey = 8;
/** The same of a flush. */
const flushedPerKey = 4;
/** Keys of the commit that fills a set, as a share of those that it may have before. */
const commitShare = 1 / 8;
/** The share of them that comes while the set before it is flushed, and its memory is not free yet:
 *  of `flushedPerKey`, and of the commits under way. */
const flushShare = 3 / 8;
/** Journal rows that are deleted in a commit, at most. */
const trimRows = 64;
/** Journal rows that are read at once. */
const journalRows = 8;
/** The same of runs: about as much memory. */
const bucketRows = 64;

type Frozen = {
  readonly keys: WaitingSet;
  readonly run: Run;
  /** The last commit of its keys. */
  readonly to: number;
  readonly writer: RunWriter;
};

export type SeenSetOptions = {
  readonly crawl: number;
  readonly store: Rows;
  /** Keys that wait in memory before they become a run. */
  readonly freezeKeys: number;
  /** The saved Bloom filter has the keys up to this commit; those of later ones are given to
   *  `visit`. */
  readonly saved: number;
  readonly visit: (words: Uint32Array, at: number) => void;
  /** Which keys a Bloom filter has. */
  readonly spanOf?: (filter: number) => Span;
  /** Nothing is read: the crawl is over for good. */
  readonly isForgotten?: boolean;
};

export class SeenSet {
  readonly #crawl: number;
  readonly #store: Rows;
  readonly #freezeKeys: number;
  readonly #spanOf: (filter: number) => Span;
  #active: WaitingSet;
  /** The last one is being flushed, or is flushed and not on the disk yet. */
  #frozen: Frozen[] = [];
  /** Without keys: the next active one. */
  #spare: WaitingSet | undefined;
  /** As the next commit records it. */
  #next = 1;
  #flushed = 0;
  #runs: Run[] = [];
  /** In work, or whole and not on the disk yet. */
  #merges: RunMerge[] = [];
  /** Runs that are on the disk as a whole. */
  readonly #onDisk = new Set<number>();
  /** The order of look-ups, for each Bloom filter that may have a key; made when it is needed. */
  #asked: (readonly Asked[] | undefined)[] = [];
  #lastCommit = 0;
  /** Of a look-up. */
  readonly #key = Buffer.alloc(runKeyBytes);
  /** Of the commit that is being gathered. */
  #gathered = new Uint32Array(4 * 256);
  #gatheredCount = 0;
  /** The saved Bloom filter has the keys up to this commit; journal rows before `#trimmed` are
   *  deleted. */
  #saved = 0;
  #trimmed = 0;
  #isChanged = false;

  /** Reads the manifest, and the journal into memory. */
  constructor(options: SeenSetOptions) {
    this.#crawl = options.crawl;
    this.#store = options.store;
    this.#freezeKeys = options.freezeKeys;
    this.#active = this.#waitingSet();
    this.#saved = options.saved;
    this.#spanOf = options.spanOf ?? (() => allKeys);
    if (options.isForgotten) return;
    const manifest = manifestOf(this.#store, this.#crawl);
    assert.ok(manifest.upgrade === undefined, 'a store is upgraded before it is used');
    this.#restore(manifest);
    this.#readJournal(manifest, options.visit);
  }

  /** Keys in memory, and the bytes that they take. */
  get waiting(): number {
    return this.#frozen.reduce((sum, { keys }) => sum + keys.count, this.#active.count);
  }

  get bytes(): number {
    const spare = this.#spare?.bytes ?? 0;
    return this.#frozen.reduce((sum, { keys }) => sum + keys.bytes, this.#active.bytes + spare);
  }

  /** `filter`: the Bloom filter that may have it. */
  has(words: Uint32Array, at: number, filter = 0): boolean {
    if (this.#active.has(words, at)) return true;
    for (const { keys } of this.#frozen) if (keys.has(words, at)) return true;
    const first = firstOf(words[at] ?? 0);
    this.#asked[filter] ??= inOrder(this.#runs, this.#merges, this.#spanOf(filter));
    for (const { run, merge, isMoved } of this.#asked[filter]) {
      if (merge !== undefined && merge.hasMoved(first) !== isMoved) continue;
      if (this.#hasRow(run, first, words, at)) return true;
    }
    return false;
  }

  /** All fingerprints that are on the disk; some may come twice. */
  *stored(): Generator<Uint32Array> {
    const to = crawlKey(this.#crawl + 1);
    const runs = { from: runKey(this.#crawl, 1, 0), to };
    for (const rows of batches(this.#store, 'runs', runs, bucketRows)) {
      for (const { value } of rows) yield wordsOf(value);
    }
    const journal = { from: commitKey(this.#crawl, this.#flushed + 1), to };
    for (const rows of batches(this.#store, 'recent', journal, journalRows)) {
      for (const { value } of rows) yield wordsOf(value);
    }
  }

  /** A new fingerprint: its commit is being gathered. */
  add(words: Uint32Array, at: number): void {
    assert.ok(this.#active.add(words, at), 'a fingerprint was admitted twice');
    if ((this.#gatheredCount + 1) * 4 > this.#gathered.length) {
      const more = new Uint32Array(this.#gathered.length * 2);
      more.set(this.#gathered);
      this.#gathered = more;
    }
    const to = this.#gatheredCount++ * 4;
    for (let i = 0; i < 4; i++) this.#gathered[to + i] = words[at + i] ?? 0;
  }

  /** Returns the changes that store what was added, and move some of what was stored before.
   *  `commit` numbers the commit within the crawl. */
  changes(commit: number): Change[] {
    const count = this.#gatheredCount;
    if (count === 0) return [];
    this.#gatheredCount = 0;
    this.#lastCommit = commit;
    const value = Buffer.alloc(count * fingerprintBytes);
    value.set(new Uint8Array(this.#gathered.buffer, 0, value.length));
    const changes: Change[] = [{ table: 'recent', key: commitKey(this.#crawl, commit), value }];
    if (this.#active.count >= this.#freezeKeys) this.#freeze(changes);
    this.#work(count, changes);
    return changes;
  }

  /** Makes room in memory without new keys: what waits becomes a run, some of it at a time, as if
   *  so many keys had come. Nothing is being gathered. */
  relieve(count: number): Change[] {
    const changes: Change[] = [];
    if (!this.#isFlushing && this.#active.count > 0) this.#freeze(changes);
    this.#work(count, changes);
    return changes;
  }

  /** To be called once the changes of a commit have been taken; the returned function when they are
   *  on the disk. */
  seal(): (() => void) | undefined {
    if (!this.#isChanged) return undefined;
    this.#isChanged = false;
    const flushed = this.#flushed;
    const runs = this.#runs.map(({ id }) => id);
    const merges = this.#merges.map((merge) => ({ merge, at: merge.state.at }));
    return () => {
      for (const { merge, at } of merges) merge.safeAt = Math.max(merge.safeAt, at);
      this.#merges = this.#merges.filter(({ safeAt, target }) => safeAt < target.buckets);
      for (const run of runs) this.#onDisk.add(run);
      for (const { keys, to } of this.#frozen) if (to <= flushed) this.#reuse(keys);
      this.#frozen = this.#frozen.filter(({ to }) => to > flushed);
      this.#asked = [];
    };
  }

  /** The saved Bloom filter has the keys up to this commit: their journal rows may go. */
  saved(commit: number): void {
    this.#saved = Math.max(this.#saved, commit);
  }

  get #isFlushing(): boolean {
    const last = this.#frozen.at(-1);
    return last !== undefined && last.to > this.#flushed;
  }

  #waitingSet(keys = 0): WaitingSet {
    return new WaitingSet(keys, this.#freezeKeys * (1 + commitShare));
  }

  /** Its keys are in a run now. The set that fills gets its memory; the next one begins with the
   *  memory that is left then, of which a set needs little until this one here is flushed. */
  #reuse(keys: WaitingSet): void {
    if (!this.#active.exchange(keys)) keys.clear();
    this.#spare ??= keys;
  }

  #freeze(changes: Change[]): void {
    // Fewer keys came since than it takes to flush the last ones.
    if (this.#isFlushing) this.#flush(Number.POSITIVE_INFINITY, changes);
    const keys = this.#active;
    const run = { id: this.#next++, level: 0, keys: keys.count, buckets: bucketsFor(keys.count) };
    const writer = new RunWriter(this.#crawl, run);
    this.#frozen.push({ keys, run, to: this.#lastCommit, writer });
    // The spare one gets its memory when all keys have left it.
    keys.settle();
    this.#active = this.#spare ?? this.#waitingSet(keys.count * flushShare);
    this.#spare = undefined;
    this.#isChanged = true;
  }

  #work(count: number, changes: Change[]): void {
    const flushed = this.#flush(count * flushedPerKey, changes);
    this.#beginMerges();
    let left = count * movedPerKey - flushed;
    for (const merge of this.#merges) {
      if (left <= 0) break;
      if (merge.isWhole) continue;
      left -= merge.move(left, changes);
      if (merge.isWhole) this.#runs.push(merge.target);
      this.#isChanged = true;
    }
    this.#trim(changes);
    if (this.#isChanged) changes.push(manifestChange(this.#crawl, this.#manifest));
  }

  #flush(keysMax: number, changes: Change[]): number {
    const frozen = this.#frozen.at(-1);
    if (frozen === undefined || !this.#isFlushing) return 0;
    const { keys, run, to, writer } = frozen;
    const add = (words: Uint32Array, at: number) => writer.add(words, at);
    let moved = 0;
    for (; moved < keysMax && writer.at < run.buckets; changes.push(writer.row())) {
      const end = startOf(writer.at + 1, run.buckets);
      moved += keys.between(startOf(writer.at, run.buckets), end, add);
    }
    if (writer.at === run.buckets) {
      this.#runs.push(run);
      this.#flushed = to;
      this.#asked = [];
    }
    this.#isChanged = true;
    return moved;
  }

  /** Where there are enough runs of a level, the oldest become one. */
  #beginMerges(): void {
    if (this.#runs.length < mergeWidth) return;
    const busy = new Set(this.#merges.filter(({ isWhole }) => !isWhole).map(levelOf));
    for (const level of new Set(this.#runs.map(({ level }) => level))) {
      const runs = this.#runs.filter((run) => run.level === level);
      if (runs.length < mergeWidth || busy.has(level)) continue;
      const sources = runs.slice(0, mergeWidth);
      if (!sources.every(({ id }) => this.#onDisk.has(id))) continue;
      const keys = sources.reduce((sum, run) => sum + run.keys, 0);
      const target = { id: this.#next++, level: level + 1, keys, buckets: bucketsFor(keys) };
      const merge = new RunMerge(this.#store, this.#crawl, { sources, target, at: 0 }, 0);
      this.#runs = this.#runs.filter((run) => !sources.includes(run));
      for (const { id } of sources) this.#onDisk.delete(id);
      this.#merges.push(merge);
      this.#merges.sort((a, b) => levelOf(a) - levelOf(b));
      this.#isChanged = true;
      this.#asked = [];
    }
  }

  /** Deletes journal rows that neither a start nor the Bloom filter needs. */
  #trim(changes: Change[]): void {
    const to = Math.min(this.#flushed, this.#saved);
    if (this.#trimmed >= to) return;
    const from = commitKey(this.#crawl, this.#trimmed + 1);
    const range = { from, to: commitKey(this.#crawl, to + 1), limit: trimRows };
    const keys = this.#store.keys('recent', range);
    for (const key of keys) changes.push({ table: 'recent', key, value: undefined });
    const last = keys.at(-1);
    if (last !== undefined) this.#trimmed = commitOf(last);
  }

  get #manifest(): Manifest {
    const frozen = this.#frozen.at(-1);
    const isFlushing = frozen !== undefined && this.#isFlushing;
    return {
      next: this.#next,
      flushed: this.#flushed,
      runs: this.#runs,
      merges: this.#merges.filter(({ isWhole }) => !isWhole).map(({ state }) => state),
      ...(isFlushing && { flush: { run: frozen.run, at: frozen.writer.at, to: frozen.to } }),
    };
  }

  #restore({ next, flushed, runs, merges, flush }: Manifest): void {
    this.#next = next;
    this.#flushed = flushed;
    this.#runs = [...runs];
    for (const { id } of runs) this.#onDisk.add(id);
    this.#merges = merges.map((one) => new RunMerge(this.#store, this.#crawl, one, one.at));
    if (flush === undefined) return;
    const { run, at, to } = flush;
    const writer = new RunWriter(this.#crawl, run, at);
    this.#frozen.push({ keys: this.#waitingSet(), run, to, writer });
  }

  #readJournal({ flushed }: Manifest, visit: (words: Uint32Array, at: number) => void): void {
    const frozen = this.#frozen.at(-1);
    this.#trimmed = Math.min(flushed, this.#saved);
    this.#lastCommit = flushed;
    const from = commitKey(this.#crawl, this.#trimmed + 1);
    const all = { from, to: crawlKey(this.#crawl + 1) };
    for (const rows of batches(this.#store, 'recent', all, journalRows)) {
      for (const { key, value } of rows) {
        const commit = commitOf(key);
        const words = wordsOf(value);
        const isFrozen = frozen !== undefined && commit <= frozen.to;
        const keys = isFrozen ? frozen.keys : this.#active;
        for (let at = 0; at < words.length; at += 4) {
          if (commit > flushed) keys.add(words, at);
          if (commit > this.#saved) visit(words, at);
        }
        this.#lastCommit = Math.max(this.#lastCommit, commit);
      }
    }
    this.#trimmed = 0;
  }

  #hasRow(run: Run, first: number, words: Uint32Array, at: number): boolean {
    const key = runKeyInto(this.#key, this.#crawl, run.id, bucketOf(first, run.buckets));
    const row = this.#store.peek('runs', key);
    return row !== undefined && hasKey(row, words, at);
  }
}

/** The record of a crawl's runs. */
export function manifestOf(store: Rows, crawl: number): Manifest {
  const value = store.get('runs', manifestKey(crawl));
  return value === undefined ? noRuns : decodeManifest(value);
}

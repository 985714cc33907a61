/**
 * Checks the seen URLs of all crawls against their records: the rows of the sorted runs against the
 * manifests, the number of keys, and the XOR of them. A key is in a run, in the journal behind it,
 * or, up to format 3 and while that is upgraded, in `seen`.
 */
import { type CrawlRecord, commitOf } from '../store/records.ts';
import {
  bucketOf,
  decodeManifest,
  firstOf,
  type Manifest,
  noRuns,
  parseRunKey,
  startOf,
  wordsOf,
} from '../store/runs.ts';
import { addToSum } from '../store/sums.ts';

/** The part of a crawl's record that is compared: there may be thousands of crawls. */
export type SummedCrawl = Pick<CrawlRecord, 'id' | 'name' | 'state' | 'seenSum'> & {
  readonly counters: Pick<CrawlRecord['counters'], 'seen'>;
};

/** Rows of a run that must be there. */
type Expected = {
  /** The next row, and the end. */
  next: number;
  readonly end: number;
  readonly buckets: number;
  /** Keys before it are in another run, too. */
  readonly first: number;
  /** Keys in all; undefined: it is being made or moved. */
  readonly keys: number | undefined;
  /** Its keys are in the journal, too. */
  readonly isCopy: boolean;
  count: number;
};

export class SeenCheck {
  readonly #crawls = new Map<number, SummedCrawl>();
  readonly #flushed = new Map<number, number>();
  readonly #sums = new SeenSums();
  readonly #onDamage: (what: string) => never;
  readonly #hasJournal: boolean;
  #crawl = -1;
  #expected = new Map<number, Expected>();

  /** `format`: of the store. */
  constructor(crawls: readonly SummedCrawl[], format: number, onDamage: (what: string) => never) {
    for (const crawl of crawls) this.#crawls.set(crawl.id, crawl);
    this.#hasJournal = format >= 4;
    this.#onDamage = onDamage;
  }

  /** A row of `runs`: they come in order. */
  addRun(key: Buffer, value: Buffer): void {
    const parts = parseRunKey(key);
    if (parts === undefined) {
      this.#onDamage('a key of runs is cut');
      return;
    }
    const { crawl, run, bucket } = parts;
    if (this.#isOver(crawl)) return;
    if (crawl !== this.#crawl) this.#begin(crawl, run === 0 ? decodeManifest(value) : noRuns);
    if (run === 0) return;
    const expected = this.#expected.get(run);
    if (expected === undefined || bucket !== expected.next || bucket >= expected.end) {
      this.#miss(crawl);
      return;
    }
    expected.next++;
    this.#addKeys(crawl, expected, bucket, wordsOf(value));
  }

  /** A key of `seen`. */
  addKey(key: Buffer): void {
    if (key.length !== 20) this.#onDamage('a key of seen is cut');
    this.#sums.add(key.readUInt32BE(0), wordsOf(key.subarray(4)), 0);
  }

  /** A row of `recent`; all rows of `runs` have come. */
  addJournal(key: Buffer, value: Buffer): void {
    const crawl = key.readUInt32BE(0);
    const commit = key.length === 10 ? commitOf(key) : 0;
    if (!this.#hasJournal || commit === 0 || this.#isOver(crawl)) return;
    if (commit <= (this.#flushed.get(crawl) ?? 0)) return;
    const words = wordsOf(value);
    for (let at = 0; at < words.length; at += 4) this.#sums.add(crawl, words, at);
  }

  /** All rows of `runs` have come. */
  endRuns(): void {
    this.#end();
  }

  /** All rows have come. */
  end(): void {
    for (const crawl of this.#crawls.values()) {
      // Its keys may be being erased.
      if (crawl.state !== 'cancelled' && !this.#sums.areOf(crawl)) this.#miss(crawl.id);
    }
    for (const id of this.#sums.crawls) {
      if (!this.#crawls.has(id)) this.#onDamage(`crawl ${id} is missing`);
    }
  }

  #isOver(crawl: number): boolean {
    return this.#crawls.get(crawl)?.state === 'cancelled';
  }

  #begin(crawl: number, manifest: Manifest): void {
    this.#end();
    this.#crawl = crawl;
    this.#flushed.set(crawl, manifest.flushed);
    const { runs, merges, flush, upgrade } = manifest;
    const whole = { next: 0, first: 0, isCopy: false, count: 0 };
    for (const { id, keys, buckets } of runs) {
      this.#expected.set(id, { ...whole, keys, end: buckets, buckets });
    }
    for (const { sources, target, at } of merges) {
      const first = startOf(at, target.buckets);
      for (const { id, buckets } of sources) {
        const next = bucketOf(first, buckets);
        const moved = { next, first, end: buckets, buckets, keys: undefined };
        this.#expected.set(id, { ...whole, ...moved });
      }
      const made = { end: at, buckets: target.buckets, keys: undefined };
      this.#expected.set(target.id, { ...whole, ...made });
    }
    for (const made of [flush, upgrade]) {
      if (made === undefined) continue;
      const { run, at } = made;
      const rest = { end: at, buckets: run.buckets, keys: undefined, isCopy: made === flush };
      this.#expected.set(run.id, { ...whole, ...rest });
    }
  }

  /** All rows of a crawl have come. */
  #end(): void {
    for (const { next, end, keys, count } of this.#expected.values()) {
      if (next !== end || (keys !== undefined && count !== keys)) this.#miss(this.#crawl);
    }
    this.#expected = new Map();
  }

  #addKeys(crawl: number, expected: Expected, bucket: number, words: Uint32Array): void {
    const { buckets, first, isCopy } = expected;
    let last = 0;
    for (let at = 0; at < words.length; at += 4) {
      const own = firstOf(words[at] ?? 0);
      if (own < last || bucketOf(own, buckets) !== bucket) this.#miss(crawl);
      last = own;
      if (own < first) continue;
      expected.count++;
      if (!isCopy) this.#sums.add(crawl, words, at);
    }
  }

  #miss(crawl: number): never {
    const name = this.#crawls.get(crawl)?.name;
    if (name === undefined) this.#onDamage(`crawl ${crawl} is missing`);
    return this.#onDamage(`URLs that crawl ${name} has seen are missing or have changed`);
  }
}

/** The sums of the keys of each crawl. */
export class SeenSums {
  readonly #sums = new Map<number, { count: number; readonly words: Uint32Array }>();
  #crawl = -1;
  #sum: { count: number; readonly words: Uint32Array } | undefined;

  add(crawl: number, words: Uint32Array, at: number): void {
    if (crawl !== this.#crawl || this.#sum === undefined) {
      this.#crawl = crawl;
      this.#sum = this.#sums.get(crawl) ?? { count: 0, words: new Uint32Array(4) };
      this.#sums.set(crawl, this.#sum);
    }
    addToSum(this.#sum.words, words, at);
    this.#sum.count++;
  }

  forget(crawl: number): void {
    this.#sums.delete(crawl);
    this.#sum = undefined;
  }

  get crawls(): IterableIterator<number> {
    return this.#sums.keys();
  }

  of(crawl: number): { readonly count: number; readonly words: Uint32Array } {
    return this.#sums.get(crawl) ?? { count: 0, words: new Uint32Array(4) };
  }

  /** Do the keys of a crawl match its record? */
  areOf({ id, counters, seenSum }: SummedCrawl): boolean {
    const { count, words } = this.of(id);
    return count === counters.seen && words.every((word, i) => word === (seenSum[i] ?? 0));
  }
}

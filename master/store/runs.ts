/**
 * The rows of the seen set: *sorted runs* of fingerprints and a manifest of them, all in one table.
 * Random keys in a B-tree dirty a page each; the rows of a run are written in order, a page each
 * for some 224 keys.
 *
 *     crawl u32 | 0                      -> manifest
 *     crawl u32 | run u32 | bucket u32   -> fingerprints in order, 16 bytes each
 *
 * Order: by the first four bytes, big-endian; equal ones come in any order. A run of n keys has
 * ceil(n / 224) buckets, and bucket = floor(first four bytes * buckets / 2^32): fingerprints are
 * uniform, so that a run needs no index. Each bucket has its row, an empty one, too.
 *
 * A run whose keys are moved on keeps the rows that the move has not passed: `at` is the first
 * bucket of the target that is not written. So a key is in a source from the start of that bucket
 * on, and in the target before it. The row of a source that lies across holds keys of both sides.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import { crawlKey } from './records.ts';
import type { Change, Peeked } from './store.ts';

/** Keys of a bucket, on average: 254 fill a page of the store. */
const bucketKeys = 224;
/** A run of all keys, which `repair` or an upgrade makes, is of level 0 below three times so many, and
 *  so on. One that a master writes has half as many (`memory-shares`), or fewer with little memory. */
const levelKeys = 1 << 20;
export const mergeWidth = 3;
export const runKeyBytes = 12;
const wordsPerKey = 4;

export type Run = {
  readonly id: number;
  readonly level: number;
  readonly keys: number;
  readonly buckets: number;
};

/** Sources become the target; its buckets before `at` are written. */
export type Merge = { readonly sources: readonly Run[]; readonly target: Run; readonly at: number };

export type Manifest = {
  /** Number of the next run. */
  readonly next: number;
  /** Keys of commits up to this one are in runs; those of later ones are in `recent`. */
  readonly flushed: number;
  readonly runs: readonly Run[];
  readonly merges: readonly Merge[];
  /** Keys of commits after `flushed`, up to `to`, are becoming this run. */
  readonly flush?: { readonly run: Run; readonly at: number; readonly to: number };
  /** Keys of the table `seen`, where format 3 had them, are becoming this run. */
  readonly upgrade?: { readonly run: Run; readonly at: number };
};

export const noRuns: Manifest = { next: 1, flushed: 0, runs: [], merges: [] };

export function manifestKey(crawl: number): Buffer {
  return Buffer.concat([crawlKey(crawl), Buffer.alloc(4)]);
}

export const encodeManifest = (manifest: Manifest): Buffer => encodeValue(manifest);
export const decodeManifest = (value: Buffer): Manifest => decodeValue(value) as Manifest;

export function manifestChange(crawl: number, manifest: Manifest): Change {
  return { table: 'runs', key: manifestKey(crawl), value: encodeManifest(manifest) };
}

export const runKey = (crawl: number, run: number, bucket: number): Buffer =>
  runKeyInto(Buffer.allocUnsafe(runKeyBytes), crawl, run, bucket);

/** The same for a look-up, in a buffer of that length. */
export function runKeyInto(key: Buffer, crawl: number, run: number, bucket: number): Buffer {
  key.writeUInt32BE(crawl, 0);
  key.writeUInt32BE(run, 4);
  key.writeUInt32BE(bucket, 8);
  return key;
}

type RunKeyParts = { readonly crawl: number; readonly run: number; readonly bucket: number };

/** `run` 0: the manifest. Undefined: it is no key of the table. */
export function parseRunKey(key: Buffer): RunKeyParts | undefined {
  if (key.length === runKeyBytes - 4 && key.readUInt32BE(4) === 0) {
    return { crawl: key.readUInt32BE(0), run: 0, bucket: 0 };
  }
  if (key.length !== runKeyBytes) return undefined;
  const [crawl, run, bucket] = [0, 4, 8].map((at) => key.readUInt32BE(at));
  return { crawl: crawl ?? 0, run: run ?? 0, bucket: bucket ?? 0 };
}

export function bucketsFor(keys: number): number {
  return Math.max(1, Math.ceil(keys / bucketKeys));
}

/** The level of a run of so many keys that was not merged. */
export function levelFor(keys: number): number {
  return Math.max(0, Math.floor(Math.log(keys / levelKeys) / Math.log(mergeWidth) + 1e-9));
}

/** `first`: the first four bytes of a fingerprint, as a number. */
export function bucketOf(first: number, buckets: number): number {
  return Math.floor((first / 2 ** 32) * buckets);
}

/** The lowest first four bytes of a key in this bucket; 2^32 behind the last one. */
export function startOf(bucket: number, buckets: number): number {
  if (bucket >= buckets) return 2 ** 32;
  let start = Math.ceil((bucket / buckets) * 2 ** 32);
  // The quotient is rounded.
  while (start > 0 && bucketOf(start - 1, buckets) >= bucket) start--;
  while (bucketOf(start, buckets) < bucket) start++;
  return start;
}

/** The first four bytes of a fingerprint, of which `word` is the first word. */
export function firstOf(word: number): number {
  return ((word << 24) | ((word & 0xff00) << 8) | ((word >>> 8) & 0xff00) | (word >>> 24)) >>> 0;
}

/** Returns whether a row of a run has this fingerprint. */
export function hasKey({ bytes: row, length }: Peeked, words: Uint32Array, at: number): boolean {
  const first = firstOf(words[at] ?? 0);
  let low = 0;
  let high = length >>> 4;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (row.readUInt32BE(middle << 4) < first) low = middle + 1;
    else high = middle;
  }
  for (let i = low << 4; i < length && row.readUInt32BE(i) === first; i += 16) {
    if (
      row.readUInt32LE(i + 4) === words[at + 1] &&
      row.readUInt32LE(i + 8) === words[at + 2] &&
      row.readUInt32LE(i + 12) === words[at + 3]
    ) {
      return true;
    }
  }
  return false;
}

/** Words of the fingerprints in a row of so many bytes. */
const wordsIn = (bytes: number): number => (bytes >>> 4) * wordsPerKey;

/** Fingerprints as the words of the machine; the row's place in memory may be odd. */
export function wordsOf(row: Uint8Array): Uint32Array {
  return new Uint32Array(new Uint8Array(row).buffer, 0, wordsIn(row.length));
}

/** The same of a row in memory of the store, whose words are the first `count` of `words`: those
 *  of `into`, or others if it has too few. */
export function wordsInto(
  { bytes, length }: Peeked,
  into: Uint32Array,
): { readonly words: Uint32Array; readonly count: number } {
  const count = wordsIn(length);
  const words = count <= into.length ? into : new Uint32Array(count);
  new Uint8Array(words.buffer).set(bytes.subarray(0, count * 4));
  return { words, count };
}

/** A change that is a row. */
type BucketRow = Change & { readonly key: Buffer; readonly value: Buffer };

/** Writes a run bucket by bucket: keys come in order. */
export class RunWriter {
  readonly #crawl: number;
  readonly #run: Run;
  #at: number;
  #words = new Uint32Array(bucketKeys * 2 * wordsPerKey);
  #count = 0;

  constructor(crawl: number, run: Run, at = 0) {
    this.#crawl = crawl;
    this.#run = run;
    this.#at = at;
  }

  /** Buckets before this one are written. */
  get at(): number {
    return this.#at;
  }

  add(words: Uint32Array, at: number): void {
    if ((this.#count + 1) * wordsPerKey > this.#words.length) {
      const more = new Uint32Array(this.#words.length * 2);
      more.set(this.#words);
      this.#words = more;
    }
    const to = this.#count++ * wordsPerKey;
    for (let i = 0; i < wordsPerKey; i++) this.#words[to + i] = words[at + i] ?? 0;
  }

  /** All keys of the next bucket have come: returns its row. */
  row(): BucketRow {
    const value = Buffer.allocUnsafe(this.#count * 16);
    value.set(new Uint8Array(this.#words.buffer, 0, value.length));
    this.#count = 0;
    return { table: 'runs', key: runKey(this.#crawl, this.#run.id, this.#at++), value };
  }

  /** The rows of buckets before that of `first`, the first four bytes of the next key. */
  *rowsBefore(first: number): Generator<BucketRow> {
    const bucket = first >= 2 ** 32 ? this.#run.buckets : bucketOf(first, this.#run.buckets);
    while (this.#at < bucket) yield this.row();
  }
}

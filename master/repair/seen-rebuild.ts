/**
 * The seen URLs of all crawls of a store that is repaired: fingerprints from all rows that can be
 * read, and of names that were found elsewhere; then rows for the new store.
 */
import { type CrawlRecord, commitOf, fingerprintKey } from '../store/records.ts';
import {
  bucketsFor,
  encodeManifest,
  firstOf,
  levelFor,
  manifestKey,
  noRuns,
  parseRunKey,
  RunWriter,
} from '../store/runs.ts';
import type { Table } from '../store/store.ts';
import { SeenSums } from './seen-check.ts';
import { SeenKeys } from './seen-keys.ts';

/** Where fingerprints are, in any format. */
export const seenTables = ['runs', 'seen', 'recent'] as const satisfies readonly Table[];
/** From this format on they are in runs. */
const runsFormat = 4;

type NewRow = { readonly table: Table; readonly key: Buffer; readonly value: Buffer };

export class SeenRebuild {
  readonly #keys = new Map<number, SeenKeys>();
  readonly #sums = new SeenSums();

  /** A row of one of these tables. */
  add(table: (typeof seenTables)[number], key: Buffer, value: Buffer): void {
    const keys = this.#keysOf(key.readUInt32BE(0));
    if (table === 'seen') keys.addAll(key, 4);
    // Run 0 is the manifest, and commit 0 is of the Bloom filter.
    else if (table === 'runs') {
      if ((parseRunKey(key)?.run ?? 0) > 0) keys.addAll(value);
    } else if (key.length === 10 && commitOf(key) > 0) keys.addAll(value);
  }

  addKey({ id }: CrawlRecord, words: Uint32Array): void {
    this.#keysOf(id).add(words);
  }

  /** Counts the keys of a crawl. Returns whether they are those of its record. */
  sum(crawl: CrawlRecord): boolean {
    this.#sums.forget(crawl.id);
    for (const words of this.#keysOf(crawl.id).sorted()) {
      for (let at = 0; at < words.length; at += 4) this.#sums.add(crawl.id, words, at);
    }
    return this.#sums.areOf(crawl);
  }

  /** As they were counted last. */
  of({ id }: CrawlRecord): { readonly count: number; readonly words: Uint32Array } {
    return this.#sums.of(id);
  }

  /** The rows of a crawl, whose keys are forgotten: one run, or as the format has them. */
  *rows({ id, nextCommit }: CrawlRecord, format: number): Generator<NewRow> {
    const found = this.#keysOf(id);
    this.#keys.delete(id);
    const keys = found.count();
    if (keys === 0) return;
    if (format < runsFormat) {
      for (const words of found.sorted()) {
        for (let at = 0; at < words.length; at += 4) {
          yield { table: 'seen', key: fingerprintKey(id, words, at), value: Buffer.alloc(0) };
        }
      }
      return;
    }
    const run = { id: 1, level: levelFor(keys), keys, buckets: bucketsFor(keys) };
    const writer = new RunWriter(id, run);
    for (const words of found.sorted()) {
      for (let at = 0; at < words.length; at += 4) {
        yield* writer.rowsBefore(firstOf(words[at] ?? 0));
        writer.add(words, at);
      }
    }
    yield* writer.rowsBefore(2 ** 32);
    const manifest = { ...noRuns, next: 2, flushed: nextCommit - 1, runs: [run] };
    yield { table: 'runs', key: manifestKey(id), value: encodeManifest(manifest) };
  }

  #keysOf(crawl: number): SeenKeys {
    let keys = this.#keys.get(crawl);
    if (keys === undefined) {
      keys = new SeenKeys();
      this.#keys.set(crawl, keys);
    }
    return keys;
  }
}

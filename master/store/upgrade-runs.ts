/**
 * From format 3 to 4: the fingerprints of a crawl, a row of `seen` each, become a sorted run. A
 * store may have a hundred million of them, so they go a batch a commit. The first commit, which
 * makes the store one of format 4, puts on record what is to be moved; a start goes on from there.
 */
import { crawlKey, decodeCrawl } from './records.ts';
import {
  bucketsFor,
  decodeManifest,
  levelFor,
  type Manifest,
  manifestChange,
  manifestKey,
  noRuns,
  RunWriter,
} from './runs.ts';
import { batches, type Change, type Row, type Store } from './store.ts';

/** In `meta` while there are keys to be moved. */
const upgradingKey = Buffer.from('upgrading');
/** Keys of one commit. */
const batchKeys = 100_000;
/** Keys, or records of crawls, that are read at once. */
const readKeys = 4_096;
const readCrawls = 256;

const nothing = Buffer.alloc(0);

/** The changes that begin it. A cancelled crawl's keys are being erased. */
export function beginRuns(store: Store): Change[] {
  const changes: Change[] = [{ table: 'meta', key: upgradingKey, value: nothing }];
  for (const { value } of crawlRows(store)) {
    const { id, state, nextCommit, counters } = decodeCrawl(value);
    const keys = counters?.seen ?? 0;
    if (state === 'cancelled' || keys === 0) continue;
    const run = { id: 1, level: levelFor(keys), keys, buckets: bucketsFor(keys) };
    const manifest = { ...noRuns, next: 2, flushed: nextCommit - 1, upgrade: { run, at: 0 } };
    changes.push(manifestChange(id, manifest));
  }
  return changes;
}

/** Moves what is left to be moved, `keysMax` keys and some in a commit. @throws StoreError (as
 *  rejection) what was moved is on record */
export async function endRuns(store: Store, keysMax = batchKeys): Promise<void> {
  if (!store.has('meta', upgradingKey)) return;
  for (const { key, value } of crawlRows(store)) {
    const { id, state } = decodeCrawl(value);
    const row = store.get('runs', manifestKey(key.readUInt32BE(0)));
    if (row !== undefined && state !== 'cancelled')
      await moveKeys(store, id, decodeManifest(row), keysMax);
  }
  await store.commit([{ table: 'meta', key: upgradingKey, value: undefined }]);
}

async function moveKeys(
  store: Store,
  crawl: number,
  manifest: Manifest,
  keysMax: number,
): Promise<void> {
  const { upgrade, ...rest } = manifest;
  if (upgrade === undefined) return;
  const { run } = upgrade;
  const writer = new RunWriter(crawl, run, upgrade.at);
  const words = new Uint32Array(4);
  let changes: Change[] = [];
  /** Keys of the bucket at hand: they go when it is written. */
  let moved: Change[] = [];
  const write = (first: number) => {
    for (const row of writer.rowsBefore(first)) {
      changes.push(...moved, row);
      moved = [];
    }
  };
  for (const keys of keysOf(store, crawl, Math.min(keysMax, readKeys))) {
    for (const key of keys) {
      write(key.readUInt32BE(4));
      for (let i = 0; i < 4; i++) words[i] = key.readUInt32LE(4 + i * 4);
      writer.add(words, 0);
      moved.push({ table: 'seen', key, value: undefined });
    }
    if (changes.length < keysMax) continue;
    const upgraded = { ...rest, upgrade: { run, at: writer.at } };
    await store.commit([...changes, manifestChange(crawl, upgraded)]);
    changes = [];
  }
  write(2 ** 32);
  changes.push(manifestChange(crawl, { ...rest, runs: [run] }));
  await store.commit(changes);
}

/** The keys of a crawl in `seen`, some at a time. */
function* keysOf(store: Store, crawl: number, limit: number): Generator<Buffer[]> {
  const to = crawlKey(crawl + 1);
  for (let range = { from: crawlKey(crawl), to, limit, after: false }; ; ) {
    const keys = store.keys('seen', range);
    const last = keys.at(-1);
    if (last === undefined) return;
    yield keys;
    range = { ...range, from: last, after: true };
  }
}

function* crawlRows(store: Store): Generator<Row> {
  const all = { from: crawlKey(0), to: Buffer.alloc(8, 0xff) };
  for (const rows of batches(store, 'crawls', all, readCrawls)) yield* rows;
}

/**
 * Adds keys to a seen set over a real store until it is killed: `node seen-child.js <folder> <seed>
 * <keys of a commit> <keys of a run>`. It goes on from what is in the store, with two commits under
 * way like a master, and writes the number of each commit that is on the disk to descriptor 3.
 */
import { writeSync } from 'node:fs';
import { SeenSet } from '../../master/frontier/filter/seen-set.ts';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import {
  type CrawlRecord,
  crawlKey,
  decodeCrawl,
  encodeCrawl,
} from '../../master/store/records.ts';
import { addToSum } from '../../master/store/sums.ts';
import { randomWords } from './random.ts';

/** The keys of a commit are the same in every run. */
export function keysOfCommit(seed: number, commit: number, count: number): Uint32Array {
  return randomWords(count, seed * 100_000 + commit);
}

async function main([folder = '', ...numbers]: readonly string[]): Promise<void> {
  const [seed = 1, keys = 100, freezeKeys = 1_000] = numbers.map(Number);
  const store = await openLmdbStore(folder);
  const row = store.get('crawls', crawlKey(1));
  const kept = row && decodeCrawl(row);
  const seenSum = new Uint32Array(kept?.seenSum ?? [0, 0, 0, 0]);
  let seen = kept?.counters.seen ?? 0;
  const set = new SeenSet({ crawl: 1, store, freezeKeys, saved: 0, visit: () => {} });
  const record = () =>
    encodeCrawl({
      id: 1,
      name: 'c',
      state: 'running',
      seenSum: [...seenSum],
      counters: { seen },
    } as unknown as CrawlRecord);
  const ended: Promise<void>[] = [];
  for (let commit = (kept?.counters.seen ?? 0) / keys + 1; ; commit++) {
    const words = keysOfCommit(seed, commit, keys);
    for (let at = 0; at < words.length; at += 4) {
      set.add(words, at);
      addToSum(seenSum, words, at);
    }
    seen += keys;
    set.saved(commit - 5);
    const changes = set.changes(commit);
    const done = set.seal();
    changes.push({ table: 'crawls', key: crawlKey(1), value: record() });
    ended.push(
      store.commit(changes).then(() => {
        done?.();
        writeSync(3, `${commit}\n`);
      }),
    );
    if (ended.length > 1) await ended.shift();
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) await main(process.argv.slice(2));

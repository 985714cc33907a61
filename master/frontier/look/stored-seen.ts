/** Whether fingerprints are among those that a crawl has admitted, by the store alone. */
import { commitKey, crawlKey, fingerprintKey } from '../../store/records.ts';
import { bucketOf, firstOf, hasKey, type Run, runKey, wordsOf } from '../../store/runs.ts';
import { batches, type Rows } from '../../store/store.ts';
import { manifestOf } from '../filter/seen-set.ts';

/** Journal rows that are read at once. */
const journalRows = 8;

/** Returns for each of these fingerprints whether the crawl has it. Those that wait for a run are
 *  searched in the journal, once for all: some 10 ms for a million. */
export function storedSeen(store: Rows, crawl: number, names: readonly Uint32Array[]): boolean[] {
  const { flushed, runs, merges, upgrade } = manifestOf(store, crawl);
  const all = [...runs, ...merges.flatMap(({ sources, target }) => [...sources, target])];
  if (upgrade !== undefined) all.push(upgrade.run);
  const found = names.map((words) => {
    if (upgrade !== undefined && store.has('seen', fingerprintKey(crawl, words, 0))) return true;
    return all.some((run) => hasRow(store, crawl, run, words));
  });
  const range = { from: commitKey(crawl, flushed + 1), to: crawlKey(crawl + 1) };
  for (const rows of batches(store, 'recent', range, journalRows)) {
    for (const { value } of rows) {
      const keys = wordsOf(value);
      names.forEach((words, i) => {
        found[i] ||= isIn(keys, words);
      });
    }
  }
  return found;
}

function hasRow(store: Rows, crawl: number, run: Run, words: Uint32Array): boolean {
  const bucket = bucketOf(firstOf(words[0] ?? 0), run.buckets);
  const row = store.peek('runs', runKey(crawl, run.id, bucket));
  return row !== undefined && hasKey(row, words, 0);
}

function isIn(keys: Uint32Array, words: Uint32Array): boolean {
  for (let at = 0; at < keys.length; at += 4) {
    if (
      keys[at] === words[0] &&
      keys[at + 1] === words[1] &&
      keys[at + 2] === words[2] &&
      keys[at + 3] === words[3]
    ) {
      return true;
    }
  }
  return false;
}

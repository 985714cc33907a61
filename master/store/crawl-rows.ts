/**
 * The record of a crawl, twice. The one in `crawls` is part of each commit of the crawl. The spare
 * one is as old as some commits: it is on a page of its own, so that a page which the disk loses
 * takes one of them at most. `repair` uses it, and counts by the lines what it can.
 */
import { afterPrefix, type CrawlRecord, crawlKey, encodeCrawl } from './records.ts';
import { batches, type Change, type Store } from './store.ts';

/** A spare record is at most so many commits old. */
const spareEvery = 256;
const recordsRead = 100;

/** Both: of a crawl whose state or options have changed. */
export function crawlRows(record: CrawlRecord): Change[] {
  const [key, value] = [crawlKey(record.id), encodeCrawl(record)];
  return [
    { table: 'crawls', key, value },
    { table: 'spares', key, value },
  ];
}

/** With a commit of the crawl, its first included. */
export function crawlRowsAt(commit: number, record: CrawlRecord): Change[] {
  const rows = crawlRows(record);
  return commit % spareEvery === 1 ? rows : rows.slice(0, 1);
}

/** Earlier versions had no spare records. */
export async function makeSpares(store: Store): Promise<void> {
  const all = { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) };
  for (const rows of batches(store, 'crawls', all, recordsRead)) {
    const without = rows.filter(({ key }) => !store.has('spares', key));
    await store.commit(without.map(({ key, value }) => ({ table: 'spares', key, value })));
  }
}

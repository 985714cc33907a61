/**
 * The records of crawls in a damaged store. Where they are lost there are the spare ones, which are
 * some commits older, on another page.
 */
import { type CrawlRecord, decodeCrawl } from '../store/records.ts';
import type { Salvage } from './salvage.ts';

type SavedCrawls = {
  readonly crawls: Map<number, CrawlRecord>;
  /** Their records are of another moment than their other rows. */
  readonly old: ReadonlySet<number>;
  /** The highest number of a removed crawl, of which nothing else is wanted. */
  readonly lastRemoved: number;
  /** How many records there were; undefined: unknown. */
  readonly of: number | undefined;
};

export function savedCrawls(salvage: Salvage): SavedCrawls {
  const crawls = new Map<number, CrawlRecord>();
  const removed = new Set<number>();
  const old = new Set<number>();
  const read = (table: 'crawls' | 'spares', mark: (id: number) => void) =>
    salvage.table(table, (_key, value) => {
      // A copy: the secret would go on pointing into the page.
      const record = decodeCrawl(Buffer.from(value));
      if (crawls.has(record.id) || removed.has(record.id)) return;
      if (record.removal === 'erasing') {
        removed.add(record.id);
        return;
      }
      crawls.set(record.id, record);
      mark(record.id);
    });
  const found = read('crawls', () => {});
  if (found.isMixed) for (const id of crawls.keys()) old.add(id);
  const spares = found.damage.length > 0 ? read('spares', (id) => old.add(id)) : undefined;
  return { crawls, old, lastRemoved: Math.max(0, ...removed), of: found.of ?? spares?.of };
}

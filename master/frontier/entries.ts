/** What each kind of entry of the filter queue does to the commit that takes it. */
import type { Gathering } from './gathering.ts';
import type { Entry } from './inbox.ts';
import type { Offers } from './offers.ts';

/** Does one entry; gives the answer for when it is on the disk. */
export function handle(
  entry: Entry,
  gathering: Gathering,
  offers: Offers,
  now: number,
): () => void {
  switch (entry.kind) {
    case 'report': {
      const { task, report, links, slave } = entry;
      const isTaken = gathering.report(task, report, { before: links.total, slave }, now);
      return () => entry.done(isTaken ? 'done' : 'stale');
    }
    case 'links':
      entry.links.total += gathering.links(entry.part, entry.task, now);
      return () => {};
    case 'failure': {
      gathering.failure(entry.failure, now);
      return () => entry.done('done');
    }
    case 'offer':
      gathering.offer(entry.offer, now);
      return entry.done;
    case 'sitemap':
      gathering.sitemap(entry.task, entry.part, entry.slave, now);
      return () => entry.done('done');
    case 'sitemaps':
      gathering.sitemaps(entry.urls, entry.level);
      return () => {};
    case 'excluded':
      gathering.excluded(entry.task, now);
      return entry.done;
    case 'seeds': {
      const verdict = offers.seeds(gathering, entry.urls, entry.priority);
      return () => entry.done(verdict);
    }
    case 'again': {
      const verdict = offers.again(gathering, entry.urls);
      return () => entry.done(verdict);
    }
    case 'replay':
      offers.replay(gathering, entry.rows);
      return entry.done;
    default:
      return entry satisfies never;
  }
}

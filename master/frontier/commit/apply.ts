/** What each kind of entry of the filter queue does to the commit that takes it, and is told. */
import type { Gathering } from './commit-batch.ts';
import type { Entry } from './entry.ts';

import type { Endings } from './outcomes.ts';
import type { Offers } from './seeding.ts';

/** Does one entry; gives the answer for when it is on the disk. */
export function handle(
  entry: Entry,
  gathering: Gathering,
  { endings, offers }: { readonly endings: Endings; readonly offers: Offers },
  now: number,
): () => void {
  switch (entry.kind) {
    case 'report': {
      const { task, report, links, slave } = entry;
      const source = { before: links.total, slave };
      const isTaken = endings.report(gathering, task, report, source, now);
      return () => entry.done(isTaken ? 'done' : 'stale');
    }
    case 'links':
      entry.links.total += gathering.links(entry.part, entry.task, now);
      return () => {};
    case 'failure': {
      endings.failure(gathering, entry.failure, now);
      return () => entry.done('done');
    }
    case 'offer':
      gathering.offer(entry.offer, now);
      return entry.done;
    case 'sitemap':
      endings.sitemap(gathering, entry.task, entry.part, entry.slave, now);
      return () => entry.done('done');
    case 'sitemaps':
      gathering.sitemaps(entry.urls, entry.level);
      return () => {};
    case 'excluded':
      endings.excluded(gathering, entry.task, now);
      return entry.done;
    case 'seeds': {
      const verdict = offers.seeds(gathering, entry.urls, entry.priority, entry.found);
      return () => entry.done(verdict);
    }
    case 'again': {
      const verdict = offers.again(gathering, entry.urls, entry.found);
      return () => entry.done(verdict);
    }
    case 'replay':
      offers.replay(gathering, entry.rows);
      return entry.done;
    default:
      return entry satisfies never;
  }
}

/** The answer to what came for a crawl that is cancelled: nothing of it was done. */
export function answerCancelled(entry: Entry): void {
  switch (entry.kind) {
    case 'seeds':
      entry.done({ admitted: 0, known: 0, refused: [] });
      return;
    case 'again':
      entry.done({ admitted: 0, known: 0, refused: 0 });
      return;
    case 'offer':
    case 'replay':
    case 'excluded':
      entry.done();
      return;
    case 'links':
    case 'sitemaps':
      return;
    default:
      entry.done('stale');
  }
}

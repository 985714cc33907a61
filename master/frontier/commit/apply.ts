/** The effect of each kind of filter queue entry on its commit, and its answer. */
import { scheduleKey } from '../../store/records.ts';
import { admitSitemaps } from '../kinds/sitemap.ts';
import type { CommitBatch } from './commit-batch.ts';
import type { Entry } from './entry.ts';
import type { Outcomes } from './outcomes.ts';
import type { Seeding } from './seeding.ts';

/** Applies one entry; returns the answer to send when it is on the disk. It does not keep the entry
 *  until then: its links are bytes of what was read from a socket. */
export function handle(
  entry: Entry,
  batch: CommitBatch,
  { outcomes, offers }: { readonly outcomes: Outcomes; readonly offers: Seeding },
  now: number,
): () => void {
  if (entry.archived !== undefined) batch.archived(entry.archived);
  switch (entry.kind) {
    case 'report': {
      const { task, report, links, slave, done } = entry;
      const source = { before: links.total, slave, at: now };
      const isTaken = outcomes.report(batch, task, report, source);
      return () => done(isTaken ? 'done' : 'stale');
    }
    case 'links':
      entry.links.total += batch.links(entry.part, entry.from, now);
      return () => {};
    case 'failure': {
      const { failure, done } = entry;
      outcomes.failure(batch, failure, now);
      return () => done('done');
    }
    case 'offer':
      batch.offer(entry.offer, now);
      return entry.done;
    case 'sitemap': {
      const { task, part, slave, done } = entry;
      outcomes.part(batch, task, part, { slave, at: now });
      return () => done('done');
    }
    case 'image': {
      const { task, picture, slave, done } = entry;
      const isTaken = outcomes.picture(batch, task, picture, { slave, at: now });
      return () => done(isTaken ? 'done' : 'stale');
    }
    case 'sitemaps':
      admitSitemaps(batch, entry.urls, entry.level);
      return () => {};
    case 'excluded':
      outcomes.excluded(batch, entry.task, entry.excluded, now);
      return entry.done;
    case 'seeds': {
      const { schedule: value, done } = entry;
      const verdict = offers.seeds(batch, entry, entry.found);
      if (value !== undefined) {
        batch.also([{ table: 'meta', key: scheduleKey(batch.crawl.id), value }]);
      }
      return () => done(verdict);
    }
    case 'again': {
      const { done } = entry;
      const verdict = offers.again(batch, entry.urls, entry.found);
      if (entry.also !== undefined) batch.also(entry.also(batch.crawl.id));
      return () => done(verdict);
    }
    case 'replay':
      offers.replay(batch, entry.rows);
      return entry.done;
    case 'archived':
      return () => {};
    default:
      return entry satisfies never;
  }
}

/** Answers an entry of a cancelled crawl, which had no effect. */
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
    case 'archived':
      return;
    default:
      entry.done('stale');
  }
}

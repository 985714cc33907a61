/**
 * What the master is told of a task when its fetch has ended: pure, from outcomes to requests.
 * Source: PROTOCOL.md [T-11] [T-17] [T-20].
 */
import type { TaskPush } from '../shared/protocol.ts';
import type { Requests } from '../shared/requests.ts';
import type { FailedOutcome, FetchOutcome, SitemapOutcome } from './fetch/outcome.ts';
import type { RobotsOutcome } from './fetch/robots-file.ts';
import { partsOf } from './fetch/sitemap-body.ts';

type Of<V extends 'task.report' | 'task.robots' | 'task.sitemap' | 'task.release'> = {
  readonly verb: V;
  readonly body: Omit<Requests[V], 'verb' | 'id'>;
};

export type Statement =
  | Of<'task.report'>
  | Of<'task.robots'>
  | Of<'task.sitemap'>
  | Of<'task.release'>;

type Held = Pick<TaskPush, 'task' | 'lease'>;

/** URLs, or images, of one part of a sitemap: a part of what a commit of the master's gathers. */
const sitemapPartBytes = 128 << 10;

export function ofPage({ task, lease }: Held, outcome: FetchOutcome): Statement[] {
  if (!outcome.ok) return [ofFailure({ task, lease }, outcome)];
  const { result, images, links } = outcome;
  return [{ verb: 'task.report', body: { task, lease, result, images, links } }];
}

export function ofRobots({ task, lease }: Held, outcome: RobotsOutcome): Statement[] {
  if (!outcome.ok) return [ofFailure({ task, lease }, outcome)];
  const { ok: _, ...file } = outcome;
  return [{ verb: 'task.robots', body: { task, lease, ...file } }];
}

/** In parts, so that no commit of the master's takes long; until the last one is there the task is
 *  open, and whoever fetches it again says the same. */
export function ofSitemap({ task, lease }: Held, outcome: SitemapOutcome): Statement[] {
  if (!outcome.ok) return [ofFailure({ task, lease }, outcome)];
  const { result, sitemap } = outcome;
  const { kind, urls, images } = sitemap;
  const end = { result, urls: urls.length, images: images.length };
  return partsOf(sitemap, sitemapPartBytes).map((part, i, { length }) => ({
    verb: 'task.sitemap',
    body: { task, lease, kind, ...part, ...(i === length - 1 && { end }) },
  }));
}

export function ofFailure({ task, lease }: Held, failed: FailedOutcome): Statement {
  const { error, retryAfterMs, isPutOff, isFinal } = failed;
  const more = { ...(retryAfterMs ? { retryAfterMs } : {}), ...(isFinal ? { final: true } : {}) };
  const why = isPutOff ? {} : { error, ...more };
  return { verb: 'task.release', body: { task, lease, ...why } };
}

/** About what it holds in memory. */
export function bytesOf(statement: Statement): number {
  switch (statement.verb) {
    case 'task.release':
      return 256;
    case 'task.robots':
      return statement.body.body.length + 256;
    case 'task.sitemap':
      return statement.body.urls.length + statement.body.images.length + 512;
    case 'task.report': {
      const { links, images } = statement.body;
      let bytes = links.length + images.length * 128 + 512;
      for (const { src, alt } of images) bytes += src.length + (alt?.length ?? 0);
      return bytes;
    }
    default:
      return statement satisfies never;
  }
}

/**
 * How tasks end: finds what a report, a failure, a part of a sitemap or a verdict of robots.txt
 * means to a task of its kind, and has it done to the batch of the commit. Failures that may be
 * tried again are the same for all kinds. `apply` calls it.
 */
import assert from 'node:assert/strict';
import { clockMs } from '../../machine/clock.ts';
import type { Unfetched } from '../../store/result-rows.ts';
import type { Told } from '../kinds/kind.ts';
import { crawlKindOf } from '../kinds/kinds.ts';
import type { Task } from '../tasks/tasks.ts';
import type { CommitBatch } from './commit-batch.ts';
import type { EarlierPages } from './earlier-pages.ts';
import type { Failure, Picture, Report, SitemapPart } from './entry.ts';
import type { Pictures } from './pictures.ts';

export class Outcomes {
  readonly #earlier: EarlierPages;
  readonly #pictures: Pictures;

  constructor(earlier: EarlierPages, pictures: Pictures) {
    this.#earlier = earlier;
    this.#pictures = pictures;
  }

  /** A fetched task. `before`: how many links of it were taken in earlier commits. False: the
   *  report is not taken, and its task waits again. */
  report(
    batch: CommitBatch,
    task: Task,
    report: Report,
    source: Told & { readonly before: number },
  ): boolean {
    const kind = crawlKindOf(task);
    assert.ok(kind.answeredBy === 'task.report');
    const parts = { earlier: this.#earlier, pictures: this.#pictures };
    return kind.report(batch, task, report, { ...source, ...parts });
  }

  /** A failed fetch: again at `retryAt`; the end if there is none, or it has failed too often. */
  failure(batch: CommitBatch, failure: Failure, at: number): void {
    const { task, error, retryAt, slave, attempts = task.attempts + 1 } = failure;
    if (retryAt !== undefined && attempts < batch.crawl.spec.attemptsMax) {
      batch.retry(task, { attempts, notBefore: retryAt }, error, at);
      batch.crawl.books.tried(error, task.url, retryAt - clockMs());
    } else crawlKindOf(task).fail(batch, task, { error, attempts, slave, at });
  }

  /** A URL that is left out without being fetched. */
  excluded(batch: CommitBatch, task: Task, excluded: Unfetched, at: number): void {
    crawlKindOf(task).exclude(batch, task, { excluded, at });
  }

  /** A part of a fetched sitemap. */
  part(batch: CommitBatch, task: Task, part: SitemapPart, source: Told): void {
    const kind = crawlKindOf(task);
    assert.ok(kind.answeredBy === 'task.sitemap');
    kind.part(batch, task, part, source);
  }

  /** A fetched image. False: it is not taken, and its task waits again. */
  picture(batch: CommitBatch, task: Task, picture: Picture, source: Told): boolean {
    const kind = crawlKindOf(task);
    assert.ok(kind.answeredBy === 'task.image');
    return kind.picture(batch, task, picture, { ...source, pictures: this.#pictures });
  }
}

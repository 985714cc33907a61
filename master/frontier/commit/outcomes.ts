/**
 * How tasks end: what a report, a failure, a part of a sitemap or a verdict of robots.txt makes of
 * its task. Decides under which name a page counts, whether it is one at all, and what its line
 * says; the changes go to the batch of the commit. The frontier calls it.
 */
import type { Result } from '../../../shared/requests.ts';
import { parseCanonical } from '../../../shared/url.ts';
import { pageName, preferredUrl } from '../filter/seen-names.ts';
import type { Task } from '../tasks/tasks.ts';
import type { CommitBatch } from './commit-batch.ts';
import { type EarlierPages, type Finding, isUnchanged } from './earlier-pages.ts';
import type { Failure, Report, SitemapPart } from './entry.ts';

import { withHttpImages } from './image-addresses.ts';
import {
  type Exclusion,
  excludedLine,
  failureLine,
  isPage,
  resultLine,
  sitemapLine,
} from './result-lines.ts';
import { guessedLevel, levelBelow, mayName } from './sitemaps.ts';

export class Outcomes {
  readonly #earlier: EarlierPages;

  constructor(earlier: EarlierPages) {
    this.#earlier = earlier;
  }

  /** A fetched task: its line, its images, its links; the task is gone. `before`: how many links of
   *  it were taken in earlier commits. A page over the page limit (from a slave whose lease was
   *  over) is not taken: false, and its task waits again. */
  report(
    batch: CommitBatch,
    task: Task,
    report: Report,
    { before, slave }: { readonly before: number; readonly slave: string },
    at: number,
  ): boolean {
    const { crawl } = batch;
    const unchanged = isUnchanged(report.result);
    const found: Finding = withHttpImages(
      unchanged ? this.#earlier.carryOver(crawl, task, report) : report,
    );
    const { result, images } = found;
    if (crawl.isFull && isPage(result)) {
      batch.release(task);
      return false;
    }
    const moved = result.finalUrl !== task.url && !takeFinalUrl(batch, result.finalUrl);
    const excluded = moved ? undefined : exclusionOf(batch, task, result);
    const page = isPage(result) && !moved && excluded === undefined;
    const counted = before + batch.links(report.links, task, at);
    const links = found.linkCount ?? counted;
    // A page of a known name may show other images than the one that was written.
    if (page || excluded === 'canonical') batch.images(images.map(({ src }) => src));
    batch.write(resultLine({ task, result, images, links, moved, excluded, slave, at }));
    const { books } = crawl;
    if (page) books.page({ unchanged });
    else if (excluded !== undefined) books.excluded();
    else if (result.error) books.failed(result.error.kind);
    else books.other();
    books.received(report.result.bytes);
    batch.remove(task);
    return true;
  }

  /** A failed fetch: again at `retryAt`; buried if there is none, or it has failed too often. */
  failure(batch: CommitBatch, failure: Failure, at: number): void {
    const { task, error, retryAt, slave, attempts = task.attempts + 1 } = failure;
    if (retryAt !== undefined && attempts < batch.crawl.spec.attemptsMax) {
      batch.retry(task, { attempts, notBefore: retryAt }, at);
      return;
    }
    const line = failureLine({ task, error, attempts, slave, at });
    if (task.kind === 'sitemap') {
      endSitemap(batch, task, line);
      return;
    }
    batch.bury(task, error, attempts);
    batch.write(line);
    batch.remove(task);
  }

  /** A URL that is left out without being fetched. */
  excluded(batch: CommitBatch, task: Task, at: number): void {
    if (isGuess(task)) {
      endSitemap(batch, task, undefined);
      return;
    }
    batch.write(excludedLine({ task, excluded: 'robots', at }));
    batch.crawl.books.excluded();
    batch.remove(task);
  }

  /** A part of a fetched sitemap: what it lists; with the last one the task is gone. */
  sitemap(batch: CommitBatch, task: Task, part: SitemapPart, slave: string, at: number): void {
    const { kind, urls, images, end } = part;
    if (kind === 'index') {
      takeSitemaps(batch, task, Buffer.from(urls).toString('latin1').split('\n'));
    } else batch.links(urls, task, at);
    if (images.length > 0) batch.images(Buffer.from(images).toString('latin1').split('\n'));
    if (end === undefined) return;
    const { redirectedTo, bytes } = end.result;
    if (redirectedTo !== undefined) takeSitemaps(batch, task, [redirectedTo], true);
    batch.crawl.books.received(bytes);
    const isMissing = kind === 'none' && isGuess(task);
    const line = { task, result: end.result, kind, urls: end.urls, images: end.images, slave, at };
    endSitemap(batch, task, isMissing ? undefined : sitemapLine(line));
  }
}

/** A page's final URL, where it differs from the task's: true when it is new and now taken, so that
 *  the page counts under it. */
function takeFinalUrl(batch: CommitBatch, finalUrl: string): boolean {
  const { crawl } = batch;
  const url = parseCanonical(finalUrl);
  if (url === undefined || crawl.scope.refuses(url) || !batch.take(finalUrl)) return false;
  crawl.books.named();
  return true;
}

/** Why an answer is no result, if it is none; a page takes its name. */
function exclusionOf(batch: CommitBatch, task: Task, result: Result): Exclusion | undefined {
  const { spec } = batch.crawl;
  if (result.error !== undefined || result.redirectedTo !== undefined) return undefined;
  const isNoindex = result.directives?.includes('noindex') === true;
  if (isNoindex && spec.fetch.obey.includes('noindex')) return 'noindex';
  if (!spec.canonical || !isPage(result)) return undefined;
  return takePageName(batch, task, result) ? undefined : 'canonical';
}

/** A page is named by its canonical URL if that is of the page's own site and in scope, else by its
 *  final URL: no site can take the names of another's pages, whatever a slave reports. The name is
 *  taken by the first page that has it, not by being seen: a canonical URL that is waiting may be
 *  broken, or name this page in turn, and then neither would be written. */
function takePageName(batch: CommitBatch, task: Task, result: Result): boolean {
  const url = preferredUrl(task, result);
  const isNamed = url !== undefined && !batch.crawl.scope.refuses(url);
  return batch.take(pageName(isNamed ? url.href : result.finalUrl));
}

/** Those that a sitemap itself leads to. */
function takeSitemaps(
  batch: CommitBatch,
  task: Task,
  texts: readonly string[],
  isRedirect = false,
): void {
  const level = levelBelow(task, isRedirect);
  if (level === undefined) return;
  const urls = texts.filter((text) => {
    const url = parseCanonical(text);
    return url !== undefined && mayName(batch.crawl, task, url);
  });
  batch.sitemaps(urls, level, task);
}

/** Without a line it is as if it had never been known. */
function endSitemap(batch: CommitBatch, task: Task, line: string | undefined): void {
  const { books } = batch.crawl;
  if (line === undefined) books.forgotten();
  else books.other();
  batch.write(line ?? '');
  batch.remove(task);
}

function isGuess({ kind, level }: Task): boolean {
  return kind === 'sitemap' && level === guessedLevel;
}

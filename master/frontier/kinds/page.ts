/**
 * A page: what seeds and links lead to. A report of it decides under which name it counts, whether
 * it is a page at all, and what its line says. Alone of all kinds it counts towards `--max-pages`,
 * may have a record of an earlier crawl, and is buried when it is given up.
 * Source: PROTOCOL.md [T-5] [T-15] [T-19].
 */
import { hostLiteralAddress } from '../../../shared/address.ts';
import { isDataType } from '../../../shared/media-types.ts';
import { errorText } from '../../../shared/protocol.ts';
import type { FetchErrorBody, Result } from '../../../shared/requests.ts';
import { parseCanonical } from '../../../shared/url.ts';
import { pageKind } from '../../store/records.ts';
import type { Exclusion, Unfetched } from '../../store/result-rows.ts';
import type { CommitBatch } from '../commit/commit-batch.ts';
import { isUnchanged, type PageFound } from '../commit/earlier-pages.ts';
import { withHttpImages } from '../commit/image-addresses.ts';
import { writeItems } from '../commit/item-records.ts';
import { answerRecord, exclusionRecord, failureRecord, isPage } from '../commit/result-records.ts';
import { isSameSite } from '../crawl/scope.ts';
import { pageName, preferredUrl } from '../filter/seen-names.ts';
import { hasRequest } from '../tasks/task-requests.ts';
import type { Task } from '../tasks/tasks.ts';
import type { ReportedKind } from './kind.ts';

/** Why a seed was not asked for. */
const leftOutBy: Readonly<Record<Unfetched, string>> = {
  robots: 'is disallowed by robots.txt',
  scope: 'is out of scope by a later change of options',
};
/** Redirects of a seed from host to host. */
const seedHopsMax = 5;

export const page: ReportedKind = {
  name: 'page',
  number: pageKind,
  owner: 'crawl',
  pushed: {},
  answeredBy: 'task.report',
  takers: 'pages',
  fetchesOfLease: 2,
  hopsMax: 'crawl',
  hopsTo: 'scope',
  inTrains: true,
  isLimited: true,

  seenName: (url) => url,

  namesIn(line, { canonical }) {
    const { url, finalUrl = url } = line;
    const isNamed = canonical && line.images !== undefined;
    return [
      url,
      finalUrl,
      ...(isNamed ? [pageName(preferredUrl(line, line)?.href ?? finalUrl)] : []),
    ];
  },

  /** A page over the page limit (from a slave whose lease was over) is not taken. */
  report(batch, task, report, { earlier, pictures, before, slave, at }) {
    const { crawl } = batch;
    const unchanged = isUnchanged(report.result);
    const found: PageFound = withHttpImages(
      unchanged ? earlier.carryOver(crawl, task, report) : report,
    );
    const { result, images } = found;
    const { items } = report;
    const isRead = items !== undefined || (unchanged && isUnchangedData(batch, result));
    const isAnyPage = isPage(result, isRead);
    if (crawl.isFull && isAnyPage) {
      batch.release(task);
      return false;
    }
    const moved = result.finalUrl !== task.url && !takeFinalUrl(batch, result.finalUrl);
    const excluded = moved ? undefined : exclusionOf(batch, task, result, isAnyPage);
    const counts = isAnyPage && !moved && excluded === undefined;
    // Before its links: where it redirects to is one of them, and at depth 0 as a seed.
    if (task.depth === 0) judgeSeed(batch, task, result, excluded, isAnyPage);
    let linkCount = before + batch.links(report.links, task, at);
    for (const { priority, links } of report.follow ?? []) {
      linkCount += batch.links(links, { url: task.url, depth: task.depth, priority }, at);
    }
    const links = found.linkCount ?? linkCount;
    // A page of a known name may show other images than the one that was written.
    if (counts || excluded === 'canonical') {
      batch.images(images.map(({ src }) => src));
      pictures.shown(batch, task, images, result);
    }
    const packed = found === report ? report.packed : undefined;
    const from = batch.fromOf(task);
    const line = { task, from, result, images, links, moved, excluded, isRead, slave, at, packed };
    batch.write(answerRecord(line));
    if (items !== undefined && counts) writeItems(batch, task, items, at);
    const { books } = crawl;
    if (counts) books.page(pageKind, { unchanged });
    else if (excluded !== undefined) books.excluded(pageKind);
    else if (result.error) books.failed(pageKind, result.error, task.url, result.status);
    else if (moved || result.redirectedTo !== undefined) books.other(pageKind, 'redirects');
    else books.other(pageKind, 'others');
    books.received(report.result.bytes);
    batch.remove(task);
    return true;
  },

  fail(batch, task, { error, attempts, slave, at }) {
    batch.bury(task, error, attempts);
    if (task.depth === 0) batch.faultSeed(task, failedText(error));
    batch.write(failureRecord({ task, from: batch.fromOf(task), error, attempts, slave, at }));
    batch.remove(task);
  },

  /** As a link to it would be, but for the rules that count; none applies to a seed. */
  leavesOut({ scope, spec, traps }, { url: text, depth }) {
    const url = parseCanonical(text);
    if (url === undefined) return false;
    if (scope.refuses(url) !== undefined || depth > (spec.maxDepth ?? depth)) return true;
    return depth > 0 && traps.looks(url) !== undefined;
  },

  exclude(batch, task, { excluded, at }) {
    batch.write(exclusionRecord({ task, from: batch.fromOf(task), excluded, at }));
    const { books } = batch.crawl;
    books.excluded(pageKind);
    if (task.depth === 0) batch.faultSeed(task, leftOutBy[excluded]);
    batch.remove(task);
  },
};

/** JSON or XML that the earlier crawl had as a page. */
function isUnchangedData({ crawl }: CommitBatch, { type }: Result): boolean {
  return crawl.spec.fetch.items !== undefined && isDataType(type ?? '');
}

/** Notes what came of a seed; where it redirects to is one, too. */
function judgeSeed(
  batch: CommitBatch,
  task: Task,
  result: Result,
  excluded: Exclusion | undefined,
  isAnyPage: boolean,
): void {
  const { seeds } = batch.crawl.books;
  const { status, error, redirectedTo, type } = result;
  if (redirectedTo !== undefined) {
    const why = followSeed(batch, task, redirectedTo);
    if (why !== undefined) batch.faultSeed(task, `redirects to ${redirectedTo}, ${why}`);
    return;
  }
  if (error === undefined && (status === 200 || status === 304)) seeds.answer();
  if (error !== undefined) batch.faultSeed(task, failedText(error));
  else if (excluded === 'noindex') batch.faultSeed(task, 'says noindex, see --obey');
  else if (!isAnyPage) batch.faultSeed(task, `is ${type ?? 'without a type'}, not a page`);
}

/** Takes the target of a seed's redirect for a seed, in scope or within the seed's site. Returns
 *  why not. */
function followSeed(batch: CommitBatch, task: Task, target: string): string | undefined {
  const { crawl } = batch;
  const url = parseCanonical(target);
  if (url === undefined) return 'which is not a URL';
  const why = crawl.scope.refuses(url);
  const isElsewhere = why === 'host';
  if (why !== undefined && !isElsewhere) return `which --${why} leaves out`;
  // An address has no site but itself.
  const isSite = isSameSite(new URL(task.url), url) && !hostLiteralAddress(url.hostname);
  if (isElsewhere && !isSite) return 'another site; start there, or use --scope any';
  // The target of a request is a page like any other.
  const level = hasRequest(task) ? 0 : task.level;
  if (level >= seedHopsMax) return 'its sixth redirect';
  if (isElsewhere) batch.join(url, task.url);
  if (!batch.followSeed(url, { ...task, level })) {
    // It says more if it is a seed of its own.
    crawl.books.seeds.fault(task.url, `redirects to ${target}, which was known: see why`);
  }
  return undefined;
}

function failedText(error: FetchErrorBody): string {
  return `failed (${errorText(error)})`;
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
function exclusionOf(
  batch: CommitBatch,
  task: Task,
  result: Result,
  isAnyPage: boolean,
): Exclusion | undefined {
  const { spec } = batch.crawl;
  if (result.error !== undefined || result.redirectedTo !== undefined) return undefined;
  const isNoindex = result.directives?.includes('noindex') === true;
  if (isNoindex && spec.fetch.obey.includes('noindex')) return 'noindex';
  if (!spec.canonical || !isAnyPage) return undefined;
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

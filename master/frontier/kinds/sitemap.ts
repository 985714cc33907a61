/**
 * A sitemap: a task like a page, in its host's queue, for its host's robots.txt and pace. It is in
 * no count of pages, and is never buried. Its level says how it was found:
 *
 *     0  /sitemap.xml, guessed: if there is none, nobody hears of it
 *     1  named by the robots.txt of a host in scope, on whatever host it is
 *     2… named by a sitemap index, or where one redirects to: on the same host name, or in scope
 *
 * Source: PROTOCOL.md [T-20] [T-21].
 */
import { canonicalUrl, parseCanonical } from '../../../shared/url.ts';
import { kindNumbers } from '../../store/records.ts';
import type { CommitBatch, Place } from '../commit/commit-batch.ts';
import type { Origin } from '../commit/entry.ts';
import {
  exclusionRecord,
  type Finding,
  failureRecord,
  type ListedCounts,
  sitemapRecord,
} from '../commit/result-records.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Outcome } from '../crawl/ledger.ts';
import type { Host } from '../politeness/host.ts';
import type { Task } from '../tasks/tasks.ts';
import type { ListedKind } from './kind.ts';

const number = kindNumbers.sitemap;
/** Before its URL, so that the URL may be a page, too. */
const mark = '^';
const guessedLevel = 0;
const namedLevel = 1;
/** The protocol knows one index above its sitemaps; redirects count, too. */
const levelMax = 4;
/** Sitemaps of one crawl: as many as one index may name. Source: sitemaps.org. */
const countMax = 50_000;
/** For the line of one that was not read, so that it is known for a sitemap. */
const unread: ListedCounts = { kind: 'none', urls: 0, images: 0 };
const start: Place = { depth: 0, priority: 0 };

export const sitemap: ListedKind = {
  name: 'sitemap',
  number,
  owner: 'crawl',
  pushed: { kind: 'sitemap' },
  answeredBy: 'task.sitemap',
  takers: 'probes',
  fetchesOfLease: 2,
  hopsMax: 'crawl',
  hopsTo: 'origin',

  seenName: (url) => mark + url,

  namesIn: (line) => (line['sitemap'] === undefined ? undefined : [mark + line.url]),

  /** The URLs that the part lists; with the last part the task is gone. */
  part(batch, task, { kind, urls, images, end }, { slave, at }) {
    if (kind === 'index') {
      admitBelow(batch, task, Buffer.from(urls).toString('latin1').split('\n'));
    } else batch.links(urls, task, at);
    if (images.length > 0) batch.images(Buffer.from(images).toString('latin1').split('\n'));
    if (end === undefined) return;
    const { redirectedTo, bytes } = end.result;
    if (redirectedTo !== undefined) admitBelow(batch, task, [redirectedTo], true);
    batch.crawl.books.received(bytes);
    if (kind === 'none' && isGuess(task)) {
      forget(batch, task);
      return;
    }
    const counts = { kind, urls: end.urls, images: end.images };
    const from = batch.fromOf(task);
    const line = sitemapRecord({ task, from, result: end.result, ...counts, slave, at });
    finish(batch, task, line, redirectedTo === undefined ? 'others' : 'redirects');
  },

  fail(batch, task, { error, attempts, slave, at }) {
    const from = batch.fromOf(task);
    const line = failureRecord({ task, from, sitemap: unread, error, attempts, slave, at });
    finish(batch, task, line, 'failed');
  },

  /** The URLs that it lists are judged one by one. */
  leavesOut({ spec }) {
    return !readsSitemaps(spec);
  },

  exclude(batch, task, { excluded, at }) {
    if (isGuess(task)) {
      forget(batch, task);
      return;
    }
    const from = batch.fromOf(task);
    batch.write(exclusionRecord({ task, from, sitemap: unread, excluded, at }));
    batch.crawl.books.excluded(number);
    batch.remove(task);
  },
};

/** The sitemaps that a crawl reads of a host whose robots.txt is known: those that it names, or a
 *  guess. */
export function sitemapsOf(crawl: Crawl, { key, robots }: Host): { urls: string[]; level: number } {
  const { sitemaps } = crawl.spec;
  const root = new URL(key);
  const none = { urls: [], level: namedLevel };
  if (!readsSitemaps(crawl.spec) || !crawl.scope.owns(root)) return none;
  const { robots: token } = crawl.manners(root);
  const named = token === undefined ? [] : robots.sitemaps(token);
  const urls = named.flatMap((text) => {
    const url = URL.canParse(text, key) && canonicalUrl(new URL(text, key).href);
    return url ? [url.href] : [];
  });
  if (urls.length > 0) return { urls, level: namedLevel };
  return sitemaps === 'all' ? { urls: [`${key}/sitemap.xml`], level: guessedLevel } : none;
}

/** With a depth of 0 nothing of what they list would be fetched. */
function readsSitemaps({ sitemaps, maxDepth }: Crawl['spec']): boolean {
  return sitemaps !== 'none' && maxDepth !== 0;
}

/** Sitemaps that were found, by default not by another one; each is admitted once. `origin`: what
 *  led to them. */
export function admitSitemaps(
  batch: CommitBatch,
  urls: readonly string[],
  level: number,
  { depth, priority }: Place = start,
  origin?: Origin,
): void {
  const { books } = batch.crawl;
  for (const text of urls) {
    const url = parseCanonical(text);
    if (url === undefined || books.counters.sitemaps >= countMax) continue;
    const found = { kind: number, level, depth, priority };
    if (batch.admit(url, sitemap.seenName(text), found, origin)) books.sitemap();
  }
}

/** Those that a sitemap itself leads to. An index could send us to any host. */
function admitBelow(
  batch: CommitBatch,
  task: Task,
  texts: readonly string[],
  isRedirect = false,
): void {
  const level = levelBelow(task, isRedirect);
  if (level === undefined) return;
  const { hostname } = new URL(task.url);
  const urls = texts.filter((text) => {
    const url = parseCanonical(text);
    return url !== undefined && (url.hostname === hostname || batch.crawl.scope.owns(url));
  });
  admitSitemaps(batch, urls, level, task, task);
}

/** The level of sitemaps that this one leads to; undefined: they are not followed. A guess that
 *  leads elsewhere is taken for a missing one. */
function levelBelow(task: Task, isRedirect: boolean): number | undefined {
  if (isRedirect && isGuess(task)) return undefined;
  const level = Math.max(task.level, namedLevel) + 1;
  return level <= levelMax ? level : undefined;
}

function isGuess({ level }: Task): boolean {
  return level === guessedLevel;
}

/** It counts as an answer that is no page, whatever came of it. */
function finish(batch: CommitBatch, task: Task, line: Finding, outcome: Outcome): void {
  batch.crawl.books.other(number, outcome);
  batch.write(line);
  batch.remove(task);
}

/** A guess that came to nothing: as if it had never been known. */
function forget(batch: CommitBatch, task: Task): void {
  batch.crawl.books.forgotten(number);
  batch.remove(task);
}

/**
 * What makes a task one of its kind. Leases, retries, pace and order are the same for all kinds.
 * All that differs is a property or a function here, so nothing else compares kinds. Each kind is
 * an object in a module of its own, listed in `kinds.ts`:
 *
 *     page      of a crawl  what links lead to
 *     sitemap   of a crawl  named by a robots.txt or an index; lists pages
 *     robots    of a host   goes before every page of the host, for all crawls that ask it
 */
import type { TaskKind, TaskPush } from '../../../shared/protocol.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';
import type { CommitBatch } from '../commit/commit-batch.ts';
import type { EarlierPages } from '../commit/earlier-pages.ts';
import type { Report, SitemapPart } from '../commit/entry.ts';
import type { Task } from '../tasks/tasks.ts';

/** `answeredBy` is the one statement that ends a task of the kind well; any other is a mistake. */
export type Kind = CrawlKind | HostKind;
export type CrawlKind = ReportedKind | ListedKind;

export type Traits = {
  readonly name: TaskKind;
  /** Its number in the store, for ever. */
  readonly number: number;
  /** What its push says besides what every push does. [T-2] */
  readonly pushed: Pick<TaskPush, 'kind'>;
  /** Which slaves get it, besides those that take all: see `LeaseHolder`. [T-40] */
  readonly takers: 'pages' | 'files';
  /** Its lease lasts as long as so many fetches may take, and a margin: one of them may be the wait
   *  for a free slot. [T-50] */
  readonly fetchesOfLease: number;
  /** Redirects that its lease waits for; `crawl`: as many as its crawl follows. */
  readonly hopsMax: number | 'crawl';
  /** Where a redirect may lead. `anywhere`: to any host. `origin`: within its own, as robots.txt
   *  allows. `scope`: the same, to a URL in scope of its crawl. [T-22] [T-23] */
  readonly hopsTo: 'anywhere' | 'origin' | 'scope';
};

/** Such a task is in its crawl's queues and in the store, and ends in a commit of its crawl. */
export type CrawlTraits = Traits & {
  readonly owner: 'crawl';
  /** The name in `seen` of a task of this kind, so that one URL may be a task of two kinds. */
  seenName(url: string): string;
  /** The names in `seen` that a line of pages.jsonl tells of; undefined: it is of another kind. */
  namesIn(line: WrittenLine, spec: NamingSpec): readonly string[] | undefined;
  /** No attempt is left: the task ends. */
  fail(batch: CommitBatch, task: Task, end: Failed): void;
  /** The host's robots.txt forbids it: the task ends without being fetched. */
  exclude(batch: CommitBatch, task: Task, at: number): void;
};

/** A task that one message ends. */
export type ReportedKind = CrawlTraits & {
  readonly answeredBy: 'task.report';
  /** Ends the task; false: the report is not taken, and the task waits again. */
  report(batch: CommitBatch, task: Task, report: Report, source: Reported): boolean;
};

/** A task that is answered in parts, the last of which ends it. */
export type ListedKind = CrawlTraits & {
  readonly answeredBy: 'task.sitemap';
  part(batch: CommitBatch, task: Task, part: SitemapPart, source: Told): void;
};

/** Such a task is in no queue and not in the store. Its host makes it when it is needed, and what
 *  came of it, a failure too, goes on the host's record. */
export type HostKind = Traits & {
  readonly owner: 'host';
  readonly answeredBy: 'task.robots';
};

/** Which slave said it ('': none), and when. */
export type Told = { readonly slave: string; readonly at: number };

/** `before`: how many links of the report earlier commits have taken. */
export type Reported = Told & { readonly before: number; readonly earlier: EarlierPages };

/** `attempts`: how often it was tried in all. */
export type Failed = Told & { readonly error: FetchErrorBody; readonly attempts: number };

/** What of a crawl's spec decides under which names a page counts. */
export type NamingSpec = { readonly canonical: boolean };

/** A line of pages.jsonl, as far as it says what it is about; only a page has `images`. */
export type WrittenLine = {
  readonly url: string;
  readonly finalUrl?: string;
  readonly canonical?: string;
  readonly images?: unknown;
  readonly [field: string]: unknown;
};

/**
 * The differences between kinds of tasks. Leases, retries, pace and order are the same for all
 * kinds. Everything else is a property or a function here, so no other code compares kinds. Each
 * kind is an object in a module of its own, listed in `kinds.ts`:
 *
 *     page      of a crawl  what links lead to
 *     sitemap   of a crawl  named by a robots.txt or an index; lists pages
 *     image     of a crawl  shown by a page; its bytes are kept
 *     robots    of a host   goes before every page of the host, for all crawls that ask it
 */
import type { TaskKind, TaskPush } from '../../../shared/protocol.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';
import type { TaskRecord } from '../../store/records.ts';
import type { Unfetched } from '../../store/result-rows.ts';
import type { CommitBatch } from '../commit/commit-batch.ts';
import type { EarlierPages } from '../commit/earlier-pages.ts';
import type { Picture, Report, SitemapPart } from '../commit/entry.ts';
import type { Pictures } from '../commit/pictures.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Task } from '../tasks/tasks.ts';

/** `answeredBy` is the only message that ends a task of the kind successfully; any other is a
 *  mistake. */
export type Kind = CrawlKind | HostKind;
export type CrawlKind = ReportedKind | ListedKind | PictureKind;

export type Traits = {
  readonly name: TaskKind;
  /** Its permanent number in the store. */
  readonly number: number;
  /** The fields of its push besides those of every push. [T-2] */
  readonly pushed: Pick<TaskPush, 'kind'>;
  /** The slaves that get it, besides those that take all: see `LeaseHolder`. [T-40] */
  readonly takers: 'pages' | 'probes';
  /** Its lease lasts for the time-out of this number of fetches, and a margin: one of them may be
   *  the wait for a free slot. [T-50] */
  readonly fetchesOfLease: number;
  /** Redirects that its lease waits for; `crawl`: as many as its crawl follows. */
  readonly hopsMax: number | 'crawl';
  /** The permitted targets of redirects. `anywhere`: to any host. `origin`: within its own, as
   *  robots.txt allows. `scope`: the same, to a URL in scope of its crawl. [T-22] [T-23] */
  readonly hopsTo: 'anywhere' | 'origin' | 'scope';
  /** It may be one of a train. [T-146] */
  readonly inTrains?: true;
};

/** Such a task is in its crawl's queues and in the store, and ends in a commit of its crawl. */
type CrawlTraits = Traits & {
  readonly owner: 'crawl';
  /** The name in `seen` of a task of this kind, so that one URL may be a task of two kinds. */
  seenName(url: string): string;
  /** It counts towards the page limit of its crawl. */
  readonly isLimited?: true;
  /** Its tasks come before all others of their host. */
  readonly goesFirst?: true;
  /** The names in `seen` for a line of pages.jsonl; undefined: the line is of another kind. */
  namesIn(line: WrittenLine, spec: NamingSpec): readonly string[] | undefined;
  /** No attempt is left: the task ends. */
  fail(batch: CommitBatch, task: Task, end: Failed): void;
  /** The options of its crawl changed since the task was admitted: do they leave it out? */
  leavesOut(crawl: Crawl, task: Pick<TaskRecord, 'url' | 'depth'>): boolean;
  /** It is left out: the task ends without being fetched. */
  exclude(batch: CommitBatch, task: Task, end: LeftOut): void;
};

/** A task whose answer is bytes that are kept. */
export type PictureKind = CrawlTraits & {
  readonly answeredBy: 'task.image';
  /** Ends the task. False: what it says is not so, and the task waits again. */
  picture(batch: CommitBatch, task: Task, picture: Picture, source: Told & Pictured): boolean;
};

/** A task that one message ends. */
export type ReportedKind = CrawlTraits & {
  readonly answeredBy: 'task.report';
  /** Ends the task; returns false if the report is refused, and the task waits again. */
  report(batch: CommitBatch, task: Task, report: Report, source: Reported): boolean;
};

/** A task that is answered in parts, the last of which ends it. */
export type ListedKind = CrawlTraits & {
  readonly answeredBy: 'task.sitemap';
  part(batch: CommitBatch, task: Task, part: SitemapPart, source: Told): void;
};

/** Such a task is in no queue and not in the store. Its host makes it when it is needed, and the
 *  host's record keeps its result or failure. */
export type HostKind = Traits & {
  readonly owner: 'host';
  readonly answeredBy: 'task.robots';
};

/** The slave that reported ('': none), and the time. */
export type Told = { readonly slave: string; readonly at: number };

/** `before`: the number of links of the report in earlier commits. */
type Reported = Told & Pictured & { readonly before: number; readonly earlier: EarlierPages };
type Pictured = { readonly pictures: Pictures };

/** Why, and the time. */
type LeftOut = { readonly excluded: Unfetched; readonly at: number };

/** `attempts`: the total number of attempts. */
type Failed = Told & { readonly error: FetchErrorBody; readonly attempts: number };

/** The part of a crawl's spec that decides under which names a page counts. */
export type NamingSpec = { readonly canonical: boolean };

/** The identifying fields of a line of pages.jsonl; only a page has `images`. */
export type WrittenLine = {
  readonly url: string;
  readonly finalUrl?: string;
  readonly canonical?: string;
  readonly images?: unknown;
  readonly [field: string]: unknown;
};

/**
 * The native dialect of PROTOCOL.md, by clause ids in brackets: version, limits, replies, pushes of
 * a master. A request with an `id` gets one reply with it; a message without an id gets none.
 */
import * as z from 'zod';
import { type CrawlState, type FetchSpec, type TaskRequest, trapRules } from './crawl.ts';
import type { ErrorCode } from './errors.ts';
import type { JobCall, JobStream } from './jobs.ts';
import type { LedgerRow } from './ledger.ts';
import type { RuleCounts } from './rule-results.ts';

/** Goes up with every change that an older peer would misread. [V-1] */
export const protocolVersion = 2;

/** Can the body of an answer with this status be a page? Any 2xx with a body can: Scrapy passes
 *  these to spiders, and browsers show them like a 200. Source: RFC 9110, 15.3. */
export function isPageStatus(status: number): boolean {
  return status >= 200 && status <= 299 && status !== 204 && status !== 205;
}

export const limits = {
  /** A frame before authentication is complete. [F-4] */
  frameBytesBeforeAuthMax: 256,
  /** A frame afterwards. [F-5] */
  frameBytesMax: 32 << 20,
  /** Levels of nested containers in one message. [F-8] */
  messageDepthMax: 64,
  /** Values of one message, keys and containers included. [F-8] */
  messageValuesMax: 1_000_000,
  /** From accept to the end of `hello`; this and the next three are a master's defaults. [H-7] */
  handshakeMs: 10_000,
  /** A side that has sent nothing for this long sends `ping`. [B-1] */
  heartbeatMs: 10_000,
  /** A side that has received nothing for this long closes. [B-2] */
  silenceMs: 25_000,
  /** A lease ends this long after it was given or extended. [T-4] */
  leaseMs: 120_000,
  /** However often it is extended, a lease ends this long after twice the fetch time-out. [T-50] */
  leaseMarginMs: 60_000,
  /** A page of a Python program is released after this long without a request. [Y-8] */
  pythonLeaseMs: 1_800_000,
  /** Bytes of a robots.txt that are read. Source: RFC 9309, section 2.5. */
  robotsBytesMax: 500 << 10,
  urlChars: 4096,
  titleChars: 1024,
  altChars: 1024,
  licenseChars: 512,
  /** Image sources of one page, and their share of its report; the rest is counted in
   *  `imagesCut`. */
  imagesMax: 50_000,
  imagesBytesMax: 8 << 20,
  /** Distinct links of one page as written, and all of them made absolute and joined; the rest is
   *  counted in `linksCut`. */
  linksMax: 1_000_000,
  linksBytesMax: 16 << 20,
  /** Rows of one page, rejected ones included, and all that its rules made. [T-81] */
  itemRowsMax: 50_000,
  itemsBytesMax: 7 << 20,
  /** Rules and fields of a crawl that are counted. */
  ruleCountsMax: 10_050,
  whyChars: 512,
  creditMax: 4096,
  /** Proxies of one `proxy.state`. [T-45] */
  proxiesMax: 100,
  /** Folders of one `images.state`. [T-115] */
  foldersMax: 100,
  seedsMax: 10_000,
  queueItemsMax: 10_000,
  queueItemBytesMax: 1 << 20,
  /** An item of a Python program, as a pickle. */
  pythonItemBytesMax: 16 << 20,
  /** Bytes of items in one reply to `queue.get`; at least one item is returned. */
  queueReplyBytesMax: 16 << 20,
  /** Items in total that one session holds, without a `queue.done`. */
  queueHeldBytesMax: 64 << 20,
  /** Waiting `queue.get` requests of one session. */
  queueWaitingMax: 256,
  /** Unanswered requests of one session, and their bytes: beyond that the master does not read from
   *  it. [P-2] */
  unansweredMax: 1024,
  unansweredBytesMax: 64 << 20,
  /** Bytes that a peer has not read; beyond that the master does not read from it. [P-3] */
  untakenBytesMax: 16 << 20,
  /** The longest that an item is delayed, and held; how often it may return. to */
  queueDelayMsMax: 30 * 86_400_000,
  queueHoldMsMax: 86_400_000,
  queueAttemptsMax: 1_000,
  /** `queue.get` waits at most this long in one request. */
  waitMsMax: 3_600_000,
} as const;

/** Kinds of tasks; a push names all but the first. Source: PROTOCOL.md, "task.push". */
export const taskKinds = ['page', 'robots', 'sitemap', 'image'] as const;
export type TaskKind = (typeof taskKinds)[number];

/** Kinds of sitemaps. Source: PROTOCOL.md, "task.sitemap". */
export const sitemapKinds = ['urlset', 'index', 'text', 'feed', 'none'] as const;
export type SitemapKind = (typeof sitemapKinds)[number];

/** Why a fetch failed. Source: PROTOCOL.md, "task.release". */
export const fetchErrorKinds = [
  'dns',
  'connect',
  'tls',
  'timeout',
  'status',
  'redirects',
  'protocol',
  'too-large',
  'blocked',
  'proxy',
  'lost',
] as const;
export type FetchErrorKind = (typeof fetchErrorKinds)[number];
export const fetchErrorSchema = z.strictObject({
  kind: z.enum(fetchErrorKinds),
  message: z.string().max(512),
});
export type FetchErrorBody = z.infer<typeof fetchErrorSchema>;

/** In words; the message may be empty. */
export function errorText({ kind, message }: Record<keyof FetchErrorBody, string>): string {
  return message === '' ? kind : `${kind}: ${message}`;
}

/** The reasons for which a link is skipped: scope and patterns, `--max-depth`, a trap. Source:
 *  PROTOCOL.md [C-12]. */
export const skipReasons = ['host', 'include', 'exclude', 'depth', ...trapRules] as const;
export type SkipReason = (typeof skipReasons)[number];
export type TrapRule = (typeof trapRules)[number];
export const imagePixelsMax = 1_000_000;

/** Shown in logs and on terminals, so it must not move a cursor. [S-2] */
export const peerNameSchema = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u, { error: 'must be 1 to 64 printable characters' });

/** Shown on terminals: one line that does not move a cursor or change the direction of text. */
const shown = (charsMax: number) =>
  z
    .string()
    .max(charsMax)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u, { error: 'must be printable' });

/** The version of a slave, as it says. [T-70] */
export const peerVersionSchema = shown(64);

/** Why a login failed. [T-94] */
export const loginWhySchema = shown(512);

/** A proxy that did not work when a slave last used it. [T-45] */
export const proxyTroubleSchema = z.strictObject({
  /** Scheme, host and port. */
  name: shown(300),
  reason: shown(200),
  /** How long it is set aside; 0: it will be retried. */
  forMs: z.int().min(0).max(86_400_000),
});
export type ProxyTrouble = z.infer<typeof proxyTroubleSchema>;

/** A folder of `--images-to` to which a slave cannot write. [T-115] */
export const folderTroubleSchema = z.strictObject({ folder: shown(1024), reason: shown(512) });
export type FolderTrouble = z.infer<typeof folderTroubleSchema>;

/** Why a crawl ended. [C-51] */
export type CrawlEnding = {
  why: 'finished' | 'max-pages' | 'unanswered' | 'no-page' | 'skipped' | 'cancelled';
  /** For people. */
  text: string;
};

/** Counters of one crawl, in `crawl.list` and on the master's display. */
export type CrawlStatus = {
  name: string;
  state: CrawlState;
  /** The reason, if it is held. */
  held?: string;
  /** Its sinks that cannot write for now, and are tried again. [C-110] */
  failing?: { name: string; reason: string; ms: number }[];
  /** URLs in the task queue, the leased ones included. */
  waiting: number;
  leased: number;
  /** Results that a sink has not written yet. */
  unwritten: number;
  /** Pages (200, HTML) written once each. */
  pages: number;
  /** Distinct image URLs. */
  images: number;
  /** Fetched URLs that are not pages: other types, redirects to known pages. */
  others: number;
  /** URLs that ended with an error, including buried ones. */
  failed: number;
  buried: number;
  /** Pages that did not change since an earlier crawl. */
  unchanged: number;
  /** URLs left out because of robots.txt, `noindex`, or a known canonical URL. */
  excluded: number;
  /** Skipped links by reason, without zeros. */
  skipped: Partial<Record<SkipReason, number>>;
  /** Failed URLs by kind, without zeros; and as `rule` pages on which a rule failed, which are not
   *  among `failed`. */
  errors: Partial<Record<FetchErrorKind | 'rule', number>>;
  /** Of a crawl with items: of each rule (`book`) and of each field (`book.price`). [C-90] */
  rules?: Record<string, RuleCounts>;
  /** It has items, and no slave that is connected evaluates rules: its pages wait. [T-80] */
  wantsRules?: true;
  /** It has a login, and no slave that is connected logs in: it waits. [T-93] */
  wantsLogin?: true;
  /** Its rules ask for articles, and no slave that is connected finds them: it waits. [T-130] */
  wantsArticles?: true;
  /** It renders pages, and no slave that is connected has a browser: it waits. [T-140] */
  wantsBrowser?: true;
  /** It downloads images. `waits`: why no task is handed out. [C-130] */
  downloads?: { stored: number; bytes: number; waits?: string };
  /** Failures with a status, by its number, without zeros. */
  statuses: Record<string, number>;
  /** An example of each kind of failure since the master's start, those included that are tried
   *  again. */
  examples?: Partial<Record<FetchErrorKind, string>>;
  /** URLs ever admitted. */
  known: number;
  bytes: number;
  /** Final URLs of redirects within a host, under which pages count. */
  aliases: number;
  /** Links that are no URLs. */
  malformed: number;
  /** By kinds of tasks; absent for a crawl of an earlier version. */
  ledger?: Partial<Record<TaskKind, LedgerRow>>;
  /** If it has ended. */
  ending?: CrawlEnding;
  /** Unix time in ms. In `crawl.list`, as what follows. */
  startedAt?: number;
  /** Hosts that an operator has blocked, and the URLs that wait there; absent: none. */
  blocked?: { hosts: number; waiting: number };
  /** Of an archived crawl: its WARC files. `waits`: why no task is handed out. [C-120] */
  archive?: { files: number; bytes: number; waits?: string };
  /** Of a crawl with sources of seeds on a schedule; `nextAt`: Unix time in ms. [C-102] */
  schedule?: { sources: number; nextAt: number };
  /** Of a crawl with `every`, and of those that repeat it. [C-151] */
  repeats?: RepeatStatus;
  /** Of an open crawl, over the last minute; `etaMs`: it will have ended by then, about. */
  rates?: { pagesPerS: number; bytesPerS: number; etaMs?: number };
};

type RepeatStatus = {
  /** Prefix of the names of its crawls. */
  series: string;
  /** Of the newest: it is repeated. `nextAt`: Unix time in ms. */
  everyMs?: number;
  nextAt?: number;
  keep?: number;
  /** The crawl that it repeats, and what became of the pages since; it has ended. */
  since?: string;
  changes?: Readonly<Record<'came' | 'went' | 'changed' | 'same' | 'unknown', number>>;
};

/** A field of a crawl's spec that has changed, one of its fetches as `fetch.timeoutMs`; `from` and
 *  `to` are absent for a field without a value. Of headers, cookies and proxies they have no
 *  secrets. [C-43] */
export type ChangedField = {
  readonly field: string;
  readonly from?: unknown;
  readonly to?: unknown;
};

/** A URL that failed for good. */
export type FailedUrl = {
  url: string;
  kind: FetchErrorKind;
  message: string;
  /** Fetches that came to this. */
  attempts: number;
  /** Of the last answer, if there was one. */
  status?: number;
};

/** Orders of `host.list`, the largest first; `slow`: tasks that wait, times the delay. */
export const hostSorts = ['waiting', 'slow', 'failed'] as const;
export type HostSort = (typeof hostSorts)[number];

/** A host as `host.list` shows it; times are Unix times in ms. */
export type HostRow = {
  /** Scheme, host and port. */
  host: string;
  /** The politeness group, if that is another name. */
  group?: string;
  crawls: string[];
  waiting: number;
  /** There may be more waiting. */
  atLeast?: true;
  underWay: number;
  /** In force, and where it comes from. */
  delayMs?: number;
  delayFrom?: 'host' | 'crawl' | 'crawl-delay' | 'answers' | 'learned';
  heldUntil?: number;
  /** Answers 429 and 503 in a row. */
  refusals?: number;
  breaker?: { state: 'sleeping' | 'probing' | 'dead'; until?: number; reason?: string };
  robots?: {
    state: 'rules' | 'none' | 'unreachable' | 'trying' | 'asking' | 'unknown';
    until?: number;
    reason?: string;
  };
  last?: { at: number; status: number } | { at: number; error: string };
  /** Failed fetches since the host is in memory. */
  failed?: number;
  blocked?: true;
  /** Its tasks are in the store alone. */
  parked?: true;
};

/** A slave as `slave.list` shows it. */
export type SlaveRow = {
  session: number;
  name: string;
  /** Address and port. */
  address: string;
  /** Unix time in ms. */
  since: number;
  slots: number;
  leases: number;
  /** Over the last minute. */
  fetchesPerS: number;
  /** Failed fetches since it joined. */
  errors: number;
  takes?: 'probes' | 'pages';
  /** The next three as it last said. [T-70] */
  version?: string;
  memoryBytes?: number;
  fetching?: number;
  /** It evaluates the rules of crawls. [T-80] */
  rules?: true;
  proxies?: readonly ProxyTrouble[];
  draining?: true;
  /** It takes commands. [T-120] */
  exec?: {
    readonly slots: number;
    readonly running: number;
    readonly programs: readonly string[];
    readonly scripts: readonly string[];
  };
};

/** One task as the master pushes it. [T-2] */
export type TaskPush = {
  task: Uint8Array;
  lease: number;
  crawl: number;
  url: string;
  depth: number;
  attempt: number;
  /** True: the operator named its host as a seed, so it may get the Authorization header. */
  open?: boolean;
  /** Private blocks where the master found that host; a slave may connect to these, too. */
  private?: readonly string[];
  /** Validators of an earlier answer, to ask whether the page changed. [T-31] */
  etag?: string | undefined;
  lastModified?: string | undefined;
  /** The URL that the validators belong to, if the task's own URL redirects to it. */
  validatedUrl?: string | undefined;
  /** Absent: a page. `robots`: a robots.txt, answered by `task.robots` [T-17]; `sitemap`: answered
   *  by `task.sitemap` [T-20]; `image`: answered by `task.image` [T-110]. */
  kind?: Exclude<TaskKind, 'page'>;
  /** Its host has not proved that it answers: it starts at once, outside the slots [T-51]. `first`:
   *  nothing is known of it, so the slave waits for less time [T-53]. */
  trial?: 'first' | 'again';
  /** It is a trial because its host answers late: it did answer. */
  late?: true;
  /** The host has a delay: say `task.started` when the request leaves. [T-18] */
  timed?: true;
  /** With `timed`: the slave may say it so many ms later, together with another message, and how
   *  long ago that was. [T-145] */
  tellMs?: number;
  /** This is the last attempt: a failure buries it. [T-60] */
  last?: true;
  /** It is one of several tasks of a host in this push, which leave in this order, `gapMs` after
   *  each other, at most `atOnce` under way. `first`: the lease of the first. [T-146] */
  train?: { readonly first: number; readonly gapMs: number; readonly atOnce: number };
  /** It is no GET, and `url` ends with a mark. [T-90] */
  request?: TaskRequest;
};

/** The messages that the master sends without a request. */
export type Push =
  /** Before the first task of a crawl, and whenever it has changed. [T-3] [C-44] */
  | {
      verb: 'crawl.spec';
      crawl: number;
      name: string;
      fetch: FetchSpec;
      /** Of a crawl with a login: in another round what has failed is tried again. [T-93] */
      round?: number;
    }
  /** The crawl is finished or cancelled; its spec is sent again if it resumes. [T-30] */
  | { verb: 'crawl.ended'; crawl: number }
  | { verb: 'task.push'; tasks: TaskPush[] }
  /** The leases were cancelled; a report of the task would be stale. [T-8] */
  | { verb: 'task.cancel'; leases: number[] }
  /** Release those of these leases that have not begun. [T-149] */
  | { verb: 'task.recall'; leases: number[] }
  /** Run this, and report it; the call is as in `job.add`. [T-121] */
  | ({ verb: 'exec.start'; job: number; lease: Uint8Array; timeoutMs?: number } & JobCall)
  /** End that job; it is reported. [T-125] */
  | { verb: 'exec.cancel'; lease: Uint8Array }
  /** To those who watch a job: what it says, from byte `at` of the stream on. [C-143] */
  | { verb: 'job.output'; job: number; stream: JobStream; at: number; data: Uint8Array }
  /** It was handed to that slave, again after a lost one. */
  | { verb: 'job.started'; job: number; slave: string; attempt: number }
  | { verb: 'job.ended'; job: number }
  | { verb: 'ping' }
  | { verb: 'drain' }
  /** The last message before the master closes: the peer's mistake. [E-2] */
  | { verb: 'error'; error: ErrorCode; message: string };

/**
 * The native dialect: its version and limits, replies, and what a master sends unasked; requests
 * are in `requests.ts`. PROTOCOL.md is the text of it; clause ids in brackets point there. Requests
 * carry an `id` and get one reply with the same `id`; a message without an id gets none.
 */
import * as z from 'zod';
import { type CrawlState, type FetchSpec, trapRules } from './crawl.ts';
import type { ErrorCode } from './errors.ts';

/** Goes up with every change that an older peer would misread. [V-1] */
export const protocolVersion = 1;

/** Can the body of an answer of this status be a page? Any 2xx that has one: Scrapy's spiders get
 *  these, and browsers show them like a 200. Source: RFC 9110, 15.3. */
export function isPageStatus(status: number): boolean {
  return status >= 200 && status <= 299 && status !== 204 && status !== 205;
}

export const limits = {
  /** A frame before authentication is complete. [F-4] */
  frameBytesBeforeAuthMax: 256,
  /** A frame afterwards. [F-5] */
  frameBytesMax: 32 << 20,
  /** Containers within containers of one message. [F-8] */
  messageDepthMax: 64,
  /** Values of one message, keys and containers included. [F-8] */
  messageValuesMax: 1_000_000,
  /** From accept to the end of `hello`; this and the next three are a master's defaults. [H-7] */
  handshakeMs: 10_000,
  /** A side that has sent nothing for this long sends `ping`. [B-1] */
  heartbeatMs: 10_000,
  /** A side that has heard nothing for this long closes. [B-2] */
  silenceMs: 25_000,
  /** A lease ends this long after it was given or extended. [T-4] */
  leaseMs: 120_000,
  /** However often it is extended, a lease ends this long after two fetches could have. [T-50] */
  leaseMarginMs: 60_000,
  /** A page of a Python program goes back this long after it was heard last. [Y-8] */
  pythonLeaseMs: 1_800_000,
  /** A robots.txt: what is beyond is not read. Source: RFC 9309, section 2.5. */
  robotsBytesMax: 500 << 10,
  urlChars: 4096,
  titleChars: 1024,
  altChars: 1024,
  /** Image sources of one page, and what they take of its report; what does not fit is counted in
   *  `imagesCut`. */
  imagesMax: 50_000,
  imagesBytesMax: 8 << 20,
  /** Distinct links of one page as written, and all of them made absolute and joined; what does
   *  not fit is counted in `linksCut`. */
  linksMax: 1_000_000,
  linksBytesMax: 16 << 20,
  creditMax: 4096,
  /** Proxies of one `proxy.state`. [T-45] */
  proxiesMax: 100,
  seedsMax: 10_000,
  queueItemsMax: 10_000,
  queueItemBytesMax: 1 << 20,
  /** An item of a Python program, as a pickle. */
  pythonItemBytesMax: 16 << 20,
  /** Items of one reply to `queue.get`, together; one item at least. */
  queueReplyBytesMax: 16 << 20,
  /** Items that one session has and has not said `queue.done` of, together. */
  queueHeldBytesMax: 64 << 20,
  /** Requests of `queue.get` of one session that wait. */
  queueWaitingMax: 256,
  /** Requests of one session that are not answered yet, and their bytes: beyond that it is not
   *  read from. [P-2] */
  unansweredMax: 1024,
  unansweredBytesMax: 64 << 20,
  /** Bytes that a peer has not taken; beyond that it is not read from. [P-3] */
  untakenBytesMax: 16 << 20,
  /** `queue.get` waits at most this long in one request. */
  waitMsMax: 3_600_000,
} as const;

/** Kinds of tasks; a push names all but the first. Source: PROTOCOL.md, "task.push". */
export const taskKinds = ['page', 'robots', 'sitemap'] as const;
export type TaskKind = (typeof taskKinds)[number];

/** What a sitemap can be. Source: PROTOCOL.md, "task.sitemap". */
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

/** Why a link was not taken: scope and patterns, `--max-depth`, a trap. Source: PROTOCOL.md [C-12]. */
export const skipReasons = ['host', 'include', 'exclude', 'depth', ...trapRules] as const;
export type SkipReason = (typeof skipReasons)[number];
export type TrapRule = (typeof trapRules)[number];
export const imagePixelsMax = 1_000_000;

/** Shown in logs and on terminals, so nothing that moves a cursor. [S-2] */
export const peerNameSchema = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u, { error: 'must be 1 to 64 printable characters' });

/** Shown on terminals: one line, nothing that moves a cursor or turns the text around. */
const shown = (charsMax: number) =>
  z
    .string()
    .max(charsMax)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u, { error: 'must be printable' });

/** A proxy that did not work when a slave last asked it. [T-45] */
export const proxyTroubleSchema = z.strictObject({
  /** Scheme, host and port. */
  name: shown(300),
  reason: shown(200),
  /** How long it is set aside; 0: it is tried again. */
  forMs: z.int().min(0).max(86_400_000),
});
export type ProxyTrouble = z.infer<typeof proxyTroubleSchema>;

/** Counters of one crawl as `crawl.list` gives them and the master shows them. */
export type CrawlStatus = {
  name: string;
  state: CrawlState;
  /** Why it is held, if it is. */
  held?: string;
  /** URLs in the task queue, the leased ones included. */
  waiting: number;
  leased: number;
  /** Findings that a sink has not written yet. */
  unwritten: number;
  /** Pages (200, HTML) written once each. */
  pages: number;
  /** Distinct image URLs. */
  images: number;
  /** Fetched URLs that are no page: other types, redirects to known pages. */
  others: number;
  /** URLs that ended with an error, the buried ones included. */
  failed: number;
  buried: number;
  /** Pages among them that are as an earlier crawl found them. */
  unchanged: number;
  /** URLs that are left out: by robots.txt, `noindex`, or as known by their canonical URL. */
  excluded: number;
  /** Links that were not taken, by reason; those without any are left out. */
  skipped: Partial<Record<SkipReason, number>>;
  /** The failed ones by kind; those without any are left out. */
  errors: Partial<Record<FetchErrorKind, number>>;
  /** URLs ever admitted. */
  known: number;
  bytes: number;
};

/** What each verb is answered with. */
export type Replies = {
  hello: {
    protocol: number;
    server: string;
    session: number;
    heartbeatMs: number;
    silenceMs: number;
    leaseMs: number;
    frameBytesMax: number;
    proof: Uint8Array;
  };
  ping: Record<never, never>;
  bye: Record<never, never>;
  'task.credit': Record<never, never>;
  'task.report': { state: 'done' | 'stale' };
  'task.started': Record<never, never>;
  'task.hop': { state: 'go' | 'robots' | 'scope' | 'later' | 'lost'; timed?: true };
  'task.robots': { state: 'done' | 'stale' };
  'task.sitemap': { state: 'done' | 'stale' };
  'task.release': { state: 'done' | 'stale' };
  'task.extend': { lost: number[] };
  'proxy.state': Record<never, never>;
  'crawl.add': { admitted: number; known: number; refused: { url: string; why: string }[] };
  'crawl.recrawl': { admitted: number; known: number; refused: number };
  'crawl.list': {
    crawls: CrawlStatus[];
    sessions: { name: string; role: string; leases: number; proxies?: readonly ProxyTrouble[] }[];
  };
  /** `state`: what the crawl is now. */
  'crawl.pause': { state: CrawlState };
  /** `begun`: files that are begun anew, and what the ones before them had. */
  'crawl.resume': {
    state: CrawlState;
    begun?: { file: string; bytes: number; lines?: number; movedTo?: string }[];
  };
  'crawl.cancel': Record<never, never>;
  'crawl.buried': {
    urls: { url: string; kind: FetchErrorKind; message: string; attempts: number }[];
    next?: Uint8Array;
  };
  'crawl.replay': { replayed: number };
  backup: { bytes: number };
  'queue.put': { size: number };
  'queue.get': { items: { id: number; value: Uint8Array }[] };
  'queue.done': Record<never, never>;
  'queue.size': { size: number };
};

/** One task as the master pushes it. [T-2] */
export type TaskPush = {
  task: Uint8Array;
  lease: number;
  crawl: number;
  url: string;
  depth: number;
  attempt: number;
  /** True: the operator named its host as a seed, so it may be told who asks. */
  open?: boolean;
  /** Private blocks where the master found that host: it may be at these, too. */
  private?: readonly string[];
  /** Ask whether it changed, by these. [T-31] */
  etag?: string | undefined;
  lastModified?: string | undefined;
  /** Not the task's own URL but this one, where it redirects to it, is asked so. */
  validatedUrl?: string | undefined;
  /** Absent: a page. `robots`: a robots.txt, answered by `task.robots` [T-17]; `sitemap`: answered by
   *  `task.sitemap` [T-20]. */
  kind?: Exclude<TaskKind, 'page'>;
  /** Its host has not proved that it answers: it begins at once, beside the slots [T-51]. `first`:
   *  nothing is known of it, so that it is waited for more briefly [T-53]. */
  trial?: 'first' | 'again';
  /** The host has a delay: say `task.started` when the request leaves. [T-18] */
  timed?: true;
  /** A failure of this attempt is the end of it. [T-60] */
  last?: true;
};

/** What the master sends unasked. */
export type Push =
  | { verb: 'crawl.spec'; crawl: number; name: string; fetch: FetchSpec }
  /** It is finished or cancelled; its spec is said again if it should go on. [T-30] */
  | { verb: 'crawl.ended'; crawl: number }
  | { verb: 'task.push'; tasks: TaskPush[] }
  /** The lease was taken away; its report would be stale. [T-8] */
  | { verb: 'task.cancel'; leases: number[] }
  | { verb: 'ping' }
  | { verb: 'drain' }
  /** The last word before the master closes: what this peer did wrong. [E-2] */
  | { verb: 'error'; error: ErrorCode; message: string };

export type Reply<V extends keyof Replies = keyof Replies> =
  | ({ id: number; ok: true } & Replies[V])
  | { id: number; ok: false; error: ErrorCode; message: string };

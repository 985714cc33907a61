/**
 * The native dialect: every message, its schema, and every limit of the wire. PROTOCOL.md is the
 * text of it; clause ids in brackets point there. Requests carry an `id` and get one reply with
 * the same `id`; a message without an id gets none.
 */
import * as z from 'zod';
import {
  type CrawlState,
  crawlNameSchema,
  type FetchSpec,
  type ImageVia,
  imageVias,
  robotsDirectives,
  trapRules,
} from './crawl.ts';
import type { ErrorCode } from './errors.ts';

/** Goes up with every change that an older peer would misread. [V-1] */
export const protocolVersion = 1;

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

/** What a sitemap can be. Source: PROTOCOL.md, "task.sitemap". */
export const sitemapKinds = ['urlset', 'index', 'text', 'feed', 'none'] as const;
export type SitemapKind = (typeof sitemapKinds)[number];

const id = z.int().min(0).optional();
const lease = z.int().min(0);
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array, {
  error: 'is not bytes',
});
const taskId = bytes.refine((id) => id.length >= 1 && id.length <= 64);
const url = z.string().min(1).max(limits.urlChars);
const short = z.string().max(256);
const queueName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/);

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

/** Why a link was not taken: scope and patterns, `--max-depth`, a trap. Source: PROTOCOL.md [C-12]. */
export const skipReasons = ['host', 'include', 'exclude', 'depth', ...trapRules] as const;
export type SkipReason = (typeof skipReasons)[number];
export type TrapRule = (typeof trapRules)[number];
/** What came of one fetch; becomes the line in pages.jsonl. */
export const resultSchema = z.strictObject({
  finalUrl: url,
  status: z.int().min(0).max(999),
  type: short.optional(),
  charset: short.optional(),
  bytes: z.int().min(0),
  ms: z.number().min(0),
  title: z.string().max(limits.titleChars).optional(),
  /** Set when the body was cut at the byte limit. */
  cut: z.boolean().optional(),
  /** Where a redirect left the politeness group; the target is also among the links. */
  redirectedTo: url.optional(),
  /** An answer that is no page (404 and its like): definite, not fetched again. */
  error: fetchErrorSchema.optional(),
  linksCut: z.int().min(0).optional(),
  imagesCut: z.int().min(0).optional(),
  /** Images that are data: URLs. */
  dataImages: z.int().min(0).optional(),
  /** What the answer asks of this crawler, by meta elements and X-Robots-Tag; each once. */
  directives: z.array(z.enum(robotsDirectives)).max(robotsDirectives.length).optional(),
  /** Links that are not offered because the page asks for it. */
  nofollowed: z.int().min(0).optional(),
  /** Where a refresh leads to, if that is another URL; offered with the links. */
  refresh: url.optional(),
  /** What the page says is its preferred URL, if that is another one. */
  canonical: url.optional(),
  /** Headers that are sent back as they came: [T-31]. */
  etag: z.string().max(256).optional(),
  lastModified: z.string().max(64).optional(),
});
export type Result = z.infer<typeof resultSchema>;

/** `src` is absolute, http or https; `width` and `height` in pixels, as the page says. */
export type Image = { src: string; via: ImageVia; alt?: string; width?: number; height?: number };
export const imagePixelsMax = 1_000_000;

// Long arrays are checked by tight loops instead of zod: 1 µs for a page against 5.
const images = z.custom<Image[]>(isImages, { error: 'images are not a list of {src, via, alt}' });
const links = bytes.refine((joined) => joined.length <= limits.linksBytesMax, {
  error: 'are too long',
});

/** What an earlier crawl has on record of a URL whose answer had validators; the names are those of
 *  a result. */
const earlierPageSchema = resultSchema
  .omit({ finalUrl: true, status: true, ms: true, redirectedTo: true, error: true })
  .extend({
    /** Whose validators these are, where the URL redirects. */
    finalUrl: url.optional(),
    images,
    links: z.int().min(0),
  });
export type EarlierPage = z.infer<typeof earlierPageSchema>;

/** Shown in logs and on terminals, so nothing that moves a cursor. [S-2] */
export const peerNameSchema = z
  .string()
  .regex(/^[^\p{C}]{1,64}$/u, { error: 'must be 1 to 64 printable characters' });

/** Nothing but the name of a crawl. */
function ofCrawl<V extends string>(verb: V) {
  return z.strictObject({ verb: z.literal(verb), id: z.int().min(0), crawl: crawlNameSchema });
}

/** Every request, by verb. What is not here is refused as E_UNKNOWN_VERB. */
export const requestSchemas = {
  hello: z.strictObject({
    verb: z.literal('hello'),
    id: z.int().min(0),
    protocol: z.int().min(0),
    role: z.enum(['slave', 'client']),
    name: peerNameSchema,
    /** HMAC over role, version and both challenges. [H-6] */
    proof: bytes,
  }),
  ping: z.strictObject({ verb: z.literal('ping'), id }),
  bye: z.strictObject({ verb: z.literal('bye'), id }),
  /** This session may hold `count` leases at once; 0 drains. [T-1] */
  'task.credit': z.strictObject({
    verb: z.literal('task.credit'),
    id,
    count: z.int().min(0).max(limits.creditMax),
    /** Fetches at once; a task whose start time matters is not given beyond it. Default: count. */
    slots: z.int().min(0).max(limits.creditMax).optional(),
    /** `files`: no pages, only what tells of a host, as robots.txt does. Default: all. [T-40] */
    takes: z.enum(['all', 'files']).optional(),
  }),
  /** Result and discovered links together; acknowledged after the commit. [T-5] */
  'task.report': z.strictObject({
    verb: z.literal('task.report'),
    id: z.int().min(0),
    task: taskId,
    lease,
    result: resultSchema,
    images,
    /** Canonical absolute URLs, ASCII, each ended or parted by a line feed. */
    links,
  }),
  /** The request of a timed task leaves now; the host's delay counts from here. [T-18] */
  'task.started': z.strictObject({ verb: z.literal('task.started'), id, lease }),
  /** A redirect leads to `url`: may it be followed? Answered when it is its turn. [T-22] */
  'task.hop': z.strictObject({ verb: z.literal('task.hop'), id: z.int().min(0), lease, url }),
  /** The answer to a task of kind `robots`, whatever its status; a failure is a release. [T-17] */
  'task.robots': z.strictObject({
    verb: z.literal('task.robots'),
    id: z.int().min(0),
    task: taskId,
    lease,
    /** Of the last hop. */
    status: z.int().min(100).max(999),
    /** As it came, content codings undone. */
    body: bytes.refine((body) => body.length <= limits.robotsBytesMax, { error: 'is too long' }),
    cacheControl: z.string().max(1024).optional(),
    retryAfterMs: z.int().min(0).max(86_400_000).optional(),
  }),
  /** What a task of kind `sitemap` came to, in one part or several; a failed fetch is a release.
   *  [T-20] */
  'task.sitemap': z.strictObject({
    verb: z.literal('task.sitemap'),
    id: z.int().min(0),
    task: taskId,
    lease,
    /** `index`: `urls` are sitemaps; `none`: no sitemap, or no answer 200. */
    kind: z.enum(sitemapKinds),
    urls: links,
    images: links,
    /** In the last part: the whole of it. Before, the task stays open. */
    end: z
      .strictObject({ result: resultSchema, urls: z.int().min(0), images: z.int().min(0) })
      .optional(),
  }),
  /** Give a task back. With `error` it counts as a failed attempt. [T-6] */
  'task.release': z.strictObject({
    verb: z.literal('task.release'),
    id: z.int().min(0),
    task: taskId,
    lease,
    error: fetchErrorSchema.optional(),
    /** The server's own word (Retry-After), in ms. */
    retryAfterMs: z.int().min(0).max(86_400_000).optional(),
  }),
  /** More time for these leases; answered with those that are no longer held. [T-7] */
  'task.extend': z.strictObject({
    verb: z.literal('task.extend'),
    id,
    leases: z.array(lease).max(limits.creditMax),
  }),
  'crawl.add': z.strictObject({
    verb: z.literal('crawl.add'),
    id: z.int().min(0),
    crawl: crawlNameSchema,
    seeds: z.array(url).max(limits.seedsMax),
    /** Fields of a CrawlSpec, for a crawl that is made by this; the master's own options fill the
     *  rest. E_BAD_REQUEST for a crawl that is there. */
    spec: z.record(z.string(), z.unknown()).optional(),
    /** Higher first in a crawl of `order: priority`; links inherit it. */
    priority: z.int().min(-1000).max(1000).default(0),
  }),
  /** URLs of an earlier crawl, to be fetched again if they changed. [C-20] */
  'crawl.recrawl': z.strictObject({
    verb: z.literal('crawl.recrawl'),
    id: z.int().min(0),
    crawl: crawlNameSchema,
    /** A crawl that is made by this has the spec of this one, and then these fields. */
    like: crawlNameSchema.optional(),
    spec: z.record(z.string(), z.unknown()).optional(),
    urls: z
      .array(
        z.strictObject({
          url,
          depth: z.int().min(0).max(65_535),
          page: earlierPageSchema.optional(),
        }),
      )
      .max(limits.seedsMax),
  }),
  'crawl.list': z.strictObject({ verb: z.literal('crawl.list'), id: z.int().min(0) }),
  'crawl.pause': ofCrawl('crawl.pause'),
  'crawl.resume': ofCrawl('crawl.resume'),
  'crawl.cancel': ofCrawl('crawl.cancel'),
  /** Buried URLs of a crawl, `limit` at a time, from the one after `after`. */
  'crawl.buried': z.strictObject({
    verb: z.literal('crawl.buried'),
    id: z.int().min(0),
    crawl: crawlNameSchema,
    after: bytes.optional(),
    limit: z.int().min(1).max(1000).default(100),
  }),
  /** Buried URLs back into the task queue: one, or all of the crawl. */
  'crawl.replay': z.strictObject({
    verb: z.literal('crawl.replay'),
    id: z.int().min(0),
    crawl: crawlNameSchema,
    url: url.optional(),
  }),
  /** A copy of the state and the files, below the master's data folder. [C-13] */
  backup: z.strictObject({ verb: z.literal('backup'), id: z.int().min(0), name: crawlNameSchema }),
  'queue.put': z.strictObject({
    verb: z.literal('queue.put'),
    id: z.int().min(0),
    queue: queueName,
    /** Each item a msgpack value, encoded by the sender. */
    items: z.array(bytes).min(1).max(limits.queueItemsMax),
  }),
  /** Take up to `count` items, waiting up to `waitMs` for the first. */
  'queue.get': z.strictObject({
    verb: z.literal('queue.get'),
    id: z.int().min(0),
    queue: queueName,
    count: z.int().min(1).max(limits.queueItemsMax).default(1),
    waitMs: z.int().min(0).max(limits.waitMsMax).default(0),
  }),
  /** The items are in safe hands; until then the session's end puts them back. */
  'queue.done': z.strictObject({
    verb: z.literal('queue.done'),
    id,
    queue: queueName,
    items: z.array(z.int().min(0)).max(limits.queueItemsMax),
  }),
  'queue.size': z.strictObject({
    verb: z.literal('queue.size'),
    id: z.int().min(0),
    queue: queueName,
  }),
} as const;

export type Verb = keyof typeof requestSchemas;
export type Requests = { [V in Verb]: z.infer<(typeof requestSchemas)[V]> };
export type Request = Requests[Verb];

/** Counters of one crawl as `crawl.list` gives them and the master shows them. */
export type CrawlStatus = {
  name: string;
  state: CrawlState;
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
  'crawl.add': { admitted: number; known: number; refused: { url: string; why: string }[] };
  'crawl.recrawl': { admitted: number; known: number; refused: number };
  'crawl.list': {
    crawls: CrawlStatus[];
    sessions: { name: string; role: string; leases: number }[];
  };
  /** `state`: what the crawl is now. */
  'crawl.pause': { state: CrawlState };
  'crawl.resume': { state: CrawlState };
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
  /** True: the operator named its host as a seed, so it may be at a private address. */
  open?: boolean;
  /** Ask whether it changed, by these. [T-31] */
  etag?: string | undefined;
  lastModified?: string | undefined;
  /** Not the task's own URL but this one, where it redirects to it, is asked so. */
  validatedUrl?: string | undefined;
  /** Absent: a page. `robots`: a robots.txt, answered by `task.robots` [T-17]; `sitemap`: answered by
   *  `task.sitemap` [T-20]. */
  kind?: 'robots' | 'sitemap';
  /** The host has a delay: say `task.started` when the request leaves. [T-18] */
  timed?: true;
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

export type Reply<V extends Verb = Verb> =
  | ({ id: number; ok: true } & Replies[V])
  | { id: number; ok: false; error: ErrorCode; message: string };

const imageKeys = new Set(['src', 'via', 'alt', 'width', 'height']);
const vias: ReadonlySet<unknown> = new Set(imageVias);

function isImages(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > limits.imagesMax) return false;
  for (const image of value) {
    if (typeof image !== 'object' || image === null) return false;
    const { src, via, alt, width, height } = image as Record<string, unknown>;
    if (typeof src !== 'string' || src.length === 0 || src.length > limits.urlChars) return false;
    if (!vias.has(via) || !isPixels(width) || !isPixels(height)) return false;
    if (alt !== undefined && (typeof alt !== 'string' || alt.length > limits.altChars))
      return false;
    for (const key in image) if (!imageKeys.has(key)) return false;
  }
  return true;
}

function isPixels(value: unknown): boolean {
  if (value === undefined) return true;
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= imagePixelsMax;
}

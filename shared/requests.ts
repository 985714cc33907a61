/**
 * Every request of the native dialect, as schemas for the side that checks it; clause ids in
 * brackets refer to PROTOCOL.md. Replies and pushes are in `protocol.ts`.
 */
import * as z from 'zod';
import { archiveExchangesMax } from './archive.ts';
import { archiveRequests } from './archive-requests.ts';
import {
  crawlNameSchema,
  crawlStates,
  headerSchema,
  type ImageVia,
  imageVias,
  requestLimits,
} from './crawl.ts';
import { followLimits } from './follow.ts';
import { imageRequests } from './image-requests.ts';
import { imageFactsSchema } from './images.ts';
import { jobRequests } from './job-requests.ts';
import { lazily } from './lazily.ts';
import { isPageItems, type PageItems } from './page-items.ts';
import {
  fetchErrorKinds,
  fetchErrorSchema,
  hostSorts,
  imagePixelsMax,
  limits,
  peerNameSchema,
  sitemapKinds,
} from './protocol.ts';
import { queueRequests } from './queue-requests.ts';
import { carriedSchema, resultSchema } from './result-fields.ts';
import { slaveRequests } from './slave-requests.ts';

const id = z.int().min(0).optional();
const agoMs = z.int().min(0).max(86_400_000).optional();
const lease = z.int().min(0);
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array, {
  error: 'is not bytes',
});
const taskId = bytes.refine((id) => id.length >= 1 && id.length <= 64);
const url = z.string().min(1).max(limits.urlChars);

export type { FetchErrorBody } from './protocol.ts';
export type Result = z.infer<typeof resultSchema>;

/** `src` is absolute, http or https; `width` and `height` in pixels, from the page. `license`: URL
 *  of what the page says of it by rel=license, where images are downloaded. */
export type Image = {
  src: string;
  via: ImageVia;
  alt?: string;
  width?: number;
  height?: number;
  license?: string;
};

// Long arrays are checked by tight loops instead of zod: 1 µs for a page against 5.
const images = z.custom<Image[]>(isImages, { error: 'images are not a list of {src, via, alt}' });
const links = bytes.refine((joined) => joined.length <= limits.linksBytesMax, {
  error: 'are too long',
});

/** How many exchanges of the task were sent before, by `task.archive`. [T-103] */
const archived = z.int().min(0).max(archiveExchangesMax).optional();

/** A value as msgpack bytes of its own, so that it can be kept as it came. Its receiver unpacks it
 *  by the schema of its name in `packedSchemas`. [F-9] */
const packed = bytes;
const pageItems = z.custom<PageItems>(isPageItems, {
  error: 'are not {rows, rejected, failures, counts}',
});
export const packedSchemas = {
  result: resultSchema,
  images,
  items: pageItems,
  image: imageFactsSchema,
} as const;

/** The record of an earlier crawl about a URL whose answer had validators; the names are those of
 *  a result. */
const earlierPageSchema = carriedSchema.extend({
  /** Whose validators these are, where the URL redirects. */
  finalUrl: url.optional(),
  images,
  links: z.int().min(0),
});
export type EarlierPage = z.infer<typeof earlierPageSchema>;

/** A seed that is asked for by POST. [C-100] */
const seedRequestSchema = z.strictObject({
  url,
  method: z.literal('POST'),
  headers: z.array(headerSchema).max(64),
  body: bytes.refine((body) => body.length <= requestLimits.bytesMax, { error: 'is too long' }),
});
export type SeedRequest = z.infer<typeof seedRequestSchema>;

/** Nothing but the name of a crawl. */
function ofCrawl<V extends string>(verb: V) {
  return z.strictObject({ verb: z.literal(verb), id: z.int().min(0), crawl: crawlNameSchema });
}

/** Every request, by verb. Any other verb is E_UNKNOWN_VERB. A schema takes 0.05 ms to make. */
export const requestSchemas = lazily({
  hello: () =>
    z.strictObject({
      verb: z.literal('hello'),
      id: z.int().min(0),
      protocol: z.int().min(0),
      role: z.enum(['slave', 'client']),
      name: peerNameSchema,
      /** HMAC over role, version and both challenges. [H-6] */
      proof: bytes,
    }),
  ping: () => z.strictObject({ verb: z.literal('ping'), id }),
  bye: () => z.strictObject({ verb: z.literal('bye'), id }),
  /** This session may hold `count` leases at once; 0 drains. [T-1] */
  'task.credit': () =>
    z.strictObject({
      verb: z.literal('task.credit'),
      id,
      count: z.int().min(0).max(limits.creditMax),
      /** Concurrent fetches; the master gives no task beyond it whose start time matters. Default:
       *  count. */
      slots: z.int().min(0).max(limits.creditMax).optional(),
      /** Tasks that it starts at once besides its slots, for requests whose answers are late.
       *  Default: 0. [T-46] */
      lent: z.int().min(0).max(limits.creditMax).optional(),
      /** How many of `count` may be trials, outside the slots: tasks of hosts that may not answer.
       *  Default: 0. [T-51] */
      trials: z.int().min(0).max(limits.creditMax).optional(),
      /** `probes`: no pages, only tasks that describe a host, such as robots.txt. Default: all.
       *  [T-40] */
      takes: z.enum(['all', 'probes', 'pages']).optional(),
    }),
  /** Result and discovered links together; acknowledged after the commit. [T-5] */
  'task.report': () =>
    z.strictObject({
      verb: z.literal('task.report'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** Fields of `result-fields.ts`. */
      result: packed,
      images: packed,
      /** Canonical absolute URLs, ASCII, separated by line feeds; a trailing one is allowed. */
      links,
      /** The result of the crawl's rules for the page; absent: none was evaluated. [T-81] */
      items: packed
        .refine((all) => all.length <= limits.itemsBytesMax, { error: 'are too long' })
        .optional(),
      archived,
      /** Links that get another priority than the page has. [T-92] */
      follow: z
        .array(z.strictObject({ priority: z.int().min(-1000).max(1000), links }))
        .max(followLimits.rulesMax)
        .optional(),
    }),
  /** The request of a timed task leaves now, or has left `agoMs` ago; the host's delay counts from
   *  there. [T-18] [T-145] */
  'task.started': () => z.strictObject({ verb: z.literal('task.started'), id, lease, agoMs }),
  /** Asks whether a redirect to `url` may be followed, or whether a page in the browser may have it
   *  as a frame. The reply comes when it is its turn. [T-22] [T-143] */
  'task.hop': () =>
    z.strictObject({
      verb: z.literal('task.hop'),
      id: z.int().min(0),
      lease,
      url,
      frame: z.literal(true).optional(),
    }),
  /** The answer to a task of kind `robots`, whatever its status; a failure is a release. [T-17] */
  'task.robots': () =>
    z.strictObject({
      verb: z.literal('task.robots'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** Of the last hop. */
      status: z.int().min(100).max(999),
      /** The bytes after content decoding. */
      body: bytes.refine((body) => body.length <= limits.robotsBytesMax, { error: 'is too long' }),
      cacheControl: z.string().max(1024).optional(),
      retryAfterMs: z.int().min(0).max(86_400_000).optional(),
      archived,
    }),
  /** The content of a sitemap, in one part or several; a failed fetch is a release. [T-20] */
  'task.sitemap': () =>
    z.strictObject({
      verb: z.literal('task.sitemap'),
      id: z.int().min(0),
      task: taskId,
      lease,
      /** `index`: `urls` are sitemaps; `none`: not a sitemap, or not an answer 2xx. */
      kind: z.enum(sitemapKinds),
      urls: links,
      images: links,
      /** In the last part: the result and the totals. Until then the task stays open. */
      end: z
        .strictObject({
          result: packed,
          urls: z.int().min(0),
          images: z.int().min(0),
        })
        .optional(),
      archived,
    }),
  /** Returns a task. With `error` it counts as a failed attempt. [T-6] */
  'task.release': () =>
    z.strictObject({
      verb: z.literal('task.release'),
      id: z.int().min(0),
      task: taskId,
      lease,
      error: fetchErrorSchema.optional(),
      /** The wait that the server asked for (Retry-After), in ms. */
      retryAfterMs: z.int().min(0).max(86_400_000).optional(),
      /** No further attempt can help: it is buried at once. [T-61] */
      final: z.boolean().optional(),
      archived,
    }),
  ...archiveRequests({ bytes, taskId, lease, url }),
  ...imageRequests({ bytes, taskId, lease, packed, archived }),
  ...slaveRequests({ id }),
  /** Extends these leases; the reply lists those that the session no longer holds. [T-7] */
  'task.extend': () =>
    z.strictObject({
      verb: z.literal('task.extend'),
      id,
      leases: z.array(lease).max(limits.creditMax),
    }),
  'crawl.add': () =>
    z.strictObject({
      verb: z.literal('crawl.add'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      seeds: z.array(url).max(limits.seedsMax),
      /** Fields of a CrawlSpec, for a new crawl; the master's own options supply the rest.
       *  E_BAD_REQUEST if a crawl has another, unless no seed of it was answered. [C-9] [C-48] */
      spec: z.record(z.string(), z.unknown()).optional(),
      requests: z.array(seedRequestSchema).max(requestLimits.countMax).optional(),
      /** Higher first in a crawl of `order: priority`; links inherit it. */
      priority: z.int().min(-1000).max(1000).default(0),
    }),
  /** URLs of an earlier crawl, to be fetched again if they changed. [C-20] */
  'crawl.recrawl': () =>
    z.strictObject({
      verb: z.literal('crawl.recrawl'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      /** A new crawl takes over the spec of this crawl, changed by the fields of `spec`. */
      like: crawlNameSchema.optional(),
      spec: z.record(z.string(), z.unknown()).optional(),
      urls: z
        .array(
          z.strictObject({
            url,
            depth: z.int().min(0).max(65_535),
            /** The page that led to it. */
            from: url.optional(),
            page: earlierPageSchema.optional(),
          }),
        )
        .max(limits.seedsMax),
    }),
  /** Crawls, open ones first, up to `limit` at a time, from the one after `after`. [C-71] */
  'crawl.list': () =>
    z.strictObject({
      verb: z.literal('crawl.list'),
      id: z.int().min(0),
      /** Only this one. */
      crawl: crawlNameSchema.optional(),
      /** Only those; default: all. */
      states: z.array(z.enum(crawlStates)).max(crawlStates.length).optional(),
      after: bytes.optional(),
      limit: z.int().min(0).max(1000).default(1000),
    }),
  'crawl.pause': () => ofCrawl('crawl.pause'),
  'crawl.resume': () =>
    z.strictObject({
      verb: z.literal('crawl.resume'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      /** For a held crawl: start new files in place of those that are not as they were left.
       *  [C-31] */
      newFiles: z.boolean().optional(),
    }),
  'crawl.cancel': () => ofCrawl('crawl.cancel'),
  /** Other options for a crawl that is there. [C-43] */
  'crawl.set': () =>
    z.strictObject({
      verb: z.literal('crawl.set'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      /** Fields of a CrawlSpec; null: the default of that field. */
      spec: z.record(z.string(), z.unknown()),
    }),
  /** Ends a crawl and forgets it. [C-40] */
  'crawl.remove': () =>
    z.strictObject({
      verb: z.literal('crawl.remove'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      /** Delete its result files, too. [C-41] */
      files: z.boolean().optional(),
    }),
  /** Another name for a crawl, and for the folder of its results. [C-42] */
  'crawl.rename': () =>
    z.strictObject({
      verb: z.literal('crawl.rename'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      to: crawlNameSchema,
    }),
  /** Dated names for the result files of a crawl, and new files. [C-80] */
  'crawl.rotate': () => ofCrawl('crawl.rotate'),
  /** The sinks of a crawl; `drop`: an output to give up. [C-110] */
  'crawl.sinks': () =>
    z.strictObject({
      verb: z.literal('crawl.sinks'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      drop: z.string().min(1).max(64).optional(),
    }),
  /** Buried URLs of a crawl, `limit` at a time, from the one after `after`. */
  'crawl.buried': () =>
    z.strictObject({
      verb: z.literal('crawl.buried'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      after: bytes.optional(),
      limit: z.int().min(1).max(1000).default(100),
    }),
  /** Failed URLs of a crawl, up to `limit` at a time, from the one after `after`. [C-70] */
  'crawl.failed': () =>
    z.strictObject({
      verb: z.literal('crawl.failed'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      after: bytes.optional(),
      limit: z.int().min(1).max(1000).default(100),
      /** Only failures of these kinds; default: all. */
      kinds: z.array(z.enum(fetchErrorKinds)).max(fetchErrorKinds.length).optional(),
    }),
  /** Counts rows and lines, and compares them with the ledger. [C-77] */
  'crawl.verify': () => ofCrawl('crawl.verify'),
  /** How a URL stands in a crawl, and why. The master looks for a while, then says where to go on.
   *  [C-76] */
  'crawl.why': () =>
    z.strictObject({
      verb: z.literal('crawl.why'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      url,
      after: bytes.optional(),
    }),
  /** Puts buried URLs back into the task queue: one, or all of the crawl. */
  'crawl.replay': () =>
    z.strictObject({
      verb: z.literal('crawl.replay'),
      id: z.int().min(0),
      crawl: crawlNameSchema,
      url: url.optional(),
    }),
  /** Hosts, those in memory first, up to `limit` at a time, from the one after `after`. [C-72] */
  'host.list': () =>
    z.strictObject({
      verb: z.literal('host.list'),
      id: z.int().min(0),
      /** Only hosts with tasks of this crawl. */
      crawl: crawlNameSchema.optional(),
      sort: z.enum(hostSorts).default('waiting'),
      after: bytes.optional(),
      limit: z.int().min(1).max(1000).default(100),
    }),
  /** How a host is treated from now on, whatever its crawls say. [C-73] */
  'host.set': () =>
    z.strictObject({
      verb: z.literal('host.set'),
      id: z.int().min(0),
      /** With or without scheme and port. */
      host: z.string().min(1).max(300),
      /** null: that of the crawls again. */
      delayMs: z.int().min(0).max(86_400_000).nullable().optional(),
      blocked: z.boolean().optional(),
      /** Ends a sleep or a hold. */
      wake: z.boolean().optional(),
      /** The same, and puts URLs back that were given up because the host was out of reach. */
      retry: z.boolean().optional(),
    }),
  /** A copy of the state and the files, below the master's data folder. [C-13] */
  backup: () =>
    z.strictObject({ verb: z.literal('backup'), id: z.int().min(0), name: crawlNameSchema }),
  ...queueRequests,
  ...jobRequests,
});

export type Verb = keyof typeof requestSchemas;
export type Packed = { [N in keyof typeof packedSchemas]: z.output<(typeof packedSchemas)[N]> };
/** As they were parsed; `Said`: as they are sent. */
export type Requests = { [V in Verb]: z.output<(typeof requestSchemas)[V]> };
export type Said = { [V in Verb]: z.input<(typeof requestSchemas)[V]> };
export type Request = Requests[Verb];

const imageKeys = new Set(['src', 'via', 'alt', 'width', 'height', 'license']);
const vias: ReadonlySet<unknown> = new Set(imageVias);

function isImages(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > limits.imagesMax) return false;
  for (const image of value) {
    if (typeof image !== 'object' || image === null) return false;
    const { src, via, alt, width, height, license } = image as Record<string, unknown>;
    if (typeof src !== 'string' || src.length === 0 || src.length > limits.urlChars) return false;
    if (!vias.has(via) || !isPixels(width) || !isPixels(height)) return false;
    if (alt !== undefined && (typeof alt !== 'string' || alt.length > limits.altChars))
      return false;
    if (license !== undefined && (typeof license !== 'string' || !fitsLicense(license)))
      return false;
    for (const key in image) if (!imageKeys.has(key)) return false;
  }
  return true;
}

function fitsLicense({ length }: string): boolean {
  return length > 0 && length <= limits.licenseChars;
}

function isPixels(value: unknown): boolean {
  if (value === undefined) return true;
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= imagePixelsMax;
}

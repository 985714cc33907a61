/**
 * The spec of a crawl, fixed when the crawl is added. The master keeps it with the crawl and sends
 * the part that slaves need (`FetchSpec`) with the first task of a crawl.
 */
import * as z from 'zod';
import { isAddressRange } from './address.ts';
import { version } from './version.ts';

/** `held`: its files are not as the master left them; the store records it as running or paused. */
export type CrawlState = 'running' | 'paused' | 'held' | 'finished' | 'cancelled';

export const crawlDelayMaxMsDefault = 60_000;
const count = (max: number) => z.int().min(1).max(max);

/** Where an image was found. docs/images.md explains each. */
export const imageVias = [
  'img',
  'srcset',
  'source',
  'lazy',
  'preload',
  'icon',
  'poster',
  'input',
  'svg',
  'css',
  'og',
  'twitter',
  'jsonld',
  'sitemap',
] as const;
export type ImageVia = (typeof imageVias)[number];

/** The page directives that are recorded; `none` and `nocache` stand for some of them.
 *  Source: Google Search Central, "Robots meta tag"; RFC 9309 leaves this open. */
export const robotsDirectives = [
  'noindex',
  'nofollow',
  'noarchive',
  'nosnippet',
  'noimageindex',
  'notranslate',
  'noai',
  'noimageai',
] as const;
export type RobotsDirective = (typeof robotsDirectives)[number];

/** The page directives that a crawl can honour. `nofollow` applies to all links of a page;
 *  `rel-nofollow` to one link (`rel=nofollow`, `ugc` or `sponsored`). */
export const obeyable = ['nofollow', 'rel-nofollow', 'noindex'] as const;

/** The attributes in which common scripts keep the addresses of lazy images. */
export const lazyAttributes: readonly string[] = [
  'data-src',
  'data-srcset',
  'data-original',
  'data-original-set',
  'data-lazy',
  'data-lazy-src',
  'data-lazy-srcset',
  'data-actualsrc',
  'data-echo',
  'data-hi-res-src',
  'data-image',
  'data-img-src',
  'data-large-file',
  'data-bg',
  'data-bgset',
  'data-background',
  'data-background-image',
  'data-poster',
];
/** The form that `isProxyUrl` accepts, in words. */
export const proxyUrlForm = 'must be http://, https:// or socks5://[user:password@]host[:port]';

/** Is it the address of a proxy, without a path? */
export function isProxyUrl(text: string): boolean {
  if (!/^(?:https?|socks5):\/\/[^/?#]+\/?$/i.test(text) || !URL.canParse(text)) return false;
  return new URL(text).hostname !== '';
}

const attributeName = z.string().regex(/^[a-z][a-z0-9_:.-]{0,63}$/, {
  error: 'must be attribute names in lower case',
});

/** Headers that the client sets itself, or that another option sets. Source: Fetch Standard,
 *  "forbidden request-header", with what a crawler sets itself. */
const forbiddenHeader =
  /^(?:accept-encoding|connection|content-length|cookie|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent|via|(?:proxy|sec)-.*)$/i;
const header = z.tuple([
  z
    .string()
    .regex(/^[\w!#$%&'*+.^`|~-]{1,128}$/, { error: 'is not a header name' })
    .refine((name) => !forbiddenHeader.test(name), { error: 'is set by the slave itself' }),
  z.string().regex(/^[\x20-\x7e]{0,4096}$/, { error: 'must be one line of ASCII text' }),
]);

const userAgent = z
  .string()
  .regex(/^[\x20-\x7e]{1,512}$/, { error: 'must be one line of ASCII text' });

/** Limits and rules of one fetch; the only part of a spec that a slave gets. */
export const fetchSpecSchema = z.strictObject({
  /** `img`: img[src] alone; `all`: every class of image source that is known; or these. */
  images: z.union([z.enum(['img', 'all']), z.array(z.enum(imageVias)).min(1)]).default('all'),
  /** Which candidates of a srcset: all, or the one with the most pixels. */
  srcset: z.enum(['all', 'best']).default('all'),
  lazyAttributes: z
    .array(attributeName)
    .max(64)
    .default([...lazyAttributes]),
  /** Whole fetch, redirects and body included, in ms. */
  timeoutMs: count(600_000).default(30_000),
  /** Name look-up, connection and TLS together, and the first answer of an unknown host, in ms. */
  connectTimeoutMs: count(600_000).default(5_000),
  /** Body after decompression; a longer page is cut there and still parsed. */
  bodyBytesMax: count(1 << 30).default(10 << 20),
  redirectsMax: z.int().min(0).max(50).default(10),
  /** The page directives to honour. */
  obey: z.array(z.enum(obeyable)).max(obeyable.length).default(['nofollow']),
  /** The target of a meta refresh is recorded, but is not a link. */
  ignoreRefresh: z.boolean().default(false),
  /** The address of an iframe is a link. */
  iframes: z.boolean().default(false),
  /** Its first word is our name in robots.txt. */
  userAgent: userAgent.default(`Orbweaver/${version}`),
  /** Further user agents, in rotation with the first. */
  otherUserAgents: z.array(userAgent).max(99).default([]),
  /** Proxies to fetch through, in rotation; none: directly. */
  proxies: z
    .array(z.string().max(1024).refine(isProxyUrl, { error: proxyUrlForm }))
    .max(100)
    .default([]),
  /** Offer HTTP/2 to https hosts. */
  http2: z.boolean().default(false),
  /** Sent with every request, name and value; Authorization goes to the hosts of seeds alone. */
  headers: z.array(header).max(64).default([]),
  /** Addresses that slaves may connect to besides the public ones: `all`, or ranges (`10.0.0.0/8`,
   *  `::1`). A seed also opens the private block of its own host. */
  allowPrivate: z
    .union([
      z.literal('all'),
      z
        .array(z.string().max(64).refine(isAddressRange, { error: 'is not an address range' }))
        .max(1000),
    ])
    .default([]),
  /** Sitemap entries that were last modified earlier are left out; Unix time in ms. */
  sitemapSinceMs: z.int().min(0).optional(),
});
export type FetchSpec = z.infer<typeof fetchSpecSchema>;

const trapLimit = (max: number, value: number) => z.int().min(0).max(max).default(value);

/** Limits on the links of endless sites, by rule; 0: that rule is off. docs/scope.md, "Traps". */
export const trapLimitsSchema = z.strictObject({
  /** Characters of a URL. */
  length: trapLimit(4096, 2083),
  /** Segments of a path. */
  segments: trapLimit(2048, 32),
  /** Segments that stood in the path before. */
  repeats: trapLimit(2048, 5),
  /** Parameters of a query. */
  parameters: trapLimit(4096, 32),
  /** URLs that differ only in a session id. */
  session: trapLimit(1, 1),
  /** URLs of one path with three parameters or more. */
  queries: trapLimit(1_000_000_000, 10_000),
  /** URLs that differ only in their numbers, far from a seed: 5 links if they look like a
   *  calendar's, else 100. */
  similar: trapLimit(1_000_000_000, 10_000),
});
export type TrapLimits = z.infer<typeof trapLimitsSchema>;
/** In the order in which they are applied to a link; the crawl's patterns come after
 *  `parameters`. */
export const trapRules = [
  'length',
  'segments',
  'repeats',
  'parameters',
  'session',
  'queries',
  'similar',
] as const satisfies readonly (keyof TrapLimits)[];

/** The master, which runs the pattern, decides what it may contain. */
const pattern = z.string().max(1024);

export const crawlSpecSchema = z.strictObject({
  /** `host`: the seeds' hosts; `domain`: their registrable domains; `any`: no bound. */
  scope: z.enum(['host', 'domain', 'any']).default('host'),
  /** A URL must match one of these (if there are any) and none of `exclude`: see the master's
   *  `pattern-syntax`. */
  include: z.array(pattern).max(100).default([]),
  exclude: z.array(pattern).max(100).default([]),
  /** Links away from a seed; 0 fetches the seeds alone. */
  maxDepth: z.int().min(0).max(65_535).optional(),
  /** Pages written before the crawl ends. */
  maxPages: count(Number.MAX_SAFE_INTEGER).optional(),
  order: z.enum(['bfs', 'dfs', 'priority']).default('bfs'),
  /** Between the starts of two fetches from one host, in ms; unset: 250, on a loopback host 0. */
  delayMs: z.int().min(0).max(86_400_000).optional(),
  /** Concurrent fetches from one host; unset: 2, on a loopback host 32. */
  perHost: count(10_000).optional(),
  /** Fetch also URLs that robots.txt disallows, and ignore its Crawl-delay. */
  ignoreRobots: z.boolean().default(false),
  /** `robots`: the sitemaps that a host's robots.txt names; `all`: also `/sitemap.xml` where it
   *  names none. */
  sitemaps: z.enum(['none', 'robots', 'all']).default('robots'),
  /** A longer Crawl-delay of a robots.txt counts as this, in ms. */
  crawlDelayMaxMs: z.int().min(0).max(86_400_000).default(crawlDelayMaxMsDefault),
  /** Identify a page by its canonical URL where that is in scope: one page for each. */
  canonical: z.boolean().default(false),
  traps: trapLimitsSchema.prefault({}),
  /** Fetches of one URL before it is buried. */
  attemptsMax: count(100).default(4),
  /** Sizes the first Bloom filter; more URLs only add filters. */
  urlsExpected: count(1_000_000_000).default(1_000_000),
  fetch: fetchSpecSchema.prefault({}),
});
export type CrawlSpec = z.infer<typeof crawlSpecSchema>;
export type CrawlSpecInput = z.input<typeof crawlSpecSchema>;

/** Names a folder under `--out`, so only letters, digits, dot, dash and underscore are allowed. */
export const crawlNameSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, {
  error:
    'must be 1 to 64 letters, digits, dots, dashes or underscores, starting with a letter or digit',
});

/** Returns our name in robots.txt, robots meta elements and X-Robots-Tag: the start of the user
 *  agent. Source: RFC 9309, section 2.2.1. */
export function productToken(userAgent: string): string {
  return /^[A-Za-z_-]+/.exec(userAgent)?.[0] ?? 'Orbweaver';
}

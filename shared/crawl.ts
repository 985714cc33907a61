/**
 * The spec of a crawl, fixed when the crawl is added. The master keeps it with the crawl and sends
 * the part that slaves need (`FetchSpec`) with the first task of a crawl. Each option stands here
 * once, with its flag and help: the command line is made of these schemas.
 */
import * as z from 'zod';
import { isAddressRange } from './address.ts';
import { archiveFields, archiveLimits } from './archive.ts';
import { switched, whole } from './flags.ts';
import { followSchema } from './follow.ts';
import { downloadFields, imageLimits, keepingFault, keepsAsAsked } from './images.ts';
import { itemsSchema } from './items.ts';
import { loginSchema } from './login.ts';
import { outputsSchema } from './outputs.ts';
import { proxyFault, renderField, rendersDirectly } from './render.ts';
import { version } from './version.ts';

/** `held`: its files are not as the master left them; the store records it as running or paused. */
export const crawlStates = ['running', 'paused', 'held', 'finished', 'cancelled'] as const;
export type CrawlState = (typeof crawlStates)[number];

export const crawlDelayMaxMsDefault = 60_000;
export const everyMsMax = 366 * 86_400_000;

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
  'object',
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
const proxyUrlForm = 'must be http://, https:// or socks5://[user:password@]host[:port]';

/** Is it the address of a proxy, without a path? */
function isProxyUrl(text: string): boolean {
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
export const headerSchema = z.tuple([
  z
    .string()
    .regex(/^[\w!#$%&'*+.^`|~-]{1,128}$/, { error: 'is not a header name' })
    .refine((name) => !forbiddenHeader.test(name), { error: 'is set by the slave itself' }),
  z.string().regex(/^[\x20-\x7e]{0,4096}$/, { error: 'must be one line of ASCII text' }),
]);

/** Requests of one `crawl.add`, and bytes of a body. [C-100] */
export const requestLimits = { countMax: 256, bytesMax: 64 << 10 } as const;

/** The body for a URL; `headers` has the type of the body. */
export type TaskRequest = {
  readonly method: 'POST';
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
};

/** Limits of the cookies of one crawl, which slaves get with its spec. */
const cookiesMax = 1_000;
const cookieCharsMax = 64 << 10;
const cookie = z.strictObject({
  name: z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,256}$/, { error: 'is not the name of a cookie' }),
  value: z.string().regex(/^[\x20-\x3a\x3c-\x7e]{0,4096}$/, {
    error: 'is not the value of a cookie (ASCII text without ;)',
  }),
  /** A host as in URLs; absent: the hosts of the seeds. */
  domain: z.string().min(1).max(253).optional(),
  /** It goes to the subdomains of `domain`, too. */
  subdomains: z.boolean().optional(),
  path: z
    .string()
    .regex(/^\/[\x20-\x7e]{0,1023}$/, { error: 'is not the path of a cookie' })
    .optional(),
  secure: z.boolean().optional(),
  /** Unix time in ms; absent: it lasts as long as the crawl. */
  expiresAt: z.int().min(0).optional(),
});
/** A cookie that the operator gives. */
export type GivenCookie = z.infer<typeof cookie>;

export const ownAgent = `Orbweaver/${version}`;
const userAgent = z
  .string()
  .regex(/^[\x20-\x7e]{1,512}$/, { error: 'must be one line of ASCII text' });

/** Limits and rules of one fetch; the only part of a spec that a slave gets. */
export const fetchSpecSchema = z.strictObject({
  /** Unix time in ms. */
  sitemapSinceMs: z
    .int()
    .min(0)
    .optional()
    .describe(
      '--sitemap-since <date>  skip sitemap entries last modified before this date (2026-11-01); default: read all',
    ),
  obey: z
    .array(z.enum(obeyable))
    .max(obeyable.length)
    .default(['nofollow'])
    .describe(`--obey <directives>  page directives to honour: ${obeyable.join(',')}; all; none`),
  iframes: switched().describe('--iframes  follow the addresses of iframes like links'),
  /** The target of a meta refresh is recorded, but is not a link. */
  ignoreRefresh: switched().describe('--ignore-refresh  do not follow meta refresh'),
  images: z
    .union([z.enum(['img', 'all']), z.array(z.enum(imageVias)).min(1)], {
      error: `must be img, all, or some of: ${imageVias.join(',')}`,
    })
    .default('all')
    .describe(
      '--images <which>  image sources to collect: img (img[src] only), all, or a list of classes',
    ),
  /** The best candidate is the one with the most pixels. */
  srcset: z
    .enum(['all', 'best'])
    .default('all')
    .describe('--srcset <which>  candidates of a srcset to collect: all, or the best one'),
  lazyAttributes: z
    .array(attributeName)
    .max(64)
    .default([...lazyAttributes])
    .describe(
      '--lazy-attributes <names>  attributes that hold the address of a lazy image, comma-separated; default: data-src and others',
    ),
  timeoutMs: whole(1, 600_000)
    .default(30_000)
    .describe('--fetch-timeout <ms>  time limit of one fetch with its redirects, in milliseconds'),
  connectTimeoutMs: whole(1, 600_000)
    .default(5_000)
    .describe(
      "--connect-timeout <ms>  time limit of lookup, connection and TLS, and of a host's first answer, in milliseconds",
    ),
  /** Body after decompression; a longer page is cut there and still parsed. */
  bodyBytesMax: whole(1, 1 << 30)
    .default(10 << 20)
    .describe('--page-bytes <n>  maximum size of a page in bytes; a longer page is cut'),
  redirectsMax: whole(0, 50)
    .default(10)
    .describe('--redirects <n>  maximum number of redirects of one fetch'),
  /** Its first word is our name in robots.txt. */
  userAgent: userAgent
    .default(ownAgent)
    .describe(
      `--user-agent <text>  User-Agent header of the slaves (repeatable, to rotate); default: ${ownAgent}`,
    ),
  /** Further user agents, in rotation with the first. */
  otherUserAgents: z.array(userAgent).max(99).default([]),
  /** None: fetch directly. */
  proxies: z
    .array(z.string().max(1024).refine(isProxyUrl, { error: proxyUrlForm }))
    .max(100)
    .default([])
    .describe(
      '--proxy <url>  http, https or socks5 proxy, with optional user:password@ (repeatable, to rotate); default: none',
    ),
  http2: switched().describe('--http2  use HTTP/2 with https hosts that support it'),
  headers: z
    .array(headerSchema)
    .max(64)
    .default([])
    .describe(
      "--header <name:value>  request header for the seeds' hosts (repeatable); default: none",
    ),
  /** Absent: only the hosts of seeds get the headers. */
  headersEverywhere: z
    .boolean()
    .optional()
    .describe(
      '--header-everywhere  send the headers of --header to all hosts, except for Authorization; default: off',
    ),
  cookies: z
    .array(cookie)
    .max(cookiesMax, { error: `must be at most ${cookiesMax} cookies` })
    .refine((all) => all.reduce((sum, one) => sum + charsOf(one), 0) <= cookieCharsMax, {
      error: `must have at most ${cookieCharsMax >> 10} KiB in all`,
    })
    .optional()
    .describe("--cookie <name=value>  cookie for the seeds' hosts (repeatable); default: none"),
  /** Addresses that slaves may connect to besides the public ones: `all`, or ranges (`10.0.0.0/8`,
   *  `::1`). A seed also opens the private block of its own host. */
  allowPrivate: z
    .union([
      z.literal('all'),
      z
        .array(z.string().max(64).refine(isAddressRange, { error: 'is not an address range' }))
        .max(1000),
    ])
    .default([])
    .describe(
      "--allow-private [cidr...]  private addresses to crawl: all, or ranges; default: only those of the seeds' hosts",
    ),
  /** Absent: `ruleLimits.jsonBytes`. A slave that knows no rules knows neither this nor `items`. */
  ruleBytes: whole(1, 1 << 30)
    .optional()
    .describe(
      '--rule-bytes <n>  maximum size of JSON and XML that rules read, in bytes; default: 16777216',
    ),
  /** The rules for pages: of a crawl file, so they have no flag. [T-80] */
  items: itemsSchema.optional(),
  // A slave of an earlier version refuses a spec with a field that it does not know, so these are
  // there only if they are given.
  ...archiveFields,
  digest: z
    .boolean()
    .optional()
    .describe('--digest  write a digest of the content of each page, for diff; default: off'),
  /** Which links are followed; the same. [T-92] */
  follow: followSchema.optional(),
  /** The login of each identity before its first page; no flag either. [T-93] */
  login: loginSchema.optional(),
  /** Which pages are read in a browser; the same. [T-140] */
  render: renderField,
  ...downloadFields,
});

function charsOf({ name, value, domain = '', path = '' }: GivenCookie): number {
  return name.length + value.length + domain.length + path.length;
}

export type FetchSpec = z.infer<typeof fetchSpecSchema>;

/** The spec for a slave that knows no rules. Tasks of a crawl with a login, or one that renders,
 *  do not go there. [T-80] [T-93] [T-140] */
export function plainFetch({
  items: _,
  follow: __,
  ruleBytes: ___,
  login: ____,
  render: _____,
  download: ______,
  imagesTo: _______,
  ...spec
}: FetchSpec): FetchSpec {
  return spec;
}

const trapLimit = (max: number, value: number) => whole(0, max).default(value);

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

/** In the order in which help lists the flags. */
export const crawlSpecSchema = z.strictObject({
  scope: z
    .enum(['host', 'domain', 'any'])
    .default('host')
    .describe(
      "--scope <scope>  hosts to crawl: host (the seeds' hosts), domain (their registrable domains) or any",
    ),
  /** A URL must match one of these (if there are any) and none of `exclude`: see the master's
   *  `pattern-syntax`. */
  include: z
    .array(pattern)
    .max(100)
    .default([])
    .describe('--include <regex>  crawl only URLs that match (RE2; repeatable); default: all URLs'),
  exclude: z
    .array(pattern)
    .max(100)
    .default([])
    .describe('--exclude <regex>  skip URLs that match (RE2; repeatable); default: none'),
  /** 0 fetches the seeds alone. */
  maxDepth: whole(0, 65_535)
    .optional()
    .describe('--max-depth <n>  follow at most n links away from a seed; default: no limit'),
  maxPages: whole(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('--max-pages <n>  end the crawl after n pages; default: no limit'),
  order: z
    .enum(['bfs', 'dfs', 'priority'])
    .default('bfs')
    .describe(
      '--order <order>  order of URLs within a host: bfs (breadth first), dfs (depth first) or priority',
    ),
  /** Identify a page by its canonical URL where that is in scope: one page for each. */
  canonical: switched().describe(
    '--canonical  identify pages by their canonical link, and write each page once',
  ),
  traps: trapLimitsSchema
    .prefault({})
    .describe(
      '--traps <rule=n,…>  limits on links of endless sites, or off; default: see docs/scope.md',
    ),
  /** Between the starts of two fetches. */
  delayMs: whole(0, 86_400_000)
    .optional()
    .describe(
      '--delay <ms>  milliseconds between two fetches from a host; default: 250, on this machine 0',
    ),
  perHost: whole(1, 10_000)
    .optional()
    .describe(
      '--per-host <n>  maximum number of concurrent fetches per host; default: 2, on this machine 32',
    ),
  crawlDelayMaxMs: whole(0, 86_400_000)
    .default(crawlDelayMaxMsDefault)
    .describe(
      '--crawl-delay-max <ms>  longest Crawl-delay in robots.txt to honour, in milliseconds',
    ),
  /** Its Crawl-delay is ignored, too. */
  ignoreRobots: switched().describe(
    '--ignore-robots  fetch URLs that robots.txt disallows; only for sites that you own',
  ),
  /** `all`: also `/sitemap.xml` where robots.txt names none. */
  sitemaps: z
    .enum(['none', 'robots', 'all'])
    .default('robots')
    .describe(
      '--sitemaps <which>  sitemaps to read: none, robots (named in robots.txt) or all (also /sitemap.xml)',
    ),
  fetch: fetchSpecSchema
    .refine(rendersDirectly, proxyFault)
    .refine(keepsAsAsked, keepingFault)
    .prefault({}),
  ...archiveLimits,
  ...imageLimits,
  attemptsMax: whole(1, 100)
    .default(4)
    .describe('--attempts <n>  number of failed fetches after which a URL is given up'),
  /** Sizes the first Bloom filter; more URLs only add filters. */
  urlsExpected: whole(1, 1_000_000_000)
    .default(1_000_000)
    .describe(
      '--urls-expected <n>  expected number of URLs; sizes the Bloom filter, which grows if there are more',
    ),
  /** Absent: none. */
  outputs: outputsSchema
    .optional()
    .describe(
      '--output <target>  further file or database for the results (repeatable): csv:FILE, jsonl:FILE, sqlite:FILE, parquet:FILE or a database URL; default: none',
    ),
  /** From the start of a crawl to that of the next. [C-150] */
  everyMs: whole(1_000, everyMsMax)
    .optional()
    .describe(
      '--every <time>  crawl again each time this has passed (30s, 15m, 24h, 7d), under a dated name; default: once',
    ),
  keep: whole(1, 10_000)
    .optional()
    .describe(
      '--keep <n>  number of crawls of --every to keep; older ones are removed with their files; default: all',
    ),
});
export type CrawlSpec = z.infer<typeof crawlSpecSchema>;

/** A crawl that is repeated needs the digests of its pages, to be compared with the next; so does
 *  one whose pages are saved, to find them. */
export function withDigests(spec: CrawlSpec): CrawlSpec {
  const isWanted = spec.everyMs !== undefined || spec.fetch.save !== undefined;
  if (!isWanted || spec.fetch.digest === true) return spec;
  return { ...spec, fetch: { ...spec.fetch, digest: true } };
}

/** Fields that are the same for all of a crawl: its pages and their order depend on them. [C-43] */
const fixedFields = [
  'order',
  'canonical',
  'urlsExpected',
  'fetch.images',
  'fetch.srcset',
  'fetch.lazyAttributes',
  'fetch.items',
  'fetch.follow',
  'fetch.archive',
  'fetch.save',
  'fetch.download',
  'fetch.imagesTo',
] as const;
export type FixedField = (typeof fixedFields)[number];

/** One of its fetches is `fetch.timeoutMs`. */
export function isFixedField(field: string): field is FixedField {
  const fields: readonly string[] = fixedFields;
  return fields.includes(field);
}
export type CrawlSpecInput = z.input<typeof crawlSpecSchema>;

/** Names a folder under `--out`, so only letters, digits, dot, dash and underscore are allowed. */
const crawlNameForm =
  'must be 1 to 64 letters, digits, dots, dashes or underscores, starting with a letter or digit';
export const crawlNameSchema = z
  .string({ error: `${crawlNameForm}, as text: put it into quotes` })
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, { error: crawlNameForm });

/** Returns our name in robots.txt, robots meta elements and X-Robots-Tag: the start of the user
 *  agent. Source: RFC 9309, section 2.2.1. */
export function productToken(userAgent: string): string {
  return /^[A-Za-z_-]+/.exec(userAgent)?.[0] ?? 'Orbweaver';
}

/**
 * The options of a crawl on the master's command line: `node master.js`, `add` and `recrawl` have
 * them. Their flags, the parsers of their values, and the spec that they make; also the parsers of
 * a crawl's name and seeds.
 */
import { InvalidArgumentError, type Option } from 'commander';
import { isAddressRange } from '../../shared/address.ts';
import { flag, listed, several, whole } from '../../shared/cli.ts';
import {
  type CrawlSpec,
  crawlNameSchema,
  crawlSpecSchema,
  fetchSpecSchema,
  imageVias,
  isProxyUrl,
  lazyAttributes,
  obeyable,
  proxyUrlForm,
  trapLimitsSchema,
  trapRules,
} from '../../shared/crawl.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { version } from '../../shared/version.ts';
import { refusePatterns } from '../frontier/crawl/patterns.ts';

const product = `Orbweaver/${version}`;

type Values = Record<string, unknown>;
/** Some fields of a CrawlSpec, unchecked. */
export type SpecPart = Record<string, unknown>;

export function specFlags(): Option[] {
  return [
    flag(
      '--scope <scope>',
      "hosts to crawl: host (the seeds' hosts), domain (their registrable domains) or any",
    )
      .choices(['host', 'domain', 'any'])
      .default('host'),
    flag(
      '--include <regex>',
      'crawl only URLs that match (RE2; repeatable); default: all URLs',
    ).argParser(several),
    flag('--exclude <regex>', 'skip URLs that match (RE2; repeatable); default: none').argParser(
      several,
    ),
    flag('--max-depth <n>', 'follow at most n links away from a seed; default: no limit').argParser(
      whole(0, 65_535),
    ),
    flag('--max-pages <n>', 'end the crawl after n pages; default: no limit').argParser(
      whole(1, Number.MAX_SAFE_INTEGER),
    ),
    flag(
      '--order <order>',
      'order of URLs within a host: bfs (breadth first), dfs (depth first) or priority',
    )
      .choices(['bfs', 'dfs', 'priority'])
      .default('bfs'),
    flag(
      '--delay <ms>',
      'milliseconds between two fetches from a host; default: 250, on this machine 0',
    ).argParser(whole(0, 86_400_000)),
    flag(
      '--per-host <n>',
      'maximum number of concurrent fetches per host; default: 2, on this machine 32',
    ).argParser(whole(1, 10_000)),
    flag('--crawl-delay-max <ms>', 'longest Crawl-delay in robots.txt to honour, in milliseconds')
      .default(60_000)
      .argParser(whole(0, 86_400_000)),
    flag(
      '--ignore-robots',
      'fetch URLs that robots.txt disallows; only for sites that you own',
    ).default(false),
    flag(
      '--sitemaps <which>',
      'sitemaps to read: none, robots (named in robots.txt) or all (also /sitemap.xml)',
    )
      .choices(['none', 'robots', 'all'])
      .default('robots'),
    flag(
      '--sitemap-since <date>',
      'skip sitemap entries last modified before this date (2026-11-01); default: read all',
    ).argParser(moment),
    flag('--obey <directives>', `page directives to honour: ${obeyable.join(',')}; all; none`)
      .argParser(directives)
      .default(['nofollow'], 'nofollow'),
    flag('--iframes', 'follow the addresses of iframes like links').default(false),
    flag('--ignore-refresh', 'do not follow meta refresh').default(false),
    flag('--canonical', 'identify pages by their canonical link, and write each page once').default(
      false,
    ),
    flag(
      '--images <which>',
      'image sources to collect: img (img[src] only), all, or a list of classes',
    )
      .argParser(imageClasses)
      .default('all'),
    flag('--srcset <which>', 'candidates of a srcset to collect: all, or the best one')
      .choices(['all', 'best'])
      .default('all'),
    flag(
      '--lazy-attributes <names>',
      'attributes that hold the address of a lazy image, comma-separated; default: data-src and others',
    ).argParser(lazyNames),
    flag(
      '--traps <rule=n,…>',
      'limits on links of endless sites, or off; default: see docs/scope.md',
    ).argParser(trapLimits),
    flag('--attempts <n>', 'number of failed fetches after which a URL is given up')
      .default(4)
      .argParser(whole(1, 100)),
    flag('--fetch-timeout <ms>', 'time limit of one fetch with its redirects, in milliseconds')
      .default(30_000)
      .argParser(whole(1, 600_000)),
    flag(
      '--connect-timeout <ms>',
      "time limit of lookup, connection and TLS, and of a host's first answer, in milliseconds",
    )
      .default(5_000)
      .argParser(whole(1, 600_000)),
    flag('--page-bytes <n>', 'maximum size of a page in bytes; a longer page is cut')
      .default(10 << 20)
      .argParser(whole(1, 1 << 30)),
    flag('--redirects <n>', 'maximum number of redirects of one fetch')
      .default(10)
      .argParser(whole(0, 50)),
    flag(
      '--user-agent <text>',
      `User-Agent header of the slaves (repeatable, to rotate); default: ${product}`,
    ).argParser(userAgents),
    flag(
      '--contact <url-or-mail>',
      'URL or mail address added to the user agent, so that site owners can reach you; default: none',
    ).argParser(contact),
    flag(
      '--proxy <url>',
      'http, https or socks5 proxy, with optional user:password@ (repeatable, to rotate); default: none',
    ).argParser(proxies),
    flag('--http2', 'use HTTP/2 with https hosts that support it').default(false),
    flag(
      '--header <name:value>',
      "request header (repeatable); Authorization goes to the seeds' hosts only; default: none",
    ).argParser(headers),
    flag(
      '--allow-private [cidr...]',
      "private addresses to crawl: all, or ranges; default: only those of the seeds' hosts",
    ).argParser(addressRanges),
    flag(
      '--urls-expected <n>',
      'expected number of URLs; sizes the Bloom filter, which grows if there are more',
    )
      .default(1_000_000)
      .argParser(whole(1, 1_000_000_000)),
  ];
}

/** Where the value of each crawl option belongs in the spec. */
const specFields: Readonly<
  Record<string, readonly [keyof CrawlSpec] | readonly ['fetch', string]>
> = {
  scope: ['scope'],
  include: ['include'],
  exclude: ['exclude'],
  maxDepth: ['maxDepth'],
  maxPages: ['maxPages'],
  order: ['order'],
  delay: ['delayMs'],
  perHost: ['perHost'],
  crawlDelayMax: ['crawlDelayMaxMs'],
  ignoreRobots: ['ignoreRobots'],
  sitemaps: ['sitemaps'],
  sitemapSince: ['fetch', 'sitemapSinceMs'],
  canonical: ['canonical'],
  traps: ['traps'],
  attempts: ['attemptsMax'],
  urlsExpected: ['urlsExpected'],
  obey: ['fetch', 'obey'],
  ignoreRefresh: ['fetch', 'ignoreRefresh'],
  iframes: ['fetch', 'iframes'],
  images: ['fetch', 'images'],
  srcset: ['fetch', 'srcset'],
  lazyAttributes: ['fetch', 'lazyAttributes'],
  fetchTimeout: ['fetch', 'timeoutMs'],
  connectTimeout: ['fetch', 'connectTimeoutMs'],
  pageBytes: ['fetch', 'bodyBytesMax'],
  redirects: ['fetch', 'redirectsMax'],
  proxy: ['fetch', 'proxies'],
  http2: ['fetch', 'http2'],
  header: ['fetch', 'headers'],
  allowPrivate: ['fetch', 'allowPrivate'],
};

/** Returns the part of a spec that these values make. Values that are not given are left out. */
export function specPart(values: Values): SpecPart {
  const part: Values = {};
  const fetch: Values = {};
  for (const [name, [field, inner]] of Object.entries(specFields)) {
    const value = values[name];
    if (value === undefined) continue;
    if (inner === undefined) part[field] = value;
    else fetch[inner] = value;
  }
  Object.assign(fetch, agents(values));
  return Object.keys(fetch).length > 0 ? { ...part, fetch } : part;
}

/** The user agents, each followed by the contact. */
function agents({ userAgent, contact }: Values): Values {
  if (userAgent === undefined && contact === undefined) return {};
  const given = Array.isArray(userAgent) ? userAgent.map(String) : [product];
  const [first = product, ...others] = given.map((agent) =>
    contact === undefined ? agent : `${agent} (+${contact})`,
  );
  return { userAgent: first, otherUserAgents: others };
}

/** The whole spec of a crawl from the values of `specFlags`. @throws ConfigError */
export function makeSpec(values: Values): CrawlSpec {
  const parsed = crawlSpecSchema.safeParse(specPart(values));
  if (parsed.success) return withPatterns(parsed.data);
  const issue = parsed.error.issues[0];
  throw new ConfigError(`--${flagOf(issue?.path ?? [])}: ${issue?.message}`);
}

/** Refuses text that is not a pattern. Only the master knows whether the crawl has it already. */
function withPatterns(spec: CrawlSpec): CrawlSpec {
  try {
    refusePatterns(spec, true);
  } catch (error) {
    throw new ConfigError(messageOf(error), error);
  }
  return spec;
}

/** The flag that sets a field of the spec. */
function flagOf(path: readonly PropertyKey[]): string {
  const field = String(path.findLast((step) => typeof step === 'string') ?? '');
  const name = field.replace(/(Ms|Max)$/, '').replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
  return { timeout: 'fetch-timeout', 'body-bytes': 'page-bytes' }[name] ?? name;
}

/** Commander would take any argument after `--allow-private` as its value, even a seed. So this
 *  binds to it only arguments that look like ranges. */
export function withRangesBound(argv: readonly string[]): string[] {
  const bound: string[] = [];
  for (const arg of argv) {
    const before = bound.at(-1) ?? '';
    if (arg === '--allow-private') bound.push(`${arg}=all`);
    else if (!before.startsWith('--allow-private=') || !/^[\da-f.:]+(\/\d+)?(,|$)/i.test(arg)) {
      bound.push(arg);
    } else {
      const ranges = before.slice(before.indexOf('=') + 1);
      bound[bound.length - 1] = `--allow-private=${ranges === 'all' ? arg : `${ranges},${arg}`}`;
    }
  }
  return bound;
}

/** `NAME: VALUE`; one per line in the environment. */
function headers(text: string, before: [string, string][] | undefined): [string, string][] {
  const given = text.split('\n').filter((line) => line.trim() !== '');
  const parsed = given.map((line): [string, string] => {
    const colon = line.indexOf(':');
    const pair: [string, string] = [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
    const problem = fetchSpecSchema.safeParse({ headers: [pair] }).error?.issues[0]?.message;
    if (colon < 1) throw new InvalidArgumentError('It must be NAME: VALUE.');
    if (problem !== undefined) throw new InvalidArgumentError(`It ${problem}.`);
    return pair;
  });
  return [...(before ?? []), ...parsed];
}

/** A page about the crawler, or a mail address; it becomes a comment in the user agent. */
function contact(text: string): string {
  const isMail = /^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]+(\.[\w-]+)+$/.test(text);
  const isUrl = /^https?:\/\/[\x21-\x7e]+$/.test(text) && URL.canParse(text);
  if (text.length > 200 || /[()\\]/.test(text) || !(isMail || isUrl)) {
    throw new InvalidArgumentError('It must be a URL or a mail address: https://you.example/bot.');
  }
  return text;
}

function userAgents(text: string, before: string[] | undefined): string[] {
  if (text.trim() === '') throw new InvalidArgumentError('It must not be empty.');
  return several(text, before);
}

function proxies(text: string, before: string[] | undefined): string[] {
  const urls = several(text, before);
  if (!urls.every(isProxyUrl)) throw new InvalidArgumentError(`It ${proxyUrlForm}.`);
  return urls;
}

/** A day, or a moment: `2026-11-01`, `2026-11-01T08:00:00Z`. */
function moment(text: string): number {
  const ms = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d))?$/.test(text)
    ? Date.parse(text)
    : Number.NaN;
  if (Number.isNaN(ms) || ms < 0) {
    throw new InvalidArgumentError('It must be a date: 2026-11-01 or 2026-11-01T08:00:00Z.');
  }
  return ms;
}

/** `off`, or `RULE=N` and `RULE=off`, separated by commas; a later one overrides. */
function trapLimits(text: string, before: Record<string, number> = {}): Record<string, number> {
  let limits = before;
  for (const part of listed(text)) {
    const [, rule = '', value = ''] = /^([a-z]+)=(\d+|off)$/.exec(part) ?? [];
    const limit = { [rule]: value === 'off' ? 0 : Number(value) };
    if (part === 'off') limits = Object.fromEntries(trapRules.map((name) => [name, 0]));
    else if (trapLimitsSchema.safeParse(limit).success) limits = { ...limits, ...limit };
    else throw new InvalidArgumentError(`It must be off, or limits like ${trapExample}.`);
  }
  return limits;
}
const trapExample = `segments=64,session=off; the rules: ${trapRules.join(' ')}`;

/** `img`, `all`, or classes separated by commas. */
function imageClasses(text: string): string | string[] {
  if (text === 'img' || text === 'all') return text;
  const classes = listed(text);
  const known: readonly string[] = imageVias;
  if (classes.every((name) => known.includes(name))) return classes;
  throw new InvalidArgumentError(`It must be img, all, or some of: ${known.join(',')}.`);
}

/** `all`, `none`, or directives separated by commas. */
function directives(text: string): string[] {
  if (text === 'all') return [...obeyable];
  const names = text === 'none' ? [] : listed(text);
  const known: readonly string[] = obeyable;
  if (names.every((name) => known.includes(name))) return [...new Set(names)];
  throw new InvalidArgumentError(`It must be all, none, or some of: ${known.join(',')}.`);
}

/** Names separated by commas; "+name" adds to the default names. */
function lazyNames(text: string): string[] {
  const adds = text.startsWith('+');
  const names = listed(text.replace('+', '').toLowerCase());
  return [...(adds ? lazyAttributes : []), ...names.filter((name) => name !== '')];
}

/** `all` (or `true`), or ranges separated by commas or white space. */
function addressRanges(text: string, before: string | string[] | undefined): 'all' | string[] {
  const ranges = text.split(/[\s,]+/).filter((range) => range !== '');
  if (before === 'all' || /^(all|true|1)$/i.test(text)) return 'all';
  for (const range of ranges) {
    if (!isAddressRange(range)) {
      throw new InvalidArgumentError(
        `${JSON.stringify(range.slice(0, 64))} is not an address range; write 10.0.0.0/8 or ::1.`,
      );
    }
  }
  return [...(Array.isArray(before) ? before : []), ...ranges];
}

/** `isFirst`: it is where a command could be. @throws ConfigError */
export function seedUrl(text: string, isFirst: boolean): string {
  const url = canonicalUrl(text);
  if (url === undefined && isFirst && /^[a-z-]+$/i.test(text)) {
    throw new ConfigError(
      `"${text}" is neither a URL nor a command; see --help, and write URLs in full: https://example.com/`,
    );
  }
  if (url === undefined) {
    const guess = canonicalUrl(`https://${text}`) && !text.includes('://') ? text : 'example.com/';
    throw new ConfigError(
      `the seed "${text}" is not an http or https URL; write it in full: https://${guess}`,
    );
  }
  return url.href;
}

export function crawlName(text: string): string {
  if (!crawlNameSchema.safeParse(text).success) {
    throw new InvalidArgumentError(
      'It must be 1 to 64 letters, digits, dots, dashes or underscores.',
    );
  }
  return text;
}

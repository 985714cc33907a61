/**
 * The options of a crawl as a program gives them: the flags of the master in camelCase, with the
 * types of their schemas; and the crawl file and command line that they make.
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type * as z from 'zod';
import type { crawlSpecSchema, fetchSpecSchema } from '../shared/crawl.ts';
import { ConfigError } from '../shared/errors.ts';
import type { followSchema } from '../shared/follow.ts';
import type { ImagesSpec } from '../shared/images.ts';
import type { itemsSchema } from '../shared/items.ts';
import type { loginSchema } from '../shared/login.ts';
import type { Output, OutputKind } from '../shared/outputs.ts';
import type { renderSchema } from '../shared/render.ts';
import { type RecordKind, recordKinds } from '../shared/result-fields.ts';

type Spec = z.input<typeof crawlSpecSchema>;
type Fetch = z.input<typeof fetchSpecSchema>;
type OneOrMore<T> = T | readonly T[];

/** Of the crawl: `--max-depth` is `maxDepth`. docs/options.md explains each. */
type SpecOptions = {
  scope?: Spec['scope'];
  include?: OneOrMore<string>;
  exclude?: OneOrMore<string>;
  maxDepth?: Spec['maxDepth'];
  maxPages?: Spec['maxPages'];
  order?: Spec['order'];
  canonical?: Spec['canonical'];
  /** `off`, or `rule=n,…`. */
  traps?: string;
  delay?: Spec['delayMs'];
  perHost?: Spec['perHost'];
  crawlDelayMax?: Spec['crawlDelayMaxMs'];
  ignoreRobots?: Spec['ignoreRobots'];
  sitemaps?: Spec['sitemaps'];
  /** A date such as 2026-11-01. */
  sitemapSince?: string;
  obey?: 'all' | 'none' | Fetch['obey'];
  iframes?: Fetch['iframes'];
  ignoreRefresh?: Fetch['ignoreRefresh'];
  images?: Fetch['images'];
  srcset?: Fetch['srcset'];
  lazyAttributes?: readonly string[];
  fetchTimeout?: Fetch['timeoutMs'];
  connectTimeout?: Fetch['connectTimeoutMs'];
  pageBytes?: Fetch['bodyBytesMax'];
  redirects?: Fetch['redirectsMax'];
  userAgent?: OneOrMore<string>;
  contact?: string;
  proxy?: OneOrMore<string>;
  http2?: Fetch['http2'];
  /** `name: value`. */
  header?: OneOrMore<string>;
  headerEverywhere?: boolean;
  /** `name=value`. */
  cookie?: OneOrMore<string>;
  cookieFile?: string;
  allowPrivate?: boolean | 'all' | readonly string[];
  ruleBytes?: number;
  archive?: 'warc';
  archiveBytes?: number;
  archiveFileBytes?: number;
  save?: 'html';
  digest?: boolean;
  /** Pages are read in a browser: see docs/browser.md. */
  render?: z.input<typeof renderSchema>;
  /** Downloads the images that pages show: see docs/download.md. */
  download?: 'images' | { readonly images: true | ImageSettings };
  /** Folder that all slaves share. */
  imagesTo?: string;
  maxImages?: Spec['maxImages'];
  attempts?: Spec['attemptsMax'];
  urlsExpected?: Spec['urlsExpected'];
  /** `csv:books.csv`. */
  output?: OneOrMore<string>;
};

/** The keys of `download.images` in a crawl file: `{ 'min-width': 200 }`. */
export type ImageSettings = Readonly<{
  [K in keyof ImagesSpec as Dashed<K>]: ImagesSpec[K];
}>;
type Dashed<K extends string> = K extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `-${Lowercase<First>}`}${Dashed<Rest>}`
  : K;

/** A source of URLs. `every`: it is asked again after this time, such as `15m`, and the loop waits
 *  for what it has then. */
type SeedSource = { readonly every?: string } & (
  | { readonly file: string }
  | { readonly sitemap: string }
  | { readonly fetch: string; readonly pattern: string; readonly make: OneOrMore<string> }
  | { readonly command: readonly string[]; readonly timeout?: string }
);

/** Where a crawl starts: a URL, which may have ranges, or a source of URLs. docs/crawl-files.md. */
export type Seed =
  | string
  | SeedSource
  | {
      readonly url: string;
      readonly method: 'POST';
      readonly form?: Readonly<Record<string, string | number>>;
      readonly json?: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    };

/** Which links are followed. docs/crawl-files.md has the meaning of each key. */
export type FollowRule = Readonly<z.input<typeof followSchema>[number]>;

/** An output and its options: `{ csv: 'books.csv', delimiter: ';' }`. docs/outputs.md has the
 *  meaning of each. */
export type OutputEntry = {
  [K in OutputKind]: { readonly [N in K]: string } & OutputSettings;
}[OutputKind];
type OutputSettings = Readonly<
  Partial<Omit<Output, 'kind' | 'target' | 'key' | 'columns' | 'rotate'>>
> & {
  readonly key?: OneOrMore<string>;
  readonly columns?: OneOrMore<string>;
  /** A number of bytes, or a size such as `100MB`. */
  readonly rotate?: number | string;
  readonly 'on-conflict'?: Output['onConflict'];
};

/** Of the master that the program starts. */
type MasterFlags = {
  /** Number of slave processes. Default: 1. */
  slaves?: number;
  /** Folder of the state. Default: ./orb-data. */
  data?: string;
  /** Folder of the result files. Default: ./crawl-data. */
  out?: string;
  politenessGroup?: 'host' | 'domain' | 'ip';
  diskReserve?: number;
  sinkBacklog?: number;
  memoryLimit?: number;
  /** Of the log that `log` gets. Default: warn. */
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
};

type ProgramOptions = {
  /** Module whose default export the slaves call with each page. docs/page-function.md. */
  page?: string;
  /** The browser of slaves, where pages are rendered. Default: the first in PATH. */
  browserProgram?: string;
  /** `false`: the browser has no sandbox, as root needs. */
  sandbox?: boolean;
  /** Name of the crawl. Default: default. */
  crawl?: string;
  /** Kinds of records that the loop gets. Default: all. */
  kinds?: readonly RecordKind[];
  /** Ends the loop with its reason. */
  signal?: AbortSignal;
  /** Gets the lines of the log. Default: standard error. */
  log?: (line: string) => void;
};

export type CrawlOptions = Readonly<SpecOptions & MasterFlags & ProgramOptions> & {
  /** The rules of items: see docs/rules.md. */
  readonly items?: z.input<typeof itemsSchema>;
  /** The links to follow: see docs/crawl-files.md. */
  readonly follow?: readonly FollowRule[];
  /** The login of slaves before their first page: see docs/login.md. */
  readonly login?: z.input<typeof loginSchema>;
  /** A part of the seeds, such as `2/3`. */
  readonly shard?: string;
  /** Further outputs, with their options: see docs/outputs.md. */
  readonly outputs?: readonly (string | OutputEntry)[];
};

const masterFlags = [
  'slaves',
  'data',
  'out',
  'politenessGroup',
  'diskReserve',
  'sinkBacklog',
  'memoryLimit',
  'logLevel',
] as const satisfies readonly (keyof MasterFlags)[];
const programOptions = ['kinds', 'signal', 'log', 'page', 'browserProgram', 'sandbox'];

export type Start = {
  /** The text of a crawl file. */
  readonly file: string;
  readonly flags: readonly string[];
  /** Variables of the master, which its slaves get, too. */
  readonly env: Readonly<Record<string, string>>;
};

/** @throws ConfigError */
export function checkSignal(signal: unknown): void {
  if (signal === undefined) return;
  // Not `instanceof`: that of a test environment is of another realm.
  const { aborted, addEventListener } = Object(signal);
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function') return;
  throw new ConfigError('signal must be an AbortSignal, such as the signal of an AbortController');
}

/** The start of a master for this call. @throws ConfigError */
export function startOf(seeds: Seed | readonly Seed[], options: CrawlOptions): Start {
  const list: readonly unknown[] = Array.isArray(seeds) ? seeds : [seeds];
  if (list.length === 0 || !list.every(isSeed)) {
    throw new ConfigError('crawl takes a URL, or a list of URLs, as its first argument');
  }
  checkOptions(options);
  const file: Record<string, unknown> = { seeds: plain('seeds', list) };
  const flags: string[] = [];
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  for (const [name, value] of Object.entries({ ...defaults, ...Object.fromEntries(given) })) {
    if (programOptions.includes(name)) continue;
    const key = flagOf(name);
    if (!masterFlags.some((flag) => flag === name)) file[key] = plain(name, value);
    else if (typeof value === 'string' || typeof value === 'number') {
      flags.push(`--${key}=${value}`);
    } else throw new ConfigError(`${name} must be text or a number`);
  }
  return { file: JSON.stringify(file, undefined, 1), flags, env: slaveEnv(options) };
}

const defaults = { slaves: 1, logLevel: 'warn' } as const;

/** The options that the master does not see, or would not refuse. @throws ConfigError */
function checkOptions(options: CrawlOptions): void {
  if ('seeds' in options) throw new ConfigError('seeds are the first argument of crawl');
  const { kinds, log, signal, slaves } = options;
  checkSignal(signal);
  if (log !== undefined && typeof log !== 'function') {
    throw new ConfigError('log must be a function that gets a line');
  }
  if (kinds !== undefined && !Array.isArray(kinds)) {
    throw new ConfigError("kinds must be a list, such as ['item']");
  }
  // Links come as items.
  const known = recordKinds.filter((kind) => kind !== 'link');
  const wrong = kinds?.find((kind) => !known.some((one) => one === kind));
  if (wrong !== undefined) {
    throw new ConfigError(`kinds: there is no kind "${wrong}"; the kinds are ${known.join(', ')}`);
  }
  // Nobody else knows the port of the master: without slaves the loop would wait for ever.
  if (slaves !== undefined && Number(slaves) === 0) {
    throw new ConfigError('slaves: It must be a whole number from 1.');
  }
}

/** Variables of the slaves. @throws ConfigError the page function is no file */
function slaveEnv({ page, render, browserProgram, sandbox }: CrawlOptions): Record<string, string> {
  const env: Record<string, string> = {};
  if (page !== undefined) env['ORB_PAGE'] = moduleOf(page);
  if (render === undefined || render === false) return env;
  env['ORB_BROWSER'] = 'true';
  if (browserProgram !== undefined) env['ORB_BROWSER_PROGRAM'] = browserProgram;
  if (sandbox === false) env['ORB_NO_SANDBOX'] = 'true';
  return env;
}

/** @throws ConfigError there is no such file */
function moduleOf(page: unknown): string {
  if (typeof page !== 'string' || page === '') {
    throw new ConfigError('page must be the path of a module, such as ./my-page.mjs');
  }
  const path = resolve(page);
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
    throw new ConfigError(`page: there is no file ${path}`);
  }
  return path;
}

function isSeed(seed: unknown): boolean {
  return typeof seed === 'string' || (typeof seed === 'object' && seed !== null);
}

/** An option in the words of the master: `maxDepth` is `max-depth`. */
export function flagOf(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** A message of the master in the words of the program: without the file that it has not written,
 *  and with the names of options as it gives them. */
export function ownWords(message: string, file: string): string {
  const [, key, rest] =
    /^:\d+: ([\w-]+)([\s\S]*)$/.exec(message.startsWith(file) ? message.slice(file.length) : '') ??
    [];
  if (key === undefined || rest === undefined) return message.replaceAll(file, 'the crawl');
  if (rest.startsWith(': is an option of the master')) {
    return `${nameOf(key)}: is an option of the command line: crawl has no such option`;
  }
  if (rest === ': there is no such key; see docs/crawl-files.md') {
    return `${nameOf(key)}: there is no such option; see docs/library.md`;
  }
  return `${nameOf(key)}${rest.replace(/(?<=did you mean )[\w-]+/, nameOf)}`;
}

function nameOf(flag: string): string {
  return flag.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** JSON would drop what is not plain, in silence. @throws ConfigError */
function plain(name: string, value: unknown): unknown {
  JSON.stringify(value, (key, part: unknown) => {
    const isPlain =
      part === null ||
      ['string', 'number', 'boolean', 'undefined'].includes(typeof part) ||
      Array.isArray(part) ||
      Object.getPrototypeOf(part) === Object.prototype;
    if (isPlain) return part;
    const at = key === '' ? name : `${name}.${key}`;
    throw new ConfigError(`${at} must be text, a number, true or false, a list or a plain object`);
  });
  return value;
}

/**
 * The seeds of a crawl file: URLs and ranges, which are written out here, and sources, which are
 * asked when the crawl begins or on a schedule: files, sitemaps, numbers of a page, commands.
 * Source: docs/crawl-files.md.
 */
import { dirname, resolve } from 'node:path';
import { type ConfigError, messageOf } from '../../shared/errors.ts';
import type { SeedRequest } from '../../shared/requests.ts';
import { seedUrl } from './crawl-options.ts';
import { durationOf } from './duration.ts';
import { type Fault, rangeOf } from './seed-range.ts';
import { requestsOf } from './seed-request.ts';

/** Where seeds come from. Paths are absolute. */
export type SeedSource =
  | { readonly from: 'file'; readonly path: string }
  | { readonly from: 'sitemap'; readonly url: string }
  /** A number of a page, by a pattern, makes the list. */
  | {
      readonly from: 'page';
      readonly url: string;
      readonly pattern: string;
      readonly make: readonly string[];
    }
  /** A program of this machine, in the folder of the crawl file; each line of its output is a
   *  seed. */
  | {
      readonly from: 'command';
      readonly command: readonly string[];
      readonly folder: string;
      readonly timeoutMs: number;
    };

export type SeedPart =
  | { readonly urls: readonly string[] }
  | { readonly requests: readonly SeedRequest[] }
  /** `at`: where it stands, for errors. `everyMs`: it is asked again and again. */
  | { readonly source: SeedSource; readonly at: string; readonly everyMs: number | undefined };

export type SeedList = {
  readonly parts: readonly SeedPart[];
  /** This part of the list alone: each `of`-th seed, from the `number`-th. */
  readonly shard: { readonly number: number; readonly of: number } | undefined;
};

/** Seeds of one list, ranges written out. */
export const seedsMax = 1_000_000;
/** Seeds with a body. */
const requestsMax = 100_000;
const sourcesMax = 1_000;
const shardsMax = 10_000;
const timeoutMsDefault = 60_000;
const timeoutMsMax = 3_600_000;
const sourceKeys: Readonly<Record<string, readonly string[]>> = {
  file: ['file', 'every'],
  sitemap: ['sitemap', 'every'],
  fetch: ['fetch', 'pattern', 'make', 'every'],
  command: ['command', 'timeout', 'every'],
};

export const noSeeds: SeedList = { parts: [], shard: undefined };

/** `path`: of the crawl file. @throws ConfigError */
export function seedListOf(path: string, seeds: unknown, shard: unknown, fault: Fault): SeedList {
  if (!Array.isArray(seeds)) throw fault(['seeds'], 'must be a list of URLs and sources');
  const parts: SeedPart[] = [];
  let urls: string[] = [];
  let count = 0;
  let requestCount = 0;
  for (const [index, seed] of seeds.entries()) {
    const at = ['seeds', index];
    if (typeof seed === 'string') {
      for (const url of rangeOf(seed, (why) => fault(at, why))) {
        if (++count > seedsMax) throw fault(at, `makes more than ${seedsMax} seeds`);
        urls.push(urlIn(url, at, fault));
      }
    } else {
      if (urls.length > 0) parts.push({ urls });
      urls = [];
      if (isMap(seed) && 'url' in seed) {
        const requests: SeedRequest[] = [];
        for (const request of requestsOf(seed, at, fault)) {
          if (++requestCount > requestsMax)
            throw fault(at, `makes more than ${requestsMax} requests`);
          requests.push(request);
        }
        parts.push({ requests });
      } else parts.push(partOf(path, seed, at, fault));
    }
  }
  if (urls.length > 0) parts.push({ urls });
  const sources = parts.filter((part) => 'source' in part);
  if (sources.length > sourcesMax) throw fault(['seeds'], `has more than ${sourcesMax} sources`);
  const split = shardOf(shard, fault);
  const repeated = sources.find(({ everyMs }) => everyMs !== undefined);
  if (split !== undefined && repeated !== undefined) {
    const why = 'goes by the position in a list, which is not known of a source with every';
    throw fault(['shard'], `${why}; leave one of them out`);
  }
  return { parts, shard: split };
}

/** Takes the seeds of a shard out of a list. */
export function sharded<T>(seeds: readonly T[], { shard }: SeedList): readonly T[] {
  if (shard === undefined) return seeds;
  return seeds.filter((_, i) => i % shard.of === shard.number - 1);
}

/** The length of a time such as `15m`, in ms. @throws ConfigError */
function timeOf(value: unknown, at: readonly PropertyKey[], fault: Fault): number {
  const ms = durationOf(value);
  if (ms === undefined) throw fault(at, 'must be a time such as 30s, 15m, 24h or 7d');
  return ms;
}

function shardOf(shard: unknown, fault: Fault): SeedList['shard'] {
  if (shard === undefined) return undefined;
  const text = typeof shard === 'string' ? shard : '';
  const [, number = 0, of = 0] = (/^(\d{1,5})\/(\d{1,5})$/.exec(text) ?? []).map(Number);
  if (number < 1 || number > of || of > shardsMax) {
    throw fault(['shard'], `must be such as 2/3, the second of three; at most ${shardsMax}`);
  }
  return { number, of };
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function partOf(path: string, value: unknown, at: PropertyKey[], fault: Fault): SeedPart {
  const forms = ['url', ...Object.keys(sourceKeys)].map((key) => `{${key}: …}`);
  const wrong = `must be a URL, in quotes if it has a {, or one of ${forms.join(', ')}`;
  if (!isMap(value)) throw fault(at, wrong);
  const settings = value;
  const kinds = Object.keys(sourceKeys).filter((key) => key in settings);
  const [kind = ''] = kinds;
  if (kinds.length !== 1) throw fault(at, wrong);
  const known = sourceKeys[kind] ?? [];
  const strange = Object.keys(settings).find((key) => !known.includes(key));
  if (strange !== undefined) {
    throw fault([...at, strange], `is no key of a seed with ${kind}: it has ${known.join(', ')}`);
  }
  const { every } = settings;
  return {
    source: sourceOf(path, kind, settings, at, fault),
    at: at.map(String).join('.'),
    everyMs: every === undefined ? undefined : timeOf(every, [...at, 'every'], fault),
  };
}

function sourceOf(
  path: string,
  kind: string,
  settings: Readonly<Record<string, unknown>>,
  at: PropertyKey[],
  fault: Fault,
): SeedSource {
  const folder = dirname(resolve(path));
  const text = (key: string) => {
    const value = settings[key];
    if (typeof value !== 'string' || value === '' || value.length > 4096) {
      throw fault([...at, key], 'must be text; put it into quotes');
    }
    return value;
  };
  const url = (key: string) => urlIn(text(key), [...at, key], fault);
  switch (kind) {
    case 'file':
      return { from: 'file', path: resolve(folder, text('file')) };
    case 'sitemap':
      return { from: 'sitemap', url: url('sitemap') };
    case 'fetch': {
      const pattern = text('pattern');
      return { from: 'page', url: url('fetch'), pattern, make: makeOf(settings, at, fault) };
    }
    default:
      return { from: 'command', folder, ...commandOf(settings, at, fault) };
  }
}

function commandOf(settings: Readonly<Record<string, unknown>>, at: PropertyKey[], fault: Fault) {
  const { command, timeout } = settings;
  const isList = Array.isArray(command) && command.length >= 1 && command.length <= 1_000;
  const isFit = (arg: unknown) =>
    typeof arg === 'string' && arg.length <= 65_536 && !arg.includes('\0');
  if (!isList || !command.every(isFit) || command[0] === '') {
    const why = 'must be a list of texts: the program, then its arguments; no shell reads it';
    throw fault([...at, 'command'], why);
  }
  const timeoutAt = [...at, 'timeout'];
  const timeoutMs = timeout === undefined ? timeoutMsDefault : timeOf(timeout, timeoutAt, fault);
  if (timeoutMs > timeoutMsMax) throw fault(timeoutAt, 'must be at most 1h');
  return { command: command as readonly string[], timeoutMs };
}

function makeOf(
  { make }: Readonly<Record<string, unknown>>,
  at: PropertyKey[],
  fault: Fault,
): readonly string[] {
  const texts: readonly unknown[] = Array.isArray(make) ? make : [make];
  for (const text of texts) {
    if (typeof text !== 'string' || text.length > 4096 || !text.includes('$1')) {
      throw fault([...at, 'make'], 'must be a URL with $1, the number: "https://site/?p={1..$1}"');
    }
    if (/\$(?!1(?!\d))/.test(text)) throw fault([...at, 'make'], 'may have $1 alone, the number');
    const url = [...madeOf([text], 1, (why) => fault([...at, 'make'], why))][0];
    if (url !== undefined) urlIn(url, [...at, 'make'], fault);
  }
  if (texts.length > 100) throw fault([...at, 'make'], 'must be at most 100 URLs');
  return texts as readonly string[];
}

/** `$1`, or in a range `$1/30` (pages of 30, the last one not full), `$1-1`, `$1+1`. A range that
 *  ends before it begins has nothing. @throws what `fault` makes */
export function* madeOf(
  make: readonly string[],
  number: number,
  fault: (why: string) => ConfigError,
): Generator<string> {
  for (const text of make) {
    let isEmpty = false;
    const written = text.replace(/\{([^{}]*\$1[^{}]*)\}/g, (_, inside: string) => {
      const range = inside.replace(
        /\$1(?:\/([1-9]\d{0,8}))?(?:([+-])(\d{1,9}))?/g,
        (_all, by = '1', sign = '+', more = '0') =>
          String(Math.ceil(number / Number(by)) + Number(`${sign}${more}`)),
      );
      const [, first = '0', last = '0'] = /^(-?\d+)\.\.(-?\d+)/.exec(range) ?? [];
      if (Number(first) > Number(last)) isEmpty = true;
      return `{${range}}`;
    });
    if (!isEmpty) yield* rangeOf(written.replaceAll('$1', String(number)), fault);
  }
}

function urlIn(text: string, at: readonly PropertyKey[], fault: Fault): string {
  try {
    return seedUrl(text, false);
  } catch (error) {
    throw fault(at, messageOf(error));
  }
}

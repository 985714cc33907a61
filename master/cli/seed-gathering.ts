/**
 * Asks the sources of a crawl file for their seeds: reads files, fetches sitemaps and pages as
 * politely as a crawl, and runs commands. A source is read whole before any of its seeds is used.
 * Source: docs/crawl-files.md.
 */
import { masterCall } from '../../shared/calls.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { ConfigError } from '../../shared/errors.ts';
import { ruleLimits } from '../../shared/items.ts';
import type { SeedRequest } from '../../shared/requests.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { runCommand } from '../machine/seed-command.ts';
import type { GivenSeeds } from './crawl-file.ts';
import {
  madeOf,
  type SeedList,
  type SeedPart,
  type SeedSource,
  seedsMax,
  sharded,
} from './seed-list.ts';
import { readSeedFile, seedBytesMax, seedsIn } from './seeds.ts';
import { Trial } from './trial.ts';

type Asking = {
  readonly spec: CrawlSpec;
  readonly warn: (text: string) => void;
  /** The seeds are no longer wanted. */
  readonly signal?: AbortSignal;
};

/** Sitemaps that one seed may lead to, by way of an index. */
const sitemapsMax = 1_000;
const indexDepthMax = 4;

/** Seeds of a list: URLs, and what is asked for by another method. */
export type Gathered = {
  readonly urls: readonly string[];
  readonly requests: readonly SeedRequest[];
};

/** Returns the seeds of a list, in its order: those of its shard. @throws ConfigError */
export async function gather(list: SeedList, path: string, asking: Asking): Promise<Gathered> {
  const all: (string | SeedRequest)[] = [];
  const helper = new Helper(asking.signal);
  try {
    for (const part of list.parts) {
      const found = await foundIn(part, path, asking, helper);
      for (const one of found) all.push(one);
      if (all.length > seedsMax) {
        throw new ConfigError(`${path} has more than ${seedsMax} seeds; split it`);
      }
    }
  } finally {
    await helper.close();
  }
  const own = sharded(all, list);
  return {
    urls: own.filter((one) => typeof one === 'string'),
    requests: own.filter((one) => typeof one !== 'string'),
  };
}

async function foundIn(
  part: SeedPart,
  path: string,
  asking: Asking,
  helper: Helper,
): Promise<readonly (string | SeedRequest)[]> {
  if ('urls' in part) return part.urls;
  if ('requests' in part) return part.requests;
  return await seedsOf(part.source, `${path}: ${part.at}`, asking, helper);
}

/** Returns the seeds of one source. `what`: how errors call it. @throws ConfigError */
export async function gatherSource(
  source: SeedSource,
  what: string,
  asking: Asking,
): Promise<readonly string[]> {
  const helper = new Helper(asking.signal);
  try {
    return await seedsOf(source, what, asking, helper);
  } finally {
    await helper.close();
  }
}

/** Commands run on the machine of the master alone, by the word of who started it; nothing is on a
 *  schedule but there. @throws ConfigError */
export function refuseMastersOwn({ list, path = '' }: GivenSeeds): void {
  for (const part of list.parts) {
    if (!('source' in part)) continue;
    const { source, at, everyMs } = part;
    if (source.from !== 'command' && everyMs === undefined) continue;
    const what = source.from === 'command' ? 'a command runs' : 'a schedule is kept';
    throw new ConfigError(
      `${path}: ${at}: ${what} only on the master's machine, where its operator starts it with ` +
        `${masterCall} ${path}; from here, pipe its lines: PROGRAM | ${masterCall} add --seeds -`,
    );
  }
}

/** slave.js, started when it is needed. It ends with the signal, also while it fetches. */
class Helper {
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => void this.close();
  #trial: Promise<Trial> | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
    signal?.addEventListener('abort', this.#onAbort);
  }

  /** @throws ConfigError the seeds are no longer wanted */
  get trial(): Promise<Trial> {
    if (this.#signal?.aborted) throw new ConfigError('it is no longer wanted');
    this.#trial ??= Trial.start();
    return this.#trial;
  }

  async close(): Promise<void> {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    const trial = await this.#trial?.catch(() => undefined);
    await trial?.close();
  }
}

async function seedsOf(
  source: SeedSource,
  what: string,
  asking: Asking,
  helper: Helper,
): Promise<readonly string[]> {
  try {
    switch (source.from) {
      case 'file':
        return await readSeedFile(source.path);
      case 'command': {
        const given = { ...source, bytesMax: seedBytesMax };
        const output = await runCommand(given, asking.signal);
        return seedsIn(`the output of ${source.command[0]}`, output);
      }
      case 'page':
        return await computed(source, asking, await helper.trial);
      case 'sitemap':
        return await listed(source.url, what, asking, await helper.trial);
      default:
        return source satisfies never;
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(`${what}: ${error.message}`, error);
  }
}

/** The list that a number of a page makes. @throws ConfigError */
async function computed(
  { url, pattern, make }: SeedSource & { from: 'page' },
  { spec }: Asking,
  trial: Trial,
): Promise<readonly string[]> {
  const items = { seeds: { fields: { number: { regex: pattern } } } };
  const [problem] = await trial.check(items);
  if (problem !== undefined) throw new ConfigError(`pattern ${problem.message}`);
  const asked = { spec, items, jsonBytesMax: ruleLimits.jsonBytes, anyText: true };
  const { status, error, redirectedTo, rules } = await trial.page(url, asked);
  if (redirectedTo !== undefined) {
    throw new ConfigError(`${url} redirects to ${redirectedTo}; name that URL`);
  }
  if (error !== undefined) throw new ConfigError(`${url} cannot be read: ${error}`);
  if (rules === undefined || 'failed' in rules) {
    throw new ConfigError(`${url} cannot be read: ${rules?.failed ?? `status ${status}`}`);
  }
  const [failure] = rules.result.failures;
  if (failure !== undefined) throw new ConfigError(`pattern ${failure.message}`);
  const found = rules.result.rows[0]?.values['number'];
  if (typeof found !== 'string')
    throw new ConfigError(`${url} has nothing that ${pattern} matches`);
  const number = numberIn(found);
  if (number === undefined) {
    throw new ConfigError(
      `${pattern} finds ${JSON.stringify(found.slice(0, 60))} in ${url}, which is no whole number ` +
        'of at most 9 digits; put a group around the digits',
    );
  }
  const seeds: string[] = [];
  for (const text of madeOf(make, number, (why) => new ConfigError(`make ${why}`))) {
    const seed = canonicalUrl(text);
    if (seed === undefined) throw new ConfigError(`make: ${text} is not an http or https URL`);
    if (seeds.push(seed.href) > seedsMax) {
      throw new ConfigError(`${url} says ${number}, which makes more than ${seedsMax} seeds`);
    }
  }
  return seeds;
}

/** `3000`, `3,000`, `3 000`; undefined: not a whole number, or too long. */
function numberIn(text: string): number | undefined {
  const digits = text.trim();
  const isGrouped = /^\d{1,3}(?:[.,'\u00a0\u202f ]\d{3})+$/.test(digits);
  const plain = isGrouped ? digits.replace(/\D/g, '') : digits;
  return /^\d{1,9}$/.test(plain) ? Number(plain) : undefined;
}

/** The URLs of a sitemap and of those that it leads to. URLs of other sites are left out: whoever
 *  writes a sitemap must not open hosts that the operator did not name. @throws ConfigError */
async function listed(
  first: string,
  what: string,
  { spec, warn, signal }: Asking,
  trial: Trial,
): Promise<readonly string[]> {
  const seen = new Set([first]);
  const waiting = [{ url: first, depth: 1 }];
  const seeds = new Set<string>();
  const strange: string[] = [];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (signal?.aborted) throw new ConfigError('it is no longer wanted');
    const { url, depth } = next;
    const { kind, urls, cut, status, error, redirectedTo } = await trial.sitemap(url, spec);
    const moved = redirectedTo === undefined ? undefined : `redirects to ${redirectedTo}`;
    const none = kind === 'none' ? `is no sitemap (status ${status})` : undefined;
    const why = error ?? moved ?? none;
    if (why !== undefined && url === first) throw new ConfigError(`${url} ${why}`);
    if (why !== undefined) warn(`${what}: ${url}, which ${first} leads to, ${why}`);
    if (cut) warn(`${what}: ${url} is too long or broken; the rest of it is left out`);
    for (const found of urls) {
      if (!isNear(first, found)) strange.push(found);
      else if (kind !== 'index') seeds.add(found);
      else if (!seen.has(found) && depth < indexDepthMax) {
        seen.add(found);
        waiting.push({ url: found, depth: depth + 1 });
      }
    }
    if (seen.size > sitemapsMax || seeds.size > seedsMax) {
      throw new ConfigError(
        `${first} leads to more than ${sitemapsMax} sitemaps or ${seedsMax} URLs; start at the ` +
          'site itself: its slaves read the sitemaps of robots.txt',
      );
    }
  }
  if (strange.length > 0) {
    warn(
      `${what}: ${strange.length} URLs of other sites in ${first} are left out, such as ` +
        `${strange[0]}; to crawl them, name them as seeds`,
    );
  }
  return [...seeds];
}

/** Of the same host, or one above or below it, by the same port. */
function isNear(one: string, other: string): boolean {
  const [a, b] = [new URL(one), new URL(other)];
  const nameOf = ({ hostname }: URL) => `.${hostname.replace(/^www\./, '')}`;
  const isRelated = nameOf(a).endsWith(nameOf(b)) || nameOf(b).endsWith(nameOf(a));
  return a.port === b.port && isRelated;
}

/**
 * `--seeds`: the URLs of files, or of standard input (`-`). One URL a line; blank lines and lines
 * that begin with `#` are ignored. A file is read whole before any of its URLs is used, so that a
 * bad line changes nothing. Files and lines are bounded.
 */
import { createReadStream } from 'node:fs';
import { amount, grouped } from '../../shared/amount.ts';
import { requestLimits } from '../../shared/crawl.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { limits } from '../../shared/protocol.ts';
import type { SeedRequest } from '../../shared/requests.ts';
import { canonicalUrl } from '../../shared/url.ts';
import { visible } from '../../shared/visible.ts';

/** Of all files together. */
export const seedBytesMax = 64 << 20;
const seedsMax = 1_000_000;
const shownChars = 100;
/** Characters of the URLs of one request, apart from its last URL. */
const partChars = 1 << 20;

type Seeds = {
  readonly seeds: readonly string[];
  readonly requests?: readonly SeedRequest[];
};

/** Returns the URLs of a file that a crawl file names. @throws ConfigError as `readSeeds` */
export async function readSeedFile(path: string): Promise<string[]> {
  return seedsIn(path, await readWhole(path, createReadStream(path), seedBytesMax));
}

/** Returns the URLs of a text, one a line. `what`: how errors call it. @throws ConfigError as `readSeeds` */
export function seedsIn(what: string, bytes: Buffer): string[] {
  const seeds: string[] = [];
  for (const url of urlsIn(what, bytes)) {
    if (seeds.length >= seedsMax) throw new ConfigError(`${what} holds more than ${seedsMax} URLs`);
    seeds.push(url);
  }
  return seeds;
}

/** Returns the URLs of these files, in their order. `input`: what `-` names.
 *  @throws ConfigError the file cannot be read, or a line is not a URL: its number */
export async function readSeeds(
  paths: readonly string[],
  input: AsyncIterable<unknown> = process.stdin,
): Promise<string[]> {
  if (paths.filter((path) => path === '-').length > 1) {
    throw new ConfigError('--seeds - is given twice; standard input can be read once');
  }
  const seeds: string[] = [];
  let bytesLeft = seedBytesMax;
  for (const path of paths) {
    const name = `--seeds ${path === '-' ? 'standard input' : path}`;
    const bytes = await readWhole(name, path === '-' ? input : createReadStream(path), bytesLeft);
    bytesLeft -= bytes.length;
    const before = seeds.length;
    for (const url of urlsIn(name, bytes)) {
      if (seeds.length >= seedsMax) {
        throw new ConfigError(
          `${name} holds more than ${seedsMax} URLs; split it, and give the rest with \`add\``,
        );
      }
      seeds.push(url);
    }
    if (seeds.length === before) throw new ConfigError(`${name} holds no URL`);
  }
  return seeds;
}

/** Cuts seeds into parts that fit into one request each. */
export function* partsOf(seeds: readonly string[]): Generator<string[]> {
  let part: string[] = [];
  let chars = 0;
  for (const seed of seeds) {
    if (part.length === limits.seedsMax || chars >= partChars) {
      yield part;
      part = [];
      chars = 0;
    }
    part.push(seed);
    chars += seed.length;
  }
  if (part.length > 0) yield part;
}

/** The same with requests, which hold their bodies. */
export function* seedParts({
  seeds,
  requests,
}: Required<Seeds>): Generator<{ seeds: string[]; requests?: SeedRequest[] }> {
  for (const part of partsOf(seeds)) yield { seeds: part };
  for (let from = 0; from < requests.length; from += requestLimits.countMax) {
    yield { seeds: [], requests: requests.slice(from, from + requestLimits.countMax) };
  }
}

export function countOf({ seeds, requests = [] }: Seeds): number {
  return seeds.length + requests.length;
}

/** The error of a command that ends too early. */
export function partlyAdded(count: number, all: Seeds): string {
  const added = `${grouped(count)} of ${amount(countOf(all), 'seed')} are added`;
  return `${added}; the same command adds the others`;
}

async function readWhole(
  name: string,
  input: AsyncIterable<unknown>,
  bytesLeft: number,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of input) {
      const bytes = Buffer.from(chunk as Uint8Array);
      length += bytes.length;
      if (length > bytesLeft) {
        throw new ConfigError(
          `${name} is too large: at most ${seedBytesMax >> 20} MiB in all; split it, and give ` +
            'the rest with `add`',
        );
      }
      chunks.push(bytes);
    }
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const isUrl = name.startsWith('--seeds http') && canonicalUrl(name.slice(8)) !== undefined;
    const hint = isUrl ? '; --seeds takes a file: give a URL without --seeds' : '';
    throw new ConfigError(`cannot read ${name}: ${messageOf(error)}${hint}`, error);
  }
  return Buffer.concat(chunks, length);
}

/** @throws ConfigError a line that is not a URL */
function* urlsIn(name: string, bytes: Buffer): Generator<string> {
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)) {
    throw new ConfigError(`${name} is UTF-16 text; save it as UTF-8`);
  }
  let number = 0;
  for (let from = 0; from < bytes.length; ) {
    const feed = bytes.indexOf(10, from);
    const end = feed < 0 ? bytes.length : feed;
    number++;
    const line = bytes.subarray(from, end);
    from = end + 1;
    // Each character of a URL takes 4 bytes at most.
    const text = line
      .toString('utf8', 0, 4 * limits.urlChars + 8)
      .replace(/^\ufeff/, '')
      .trim();
    if (text === '' || text.startsWith('#')) continue;
    // The parser of URLs would drop or encode it.
    const url = /[\s\p{Cc}\ufffd]/u.test(text) ? undefined : canonicalUrl(text);
    if (url === undefined) throw badLine(name, number, text);
    yield url.href;
  }
}

function badLine(name: string, number: number, text: string): ConfigError {
  const shown = text.length > shownChars ? `${text.slice(0, shownChars)}…` : text;
  const guess = canonicalUrl(`https://${text}`);
  let why = 'is not an http or https URL';
  if (text.length > limits.urlChars) why = `is longer than ${limits.urlChars} characters`;
  else if (text.includes('\ufffd')) why = 'is not UTF-8 text';
  else if (/[\s\p{Cc}]/u.test(text)) why = 'has white space in it; write one URL a line';
  else if (guess && !text.includes(':')) why += `; write it in full: ${guess.href}`;
  return new ConfigError(`${name}, line ${number}: "${visible(shown)}" ${why}`);
}

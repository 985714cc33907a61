/**
 * `recrawl`: reads an earlier crawl's pages.jsonl, and those that were rotated, as a stream and
 * sends them to a running master, which makes a new crawl of them. A URL whose line has validators
 * is sent with the whole line, so that the answer "unchanged" is enough. The new crawl stays paused
 * until the last line is sent.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { MasterClient } from '../../shared/client.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import type { Said } from '../../shared/requests.ts';
import { carriedFields } from '../../shared/result-fields.ts';
import { linesOf } from '../inspect/text-lines.ts';
import { isDated } from '../sinks/dated-files.ts';
import { fileNames } from '../sinks/files.ts';
import type { SpecPart } from './crawl-options.ts';

type EarlierUrl = Said['crawl.recrawl']['urls'][number];
type Line = Readonly<Record<string, unknown>>;

export type Recrawl = {
  /** Name of the earlier crawl. */
  readonly like: string;
  readonly crawl: string;
  /** Paths of its pages.jsonl; undefined: all in its folder. */
  readonly files: readonly string[] | undefined;
  /** Fetch what has not changed, too. */
  readonly refetch: boolean;
  /** Options that differ from those of the earlier crawl. */
  readonly spec: SpecPart | undefined;
};
type RecrawlAnswer = {
  admitted: number;
  known: number;
  refused: number;
  /** Those of all that were sent with validators. */
  conditional: number;
};

/** URLs and characters of lines in one request. */
const batchUrlsMax = 1_000;
const batchCharsMax = 1 << 20;
/** In the line of a failure; in a string it would have other quotes. */
const failureMark = '"error":{';

/** @throws ConfigError the file cannot be read, or is not a pages.jsonl · CommandError */
export async function recrawl(master: MasterClient, options: Recrawl): Promise<RecrawlAnswer> {
  const { like, crawl, refetch } = options;
  const answer = { admitted: 0, known: 0, refused: 0, conditional: 0 };
  let { spec } = options;
  let last: string | undefined;
  const read = (file: string) => {
    last = file;
  };
  for await (const urls of earlierUrls(options.files, join('crawl-data', like), read)) {
    const wanted = refetch ? urls.map(withoutPage) : urls;
    const made = spec === undefined ? {} : { spec };
    const reply = await master.request('crawl.recrawl', { crawl, like, urls: wanted, ...made });
    answer.admitted += reply.admitted;
    answer.known += reply.known;
    answer.refused += reply.refused;
    answer.conditional += wanted.filter(({ page }) => page !== undefined).length;
    spec = undefined;
  }
  if (answer.admitted + answer.known + answer.refused === 0) {
    throw new ConfigError(
      `${last} has no lines: there is nothing to crawl again; choose the file with --pages`,
    );
  }
  await master.request('crawl.resume', { crawl });
  return answer;
}

/** The URLs of these files (undefined: of all pages.jsonl in the folder of a crawl), as many at a
 *  time as fit into a request. `read`: is told each file. @throws ConfigError as `recrawl` */
export async function* earlierUrls(
  files: readonly string[] | undefined,
  folder: string,
  read: (file: string) => void = () => {},
): AsyncGenerator<EarlierUrl[]> {
  // Failures come last: a URL that was put back since has a later line, which says more, and the
  // first mention of a URL counts.
  for (const isFailed of [false, true]) {
    const known = new Set<string>();
    let urls: EarlierUrl[] = [];
    let chars = 0;
    // A rotation may add one meanwhile.
    const unread = () => (files ?? pagesIn(folder)).find((one) => !known.has(one));
    for (let file = unread(); file !== undefined; file = unread()) {
      known.add(file);
      read(file);
      for await (const text of pageLinesOf(file)) {
        if (text.includes(failureMark) !== isFailed) continue;
        urls.push(...urlsOf(text));
        chars += text.length;
        if (urls.length < batchUrlsMax && chars < batchCharsMax) continue;
        yield urls;
        urls = [];
        chars = 0;
      }
    }
    if (urls.length > 0) yield urls;
  }
}

/** The pages.jsonl of a crawl, behind those that were rotated. @throws ConfigError one is packed */
function pagesIn(folder: string): string[] {
  const name = fileNames.pages;
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  const packed = names.find((one) => !isDated(one, name) && isDated(parse(one).name, name));
  if (packed !== undefined) {
    throw new ConfigError(
      `${join(folder, packed)} cannot be read: unpack it, or choose the files with --pages`,
    );
  }
  const dated = names.filter((one) => isDated(one, name));
  // Without any, its absence is an error.
  const isThere = dated.length === 0 || names.includes(name);
  return [...dated, ...(isThere ? [name] : [])].map((one) => join(folder, one));
}

async function* pageLinesOf(file: string): AsyncGenerator<string> {
  try {
    let number = 0;
    for await (const line of linesOf(file)) {
      number++;
      if (line === '') continue;
      if (!line.startsWith('{"url":')) {
        throw new ConfigError(
          `${file}:${number} is not a line of a pages.jsonl; choose the file with --pages`,
        );
      }
      yield line;
    }
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const hint = 'name the pages.jsonl of the earlier crawl with --pages';
    throw new ConfigError(`cannot read ${file} (${messageOf(error)}); ${hint}`, error);
  }
}

/** Returns the URLs to fetch again for a line: its own, and the one that its answer came from. */
export function urlsOf(text: string): EarlierUrl[] {
  let line: Line;
  try {
    line = JSON.parse(text) as Line;
  } catch {
    // The last line of a running crawl may be incomplete.
    return [];
  }
  const { url, finalUrl = url, depth, from, sitemap, method } = line;
  if (typeof url !== 'string' || typeof finalUrl !== 'string') return [];
  // The new crawl finds its sitemaps itself. Sent here, a sitemap would be fetched as a page, too,
  // and at depth 0 it would add its host to the scope.
  if (sitemap !== undefined) return [];
  // The body that was sent is in no line: its seeds are added again.
  if (method !== undefined) return [];
  const at = typeof depth === 'number' ? depth : 0;
  const page = earlierPageOf(line);
  const place = { depth: at, ...(typeof from === 'string' && { from }) };
  if (page === undefined) return [{ url, ...place }];
  const final = { url: finalUrl, ...place, page };
  if (finalUrl === url) return [final];
  // The page counts under its final URL. The redirect is followed, and the page not sent again.
  const { etag, lastModified } = page;
  const asked = { ...(etag && { etag }), ...(lastModified && { lastModified }) };
  const way = { ...asked, finalUrl, bytes: 0, images: [], links: 0 };
  return [final, { url, ...place, page: way }];
}

/** It is fetched as if nothing were known of it. */
function withoutPage({ page: _, ...found }: EarlierUrl): EarlierUrl {
  return found;
}

function earlierPageOf(line: Line): EarlierUrl['page'] {
  const { status, error, redirectedTo, excluded, etag, lastModified } = line;
  const isLeftOut = error !== undefined || redirectedTo !== undefined || excluded !== undefined;
  const isAnswer = (status === 200 || status === 203 || status === 304) && !isLeftOut;
  if (!isAnswer || (etag === undefined && lastModified === undefined)) return undefined;
  const { images = [], links = 0 } = line;
  const carried = carriedFields.map((name) => [name, line[name]] as const);
  const given = Object.fromEntries(carried.filter(([, value]) => value !== undefined));
  // The master validates every value.
  return { ...given, images, links } as EarlierUrl['page'];
}

/**
 * The failed URLs of a crawl, a page at a time: those that were given up, from the store; then
 * those with a definite failure, such as a 404, from the result files, and from the results that
 * are not in the files yet. Each URL comes once. The line of a URL that was given up is passed
 * over: its row in the store says whether it still is, or was put back since.
 *
 *     given up --all--> lines of the files --all--> waiting results
 *
 * A cursor names a line, and how many failures behind it were listed. So results that reach the
 * file between two pages come neither twice nor never.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { CrawlState } from '../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../shared/errors.ts';
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { FailedUrl } from '../../shared/protocol.ts';
import type { Replies } from '../../shared/replies.ts';
import { filesOfPart } from '../sinks/file-rotation.ts';
import { type FileMarks, filesName, noLengths } from '../sinks/files.ts';
import { valuesOf } from '../sinks/result-lines.ts';
import { partsOf, rotatingDate } from '../store/parts.ts';
import {
  commitKey,
  commitOf,
  crawlKey,
  cursorKey,
  decodeBuried,
  decodeCursor,
  fingerprintKeyBytes,
} from '../store/records.ts';
import { sectionsOf } from '../store/result-rows.ts';
import { batches, type Rows } from '../store/store.ts';
import { firstSpot, isCount, isSpot, type Spot, searchLines } from './line-search.ts';

/** Bytes of files that one page reads, so that it is answered soon. */
const bytesMax = 8 << 20;
/** As JSON writes it: within a text the quotes have backslashes. */
const needle = ',"error":{"';
/** Rows of waiting results that are read at once. */
const batchRows = 16;

type FailuresOptions = {
  /** Undefined: there are only files. Then lines of URLs that were given up are listed, as they are
   *  of a crawl that was cancelled. */
  readonly store: Rows | undefined;
  /** The folder of a crawl's result files. */
  readonly folderOf: (crawl: string) => string;
};

type OfCrawl = { readonly id: number; readonly name: string; readonly state?: CrawlState };

type Wanted = {
  /** `next` of the page before. */
  readonly after?: Uint8Array | undefined;
  readonly limit: number;
  /** Kinds of failures; undefined: all. */
  readonly kinds?: readonly string[] | undefined;
};

/** `listed`: failures behind the spot that earlier pages have. */
type Place =
  | { readonly at: 'buried'; readonly after: Uint8Array | undefined }
  | { readonly at: 'lines'; readonly spot: Spot; readonly listed: number };

type Written = {
  readonly url?: unknown;
  readonly finalUrl?: unknown;
  readonly status?: unknown;
  readonly sitemap?: unknown;
  readonly error?: { readonly kind?: unknown; readonly message?: unknown; attempts?: unknown };
};

export class Failures {
  readonly #options: FailuresOptions;

  constructor(options: FailuresOptions) {
    this.#options = options;
  }

  /** @throws CommandError E_BAD_REQUEST: `after` is not the `next` of a page of this crawl ·
   *  ConfigError the file cannot be read */
  async page(crawl: OfCrawl, { after, limit, kinds }: Wanted): Promise<Replies['crawl.failed']> {
    const isWanted = ({ kind }: FailedUrl) => kinds === undefined || kinds.includes(kind);
    const place = after === undefined ? this.#first(crawl) : placeOf(crawl, after);
    const page =
      place.at === 'buried'
        ? this.#buried(crawl, place.after, limit)
        : await this.#written(crawl, place, limit);
    const { next } = page;
    return {
      urls: page.urls.filter(isWanted),
      ...(next !== undefined && { next: encodeValue([crawl.id, next]) }),
      ...(page.isMissing && { missing: true }),
    };
  }

  #first(crawl: OfCrawl): Place {
    if (this.#hasRows(crawl)) return { at: 'buried', after: undefined };
    return { at: 'lines', spot: firstSpot, listed: 0 };
  }

  /** Are the URLs that were given up in the store? Those of a cancelled crawl are erased. */
  #hasRows({ state }: OfCrawl): boolean {
    return this.#options.store !== undefined && state !== 'cancelled';
  }

  #buried({ id }: OfCrawl, after: Uint8Array | undefined, limit: number) {
    const rows = this.#options.store?.range('buried', {
      from: after ?? crawlKey(id),
      after: after !== undefined,
      to: crawlKey(id + 1),
      limit,
    });
    const urls = (rows ?? []).map(({ value }): FailedUrl => {
      const { url, kind, message, attempts } = decodeBuried(value);
      return { url, kind, message, attempts, ...statusIn(kind, message) };
    });
    const last = rows?.at(-1);
    const isMore = last !== undefined && urls.length === limit;
    const next: Place = isMore
      ? { at: 'buried', after: last.key }
      : { at: 'lines', spot: firstSpot, listed: 0 };
    return { urls, next, isMissing: false };
  }

  /** Lines, and at their end what waits to be written. */
  async #written(
    crawl: OfCrawl,
    { spot, listed }: Place & { at: 'lines' },
    limit: number,
  ): Promise<{ urls: FailedUrl[]; next?: Place; isMissing: boolean }> {
    const { store, folderOf } = this.#options;
    const folder = folderOf(crawl.name);
    const { bytes: lastBytes, commit } = this.#recorded(crawl);
    // Those that were listed from the rows are lines now, or still rows.
    const linesMax = listed + limit;
    let found: Awaited<ReturnType<typeof searchLines>>;
    try {
      found = await searchLines(folder, { needle, from: spot, bytesMax, linesMax, lastBytes });
    } catch (error) {
      throw new ConfigError(`cannot read the results in ${folder}`, error);
    }
    const failures = found.lines.flatMap(({ text, next }) => {
      const failure = this.#failureOf(crawl, parsed(text));
      return failure === undefined ? [] : [{ failure, next }];
    });
    const urls = failures.slice(listed).map(({ failure }) => failure);
    const { isEnd, next } = found;
    const isFirst = spot.part === firstSpot.part && spot.at === firstSpot.at && listed === 0;
    // While it is being closed it may have its new name already.
    const isClosing = store !== undefined && rotatingDate(store, crawl.id, filesName) !== undefined;
    const isLost = found.isMissing && lastBytes > 0 && !isClosing;
    const isMissing = isLost || (isFirst && this.#missesParts(crawl));
    const stillListed = Math.max(0, listed - failures.length);
    // Lines that were written since the search are next.
    if (!isEnd || this.#recorded(crawl).commit > commit) {
      return { urls, next: { at: 'lines', spot: next, listed: stillListed }, isMissing };
    }
    const waiting = this.#waiting(crawl, stillListed + limit - urls.length);
    const more = waiting.slice(stillListed);
    urls.push(...more);
    if (more.length === 0) return { urls, isMissing };
    return { urls, next: { at: 'lines', spot: next, listed: waiting.length }, isMissing };
  }

  /** The first failures among the results that the file does not have. */
  #waiting(crawl: OfCrawl, countMax: number): FailedUrl[] {
    const { store } = this.#options;
    const failures: FailedUrl[] = [];
    if (store === undefined) return failures;
    const from = commitKey(crawl.id, this.#recorded(crawl).commit + 1);
    const to = crawlKey(crawl.id + 1);
    for (const rows of batches(store, 'results', { from, to }, batchRows)) {
      for (const { key, value } of rows) {
        if (commitOf(key) === 0) continue;
        for (const section of sectionsOf(value)) {
          if (section.kind !== 'failed' && section.kind !== 'blocked') continue;
          const failure = this.#failureOf(crawl, valuesOf(section) as Written);
          if (failure !== undefined) failures.push(failure);
          if (failures.length >= countMax) return failures;
        }
      }
    }
    return failures;
  }

  /** Files that a rotation has closed may be elsewhere by now, or packed. */
  #missesParts({ id, name }: OfCrawl): boolean {
    const { store, folderOf } = this.#options;
    if (store === undefined) return false;
    const files = partsOf(store, id, filesName).flatMap(({ part, date }) =>
      filesOfPart(part, date),
    );
    const pages = files.filter(({ key }) => key === 'pages');
    return pages.some((file) => !existsSync(join(folderOf(name), file.name)));
  }

  /** How far the files are: bytes of the one that is written, and the last commit in them. */
  #recorded({ id }: OfCrawl): { readonly bytes: number; readonly commit: number } {
    const { store } = this.#options;
    if (store === undefined) return { bytes: Number.POSITIVE_INFINITY, commit: 0 };
    const value = store.get('meta', cursorKey(id, filesName));
    if (value === undefined) return { bytes: 0, commit: 0 };
    const { commit, mark } = decodeCursor(value);
    return { bytes: ((mark ?? noLengths) as FileMarks).pages, commit };
  }

  /** Undefined: it is none, or its row in the store says so. */
  #failureOf(crawl: OfCrawl, line: Written | undefined): FailedUrl | undefined {
    const { url, status, finalUrl, sitemap, error } = line ?? {};
    // Sitemaps do not count as failed pages.
    if (typeof url !== 'string' || error === undefined || sitemap !== undefined) return undefined;
    // Only a report has one: without, every attempt has failed.
    if (finalUrl === undefined && this.#hasRows(crawl)) return undefined;
    const { kind, message, attempts } = error;
    return {
      url,
      kind: kind as FailedUrl['kind'],
      message: String(message),
      attempts: typeof attempts === 'number' ? attempts : 1,
      ...(typeof status === 'number' ? { status } : statusIn(String(kind), String(message))),
    };
  }
}

/** Of a failure whose answer is not on record: its message begins or ends with it. */
function statusIn(kind: string, message: string): { status?: number } {
  const [, status] = /^(?:robots\.txt: )?(\d{3})\b/.exec(message) ?? [];
  return kind === 'status' && status !== undefined ? { status: Number(status) } : {};
}

function parsed(text: string): Written | undefined {
  try {
    return JSON.parse(text) as Written;
  } catch {
    return undefined; // not of a master
  }
}

/** @throws CommandError */
function placeOf({ id }: OfCrawl, after: Uint8Array): Place {
  try {
    const [crawl, place] = decodeValue(after) as [unknown, Place];
    if (crawl === id && isPlace(id, place)) return place;
  } catch {
    // not msgpack, or of another shape
  }
  throw new CommandError('E_BAD_REQUEST', '`after` is not the `next` of an earlier reply');
}

function isPlace(crawl: number, place: Place): boolean {
  if (place.at === 'lines') {
    return isSpot(place.spot) && isCount(place.listed) && place.listed <= listedMax;
  }
  const { after } = place;
  const isKey = after instanceof Uint8Array && after.length === fingerprintKeyBytes;
  return place.at === 'buried' && isKey && crawlKey(crawl).equals(after.subarray(0, 4));
}

/** Failures that wait to be written: a cursor cannot make a page read more of them. */
const listedMax = 10_000_000;

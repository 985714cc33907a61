/**
 * Answers why a URL was fetched, or was not: in one crawl, from its store and its files. Work that
 * can take long, such as a search in files, goes in slices: an answer either is whole, or has a
 * cursor to go on with.
 *
 *     what was it admitted as? --nothing--> the decision is made again, as if a link came now
 *              |
 *              v
 *     given up --no--> open tasks of its host --no--> lines of the files, and waiting results
 *                                                                  |
 *              a line says "given up", and its row is gone: it was put back since, so look again
 *
 * `UrlLook` knows the crawl; this file and its neighbours read. A master that runs and one that
 * does not are asked alike.
 */
import { CommandError } from '../../shared/errors.ts';
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { Replies } from '../../shared/replies.ts';
import { canonicalUrl } from '../../shared/url.ts';
import type { UrlFate } from '../../shared/url-fate.ts';
import type { LookedCrawl, SeenAs, UrlLook } from '../frontier/look/url-look.ts';
import { crawlKey, decodeBuried, decodeTask } from '../store/records.ts';
import type { Rows } from '../store/store.ts';
import { taskKeyBytes } from '../store/task-keys.ts';
import { readTask } from '../store/unsorted-rows.ts';
import { isCount, isSpot, type SearchedFile } from './line-search.ts';
import { searchTasks } from './task-search.ts';
import { FateWriter } from './url-fates.ts';
import { type LinesPlace, lineRoles, linesStart, searchUrl, type UrlLines } from './url-lines.ts';

/** Rows of tasks and bytes of files that one slice reads. */
const rowsMax = 20_000;
const bytesMax = 8 << 20;
/** How often it is looked for anew, because it moved meanwhile. */
const roundsMax = 3;

type AnswersOptions = {
  readonly store: Rows;
  readonly look: UrlLook;
  /** The folder of a crawl's result files. */
  readonly folderOf: (crawl: string) => string;
};

/** Where an open task was. */
type OpenAt = { readonly key: Uint8Array; readonly before: number };

type Place = {
  readonly round: number;
  /** Tasks are looked at from behind this row. */
  readonly tasks: { readonly key: Uint8Array; readonly rows: number } | 'start' | 'done';
  readonly open: readonly OpenAt[];
  readonly lines: LinesPlace;
};

const start: Place = { round: 0, tasks: 'start', open: [], lines: linesStart };

export class UrlAnswers {
  readonly #options: AnswersOptions;

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  /** Of a crawl of the master that runs. @throws as `slice`, CommandError E_NO_CRAWL */
  async page(name: string, text: string, after?: Uint8Array): Promise<Replies['crawl.why']> {
    return await this.slice(this.#options.look.named(name), text, after);
  }

  /** @throws CommandError E_BAD_REQUEST `after` is not the `next` of a reply ·
   *  ConfigError a file cannot be read */
  async slice(crawl: LookedCrawl, text: string, after?: Uint8Array): Promise<Replies['crawl.why']> {
    const url = canonicalUrl(text);
    if (url === undefined) {
      const why = 'it is not an http or https URL of at most 4,096 characters';
      return { url: text, fates: [{ state: 'unknown', rule: { by: 'url' }, text: [why] }] };
    }
    const place = after === undefined ? start : placeOf(crawl.id, after);
    const seen = this.#options.look.seenAs(crawl, url);
    const outcome = await this.#search(crawl, url, seen, place);
    const fates = 'next' in outcome ? undefined : this.#fates(crawl, url, seen, outcome);
    if (fates !== undefined) return { url: url.href, fates };
    const next = 'next' in outcome ? outcome.next : { ...start, round: place.round + 1 };
    return { url: url.href, fates: [], next: encodeValue([crawl.id, next]) };
  }

  /** Returns where to go on, or all that was found. */
  async #search(crawl: LookedCrawl, url: URL, seen: SeenAs, place: Place): Promise<Search> {
    const { store, look, folderOf } = this.#options;
    // All that is left of it is in the files.
    const isForgotten = crawl.state === 'cancelled';
    const isBuried = store.has('buried', look.buriedKey(crawl, url));
    const isImageBuried = store.has('buried', look.buriedImageKey(crawl, url));
    const isDownload = seen.download && !isImageBuried;
    const wanted = Number(seen.page && !isBuried) + Number(seen.sitemap) + Number(isDownload);
    let { open } = place;
    if (place.tasks !== 'done' && wanted > open.length) {
      const after = place.tasks === 'start' ? undefined : place.tasks;
      const { tasks, next } = await searchTasks(store, url.href, look.tasksOf(crawl, url), {
        ...(after && { after: { key: Buffer.from(after.key), rows: after.rows } }),
        rowsMax,
        tasksMax: wanted - open.length,
      });
      open = [...open, ...tasks.map(({ key, before }) => ({ key, before }))];
      if (next !== undefined) return { next: { ...place, open, tasks: next } };
    }
    const files: SearchedFile[] = [];
    const isNamed = seen.canonical && !seen.page;
    if (isForgotten || open.length < wanted || isNamed) files.push('pages');
    if (isForgotten || (seen.skipped && !seen.page)) files.push('skipped');
    if (isForgotten ? crawl.images.areWanted : isDownload) files.push('downloads');
    const { round } = place;
    if (files.length === 0) return { round, open, lines: {}, missing: [] };
    const folder = folderOf(crawl.name);
    const search = { url: url.href, files, from: place.lines, bytesMax };
    const outcome = await searchUrl({ store, folder }, crawl, search);
    if (outcome.isEnd) return { round, open, ...outcome };
    return { next: { round, open, tasks: 'done', lines: outcome.place } };
  }

  /** Undefined: what was found has changed since, and is to be looked for anew. */
  #fates(crawl: LookedCrawl, url: URL, seen: SeenAs, found: Found): UrlFate[] | undefined {
    const { store, look } = this.#options;
    const writer = new FateWriter(look, crawl, url, seen, found);
    const isLast = found.round >= roundsMax;
    const fates: UrlFate[] = [];
    for (const { key, before } of found.open) {
      const value = readTask(store, key);
      if (value === undefined && !isLast) return undefined;
      if (value === undefined) continue;
      const open = { key: Buffer.from(key), record: decodeTask(value), before };
      fates.push(look.openFate(crawl, open));
    }
    if (fates.every(({ kind }) => kind !== undefined)) {
      const row = store.get('buried', look.buriedKey(crawl, url));
      const isPutBack = row === undefined && seen.page && writer.isGivenUp;
      if (isPutBack && !isLast) return undefined;
      fates.unshift(...writer.page(row && decodeBuried(row)));
    }
    if (writer.isSitemap && fates.every(({ kind }) => kind === undefined)) {
      fates.push(writer.sitemap());
    }
    const kinds = new Set(fates.map(({ kind }) => kind));
    if (!kinds.has('image')) {
      const row = store.get('buried', look.buriedImageKey(crawl, url));
      fates.push(...writer.image(row && decodeBuried(row)));
    }
    writer.addNotes(fates);
    return fates;
  }
}

/** The results of a search. */
type Found = {
  readonly round: number;
  readonly open: readonly OpenAt[];
  readonly lines: UrlLines;
  /** Files that are not there, or are shorter than they were. */
  readonly missing: readonly SearchedFile[];
};
type Search = Found | { readonly next: Place };

/** @throws CommandError */
function placeOf(crawl: number, after: Uint8Array): Place {
  try {
    const [id, place] = decodeValue(after) as [unknown, Place];
    if (id === crawl && isPlace(crawl, place)) return place;
  } catch {
    // not msgpack, or of another shape
  }
  throw new CommandError('E_BAD_REQUEST', '`after` is not the `next` of an earlier reply');
}

function isPlace(crawl: number, { round, tasks, open, lines }: Place): boolean {
  if (!isCount(round) || round > roundsMax + 1 || open.length > openMax) return false;
  const isKey = (key: Uint8Array) => {
    return key instanceof Uint8Array && crawlKey(crawl).equals(key.subarray(0, 4));
  };
  const isTask = (key: Uint8Array) => isKey(key) && key.length === taskKeyBytes;
  const isWord = tasks === 'start' || tasks === 'done';
  if (!isWord && !(isTask(tasks.key) && isCount(tasks.rows))) return false;
  if (!open.every(({ key, before }) => isTask(key) && isCount(before))) return false;
  const spots = Object.values(lines.found).map(({ spot }) => spot);
  const roles: readonly string[] = lineRoles;
  if (!Object.keys(lines.found).every((role) => roles.includes(role))) return false;
  return [lines.pages, lines.skipped, lines.downloads, ...spots].every(isSpot);
}

/** A URL is a page, a sitemap and an image at most. */
const openMax = 3;

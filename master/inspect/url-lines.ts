/**
 * Finds the lines of a crawl that are about one URL: in its result files, then among the results
 * that are not in the files yet. A file is read in slices; a cursor keeps where the next one begins
 * and where the lines are that were found.
 *
 *     files, as far as they are on record --> waiting results --nothing was written--> end
 *       ^                                          |
 *       +-----------something was written----------+
 */
import { setImmediate as turn } from 'node:timers/promises';
import { ConfigError } from '../../shared/errors.ts';
import { type FileKey, type FileMarks, fileOf, filesName, noLengths } from '../sinks/files.ts';
import { lineOf } from '../sinks/result-lines.ts';
import { commitKey, commitOf, crawlKey, cursorKey, decodeCursor } from '../store/records.ts';
import { isRowKind, sectionsOf } from '../store/result-rows.ts';
import { batches, type Rows } from '../store/store.ts';
import { firstSpot, lineAt, type SearchedFile, type Spot, searchLines } from './line-search.ts';

/** The role of a line for a URL: its own as a page, as a sitemap, as an image that was downloaded,
 *  as a skipped link, or the line of another URL that names it in this field. */
export const lineRoles = [
  'page',
  'sitemap',
  'download',
  'skipped',
  'finalUrl',
  'redirectedTo',
  'canonical',
] as const;
type LineRole = (typeof lineRoles)[number];

/** How far a search is. */
export type LinesPlace = {
  readonly pages: Spot;
  readonly skipped: Spot;
  readonly downloads: Spot;
  readonly found: { readonly [R in LineRole]?: FoundAt };
};
type FoundAt = { readonly spot: Spot };
export const linesStart: LinesPlace = {
  pages: firstSpot,
  skipped: firstSpot,
  downloads: firstSpot,
  found: {},
};

export type ResultLine = {
  readonly url: string;
  readonly finalUrl?: string;
  readonly redirectedTo?: string;
  readonly canonical?: string;
  readonly sitemap?: { readonly kind: string; readonly urls: number; readonly images: number };
  readonly error?: { kind: string; message: string; attempts?: number };
  readonly [field: string]: unknown;
};
export type UrlLines = { readonly [R in LineRole]?: { line: ResultLine; text: string } };

type Outcome =
  | { readonly isEnd: false; readonly place: LinesPlace }
  | { readonly isEnd: true; readonly lines: UrlLines; readonly missing: readonly SearchedFile[] };

/** Rows of waiting results that are read at once. */
const batchRows = 16;

type SearchedCrawl = { readonly id: number; readonly name: string };

/** Searches the wanted files for about `bytesMax`. @throws ConfigError a file cannot be read */
export async function searchUrl(
  { store, folder }: { readonly store: Rows; readonly folder: string },
  crawl: SearchedCrawl,
  wanted: {
    readonly url: string;
    readonly files: readonly SearchedFile[];
    readonly from: LinesPlace;
    readonly bytesMax: number;
  },
): Promise<Outcome> {
  const { url, files } = wanted;
  const { found: before, ...spots } = wanted.from;
  const found: Partial<Record<LineRole, FoundAt>> = { ...before };
  const texts: Partial<Record<LineRole, string>> = {};
  const take = (file: FileKey, text: string, spot: Spot | undefined) => {
    const role = roleOf(url, file, text);
    if (role === undefined) return;
    // The last line counts: a URL that was tried again has several.
    if (spot !== undefined) {
      found[role] = { spot };
      delete texts[role];
    } else texts[role] = text;
  };
  const missing = new Set<SearchedFile>();
  let left = wanted.bytesMax;
  while (true) {
    const recorded = recordedOf(store, crawl.id);
    for (const file of files) {
      const done = await searchFile(folder, file, {
        url,
        from: spots[file],
        bytesMax: left,
        lastBytes: recorded[file],
        take: (text, spot) => take(file, text, spot),
      });
      left -= Math.max(0, done.next.at - spots[file].at);
      spots[file] = done.next;
      if (done.isMissing && recorded[file] > 0) missing.add(file);
      else missing.delete(file);
      if (!done.isEnd) return { isEnd: false, place: { ...spots, found } };
    }
    await searchWaiting(store, crawl.id, recorded.commit, url, (file, text) =>
      take(file, text, undefined),
    );
    // The search may have passed over lines that were written during it.
    if (recordedOf(store, crawl.id).commit === recorded.commit) break;
    if (left <= 0) return { isEnd: false, place: { ...spots, found } };
  }
  const lines: Partial<Record<LineRole, { line: ResultLine; text: string }>> = {};
  for (const role of lineRoles) {
    const { spot } = found[role] ?? {};
    const file = fileOfRole(role);
    const text = texts[role] ?? (spot && (await lineAt(folder, file, spot)));
    const line = text === undefined ? undefined : parsedLine(text);
    if (text !== undefined && line !== undefined) lines[role] = { line, text };
  }
  return { isEnd: true, lines, missing: [...missing] };
}

async function searchFile(
  folder: string,
  file: SearchedFile,
  search: {
    readonly url: string;
    readonly from: Spot;
    readonly bytesMax: number;
    readonly lastBytes: number;
    readonly take: (text: string, spot: Spot) => void;
  },
): Promise<{ next: Spot; isEnd: boolean; isMissing: boolean }> {
  const { url, from, bytesMax, lastBytes, take } = search;
  const needle = `":${JSON.stringify(url)}`;
  const names = file === 'pages' ? ['url', 'finalUrl', 'redirectedTo', 'canonical'] : ['url'];
  const behind = names.map((name) => `"${name}`);
  try {
    const wanted = { file, needle, behind, from, bytesMax, lastBytes, linesMax };
    const { lines, ...rest } = await searchLines(folder, wanted);
    for (const { text, at } of lines) take(text, at);
    return rest;
  } catch (error) {
    throw new ConfigError(`cannot read the results in ${folder}`, error);
  }
}

/** Lines that one slice brings: a search goes on behind them. */
const linesMax = 1_000;

async function searchWaiting(
  store: Rows,
  crawl: number,
  commit: number,
  url: string,
  take: (file: FileKey, text: string) => void,
): Promise<void> {
  const needle = Buffer.from(url, 'latin1');
  const range = { from: commitKey(crawl, commit + 1), to: crawlKey(crawl + 1) };
  for (const rows of batches(store, 'results', range, batchRows)) {
    for (const { key, value } of rows) {
      if (commitOf(key) === 0 || !value.includes(needle)) continue;
      for (const section of sectionsOf(value)) {
        if (isRowKind(section.kind)) continue;
        const bytes = section.row.subarray(section.begin, section.end);
        if (section.kind === 'image-url' || !bytes.includes(needle)) continue;
        take(fileOf(section.kind), lineOf(section));
      }
    }
    await turn();
  }
}

/** How far the files are on record, in bytes, and the last commit in them. */
function recordedOf(store: Rows, crawl: number): Record<SearchedFile | 'commit', number> {
  const value = store.get('meta', cursorKey(crawl, filesName));
  if (value === undefined) return { pages: 0, skipped: 0, downloads: 0, commit: 0 };
  const { commit, mark } = decodeCursor(value);
  const { pages, skipped, downloads = 0 } = (mark ?? noLengths) as FileMarks;
  return { pages, skipped, downloads, commit };
}

function fileOfRole(role: LineRole): SearchedFile {
  if (role === 'download') return 'downloads';
  return role === 'skipped' ? 'skipped' : 'pages';
}

function roleOf(url: string, file: FileKey, text: string): LineRole | undefined {
  const line = parsedLine(text);
  if (line === undefined) return undefined;
  if (file === 'downloads') return line.url === url ? 'download' : undefined;
  if (line.url === url) {
    if (line['skipped'] !== undefined) return 'skipped';
    return line.sitemap === undefined ? 'page' : 'sitemap';
  }
  if (line.redirectedTo === url) return 'redirectedTo';
  if (line.finalUrl === url) return 'finalUrl';
  return line.canonical === url ? 'canonical' : undefined;
}

/** Returns undefined for what is no line of a master. */
export function parsedLine(text: string): ResultLine | undefined {
  try {
    const line = JSON.parse(text) as ResultLine | null;
    return typeof line?.url === 'string' ? line : undefined;
  } catch {
    return undefined;
  }
}

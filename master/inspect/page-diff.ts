/**
 * Which pages of one crawl another one has, by their result files: pages that came, went, and
 * changed. A page is named by its final URL. Its content is compared by the digest in its line
 * (`--digest`), else by that of its archive.
 *
 * Of large crawls a part of the URLs is compared at a time, so that memory stays bounded: the files
 * are read once for each part.
 */
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, parse } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { isPageStatus } from '../../shared/protocol.ts';
import { isDated } from '../sinks/dated-files.ts';
import { fileNames } from '../sinks/files.ts';
import { linesOf } from './text-lines.ts';

export type Change = {
  readonly change: 'came' | 'went' | 'changed';
  readonly url: string;
  /** Of a page that went: what the later crawl found there. */
  readonly why?: string;
};

export type DiffCounts = {
  came: number;
  went: number;
  changed: number;
  same: number;
  /** Pages of both crawls whose content cannot be compared. */
  unknown: number;
};

export const noChanges: Readonly<DiffCounts> = {
  came: 0,
  went: 0,
  changed: 0,
  same: 0,
  unknown: 0,
};

type Line = {
  readonly url?: unknown;
  readonly finalUrl?: unknown;
  readonly images?: unknown;
  readonly digest?: unknown;
  readonly unchanged?: unknown;
  readonly etag?: unknown;
  readonly lastModified?: unknown;
  readonly sitemap?: unknown;
  readonly error?: { readonly kind?: unknown; readonly message?: unknown };
  readonly redirectedTo?: unknown;
  readonly excluded?: unknown;
};
/** A page of a crawl; `line` and `archive`: digests of its content; `version`: by its host. */
type Page = {
  url: string;
  line?: string;
  archive?: string;
  version?: string;
  isUnchanged: boolean;
  why?: string;
};

/** Bytes of result files that are compared at once: some 100 bytes of memory for 300 of a line. */
const partBytes = 512 << 20;

/** Compares the results in two folders. @throws ConfigError they cannot be read */
export async function* changes(
  before: string,
  after: string,
  counts: DiffCounts,
): AsyncGenerator<Change> {
  const bytes = Math.max(await bytesOf(before), await bytesOf(after));
  const parts = Math.ceil(Math.max(bytes, 1) / partBytes);
  for (let part = 0; part < parts; part++) {
    const isIn = (url: string) => parts === 1 || partOf(url, parts) === part;
    const old = await pagesOf(before, isIn);
    const now = await pagesOf(after, isIn);
    for (const [url, page] of now) {
      const earlier = old.get(url);
      if (page.why !== undefined) continue;
      if (earlier === undefined || earlier.why !== undefined) {
        counts.came++;
        yield { change: 'came', url };
        continue;
      }
      const verdict = compared(earlier, page);
      counts[verdict]++;
      if (verdict === 'changed') yield { change: 'changed', url };
    }
    for (const [url, { why }] of old) {
      const page = now.get(url);
      if (why !== undefined || (page !== undefined && page.why === undefined)) continue;
      counts.went++;
      yield { change: 'went', url, ...(page?.why !== undefined && { why: page.why }) };
    }
  }
}

/** `3 came, 1 went, 2 changed, 40 the same` */
export function countsText({ came, went, changed, same }: Readonly<DiffCounts>): string {
  return `${came} came, ${went} went, ${changed} changed, ${same} the same`;
}

function compared(before: Page, after: Page): 'same' | 'changed' | 'unknown' {
  for (const kind of ['line', 'archive'] as const) {
    const [old, now] = [before[kind], after[kind]];
    if (old !== undefined && now !== undefined) return old === now ? 'same' : 'changed';
  }
  // It is unchanged since the crawl that was repeated, which may be one in between.
  const [old, now] = [before.version, after.version];
  const isOther = old?.[0] === now?.[0] && old !== now;
  return after.isUnchanged && !isOther ? 'same' : 'unknown';
}

/** A validator of the host; the first letter tells dates from tags, which cannot be compared. */
function versionOf({ etag, lastModified }: Line): string | undefined {
  if (typeof lastModified === 'string') return `d${lastModified}`;
  return typeof etag === 'string' ? `e${etag.replace(/^W\//, '')}` : undefined;
}

/** The lines of a crawl by the names of their pages; those with `why` are no pages. */
async function pagesOf(
  folder: string,
  isWanted: (url: string) => boolean,
): Promise<Map<string, Page>> {
  const pages = new Map<string, Page>();
  for (const file of await resultFiles(folder)) {
    for await (const text of readableLines(file)) {
      const line = parsed(text);
      const url = nameOf(line);
      if (line === undefined || url === undefined || !isWanted(url)) continue;
      const known = pages.get(url);
      const why = Array.isArray(line.images) ? undefined : whyNone(line);
      // A page stays one: another line is of a redirect to it.
      if (known !== undefined && known.why === undefined && why !== undefined) continue;
      const { digest, unchanged } = line;
      const version = versionOf(line);
      pages.set(url, {
        url,
        isUnchanged: unchanged === true,
        ...(typeof digest === 'string' && { line: digest }),
        ...(version !== undefined && { version }),
        ...(why !== undefined && { why }),
      });
    }
  }
  for (const file of await indexFiles(folder)) {
    for await (const text of readableLines(file)) {
      const indexed = indexedIn(text);
      const page = indexed && pages.get(indexed.url);
      if (indexed !== undefined && page !== undefined) page.archive = indexed.digest;
    }
  }
  return pages;
}

function nameOf(line: Line | undefined): string | undefined {
  if (line === undefined || line.sitemap !== undefined) return undefined;
  const { url, finalUrl } = line;
  // A redirect is a line about the URL that was asked for.
  const name = line.redirectedTo === undefined ? (finalUrl ?? url) : url;
  return typeof name === 'string' ? name : undefined;
}

function whyNone({ error, redirectedTo, excluded }: Line): string {
  if (error !== undefined) return `${error.kind}: ${error.message}`;
  if (redirectedTo !== undefined) return `redirects to ${redirectedTo}`;
  return excluded === undefined ? 'is no longer a page' : `left out: ${excluded}`;
}

function indexedIn(text: string): { readonly url: string; readonly digest: string } | undefined {
  const value = parsed(text.slice(text.indexOf('{'))) as
    | { url?: unknown; digest?: unknown; status?: unknown }
    | undefined;
  const { url, digest, status } = value ?? {};
  if (typeof url !== 'string' || typeof digest !== 'string' || digest === '-') return undefined;
  return isPageStatus(Number(status)) ? { url, digest } : undefined;
}

function parsed(text: string): Line | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined; // its end is not written yet
  }
}

/** pages.jsonl, behind those that were rotated. @throws ConfigError there is none */
async function resultFiles(folder: string): Promise<string[]> {
  const name = fileNames.pages;
  const names = (await readdir(folder).catch(() => [])).sort();
  const packed = names.find((one) => !isDated(one, name) && isDated(parse(one).name, name));
  if (packed !== undefined) {
    throw new ConfigError(`${join(folder, packed)} cannot be read: unpack it`);
  }
  const files = [...names.filter((one) => isDated(one, name)), ...names.filter((n) => n === name)];
  if (files.length > 0) return files.map((one) => join(folder, one));
  throw new ConfigError(
    `there is no ${name} in ${folder}; give the name of a crawl, and its folder with --out`,
  );
}

async function indexFiles(folder: string): Promise<string[]> {
  const archive = join(folder, 'archive');
  if (!existsSync(archive)) return [];
  const names = await readdir(archive);
  return names
    .filter((name) => name.endsWith('.cdxj'))
    .sort()
    .map((name) => join(archive, name));
}

async function bytesOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const file of await resultFiles(folder)) bytes += (await stat(file)).size;
  return bytes;
}

async function* readableLines(file: string): AsyncGenerator<string> {
  try {
    yield* linesOf(file);
  } catch (error) {
    throw new ConfigError(`cannot read ${file}: ${messageOf(error)}`, error);
  }
}

function partOf(url: string, parts: number): number {
  return Number.parseInt(hash('sha1', url, 'hex').slice(0, 8), 16) % parts;
}

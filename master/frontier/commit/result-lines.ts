/** The lines of pages.jsonl, one object a fetched URL, and of skipped.jsonl, one a link that was
 *  not taken. Source: docs/output.md; docs/scope.md, "Traps". */
import { isPageStatus, type SitemapKind, type SkipReason } from '../../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../../shared/requests.ts';
import { visibleJson } from '../../../shared/visible.ts';
import type { TaskRecord } from '../../store/records.ts';

type Fetched = Pick<TaskRecord, 'url' | 'depth'>;
/** What the line of a sitemap says of it. */
export type ListedCounts = {
  readonly kind: SitemapKind;
  readonly urls: number;
  readonly images: number;
};
/** Why a URL is left out: by robots.txt before it was asked for, by its page's own word, or
 *  because a page of the same canonical URL has been written. */
export type Exclusion = 'robots' | 'noindex' | 'canonical';

/** A page is a successful answer of HTML, or one that is unchanged. */
export function isPage({ status, type, error, redirectedTo }: Result): boolean {
  if (!isPageStatus(status) && status !== 304) return false;
  if (error !== undefined || redirectedTo !== undefined) return false;
  return type === 'text/html' || type === 'application/xhtml+xml';
}

/** The line of an answer. `moved`: the final URL is a page of its own that was known before;
 *  `excluded`: it was fetched, and yet is no result. */
export function resultLine(line: {
  readonly task: Fetched & { readonly attempts: number };
  readonly result: Result;
  readonly images: readonly Image[];
  readonly links: number;
  readonly moved: boolean;
  readonly excluded?: Exclusion | undefined;
  readonly slave: string;
  readonly at: number;
}): string {
  const { task, result, slave } = line;
  const { finalUrl, status, type, charset, bytes, title, cut, linksCut } = result;
  const { etag, lastModified } = result;
  const { incomplete, dataImages, imagesCut, directives, nofollowed, refresh, canonical } = result;
  const { url, depth } = task;
  const ms = Math.round(result.ms);
  const at = new Date(line.at).toISOString();
  const redirectedTo = result.redirectedTo ?? (line.moved ? finalUrl : undefined);
  // One literal each: this runs for every page, and spreading is slow. Undefined is left out.
  if (result.error) {
    const error = { ...result.error, attempts: task.attempts + 1 };
    // Nothing was asked: there is no answer to give the status of.
    if (status === 0) return json({ url, finalUrl, depth, ms, error, slave, at });
    return json({ url, finalUrl, status, type, depth, bytes, ms, error, slave, at });
  }
  if (redirectedTo !== undefined) {
    return json({ url, finalUrl, status, depth, ms, redirectedTo, slave, at });
  }
  const unchanged = status === 304 || undefined;
  const { images, links, excluded } = line;
  if (excluded !== undefined || !isPage(result)) {
    const head = { url, finalUrl, status, unchanged, type, depth, bytes, ms };
    const said = { directives, nofollowed, refresh, canonical };
    return json({ ...head, ...said, excluded, etag, lastModified, slave, at });
  }
  return json({
    url,
    finalUrl,
    status,
    unchanged,
    type,
    charset,
    depth,
    bytes,
    ms,
    title,
    cut,
    incomplete,
    images,
    imagesCut,
    dataImages,
    links,
    linksCut,
    directives,
    nofollowed,
    refresh,
    canonical,
    etag,
    lastModified,
    slave,
    at,
  });
}

/** The line of a sitemap: how many URLs and images it lists, whoever knew them. */
export function sitemapLine(line: {
  readonly task: Fetched & { readonly attempts: number };
  readonly result: Result;
  readonly kind: SitemapKind;
  readonly urls: number;
  readonly images: number;
  readonly slave: string;
  readonly at: number;
}): string {
  const { task, result, kind, urls, images, slave } = line;
  const { finalUrl, status, type, bytes, cut, redirectedTo } = result;
  return json({
    url: task.url,
    finalUrl,
    status: status === 0 ? undefined : status,
    type,
    depth: task.depth,
    bytes,
    ms: Math.round(result.ms),
    sitemap: { kind, urls, images },
    cut,
    redirectedTo,
    error: result.error && { ...result.error, attempts: task.attempts + 1 },
    slave,
    at: new Date(line.at).toISOString(),
  });
}

/** The line of a URL that was given up; `sitemap`: it is one. */
export function failureLine(line: {
  readonly task: Fetched;
  readonly sitemap?: ListedCounts | undefined;
  readonly error: FetchErrorBody;
  readonly attempts: number;
  readonly slave: string;
  readonly at: number;
}): string {
  const { task, sitemap, error, attempts, slave } = line;
  const at = new Date(line.at).toISOString();
  return json({
    url: task.url,
    depth: task.depth,
    sitemap,
    error: { ...error, attempts },
    slave: slave || undefined,
    at,
  });
}

/** The line of a URL that is left out without being asked for; `sitemap`: it is one. */
export function excludedLine(line: {
  readonly task: Fetched;
  readonly sitemap?: ListedCounts | undefined;
  readonly excluded: Exclusion;
  readonly at: number;
}): string {
  const { task, sitemap, excluded } = line;
  const at = new Date(line.at).toISOString();
  return json({ url: task.url, depth: task.depth, sitemap, excluded, at });
}

/** The line of a link that was not taken; `from`: the page that has it. */
export function skippedLine(
  url: string,
  skipped: SkipReason,
  { from, depth, at }: { readonly from: string; readonly depth: number; readonly at: number },
): string {
  return json({ url, skipped, depth, from, at: new Date(at).toISOString() });
}

function json(value: object): string {
  // What sites and slaves say may end up on a terminal, or in an editor.
  return `${visibleJson(JSON.stringify(value))}\n`;
}

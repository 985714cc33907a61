/** The lines of pages.jsonl, one object a fetched URL. Source: README, "What you get". */
import type { FetchErrorBody, Image, Result } from '../../shared/protocol.ts';

type Fetched = { readonly url: string; readonly depth: number };

/** A page is a 200 answer of HTML, or one that is unchanged. */
export function isPage({ status, type, error, redirectedTo }: Result): boolean {
  if ((status !== 200 && status !== 304) || error !== undefined || redirectedTo !== undefined)
    return false;
  return type === 'text/html' || type === 'application/xhtml+xml';
}

/** The line of an answer. `moved`: the final URL is a page of its own that was known before. */
export function resultLine(line: {
  readonly task: Fetched & { readonly attempts: number };
  readonly result: Result;
  readonly images: readonly Image[];
  readonly links: number;
  readonly moved: boolean;
  readonly slave: string;
  readonly at: number;
}): string {
  const { task, result, slave } = line;
  const { finalUrl, status, type, charset, bytes, title, cut, linksCut } = result;
  const { dataImages, imagesCut, etag, lastModified } = result;
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
  if (!isPage(result)) {
    const line = { url, finalUrl, status, unchanged, type, depth, bytes, ms };
    return json({ ...line, etag, lastModified, slave, at });
  }
  const { images, links } = line;
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
    images,
    imagesCut,
    dataImages,
    links,
    linksCut,
    etag,
    lastModified,
    slave,
    at,
  });
}

/** The line of a URL that was given up. */
export function failureLine(line: {
  readonly task: Fetched;
  readonly error: FetchErrorBody;
  readonly attempts: number;
  readonly slave: string;
  readonly at: number;
}): string {
  const { task, error, attempts, slave } = line;
  const at = new Date(line.at).toISOString();
  return json({
    url: task.url,
    depth: task.depth,
    error: { ...error, attempts },
    slave: slave || undefined,
    at,
  });
}

/** The line of a URL that is left out. */
export function excludedLine(line: {
  readonly task: Fetched;
  readonly excluded: 'robots';
  readonly at: number;
}): string {
  const { task, excluded } = line;
  const at = new Date(line.at).toISOString();
  return json({ url: task.url, depth: task.depth, excluded, at });
}

function json(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

/** The lines of pages.jsonl, one object a fetched URL. Source: README, "What you get". */
import type { FetchErrorBody, Image, Result } from '../../shared/protocol.ts';

type Fetched = { readonly url: string; readonly depth: number };

/** A page is a 200 answer of HTML. */
export function isPage({ status, type, error, redirectedTo }: Result): boolean {
  if (status !== 200 || error !== undefined || redirectedTo !== undefined) return false;
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
  const head = { url: task.url, finalUrl: result.finalUrl, status: result.status };
  const tail = { slave, at: new Date(line.at).toISOString() };
  const { type, charset, bytes, title, cut, linksCut } = result;
  const ms = Math.round(result.ms);
  const redirectedTo = result.redirectedTo ?? (line.moved ? result.finalUrl : undefined);
  let body: object;
  if (result.error) {
    const error = { ...result.error, attempts: task.attempts + 1 };
    body = { type, depth: task.depth, bytes, ms, error };
  } else if (redirectedTo !== undefined) {
    body = { depth: task.depth, ms, redirectedTo };
  } else if (isPage(result)) {
    const { images, links } = line;
    body = { type, charset, depth: task.depth, bytes, ms, title, cut, images, links, linksCut };
  } else {
    body = { type, depth: task.depth, bytes, ms };
  }
  return `${JSON.stringify({ ...head, ...body, ...tail })}\n`;
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
  return `${JSON.stringify({
    url: task.url,
    depth: task.depth,
    error: { ...error, attempts },
    slave,
    at: new Date(line.at).toISOString(),
  })}\n`;
}

/** The records of the result queue: a record for each URL that was fetched or left out, and for a
 *  link that was skipped. Source: docs/output.md; docs/scope.md, "Traps". */
import { isHtml } from '../../../shared/media-types.ts';
import { isPageStatus, type SitemapKind, type SkipReason } from '../../../shared/protocol.ts';
import type { FetchErrorBody, Image, Result } from '../../../shared/requests.ts';
import type { RecordKind } from '../../../shared/result-fields.ts';
import type { TaskRecord } from '../../store/records.ts';
import type { Exclusion, PackedReport, Reported, ResultRecord } from '../../store/result-rows.ts';

type Fetched = Pick<TaskRecord, 'url' | 'depth'> & { readonly seq: number };
/** The counts of a sitemap. */
export type ListedCounts = {
  readonly kind: SitemapKind;
  readonly urls: number;
  readonly images: number;
};

/** A record with its kind and what a slave reported; `packed`: that as it came, unless the master
 *  has changed it. */
export type Finding = {
  readonly kind: RecordKind;
  readonly record: ResultRecord;
  readonly reported?: Reported;
  readonly packed?: PackedReport | undefined;
};

/** A page is a successful answer of HTML, or one that is unchanged; `isRead`: rules read it, so it
 *  may be JSON or XML. */
export function isPage({ status, type, error, redirectedTo }: Result, isRead = false): boolean {
  if (!isPageStatus(status) && status !== 304) return false;
  if (error !== undefined || redirectedTo !== undefined) return false;
  return (type !== undefined && isHtml(type)) || isRead;
}

/** The record of an answer. `moved`: the final URL is a page of its own that was known before;
 *  `excluded`: it was fetched, and yet is no result. */
export function answerRecord(line: {
  readonly task: Fetched & { readonly attempts: number };
  readonly from?: string | undefined;
  readonly result: Result;
  readonly images: readonly Image[];
  readonly links: number;
  readonly moved: boolean;
  readonly excluded?: Exclusion | undefined;
  readonly isRead?: boolean;
  readonly slave: string;
  readonly at: number;
  readonly packed?: PackedReport | undefined;
}): Finding {
  const { task, from, result, images, excluded, packed, slave, at } = line;
  const { url, depth, seq } = task;
  const head = { url, depth, from, task: seq, at, slave };
  const reported = { result, images: undefined };
  if (result.error !== undefined) {
    const record = { ...head, attempts: task.attempts + 1 };
    return { kind: failureKind(result.error), record, reported, packed };
  }
  if (result.redirectedTo !== undefined || line.moved) {
    const redirectedTo = result.redirectedTo ?? result.finalUrl;
    return { kind: 'redirect', record: { ...head, redirectedTo }, reported, packed };
  }
  if (excluded !== undefined) {
    return { kind: 'excluded', record: { ...head, excluded }, reported, packed };
  }
  if (!isPage(result, line.isRead)) return { kind: 'other', record: head, reported, packed };
  // Nearly all records are like this one, so it is made without a spread.
  const record = { url, depth, from, task: seq, at, slave, links: line.links };
  return { kind: 'page', record, reported: { result, images }, packed };
}

/** The record of a sitemap: how many URLs and images it lists, known or not. */
export function sitemapRecord(line: {
  readonly task: Fetched & { readonly attempts: number };
  readonly from?: string | undefined;
  readonly result: Result;
  readonly kind: SitemapKind;
  readonly urls: number;
  readonly images: number;
  readonly slave: string;
  readonly at: number;
}): Finding {
  const { task, from, result, kind, urls, images, slave, at } = line;
  const { url, depth, seq } = task;
  const attempts = result.error === undefined ? undefined : task.attempts + 1;
  const head = { url, depth, from, task: seq, at, slave, attempts };
  const record = { ...head, sitemap: { kind, urls, images } };
  return { kind: 'sitemap', record, reported: { result } };
}

/** The record of a URL that was given up; `sitemap`: it is one. */
export function failureRecord(line: {
  readonly task: Fetched;
  readonly from?: string | undefined;
  readonly sitemap?: ListedCounts | undefined;
  readonly error: FetchErrorBody;
  readonly attempts: number;
  readonly slave: string;
  readonly at: number;
}): Finding {
  const { task, from, sitemap, error, attempts, slave, at } = line;
  const { url, depth, seq } = task;
  const said = { error: { ...error, attempts }, slave: slave || undefined };
  const record = { url, depth, from, task: seq, at, ...said };
  if (sitemap !== undefined) return { kind: 'sitemap', record: { ...record, sitemap } };
  return { kind: failureKind(error), record };
}

/** The record of a URL that is left out without being asked for; `sitemap`: it is one. */
export function exclusionRecord(line: {
  readonly task: Fetched;
  readonly from?: string | undefined;
  readonly sitemap?: ListedCounts | undefined;
  readonly excluded: Exclusion;
  readonly at: number;
}): Finding {
  const { task, from, sitemap, excluded, at } = line;
  const { url, depth, seq } = task;
  const record = { url, depth, from, task: seq, at, excluded };
  if (sitemap !== undefined) return { kind: 'sitemap', record: { ...record, sitemap } };
  return { kind: 'excluded', record };
}

/** The record of a link that was not taken; `from`: the page that has it. */
export function skipRecord(
  url: string,
  skipped: SkipReason,
  { from, depth, at }: { readonly from: string; readonly depth: number; readonly at: number },
): Finding {
  return { kind: 'skipped', record: { url, skipped, depth, from, at } };
}

function failureKind({ kind }: FetchErrorBody): RecordKind {
  return kind === 'blocked' ? 'blocked' : 'failed';
}

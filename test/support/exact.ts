/** Compares the files of a crawl with the truth: nothing missing, nothing extra, nothing twice. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster, Line } from './cluster.ts';
import type { Truth } from './site.ts';

/** The lines of pages.jsonl; fails on a torn or invalid one. */
export function readPages(cluster: Cluster, crawl = 'default'): Line[] {
  return wholeLines(cluster, 'pages.jsonl', crawl).map(parseLine);
}

/** The lines of img_src.txt. */
export function readImages(cluster: Cluster, crawl = 'default'): string[] {
  return wholeLines(cluster, 'img_src.txt', crawl);
}

/** Both files hold what `truth` says and each thing once. */
export function assertExact(cluster: Cluster, truth: Truth, crawl = 'default'): void {
  const lines = readPages(cluster, crawl);
  assertSame('pages', pagesOf(lines), truth.pages);
  assertSame('images', readImages(cluster, crawl), truth.images);
  const broken = lines.filter(({ error, status }) => error?.kind === 'status' && status === 404);
  assertSame('broken links', urlsOf(broken), truth.broken);
  const files = lines.filter(({ type, error }) => type === 'text/plain' && !error);
  assertSame('files', urlsOf(files), truth.files);
  assertSame('lines', urlsOf(lines), [...new Set(urlsOf(lines))]);
}

/** Final URLs of the pages. */
export function pagesOf(lines: readonly Line[]): string[] {
  return lines.filter(({ images }) => images !== undefined).map(({ finalUrl }) => finalUrl);
}

/** The same members, each once on both sides. */
export function assertSame(what: string, found: readonly string[], truth: readonly string[]): void {
  const [isFound, isTrue] = [new Set(found), new Set(truth)];
  const missing = truth.filter((item) => !isFound.has(item));
  const extra = found.filter((item) => !isTrue.has(item));
  const twice = found.filter((item, i) => found.indexOf(item) !== i);
  assert.deepEqual({ missing, extra, twice }, { missing: [], extra: [], twice: [] }, what);
}

function parseLine(line: string): Line {
  try {
    return JSON.parse(line) as Line;
  } catch {
    throw new assert.AssertionError({ message: `not JSON: ${line.slice(0, 200)}` });
  }
}

function urlsOf(lines: readonly Line[]): string[] {
  return lines.map(({ url }) => url);
}

function wholeLines(cluster: Cluster, file: string, crawl: string): string[] {
  const path = join(cluster.out, crawl, file);
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  assert.ok(text === '' || text.endsWith('\n'), `${file} ends in a torn line`);
  return text.split('\n').slice(0, -1);
}

/** Compares the files of a crawl with the truth: nothing missing, nothing extra, nothing twice. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type CrawlFile, compare, type Line, pagesOf, readLines } from '../../selftest/exact.ts';

import type { Truth } from '../../selftest/site.ts';
import type { Cluster } from './cluster.ts';

export { pagesOf } from '../../selftest/exact.ts';

/** The lines of pages.jsonl; fails on a torn or invalid one. */
export function readPages(cluster: Cluster, crawl = 'default'): Line[] {
  return wholeLines(cluster, 'pages.jsonl', crawl).map(parseLine);
}

/** The lines of img_src.txt. */
export function readImages(cluster: Cluster, crawl = 'default'): string[] {
  return wholeLines(cluster, 'img_src.txt', crawl);
}

/** Both files match `truth`, each item once. */
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

/** The same members, each once on both sides. */
export function assertSame(what: string, found: readonly string[], truth: readonly string[]): void {
  assert.deepEqual(compare(found, truth), { missing: [], extra: [], twice: [] }, what);
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

function wholeLines(cluster: Cluster, file: CrawlFile, crawl: string): string[] {
  const { lines, torn } = readLines(join(cluster.out, crawl), file);
  assert.equal(torn, '', `${file} ends in a torn line`);
  return lines;
}

/** Crawls whose result files are tampered with. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { generateSite } from '../../selftest/site.ts';
import type { MasterClient } from '../../shared/client.ts';
import type { CrawlStatus } from '../../shared/protocol.ts';
import { Cluster, type Program } from './cluster.ts';
import { assertLeaves, siteFor } from './parts.ts';

/** The log line about the crawl `default`. */
export const held = /crawl default is held: .*/;
export const gone = / is gone, and \d+ bytes were written to it; put the file back/;
export const heldFlags: readonly string[] = ['--per-host', '4'];

/** A file in the folder of a crawl. */
export const fileIn = (folder: string, name = 'pages.jsonl'): string => join(folder, name);
/** The place where a test keeps it. */
export const keptOf = (folder: string, name = 'pages.jsonl'): string => `${folder}-kept-${name}`;

/** Waits of the site, in ms: a crawl takes long until its files are harmed, and not longer than it
 *  must then, since neither the machine nor its disk need be fast. */
export const pace = { slow: 400, usual: 100, fast: 10 } as const;

/** Crawls with some lines written, of a site that takes some seconds. */
export async function started(
  t: TestContext,
  crawls: readonly string[] = ['default'],
  more: readonly string[] = [],
) {
  const site = await siteFor(t, generateSite(91, 120), { delayMs: pace.slow });
  const cluster = new Cluster(t);
  const master = await cluster.master([...heldFlags, ...more]);
  const slave = cluster.slave();
  await slave.said(/joined/);
  const client = await cluster.connect();
  const seeds = [site.url];
  for (const crawl of crawls) await client.request('crawl.add', { crawl, seeds, priority: 0 });
  if (crawls.length === 1) {
    await written(cluster, 'default');
    site.delayMs = pace.usual;
  }
  return { site, cluster, master, slave, client };
}

/** Written again: the lengths of the first time are on the disk. */
export async function written(cluster: Cluster, crawl: string): Promise<void> {
  await cluster.grown('pages.jsonl', 0, crawl);
  await cluster.grown('pages.jsonl', cluster.lines('pages.jsonl', crawl).length, crawl);
}

export async function statusOf(client: MasterClient, crawl: string): Promise<CrawlStatus> {
  const { crawls } = await client.request('crawl.list', {});
  const status = crawls.find(({ name }) => name === crawl);
  assert.ok(status);
  return status;
}

export async function assertStops(...programs: readonly Program[]): Promise<void> {
  for (const program of programs) program.signal('SIGTERM');
  await assertLeaves(...programs);
}

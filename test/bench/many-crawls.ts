/**
 * `many-crawls`: a data folder with thousands of crawls that were made and finished, half of them
 * removed, and one more with many rows. Measured: the start, memory, `status`, acknowledgements of
 * another crawl while rows are erased, and the store after `compact` beside a fresh one.
 *
 * BENCH_CRAWLS is the number of crawls (default 1,000), BENCH_ROWS that of the rows of the large
 * one (default 400,000), BENCH_FOLDER a folder on the disk to measure.
 */
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MasterClient } from '../../shared/client.ts';
import { limits } from '../../shared/protocol.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { anonymousBytes, count, pause, say } from './measure.ts';
import { hosts, synthetic, syntheticMaster } from './synthetic.ts';

/** Crawls that are made at once. */
const atOnce = 20;
const nowhere = 'http://127.0.0.1:9/';

export async function manyCrawls(): Promise<void> {
  const crawls = Number(process.env['BENCH_CRAWLS'] ?? 1_000);
  const rows = Number(process.env['BENCH_ROWS'] ?? 400_000);
  const folder = process.env['BENCH_FOLDER'] ?? tmpdir();
  const site = createServer((_, answer) => {
    answer.setHeader('content-type', 'text/html');
    answer.end('<title>a page</title>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
  say(`many-crawls, ${count(crawls)} crawls, half of them removed, one with ${count(rows)} rows:`);
  await using cluster = new Cluster(undefined, folder);
  const empty = await timed(cluster);
  await make(cluster, empty.master, url, crawls);
  await large(cluster, rows);
  await stop(empty.master);
  await startAgain(cluster, 'with all of them', empty);
  await removeUnderLoad(cluster, crawls);
  await startAgain(cluster, 'half of them removed', empty);
  const before = storeBytes(cluster);
  const compact = cluster.run(['master.js', 'compact', '--data', cluster.data]);
  await compact.exited;
  const after = storeBytes(cluster);
  await using fresh = new Cluster(undefined, folder);
  const other = await timed(fresh);
  await make(fresh, other.master, url, crawls - Math.floor(crawls / 2));
  await stop(other.master);
  const loaded = await syntheticMaster(fresh);
  await load(fresh, 0);
  await load(fresh, 1);
  await stop(loaded);
  say(`  store ${mb(before)}, compacted ${mb(after)}, a fresh one ${mb(storeBytes(fresh))}`);
  site.close();
}

type Started = { readonly master: Program; readonly ms: number; readonly bytes: number };

/** Starts a master; how long that took, and what it takes of memory. */
async function timed(cluster: Cluster): Promise<Started> {
  const began = performance.now();
  const master = await cluster.master(['--ignore-robots']);
  const ms = performance.now() - began;
  await pause(3_000);
  return { master, ms, bytes: anonymousBytes(master.pid) };
}

/** A start, its memory, and `status`, beside those of an empty data folder. */
async function startAgain(cluster: Cluster, state: string, empty: Started): Promise<void> {
  const full = await timed(cluster);
  const client = await cluster.connect();
  const began = performance.now();
  await client.request('crawl.list', {});
  const listMs = performance.now() - began;
  await client.close();
  const asked = performance.now();
  await cluster.ask('status');
  const statusMs = performance.now() - asked;
  say(
    `  ${state}: start ${seconds(full.ms)} (empty ${seconds(empty.ms)}), ` +
      `${mb(full.bytes - empty.bytes)} above it, crawl.list ${seconds(listMs)}, ` +
      `status ${seconds(statusMs)} with the start of its process`,
  );
  await stop(full.master);
}

async function make(cluster: Cluster, master: Program, url: string, crawls: number): Promise<void> {
  const slave = cluster.slave();
  const client = await cluster.connect();
  let next = 1;
  const work = async () => {
    for (let n = next++; n <= crawls; n = next++) {
      const seeds = [`${url}${n}`];
      await client.request('crawl.add', { crawl: `crawl-${n}`, seeds, priority: 0 });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  await idle(client);
  await client.close();
  await stop(slave);
  if (!master.isAlive) throw new Error(master.output);
}

async function idle(client: MasterClient): Promise<void> {
  const isOpen = ({ state }: { readonly state: string }) => state === 'running';
  while ((await client.request('crawl.list', {})).crawls.some(isOpen)) await pause(500);
}

/** A paused crawl of about that number of rows: a task and a name for each URL. */
async function large(cluster: Cluster, rows: number): Promise<void> {
  const client = await cluster.connect();
  await client.request('crawl.add', { crawl: 'large', seeds: [], priority: 0 });
  await client.request('crawl.pause', { crawl: 'large' });
  for (let first = 0; first < rows / 2; first += limits.seedsMax) {
    const seeds = Array.from({ length: limits.seedsMax }, (_, i) => `${nowhere}${first + i}`);
    await client.request('crawl.add', { crawl: 'large', seeds, priority: 0 });
  }
  await client.close();
}

/** Acknowledgements of a crawl alone, then while the others are removed and erased. */
async function removeUnderLoad(cluster: Cluster, crawls: number): Promise<void> {
  const master = await syntheticMaster(cluster);
  const alone = await load(cluster, 0);
  const client = await cluster.connect();
  await client.request('crawl.remove', { crawl: 'large', files: true });
  let removed = 0;
  const removal = (async () => {
    for (; removed < Math.floor(crawls / 2); removed++) {
      await client.request('crawl.remove', { crawl: `crawl-${removed + 1}`, files: true });
    }
  })();
  const began = performance.now();
  const beside = await load(cluster, 1);
  await removal;
  while ((await client.request('crawl.list', {})).removing !== undefined) await pause(500);
  say(
    `  acknowledged in ${alone.ackP50.toFixed(0)} ms (p99 ${alone.ackP99.toFixed(0)}), while rows are ` +
      `erased ${beside.ackP50.toFixed(0)} ms (p99 ${beside.ackP99.toFixed(0)}); ` +
      `all erased after ${seconds(performance.now() - began)}`,
  );
  await client.close();
  await stop(master);
}

async function load(cluster: Cluster, round: number) {
  const newLinks = 100_000;
  const first = round * newLinks;
  const given = { sessions: 4, credit: 4, links: 100, known: 0.9, hosts };
  return await synthetic(cluster, { ...given, first, newLinks, knownFrom: 0 });
}

async function stop(program: Program): Promise<void> {
  program.signal('SIGTERM');
  await program.exited;
}

function storeBytes(cluster: Cluster): number {
  return statSync(join(cluster.data, 'store', 'store.mdb')).blocks * 512;
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;

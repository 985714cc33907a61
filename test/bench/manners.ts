/**
 * Crawls the 24 virtual hosts of `shared/sites` with four slaves for a bounded time, kills the
 * master in the middle, and counts from nginx's own log what broke the manners: gaps too short,
 * and more requests at once than allowed. Needs that folder beside the project:
 *
 *     node dist/test/bench/manners.js [seconds] [delay in ms]
 */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cluster } from '../support/cluster.ts';
import { pause, say } from './measure.ts';

const tools =
  process.env['SITES'] ?? fileURLToPath(new URL('../../../../shared/sites', import.meta.url));
const log = process.env['SITES_LOG'] ?? join(tmpdir(), 'crawlsites', 'nginx', 'hosts.log');
const perHost = 2;
/** The log tells milliseconds, and stamps the end of a request. */
const roundingMs = 2;

const seconds = Number(process.argv[2] ?? 20);
const delayMs = Number(process.argv[3] ?? 250);

type Hit = { readonly startMs: number; readonly endMs: number; readonly isRedirect: boolean };

async function crawl(seeds: readonly string[]): Promise<void> {
  await using cluster = new Cluster();
  const manners = ['--delay', String(delayMs), '--per-host', String(perHost)];
  const flags = [...seeds, ...manners];
  const master = await cluster.master(flags);
  const { address } = cluster;
  for (let i = 0; i < 4; i++) cluster.slave();
  await pause((seconds / 2) * 1000);
  await master.kill('SIGKILL');
  await cluster.master(flags, { listen: address });
  await pause((seconds / 2) * 1000);
}

/** Requests of each host since the log was `from` bytes long. */
function hitsSince(from: number): Map<string, Hit[]> {
  const hits = new Map<string, Hit[]>();
  const text = readFileSync(log).subarray(from).toString('latin1');
  for (const line of text.split('\n')) {
    const [at, host = '', , status = '', took] = line.split(' ');
    if (!line.includes('Orbweaver/')) continue;
    const endMs = Number(at) * 1000;
    const list = hits.get(host) ?? [];
    hits.set(host, list);
    list.push({ startMs: endMs - Number(took) * 1000, endMs, isRedirect: status.startsWith('3') });
  }
  return hits;
}

const hosts = execFileSync(join(tools, 'sites.sh'), ['hosts'], { encoding: 'utf8' });
const seeds = hosts
  .trim()
  .split('\n')
  .map((line) => line.split(' ')[0] ?? '');
closeSync(openSync(log, 'a'));
const from = statSync(log).size;
await crawl(seeds);
let requests = 0;
let short = 0;
let hops = 0;
let crowded = 0;
let least = Number.POSITIVE_INFINITY;
const hits = hitsSince(from);
for (const list of hits.values()) {
  list.sort((a, b) => a.startMs - b.startMs);
  requests += list.length;
  for (const [i, { startMs }] of list.entries()) {
    const before = list[i - 1];
    if (before !== undefined) {
      const gapMs = startMs - before.startMs;
      // Redirects inside an origin are followed at once, within one fetch.
      if (before.isRedirect && gapMs < delayMs - roundingMs) hops++;
      else {
        least = Math.min(least, gapMs);
        if (gapMs < delayMs - roundingMs) short++;
      }
    }
    const atOnce = list.slice(0, i + 1).filter(({ endMs }) => endMs > startMs).length;
    if (atOnce > perHost) crowded++;
  }
}
say(
  `manners, ${hits.size} hosts, 4 slaves, ${seconds} s, delay ${delayMs} ms, the master killed once: ` +
    `${requests} requests, ${short} gaps too short (the shortest ${least.toFixed(0)} ms), ` +
    `${hops} redirects followed at once, ${crowded} times more than ${perHost} at once`,
);

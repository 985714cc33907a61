/**
 * How 24 virtual hosts of the sites that `sites.ts` names see four slaves, by nginx's own log:
 *
 *     polite    a delay and two at once, the master killed in the middle: gaps that are too short
 *               (also those of redirects, and by a Crawl-delay), more requests at once than allowed
 *     strict    the hosts that answer 429 above 10 requests/s, with the manners of a public host
 *     fast      the same without a delay and with 32 at once: the crawler has to learn
 *
 * Needs the folder that `sites.ts` names:
 *
 *     node dist/test/bench/manners.js [seconds of each] [delay in ms]
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
const logs = process.env['SITES_LOGS'] ?? join(tmpdir(), 'crawlsites', 'nginx');
/** The log tells milliseconds, and stamps the end of a request. */
const roundingMs = 2;
const slaves = 4;

const seconds = Number(process.argv[2] ?? 20);
const delayMs = Number(process.argv[3] ?? 250);

type Hit = {
  readonly startMs: number;
  readonly endMs: number;
  readonly status: number;
  readonly path: string;
};
type Hits = ReadonlyMap<string, readonly Hit[]>;
type Run = { readonly log: string; readonly seeds: readonly string[]; readonly flags: string[] };

/** Crawls for the time of a run; gives the requests of each host, in order. */
async function crawl(run: Run, options: { restarts: boolean }): Promise<Hits> {
  const path = join(logs, run.log);
  closeSync(openSync(path, 'a'));
  const from = statSync(path).size;
  // Others may ask the same hosts at the same time.
  const agent = `Orbweaver/manners-${process.pid}-${from}`;
  await using cluster = new Cluster();
  const flags = [...run.seeds, ...run.flags, '--user-agent', agent];
  const master = await cluster.master(flags);
  const { address } = cluster;
  for (let i = 0; i < slaves; i++) cluster.slave();
  await pause((seconds / 2) * 1000);
  if (options.restarts) {
    await master.kill('SIGKILL');
    await cluster.master(flags, { listen: address });
  }
  await pause((seconds / 2) * 1000);
  await cluster.close();
  return hitsOf(readFileSync(path).subarray(from).toString('latin1'), agent);
}

function hitsOf(text: string, agent: string): Hits {
  const hits = new Map<string, Hit[]>();
  for (const line of text.split('\n')) {
    const [at, host = '', , status, took, path = ''] = line.split(' ');
    if (!line.includes(`"${agent}"`)) continue;
    const endMs = Number(at) * 1000;
    const startMs = endMs - Number(took) * 1000;
    const list = hits.get(host) ?? [];
    hits.set(host, list);
    list.push({ startMs, endMs, status: Number(status), path: path.replaceAll('"', '') });
  }
  for (const list of hits.values()) list.sort((a, b) => a.startMs - b.startMs);
  return hits;
}

/** Delay that a host's robots.txt asks for, in ms; 0 without one. */
async function crawlDelayOf(host: string): Promise<number> {
  const answer = await fetch(`http://${host}/robots.txt`, { headers: { 'user-agent': 'bench' } });
  const text = answer.ok ? await answer.text() : '';
  return Number(/^Crawl-delay:\s*(\d+)/im.exec(text)?.[1] ?? 0) * 1000;
}

async function polite(seeds: readonly string[]): Promise<void> {
  const perHost = 2;
  const flags = ['--delay', String(delayMs), '--per-host', String(perHost)];
  const hits = await crawl({ log: 'hosts.log', seeds, flags }, { restarts: true });
  const found = { requests: 0, hops: 0, robots: 0, short: 0, shortHops: 0, crowded: 0 };
  let least = Number.POSITIVE_INFINITY;
  for (const [host, list] of hits) {
    const wantedMs = Math.max(delayMs, await crawlDelayOf(host));
    found.requests += list.length;
    found.robots += list.filter(({ path }) => path === '/robots.txt').length;
    for (const [i, { startMs }] of list.entries()) {
      const before = list[i - 1];
      const isHop = before !== undefined && before.status >= 300 && before.status < 400;
      if (isHop) found.hops++;
      if (before !== undefined) {
        const overMs = startMs - before.startMs - wantedMs;
        least = Math.min(least, overMs);
        if (overMs < -roundingMs) found[isHop ? 'shortHops' : 'short']++;
      }
      const atOnce = list.slice(0, i + 1).filter(({ endMs }) => endMs > startMs).length;
      if (atOnce > perHost) found.crowded++;
    }
  }
  say(
    `polite, ${hits.size} hosts, ${slaves} slaves, ${seconds} s, delay ${delayMs} ms or ` +
      `Crawl-delay, ${perHost} at once, the master killed once: ${found.requests} requests ` +
      `(${found.hops} after a redirect, ${found.robots} for robots.txt), gaps too short: ` +
      `${found.short}, of redirects: ${found.shortHops} (least over the delay: ` +
      `${least.toFixed(0)} ms), more at once than allowed: ${found.crowded}`,
  );
}

async function strict(name: string, seeds: readonly string[], flags: string[]): Promise<void> {
  const hits = await crawl({ log: 'strict.log', seeds, flags }, { restarts: false });
  const refused = [...hits.values()].map(
    (list) => list.filter(({ status }) => status === 429).length,
  );
  const requests = [...hits.values()].reduce((sum, list) => sum + list.length, 0);
  say(
    `${name} (${flags.join(' ')}), ${hits.size} hosts, ${slaves} slaves, ${seconds} s: ` +
      `${requests} requests, ${refused.reduce((a, b) => a + b, 0)} answered 429; a host at ` +
      `most ${Math.max(0, ...refused)}, none: ${refused.filter((n) => n === 0).length} hosts`,
  );
}

const hosts = execFileSync(join(tools, 'sites.sh'), ['hosts'], { encoding: 'utf8' });
const seeds = hosts
  .trim()
  .split('\n')
  .map((line) => line.split(' ')[0] ?? '');
const strictSeeds = seeds.map((seed) => seed.replace(/:\d+/, ':18382'));
await polite(seeds);
await strict('strict', strictSeeds, ['--delay', '250', '--per-host', '2']);
await strict('fast', strictSeeds, ['--delay', '0', '--per-host', '32']);

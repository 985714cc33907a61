/**
 * `fill`: a store that grows from nothing: new URLs, the same at 80 % of that rate, then known ones,
 * and starts after a kill and an orderly end. What the device writes is counted at the device:
 * nothing else should write to it.
 *
 * BENCH_FILL is the number of URLs (default 6,000,000), BENCH_HOSTS that of their hosts (100), and
 * BENCH_FOLDER a folder on the device that is measured (default: the system's temporary one).
 */
import { readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster, type Program } from '../support/cluster.ts';
import { anonymousBytes, count, cpuMs, pause, say } from './measure.ts';
import { synthetic, syntheticMaster } from './synthetic.ts';
import type { Load, Measured } from './synthetic-slave.ts';

/** Linux counts sectors of this size, whatever the device has. Source: Documentation/block/stat. */
const sectorBytes = 512;
/** Of a page. */
const links = 100;

export async function fill(): Promise<void> {
  const total = Number(process.env['BENCH_FILL'] ?? 6_000_000);
  const hosts = Number(process.env['BENCH_HOSTS'] ?? 100);
  const folder = process.env['BENCH_FOLDER'] ?? tmpdir();
  await using cluster = new Cluster(undefined, folder);
  let master = await syntheticMaster(cluster);
  say(`fill, ${count(total)} new URLs on ${count(hosts)} hosts, device of ${folder}:`);
  let first = 0;
  let rate = 0;
  for (const until of steps(total)) {
    const load = { first, newLinks: until - first, known: 0, hosts };
    const measured = await step(cluster, master, 'new', load);
    first += measured.newLinks;
    rate = measured.links / measured.seconds;
  }
  const paced = { reportsPerSecond: (rate * 0.8) / links, seconds: 10 };
  first += (await step(cluster, master, 'at 80 %', { ...paced, first, known: 0, hosts })).newLinks;
  const known = { first, knownFrom: 0, known: 1, recent: 0.5, hosts, seconds: 10 };
  await step(cluster, master, 'known', known);
  await master.kill('SIGKILL');
  const began = performance.now();
  master = await cluster.master([]);
  say(`  start after kill -9: ${((performance.now() - began) / 1000).toFixed(2)} s`);
  await master.kill('SIGTERM');
  const again = performance.now();
  await cluster.master([]);
  say(`  start after an orderly end: ${((performance.now() - again) / 1000).toFixed(2)} s`);
}

/** Where to look: 1 M, 3 M, 10 M, and so on, then the whole. */
function steps(total: number): number[] {
  const all = [1e6, 3e6, 10e6, 30e6, 100e6, 300e6].filter((until) => until < total);
  return [...all, total];
}

async function step(
  cluster: Cluster,
  master: Program,
  name: string,
  load: Partial<Load> & Pick<Load, 'known' | 'hosts'>,
): Promise<Measured> {
  const before = { bytes: writtenBytes(cluster.folder), cpu: cpuMs(master.pid) };
  const loading = synthetic(cluster, { sessions: 4, credit: 16, links, ...load });
  const memory = await highest(loading, () => anonymousBytes(master.pid));
  const measured = await loading;
  // What is on its way to the disk is on it.
  await pause(2_000);
  const bytes = writtenBytes(cluster.folder) - before.bytes;
  const store = statSync(join(cluster.data, 'store', 'store.mdb'));
  const first = load.first ?? 0;
  say(
    `  ${count(first)} to ${count(first + measured.newLinks)}, ${name}: ` +
      `${count(measured.links / measured.seconds)} links/s, ` +
      `${count(bytes / measured.links)} bytes written a link, ` +
      `master ${(((cpuMs(master.pid) - before.cpu) / measured.links) * 1000).toFixed(1)} CPU us a ` +
      `link, acknowledged in ${measured.ackP50.toFixed(0)} ms (p99 ${measured.ackP99.toFixed(0)}), ` +
      `at most ${count(memory / 1e6)} MB anonymous, store ${count((store.blocks * 512) / 1e6)} MB`,
  );
  return measured;
}

/** The highest of what is seen every 100 ms. */
async function highest(until: Promise<unknown>, look: () => number): Promise<number> {
  let most = 0;
  const timer = setInterval(() => {
    most = Math.max(most, look());
  }, 100);
  await until;
  clearInterval(timer);
  return most;
}

/** Bytes that were written to the device of a folder since it was attached. */
function writtenBytes(folder: string): number {
  const { dev } = statSync(folder);
  // Source: makedev(3).
  const major = ((dev >> 8) & 0xfff) | 0;
  const minor = (dev & 0xff) | ((dev >> 12) & 0xfff00);
  const lines = readFileSync('/proc/diskstats', 'utf8').split('\n');
  const fields = lines.map((line) => line.trim().split(/\s+/));
  const device = fields.find(([a, b]) => Number(a) === major && Number(b) === minor);
  if (device === undefined) throw new Error(`no device for ${folder}; name one with BENCH_FOLDER`);
  return Number(device[9]) * sectorBytes;
}

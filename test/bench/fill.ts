/**
 * `fill`: a store that grows from nothing, with a start in between. New URLs only, so that every
 * link costs the store what a link can cost it; what the device writes is counted at the device,
 * because without a write map `write_bytes` of a process counts whole folios of the page cache.
 *
 * BENCH_FILL is the number of URLs (default 6,000,000), BENCH_FOLDER a folder on the device that
 * is measured (default: the system's temporary one). Nothing else should write to that device.
 */
import { readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cluster, type Program } from '../support/cluster.ts';
import { anonymousBytes, count, cpuMs, pause, say } from './measure.ts';
import { hosts, synthetic, syntheticMaster } from './synthetic.ts';

/** Linux counts sectors of this size, whatever the device has. Source: Documentation/block/stat. */
const sectorBytes = 512;

export async function fill(): Promise<void> {
  const total = Number(process.env['BENCH_FILL'] ?? 6_000_000);
  const folder = process.env['BENCH_FOLDER'] ?? tmpdir();
  await using cluster = new Cluster(undefined, folder);
  let master = await syntheticMaster(cluster);
  say(`fill, ${count(total)} new URLs on ${count(hosts)} hosts, device of ${folder}:`);
  let first = 0;
  for (const until of steps(total)) {
    const newLinks = until - first;
    first += await step(cluster, master, { first, newLinks, known: 0 });
    if (until !== Math.floor(total / 2)) continue;
    await master.kill('SIGKILL');
    const began = performance.now();
    master = await cluster.master([]);
    say(`  start after kill -9: ${((performance.now() - began) / 1000).toFixed(2)} s`);
  }
  await step(cluster, master, { first, newLinks: 200_000, known: 0.9 });
}

/** Where to measure: a look at small sizes, the half, then the whole. */
function steps(total: number): number[] {
  const all = [total / 6, total / 3, total / 2, (total * 2) / 3, total];
  return all.map(Math.floor);
}

type Step = { readonly first: number; readonly newLinks: number; readonly known: number };

async function step(cluster: Cluster, master: Program, { first, newLinks, known }: Step) {
  const before = { bytes: writtenBytes(cluster.folder), cpu: cpuMs(master.pid) };
  const load = { sessions: 4, credit: 16, links: 100, known, hosts };
  const knownFrom = known > 0 ? 0 : first;
  const loading = synthetic(cluster, { ...load, first, newLinks, knownFrom });
  const memory = await highest(loading, () => anonymousBytes(master.pid));
  const measured = await loading;
  // What is on its way to the disk is on it.
  await pause(2_000);
  const bytes = writtenBytes(cluster.folder) - before.bytes;
  const links = measured.links;
  const store = statSync(join(cluster.data, 'store', 'store.mdb'));
  say(
    `  ${count(first)} to ${count(first + measured.newLinks)}${known > 0 ? ', 9 of 10 known' : ''}: ` +
      `${count(links / measured.seconds)} links/s, ${count(bytes / links)} bytes written a link, ` +
      `master ${(((cpuMs(master.pid) - before.cpu) / links) * 1000).toFixed(1)} CPU us a link, ` +
      `acknowledged in ${measured.ackP50.toFixed(0)} ms (p99 ${measured.ackP99.toFixed(0)}), ` +
      `at most ${count(memory / 1e6)} MB anonymous, store ${count((store.blocks * 512) / 1e6)} MB`,
  );
  return measured.newLinks;
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

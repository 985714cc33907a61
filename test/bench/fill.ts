/**
 * `fill`: a store that grows from nothing: new URLs, the same at 80 % of that rate, then known
 * ones; starts after a kill, with the page cache warm and cold, and after an orderly end; known
 * ones again after an orderly end with the page cache cold; what each table takes, also when
 * compacted. Each figure stands beside its bar, where it has one. Bytes that the device writes are
 * counted at the device: nothing else should write to it.
 *
 * BENCH_FILL is the number of URLs (default 6,000,000), BENCH_HOSTS that of their hosts (100), and
 * BENCH_FOLDER a folder on the device that is measured (default: the system's temporary one).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bloomBytesFor } from '../../master/frontier/filter/bloom.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { anonymousBytes, count, cpuMs, pause, say } from './measure.ts';
import { synthetic, syntheticMaster } from './synthetic.ts';
import type { Load, Measured } from './synthetic-slave.ts';
import { type TableSize, tablesOf } from './tables.ts';

/** Linux counts sectors of this size, whatever the device has. Source: Documentation/block/stat. */
const sectorBytes = 512;
/** Of a page. */
const links = 100;
/** Of the seen sets, whatever the number of URLs. */
const waitingBytes = 72e6;
const knownSeconds = 10;
const turnMsBar = 60;

export async function fill(): Promise<void> {
  const total = Number(process.env['BENCH_FILL'] ?? 6_000_000);
  const hosts = Number(process.env['BENCH_HOSTS'] ?? 100);
  const folder = process.env['BENCH_FOLDER'] ?? tmpdir();
  await using cluster = new Cluster(undefined, folder);
  const turns = join(cluster.folder, 'turns');
  const preload = new URL('turns.js', import.meta.url).href;
  const env = { NODE_OPTIONS: `--import ${preload}`, TURNS: turns };
  let master = await syntheticMaster(cluster, [], env);
  const empty = anonymousBytes(master.pid);
  say(`fill, ${count(total)} new URLs on ${count(hosts)} hosts, device of ${folder}:`);
  let first = 0;
  let done = 0;
  let rate = 0;
  let memory = 0;
  for (const until of steps(total)) {
    const load = { first, newLinks: until - first, known: 0, hosts };
    const measured = await step(cluster, master, 'new', load);
    first += measured.newLinks;
    done += measured.reports;
    rate = measured.links / measured.seconds;
    memory = measured.memory;
  }
  // The capacity of the Bloom filters, not their content.
  const bar = bloomBytesFor(first) + waitingBytes;
  say(
    `  above the empty master's ${count(empty / 1e6)} MB: ${count((memory - empty) / 1e6)} MB at ` +
      `most, ${count((anonymousBytes(master.pid) - empty) / 1e6)} when idle (bar: ${count(bar / 1e6)})`,
  );
  const paced = { reportsPerSecond: (rate * 0.8) / links, seconds: 10 };
  const atPace = await step(cluster, master, 'at 80 %', { ...paced, first, known: 0, hosts });
  first += atPace.newLinks;
  const known = { first, knownFrom: 0, known: 1, recent: 0.5, hosts, seconds: knownSeconds };
  done += atPace.reports + (await step(cluster, master, 'known', known)).reports;
  const store = storeFile(join(cluster.data, 'store'));
  const start = async (after: string, bars = '', preloads: NodeJS.ProcessEnv = {}) => {
    const began = performance.now();
    master = await cluster.master([], { env: preloads });
    say(`  start after ${after}: ${((performance.now() - began) / 1000).toFixed(2)} s${bars}`);
  };
  const bars = ' (bar: 5 at 10 M, 40 at 100 M)';
  await master.kill('SIGKILL');
  await start('kill -9', bars);
  await master.kill('SIGKILL');
  if (isDropped(store)) await start('kill -9, page cache cold', bars);
  await readInBackground(master, store);
  await master.kill('SIGTERM');
  await start('an orderly end');
  await master.kill('SIGTERM');
  if (isDropped(store)) {
    await start('an orderly end, page cache cold', '', env);
    for (const name of ['known, at once', 'known, then']) {
      done += (await step(cluster, master, name, known)).reports;
    }
    await master.kill('SIGTERM');
  }
  sayTables(tablesOf(store), { urls: first, done });
  const began = performance.now();
  await cluster.run(['master.js', 'compact', '--data', cluster.data]).exited;
  say(`  compact: ${((performance.now() - began) / 1000).toFixed(1)} s; then`);
  sayTables(tablesOf(store), { urls: first, done });
}

/** A smaller store is read before a start (`read-mark.ts`). */
const largeBytes = 1 << 30;

/** Only then does an orderly end leave its mark. */
async function readInBackground(master: Program, store: string): Promise<void> {
  if (statSync(store).size < largeBytes) return;
  const began = performance.now();
  await master.said(/all of the store was read/);
  say(`  read while the master serves: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

/** Drops what the kernel has of a file, as the manual of dd says. */
function isDropped(path: string): boolean {
  return spawnSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0']).status === 0;
}

/** Of a waiting URL alone, and of each URL; the rest comes from pages that were fetched. */
const waitingTables = ['tasks', 'unsorted'];
const seenTables = ['runs', 'recent'];
const sharedTables = [...seenTables, 'sources'];

/** `urls`: all that were ever admitted; `done`: those that were fetched. */
function sayTables(
  sizes: ReadonlyMap<string, TableSize>,
  { urls, done }: { readonly urls: number; readonly done: number },
): void {
  const bytes = (names: readonly string[]) => sum(names, (name) => sizes.get(name)?.bytes ?? 0);
  const waiting = sum(waitingTables, (name) => sizes.get(name)?.rows ?? 0);
  const others = [...sizes.keys()].filter((name) => !sharedTables.includes(name));
  const ofDone = others.filter((name) => !waitingTables.includes(name));
  const shares = [...sizes].filter(([, size]) => size.bytes > 1e6).map(shareText);
  const each = bytes(sharedTables) / urls;
  say(
    `  seen ${(bytes(seenTables) / urls).toFixed(1)} bytes a URL (bar: 22), ` +
      `a waiting URL ${(bytes(waitingTables) / waiting + bytes(['sources']) / urls).toFixed(0)} ` +
      `(bar: 220), a done one ${(bytes(ofDone) / done + each).toFixed(0)} (bar: 100, compacted); ` +
      `${count(waiting)} wait, ${count(done)} are done; tables in MB: ${shares.join(', ')}`,
  );
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}

function shareText([name, { bytes }]: [string, TableSize]): string {
  return `${name} ${count(bytes / 1e6)}`;
}

/** The longest turn of the master's event loop in a half second; `cpuMs`: the longest that a turn
 *  had a processor. */
type Turns = { readonly ms: number; readonly cpuMs: number };

/** Of each half second that began since then. */
function turnsSince(cluster: Cluster, since: number): Turns[] {
  const file = join(cluster.folder, 'turns');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const seen = lines.map((line) => line.split(' ').map(Number));
  return seen.flatMap(([at = 0, ms = 0, cpuMs = 0]) => (at >= since ? [{ ms, cpuMs }] : []));
}

function turnText(turns: readonly Turns[]): string {
  const longest = Math.max(0, ...turns.map(({ ms }) => ms));
  const longestCpu = Math.max(0, ...turns.map(({ cpuMs }) => cpuMs));
  const over = turns.filter(({ ms }) => ms > turnMsBar).length;
  return (
    `longest turn ${longest} ms (at most ${longestCpu} on a processor), ${over} of ${turns.length} ` +
    `half seconds above ${turnMsBar}`
  );
}

const knownBars = '330,000 links/s at 1 M, 250,000 at 100 M';
/** The bars of a step. */
const barsOf: Readonly<Record<string, string>> = {
  new: '100,000 links/s and 1,024 bytes on 100 hosts, 70,000 and 2,048 on 20,000',
  'at 80 %': 'p99 400 ms',
  known: knownBars,
  'known, at once': knownBars,
  'known, then': knownBars,
};

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
): Promise<Measured & { readonly memory: number }> {
  const before = { bytes: writtenBytes(cluster.folder), cpu: cpuMs(master.pid), at: Date.now() };
  const loading = synthetic(cluster, { sessions: 4, credit: 16, links, ...load });
  const memory = await highest(loading, () => anonymousBytes(master.pid));
  const measured = await loading;
  // All writes under way have reached the disk.
  await pause(1_000);
  const turns = turnsSince(cluster, before.at);
  const idleAt = Date.now();
  // A master without work collects its garbage after five seconds, in one turn.
  await pause(6_000);
  const idle = turnsSince(cluster, idleAt);
  const bytes = writtenBytes(cluster.folder) - before.bytes;
  const store = statSync(join(cluster.data, 'store', 'store.mdb'));
  const first = load.first ?? 0;
  say(
    `  ${count(first)} to ${count(first + measured.newLinks)}, ${name}: ` +
      `${count(measured.links / measured.seconds)} links/s, ` +
      `${count(bytes / measured.links)} bytes written a link, ` +
      `master ${(((cpuMs(master.pid) - before.cpu) / measured.links) * 1000).toFixed(1)} CPU us a ` +
      `link, acknowledged in ${measured.ackP50.toFixed(0)} ms (p99 ${measured.ackP99.toFixed(0)}), ` +
      `at most ${count(memory / 1e6)} MB anonymous (${count(anonymousBytes(master.pid) / 1e6)} MB ` +
      `when idle), store ${count((store.blocks * 512) / 1e6)} MB, ` +
      `${turnText(turns)}, ${Math.max(0, ...idle.map(({ ms }) => ms))} ms when idle ` +
      `(bars: ${barsOf[name]}; turn ${turnMsBar} ms)`,
  );
  return { ...measured, memory };
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

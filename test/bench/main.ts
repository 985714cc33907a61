/**
 * `npm run bench`: the figures of docs/benchmarks.md. Each part starts real masters and slaves; name
 * parts to run only those, for example `npm run bench -- cost ingest`.
 *
 *     cost      CPU of the whole cluster beside a bare fetch-and-parse loop, same pages
 *     small     crawls that are small, or slow, beside that loop; an idle pair
 *     ingest    links a second that one master takes in, durable and exact
 *     leases    leases and reports a second
 *     slow      two slaves on a site that takes 50 ms an answer
 *     tls       the same ingest in plain and encrypted
 *     crowd     1,000 idle sessions and 1,000 half-open handshakes beside a slave that joins
 *     guessers  a client that joins while others try 2,000 keys a second
 *     heavy     large values of Python peers: memory, and how long others wait
 *     overload  pings and memory at 80 % of ingest, with 1,000 slaves, a long page, a slow sink
 *     dead-hosts  200 healthy hosts beside 1,000 that never answer; 1,000 new healthy ones
 *     https-hosts  CPU of a slave a page on 500 to 4,000 https hosts, and on http hosts
 *     sinks     rows a second through the master into files and databases
 *     archive   what --archive costs a page
 *     extract   pages a second of `extract`, on one core and on two
 *     images    downloaded images a second, new and known, and with looks
 *     browser   CPU and memory of pages in a browser (some minutes)
 *     looks     how well images are found that look the same, and how fast
 *     patterns  what --include and --exclude cost a link
 *     known     memory and restart time with 1 M and 10 M known URLs (some minutes)
 *     many-crawls  thousands of crawls that are over: start, memory, removal, compaction
 *     fill      a store that grows to 6 M URLs: rate, bytes on the device, memory (some minutes)
 *
 * cost crawls the sites of BENCH_URL (parted by spaces), by default `python` and `boost` of the real
 * sites that `sites.ts` names, small those of BENCH_SMALL_URL, by default `gimpzh` and `boost`, and
 * slow that of BENCH_SLOW_URL, by default the slow twin of `boost`.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { connect, type MasterClient, parseAddress } from '../../shared/client.ts';
import { Cluster, Program } from '../support/cluster.ts';
import { archive } from './archive.ts';
import { archivedPages } from './archived-pages.ts';
import { browser } from './browser.ts';
import { deadHosts } from './dead-hosts.ts';
import { fill } from './fill.ts';
import { guessers } from './guessers.ts';
import { heavy } from './heavy.ts';
import { httpsHosts } from './https-hosts.ts';
import { images, looks } from './images.ts';
import { manyCrawls } from './many-crawls.ts';
import { anonymousBytes, childrenCpuMs, count, cpuMs, median, pause, say } from './measure.ts';
import { overload } from './overload.ts';
import { patterns } from './patterns.ts';
import { sinks } from './sinks.ts';
import { smallCrawls } from './small-crawls.ts';
import { hosts, synthetic, syntheticMaster } from './synthetic.ts';
import type { Load, Measured } from './synthetic-slave.ts';

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const sites = fileURLToPath(new URL('../../../../shared/sites/sites.sh', import.meta.url));
const rounds = 3;

async function cost(): Promise<void> {
  const urls = process.env['BENCH_URL']?.split(' ') ?? [siteUrl('python'), siteUrl('boost')];
  say(`cost, ${rounds} rounds, medians, starting up included, CPU s per 1000 pages:`);
  const all = { bare: 0, cluster: 0, pages: 0 };
  for (const url of urls) {
    const bares: number[] = [];
    const clusters: number[] = [];
    const rates: number[] = [];
    let pages = 0;
    for (let round = 0; round < rounds; round++) {
      const bare = await bareLoop(url);
      const whole = await crawl(url);
      bares.push(bare.cpuMs);
      clusters.push(whole.cpuMs);
      rates.push(whole.pages / whole.seconds);
      pages = whole.pages;
    }
    const bare = median(bares);
    const cluster = median(clusters);
    say(
      `  ${url}, ${count(pages)} pages: ${costs(bare, cluster, pages)}, ` +
        `${count(median(rates))} pages/s`,
    );
    all.bare += bare;
    all.cluster += cluster;
    all.pages += pages;
  }
  say(`  all ${count(all.pages)} pages: ${costs(all.bare, all.cluster, all.pages)} (bar: 1.5)`);
}

/** CPU of the bare undici + htmlparser2 loop, of master and two slaves, and their ratio. */
function costs(bareMs: number, clusterMs: number, pages: number): string {
  const per1000 = (ms: number) => (ms / pages).toFixed(2);
  const ratio = (clusterMs / bareMs).toFixed(2);
  return `bare loop ${per1000(bareMs)}, master and two slaves ${per1000(clusterMs)}, ratio ${ratio}`;
}

type Crawled = { pages: number; fetched: number; seconds: number; cpuMs: number };

async function bareLoop(url: string): Promise<{ pages: number; cpuMs: number }> {
  const before = childrenCpuMs();
  const program = new Program([here('bare-loop.js'), url]);
  await program.exited;
  const { pages } = JSON.parse(program.output) as { pages: number };
  return { pages, cpuMs: childrenCpuMs() - before };
}

/** A whole crawl by a master and two slaves; the CPU of all three, from start to exit. */
async function crawl(url: string, slots = 16): Promise<Crawled> {
  await using cluster = new Cluster();
  const before = childrenCpuMs();
  // The same job as the bare loop: img[src] and links.
  const flags = ['--exit-when-done', '--delay', '0', '--images', 'img'];
  flags.push('--per-host', String(slots * 4));
  const master = await cluster.master([url, ...flags]);
  const began = performance.now();
  const slaves = [0, 1].map(() => cluster.slave(['--slots', String(slots)]));
  await master.exited;
  const seconds = (performance.now() - began) / 1000;
  for (const slave of slaves) await slave.exited;
  const pages = cluster.pages().length;
  const fetched = cluster.fetched().length;
  return { pages, fetched, seconds, cpuMs: childrenCpuMs() - before };
}

async function ingest(): Promise<void> {
  for (const [name, known] of [
    ['9 of 10 known', 0.9],
    ['all new', 0],
  ] as const) {
    const { rate, measured } = await load({ links: 100, known, credit: 16, seconds: 10 });
    say(
      `ingest, reports of 100 links, ${name}: ${count(rate.links)} links/s` +
        `${known > 0 ? ' (bar: 200,000)' : ''}, acknowledged in ${measured.ackP50.toFixed(0)} ms ` +
        `(p99 ${measured.ackP99.toFixed(0)}), master ${rate.cpu.toFixed(2)} cores`,
    );
  }
}

async function tls(): Promise<void> {
  const figures = { plain: [] as Rates[], tls: [] as Rates[] };
  for (let round = 0; round < rounds; round++) {
    for (const name of ['plain', 'tls'] as const) {
      const options = { links: 100, known: 0.9, credit: 16, seconds: 6, tls: name === 'tls' };
      figures[name].push((await load(options)).rate);
    }
  }
  const of = (rates: Rates[]) => ({
    links: median(rates.map(({ links }) => links)),
    cpu: median(rates.map(({ cpu, links }) => (cpu / links) * 1e6)),
  });
  const [plain, encrypted] = [of(figures.plain), of(figures.tls)];
  say(
    `tls, ingest, 9 of 10 known: plain ${count(plain.links)} links/s, ` +
      `${plain.cpu.toFixed(2)} CPU us a link of the master; TLS ${count(encrypted.links)}, ` +
      `${encrypted.cpu.toFixed(2)}; ratios ${(encrypted.links / plain.links).toFixed(2)} and ` +
      `${(encrypted.cpu / plain.cpu).toFixed(2)}`,
  );
}

async function crowd(): Promise<void> {
  for (const isEncrypted of [false, true]) {
    await using cluster = new Cluster();
    const master = await cluster.master([]);
    const { host, port } = parseAddress(cluster.address);
    const { authkey } = cluster;
    const joinMs = async () => {
      const began = performance.now();
      await (await connect({ host, port, authkey })).close();
      return performance.now() - began;
    };
    const joined: MasterClient[] = [];
    const half: Socket[] = [];
    const alone = median(await inTurn(20, joinMs));
    const before = anonymousBytes(master.pid);
    await inTurn(1_000, async () => {
      joined.push(await connect({ host, port, authkey, tls: isEncrypted, timeoutMs: 60_000 }));
    });
    const withSessions = anonymousBytes(master.pid);
    // Accepted and challenged; they never answer.
    await inTurn(1_000, async () => {
      const socket = createConnection({ host, port });
      socket.on('error', () => {});
      half.push(socket);
      await once(socket, 'data');
    });
    const withAll = anonymousBytes(master.pid);
    const joins = (await inTurn(50, joinMs)).toSorted((a, b) => a - b);
    say(
      `crowd, 1,000 idle ${isEncrypted ? 'TLS' : 'plain'} sessions: ` +
        `${mb(withSessions - before)}; 1,000 half-open handshakes: ${mb(withAll - withSessions)}; ` +
        `a client joins in ${median(joins).toFixed(1)} ms (alone ${alone.toFixed(1)}), ` +
        `slowest of 50 ${joins.at(-1)?.toFixed(1)} (bar: 1,000)`,
    );
    for (const socket of half) socket.destroy();
    await Promise.all(joined.map((client) => client.close()));
  }
}

async function inTurn<T>(times: number, what: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let i = 0; i < times; i++) results.push(await what());
  return results;
}

async function leases(): Promise<void> {
  const { rate } = await load({ links: 10, known: 0.8, credit: 32, seconds: 10 });
  say(
    `leases, pages with 10 links: ${count(rate.reports)} leases and reports/s (bar: 5,000), ` +
      `master ${rate.cpu.toFixed(2)} cores`,
  );
}

type Rates = { links: number; reports: number; cpu: number };

/** Loads a fresh master with synthetic slaves. */
async function load(
  options: Pick<Load, 'links' | 'known' | 'credit' | 'seconds' | 'tls'>,
): Promise<{ rate: Rates; measured: Measured }> {
  await using cluster = new Cluster();
  const master = await syntheticMaster(cluster);
  const slaves = synthetic(cluster, { ...options, sessions: 4, hosts, warmUpSeconds: 3 });
  await pause(3_000);
  const before = { cpu: cpuMs(master.pid), at: performance.now() };
  await pause((options.seconds ?? 1) * 1000);
  const cpu = (cpuMs(master.pid) - before.cpu) / (performance.now() - before.at);
  const measured = await slaves;
  const { links, reports, seconds } = measured;
  return { rate: { links: links / seconds, reports: reports / seconds, cpu }, measured };
}

async function slow(): Promise<void> {
  const url = process.env['BENCH_SLOW_URL'] ?? siteUrl('boost-slow');
  const { fetched, seconds } = await crawl(url);
  const limit = 32 / 0.05;
  say(
    `slow, ${url}, two slaves of 16 slots: ${count(fetched / seconds)} answers/s, ` +
      `${Math.round((fetched / seconds / limit) * 100)} % of ${limit} (bar: 75 %)`,
  );
}

async function known(): Promise<void> {
  await using cluster = new Cluster();
  let master = await syntheticMaster(cluster);
  await pause(3_000);
  const empty = anonymousBytes(master.pid);
  say(`known, empty master: ${mb(empty)} anonymous`);
  let first = 0;
  for (const total of [1_000_000, 10_000_000]) {
    const began = performance.now();
    const base = { sessions: 4, credit: 4, links: 100, known: 0, hosts };
    const { newLinks } = await synthetic(cluster, { ...base, first, newLinks: total - first });
    first += newLinks;
    const seconds = (performance.now() - began) / 1000;
    await pause(20_000);
    const idle = anonymousBytes(master.pid);
    await master.kill('SIGKILL');
    const dirty = await restart(cluster);
    await dirty.master.kill('SIGTERM');
    const clean = await restart(cluster);
    master = clean.master;
    await pause(12_000);
    const rested = anonymousBytes(master.pid);
    const perUrl = (bytes: number) => `${((bytes - empty) / first).toFixed(2)} bytes a URL`;
    say(`known, ${count(first)} URLs (filled in ${seconds.toFixed(0)} s):`);
    say(
      `  restart after kill -9 ${dirty.seconds.toFixed(2)} s, after an orderly stop ` +
        `${clean.seconds.toFixed(2)} s (bars: 3 s at 1 M, 15 s at 10 M)`,
    );
    say(
      `  above the empty master: ${perUrl(rested)} (${mb(rested)}; bar: 4); ` +
        `of the master that took them in, idle again: ${perUrl(idle)} (${mb(idle)})`,
    );
  }
}

/** From the start of the process until it listens, with everything loaded. */
async function restart(cluster: Cluster): Promise<{ master: Program; seconds: number }> {
  const began = performance.now();
  const master = await cluster.master([]);
  return { master, seconds: (performance.now() - began) / 1000 };
}

/** The start URL of one of the real sites, which it starts if need be. */
function siteUrl(site: string): string {
  if (!existsSync(sites))
    throw new Error('name sites to crawl with BENCH_URL, BENCH_SMALL_URL, BENCH_SLOW_URL');
  execFileSync(sites, ['up'], { stdio: 'ignore' });
  return execFileSync(sites, ['url', site], { encoding: 'utf8' }).trim();
}

function mb(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

const parts = {
  cost,
  small: () =>
    smallCrawls(
      process.env['BENCH_SMALL_URL']?.split(' ') ?? [siteUrl('gimpzh'), siteUrl('boost')],
    ),
  ingest,
  leases,
  slow,
  tls,
  crowd,
  guessers,
  heavy,
  overload,
  'dead-hosts': deadHosts,
  'https-hosts': httpsHosts,
  patterns,
  sinks,
  archive,
  extract: archivedPages,
  images,
  looks,
  browser,
  known,
  'many-crawls': manyCrawls,
  fill,
};
const chosen = process.argv.slice(2);
for (const [name, part] of Object.entries(parts)) {
  if (chosen.length === 0 || chosen.includes(name)) await part();
}

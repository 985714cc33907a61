/**
 * The cost of hosts that never answer to those that do: 200 healthy hosts of nine pages, alone, and
 * beside 1,000 that drop SYNs, or accept and say nothing, all offered in one mixed list to a master
 * and two slaves of 16 slots; then 1,000 healthy hosts that nobody has met. The time is from
 * the offer to the last healthy page.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Cluster } from '../support/cluster.ts';
import { deafPort, loopbackAddress, silentPort, type Unanswering } from '../support/unanswering.ts';
import { cpuMs, median, say } from './measure.ts';

const links = 8;
const patienceMs = 90_000;
/** `BENCH_SLAVE` gives slaves other flags, `BENCH_ROUNDS` another number of rounds. */
const slaveFlags = (process.env['BENCH_SLAVE'] ?? '').split(' ').filter((flag) => flag !== '');
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);

type Figures = { readonly seconds: number; readonly pages: number; readonly cpuS: number };

export async function deadHosts(): Promise<void> {
  const deaf = await deafPort();
  const silent = await silentPort();
  try {
    await beside('1,000 that drop SYNs', deaf);
    await beside('1,000 that accept and are silent', silent);
    const all: Figures[] = [];
    for (let round = 0; round < rounds; round++) all.push(await crawl(1_000));
    say(`dead-hosts, 1,000 healthy hosts that nobody has met: ${describe(all)}`);
  } finally {
    await deaf.close();
    await silent.close();
  }
}

/** In turns, so that what else the machine does weighs on both alike. */
async function beside(name: string, others: Unanswering): Promise<void> {
  const [alone, both]: [Figures[], Figures[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    alone.push(await crawl(200));
    both.push(await crawl(200, others));
  }
  const ratios = both.map(({ seconds }, i) => seconds / (alone[i]?.seconds ?? Number.NaN));
  say(
    `dead-hosts, 200 healthy hosts: ${describe(alone)}; beside ${name}: ${describe(both)}; ` +
      `${median(ratios).toFixed(2)} x the time (bar: 1.5)`,
  );
}

function describe(all: readonly Figures[]): string {
  const pages = Math.min(...all.map((one) => one.pages));
  const [seconds, cpuS] = [all.map((one) => one.seconds), all.map((one) => one.cpuS)];
  return `${median(seconds).toFixed(2)} s, ${median(cpuS).toFixed(2)} CPU s, ${pages} pages`;
}

/** `others`: a thousand of these, too. */
async function crawl(healthy: number, others?: Unanswering): Promise<Figures> {
  const site = await startSite(healthy * (links + 1));
  await using cluster = new Cluster();
  const programs = [await cluster.master([])];
  for (let i = 0; i < 2; i++) programs.push(cluster.slave(['--slots', '16', ...slaveFlags]));
  for (const slave of programs.slice(1)) await slave.said(/joined/);
  const client = await cluster.connect();
  const seeds = [
    ...Array.from({ length: healthy }, (_, i) => `http://${loopbackAddress(1, i)}:${site.port}/`),
    ...Array.from(
      { length: others === undefined ? 0 : 1_000 },
      (_, i) => `http://${loopbackAddress(2, i)}:${others?.port}/`,
    ),
  ];
  mix(seeds);
  const cpu = () => programs.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  const [began, cpuBefore] = [performance.now(), cpu()];
  await client.request('crawl.add', { crawl: 'default', seeds, priority: 0 });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  await Promise.race([site.done, late]);
  clearTimeout(timer);
  const seconds = (performance.now() - began) / 1000;
  const cpuS = (cpu() - cpuBefore) / 1000;
  await client.close();
  site.server.closeAllConnections();
  site.server.close();
  return { seconds, pages: site.served.size, cpuS };
}

type Site = { server: Server; port: number; served: Set<string>; done: Promise<unknown> };

/** Every address of 127/8 is a site of a start page and what it links to. */
async function startSite(pages: number): Promise<Site> {
  const served = new Set<string>();
  const body = Array.from({ length: links }, (_, i) => `<a href="/${i}">${i}</a>`).join('');
  const server = createServer(({ url, headers }, answer) => {
    if (url === '/robots.txt') {
      answer.writeHead(404).end();
      return;
    }
    answer.writeHead(200, { 'content-type': 'text/html' }).end(body);
    served.add(`${headers.host}${url}`);
    if (served.size === pages) server.emit('done');
  });
  const done = once(server, 'done');
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4096 });
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port, served, done };
}

/** Into an order that is the same each time. Source: Knuth, TAOCP 2, 3.4.2, algorithm P. */
function mix(list: string[]): void {
  let state = 12_345;
  for (let i = list.length - 1; i > 0; i--) {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    const j = Math.floor((state / 2 ** 31) * (i + 1));
    const [a = '', b = ''] = [list[i], list[j]];
    list[i] = b;
    list[j] = a;
  }
}

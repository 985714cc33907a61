/**
 * The cost of a page to a slave on many https hosts: CPU of one slave for crawls of a few pages on
 * each of several counts of hosts, and the same over http. The hosts' robots.txt are part of it.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Cluster, Program } from '../support/cluster.ts';
import { addressOf } from '../support/https-hosts.ts';
import { count, cpuMs, say } from './measure.ts';

const pagesPerHost = 4;
const server = fileURLToPath(new URL('https-server.js', import.meta.url));
const turns = [
  ['http', 2_000],
  ['https', 500],
  ['https', 2_000],
  ['https', 4_000],
] as const;

export async function httpsHosts(): Promise<void> {
  say(`https-hosts, ${pagesPerHost} pages a host and its robots.txt, one slave of 16 slots:`);
  for (const [scheme, hosts] of turns) {
    const { pages, cpu, seconds, connections } = await crawl(scheme, hosts);
    say(
      `  ${scheme}, ${count(hosts)} hosts, ${count(pages)} pages: ` +
        `${(cpu / pages).toFixed(2)} CPU s of the slave per 1000 pages, ` +
        `${count(pages / seconds)} pages/s, ${count(connections)} connections`,
    );
  }
}

async function crawl(scheme: 'http' | 'https', hosts: number) {
  await using cluster = new Cluster();
  const trusted = join(cluster.folder, 'authority.pem');
  const args = [server, scheme, String(hosts), String(pagesPerHost), trusted];
  const site = new Program(args);
  try {
    const [, port] = await site.said(/listens on (\d+)/);
    const seeds = Array.from({ length: hosts }, (_, i) => `${scheme}://${addressOf(i)}:${port}/`);
    const master = await cluster.master(['--delay', '0', ...seeds]);
    const slave = cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
    await slave.said(/joined/);
    const before = { cpu: cpuMs(slave.pid), at: performance.now() };
    await master.said(/is done/);
    const seconds = (performance.now() - before.at) / 1000;
    const cpu = cpuMs(slave.pid) - before.cpu;
    const { pages } = await cluster.status();
    site.signal('SIGTERM');
    const [, connections] = await site.said(/connections: (\d+)/);
    return { pages, cpu, seconds, connections: Number(connections) };
  } finally {
    await site.kill();
  }
}

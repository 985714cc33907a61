/**
 * The cost of an archive: CPU of master and slave with `--archive` and without, on the same pages
 * of 25 KB, in turns. The pages are text that packs as the pages of real sites do.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Cluster } from '../support/cluster.ts';
import { childrenCpuMs, count, median, say } from './measure.ts';

const pages = 3_000;
const pageBytes = 25_000;
const rounds = 3;

/** A page of its own for each number, with the links to all of them on the first, which has
 *  two names. */
function page(n: number): string {
  const links =
    n > 0 ? '' : Array.from({ length: pages }, (_, i) => `<a href="/${i}">x</a>`).join('');
  let text = `<!doctype html><title>${n}</title>${links}`;
  for (let i = 0; n > 0 && text.length < pageBytes; i++) {
    const word = ((n * 2_654_435_761 + i * 40_503) >>> 0).toString(36);
    text += `<li class="item"><a href="/${(n + i) % pages}">${word}</a> <b>item ${i}</b> some text of it</li>`;
  }
  return text;
}

/** CPU ms of a crawl of the site by one slave. */
async function crawl(url: string, flags: readonly string[]): Promise<number> {
  const before = childrenCpuMs();
  const cluster = new Cluster();
  const master = await cluster.master([url, '--exit-when-done', ...flags]);
  const slave = cluster.slave();
  await Promise.all([master.exited, slave.exited]);
  const got = cluster.pages().length;
  await cluster.close();
  if (got !== pages + 1) throw new Error(`${got} pages of ${pages}`);
  return childrenCpuMs() - before;
}

export async function archive(): Promise<void> {
  const bodies = Array.from({ length: pages }, (_, n) => Buffer.from(page(n)));
  const server = createServer((request, response) => {
    const body = bodies[Number(request.url?.slice(1) ?? 0)];
    if (body === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'text/html' }).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const plain: number[] = [];
  const archived: number[] = [];
  for (let round = 0; round < rounds; round++) {
    plain.push(await crawl(url, []));
    archived.push(await crawl(url, ['--archive', 'warc']));
  }
  server.closeAllConnections();
  server.close();
  const per1000 = (ms: number) => (ms / pages).toFixed(2);
  const more = median(archived.map((ms, i) => ms - (plain[i] ?? 0)));
  say(
    `archive, ${count(pages)} pages of 25 KB, ${rounds} pairs: CPU s per 1000 pages ` +
      `${per1000(median(plain))} without, ${per1000(median(archived))} with, ` +
      `${per1000(more)} more (bar: 0.6)`,
  );
}

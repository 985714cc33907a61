/**
 * `extract` over an archive of pages of 73 KB with five CSS fields: pages a second on one core, and
 * with two processes on two cores. Each process costs the same start whatever follows, so the rates
 * are given with it, and without: the same command again only starts, and finds nothing more.
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Cluster, Program, root } from '../support/cluster.ts';
import { count, median, say } from './measure.ts';

const pages = 4_800;
const pageBytes = 73_000;
const rounds = 3;

/** A page of a shop: its product, and what stands around that. */
function page(n: number): string {
  let text = `<!doctype html><title>Product ${n}</title><h1 class=name>Product ${n}</h1>
<p class=price>£${n}.50</p><p class=stock>${n % 7} left</p>
<a class=maker href="/m/${n % 9}">Maker</a>
<div id=description>It is the ${n}th of all.</div>`;
  for (let i = 0; text.length < pageBytes; i++) {
    const word = ((n * 2_654_435_761 + i * 40_503) >>> 0).toString(36);
    text += `<li class="item"><a href="/p/${(n + i) % pages}">${word}</a> <b>item ${i}</b> some text</li>\n`;
  }
  return text;
}

const rules = `items:
  product:
    match: /p/
    fields:
      name: h1.name
      price: { css: .price, regex: "[\\\\d.]+", type: number }
      stock: .stock
      maker: "a.maker::attr(href)"
      about: "#description"
`;

type Use = { readonly cores: string; readonly processes: number };

/** Seconds of an extraction on some cores alone, and of those of its start. */
async function extracted(
  cluster: Cluster,
  as: string,
  use: Use,
): Promise<{ seconds: number; start: number }> {
  return { seconds: await run(cluster, as, use), start: await run(cluster, as, use) };
}

async function run(cluster: Cluster, as: string, { cores, processes }: Use): Promise<number> {
  const file = join(cluster.folder, 'shop.yaml');
  const from = ['--from', join(cluster.out, 'shop'), '--as', as, '--out', cluster.out];
  const args = ['extract', file, ...from, '--processes', `${processes}`];
  const began = performance.now();
  const program = new Program(['-c', cores, process.execPath, join(root, 'master.js'), ...args], {
    program: 'taskset',
  });
  const { code } = await program.exited;
  if (code !== 0) throw new Error(program.output);
  const text = readFileSync(join(cluster.out, as, 'items.jsonl'), 'utf8');
  const rows = text.split('\n').length - 1;
  if (rows !== pages) throw new Error(`${rows} rows of ${pages} pages`);
  return (performance.now() - began) / 1000;
}

export async function archivedPages(): Promise<void> {
  const server = createServer(({ url = '' }, response) => {
    const number = /^\/p\/(\d+)$/.exec(url)?.[1];
    const links = Array.from({ length: pages }, (_, i) => `<a href="/p/${i}">x</a>`).join('');
    const body = url === '/' ? links : number === undefined ? undefined : page(Number(number));
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'text/html' }).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await using cluster = new Cluster();
  writeFileSync(join(cluster.folder, 'shop.yaml'), `crawl: shop\nseeds: ["${url}"]\n${rules}`);
  const plain = [url, '--crawl', 'shop', '--archive', 'warc', '--exit-when-done'];
  const master = await cluster.master(plain);
  const slave = cluster.slave();
  await Promise.all([master.exited, slave.exited]);
  server.closeAllConnections();
  server.close();
  type Run = Awaited<ReturnType<typeof extracted>>;
  const one: Run[] = [];
  const two: Run[] = [];
  for (let round = 0; round < rounds; round++) {
    one.push(await extracted(cluster, `one-${round}`, { cores: '0', processes: 1 }));
    two.push(await extracted(cluster, `two-${round}`, { cores: '0,1', processes: 2 }));
  }
  const rate = (runs: readonly Run[], without: 0 | 1) =>
    pages / median(runs.map(({ seconds, start }) => seconds - start * without));
  for (const [without, what] of [
    [0, 'starts included'],
    [1, 'without the starts'],
  ] as const) {
    const rates = [rate(one, without), rate(two, without)] as const;
    say(
      `extract, ${count(pages)} pages of 73 KB, 5 CSS fields, ${rounds} rounds, ${what}: ` +
        `${count(rates[0])} pages/s on one core (bar: 100), ${count(rates[1])} on two, ` +
        `${(rates[1] / rates[0]).toFixed(2)} times that (bar: 1.8)`,
    );
  }
}

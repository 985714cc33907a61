/** Hosts that never answer, or late, next to hosts that do: they delay no other host. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import type { RequestListener } from 'node:http';
import { type TestContext, test } from 'node:test';
import type { SlaveRow } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';
import { deafPort, loopbackAddress, silentPort } from '../support/unanswering.ts';

const timeout = 60_000;
const links = 5;

type Site = { readonly seeds: readonly string[]; readonly done: Promise<unknown> };

/** So many hosts, each of a start page and what it links to. */
async function healthy(t: TestContext, count: number): Promise<Site> {
  const served = new Set<string>();
  const body = Array.from({ length: links }, (_, i) => `<a href="/${i}">${i}</a>`).join('');
  const events = new EventEmitter();
  const done = once(events, 'done');
  const serve: RequestListener = ({ url, headers }, answer) => {
    answer.writeHead(url === '/robots.txt' ? 404 : 200, { 'content-type': 'text/html' }).end(body);
    if (url !== '/robots.txt') served.add(`${headers.host}${url}`);
    if (served.size === count * (links + 1)) events.emit('done');
  };
  const port = await httpServer(t, serve, '0.0.0.0');
  const seeds = Array.from({ length: count }, (_, i) => `http://${loopbackAddress(1, i)}:${port}/`);
  return { seeds, done };
}

async function dead(t: TestContext, count: number): Promise<string[]> {
  const ports = [await deafPort(), await silentPort()];
  t.after(() => Promise.all(ports.map((port) => port.close())));
  return Array.from({ length: count }, (_, i) => {
    const kind = i % ports.length;
    return `http://${loopbackAddress(2 + kind, i)}:${ports[kind]?.port}/`;
  });
}

for (const ignoresRobots of [false, true]) {
  const how = ignoresRobots ? ', asked for pages at once' : '';
  test(`dead hosts: a slave of one slot goes on beside them${how}`, { timeout }, async (t) => {
    const site = await healthy(t, 6);
    const seeds = [...(await dead(t, 10)), ...site.seeds];
    const cluster = new Cluster(t);
    const flags = ['--connect-timeout', '600000', '--fetch-timeout', '600000'];
    if (ignoresRobots) flags.push('--ignore-robots');
    await cluster.master([...seeds, ...flags]);
    const slave = cluster.slave(['--slots', '1']);
    await site.done;
    // Requests that nobody answers are given back at once.
    const { code } = await slave.kill('SIGTERM');
    assert.equal(code, 0);
    const { waiting, leased, failed } = await cluster.status();
    assert.deepEqual({ waiting, leased, failed }, { waiting: 10, leased: 0, failed: 0 });
  });
}

test('late hosts: a slave of one slot goes on while their answers do not come', {
  timeout,
}, async (t) => {
  const site = await healthy(t, 6);
  // They have proved that they answer.
  const serve: RequestListener = ({ url }, answer) => {
    if (url === '/robots.txt') answer.writeHead(404).end();
  };
  const port = await httpServer(t, serve, '0.0.0.0');
  const late = [0, 1, 2].map((i) => `http://${loopbackAddress(4, i)}:${port}/`);
  const cluster = new Cluster(t);
  await cluster.master([...late, ...site.seeds]);
  cluster.slave(['--slots', '1']);
  await site.done;
  const [row] = JSON.parse(await cluster.ask('slaves', '--json')) as SlaveRow[];
  assert.equal(row?.slots, 1, 'also while some are lent');
});

/** A site that takes so long for each page; its start page links to so many others. */
async function slow(t: TestContext, ms: number, pages: number) {
  const body = Array.from({ length: pages }, (_, i) => `<a href="/${i}">${i}</a>`).join('');
  const asked: string[] = [];
  const events = new EventEmitter();
  const port = await httpServer(t, ({ url = '' }, answer) => {
    const html = { 'content-type': 'text/html' };
    if (url === '/robots.txt') answer.writeHead(404).end();
    else setTimeout(() => answer.writeHead(200, html).end(url === '/' ? body : ''), ms);
    asked.push(url);
    events.emit('asked');
  });
  const many = async (count: number) => {
    while (asked.length < count) await once(events, 'asked');
  };
  return { seed: `http://127.0.0.1:${port}/`, asked, many };
}

test('late hosts: requests of one host do not wait for each other in a slave of one slot', {
  timeout,
}, async (t) => {
  const [ms, pages] = [3_000, 8];
  const { seed } = await slow(t, ms, pages);
  const cluster = new Cluster(t);
  const flags = ['--fetch-timeout', `${1.5 * ms}`, '--attempts', '1', '--exit-when-done'];
  const master = await cluster.master([seed, ...flags]);
  cluster.slave(['--slots', '1']);
  assert.equal((await master.exited).code, 0);
  const answered = cluster.fetched().filter(({ error }) => error === undefined);
  assert.equal(answered.length, 1 + pages);
});

test('late hosts: a slave that ends finishes what it has asked them', { timeout }, async (t) => {
  const { seed, asked, many } = await slow(t, 3_000, 4);
  const cluster = new Cluster(t);
  const master = await cluster.master([seed, '--exit-when-done']);
  const slave = cluster.slave();
  // robots.txt, the start page, and the first two of the others.
  await many(4);
  assert.equal((await slave.kill('SIGTERM')).code, 0);
  cluster.slave();
  assert.equal((await master.exited).code, 0);
  assert.equal(new Set(asked).size, asked.length, `${asked}`);
});

test('dead hosts: healthy ones are done while 100 others are waited for', {
  timeout,
}, async (t) => {
  const site = await healthy(t, 30);
  const others = await dead(t, 100);
  const seeds = others.flatMap((seed, i) => {
    const own = site.seeds[i];
    return own === undefined ? [seed] : [seed, own];
  });
  const cluster = new Cluster(t);
  await cluster.master([...seeds, '--connect-timeout', '600000', '--fetch-timeout', '600000']);
  for (let i = 0; i < 2; i++) cluster.slave(['--slots', '2']);
  await site.done;
  const { failed } = await cluster.status();
  assert.equal(failed, 0);
});

test('dead hosts: --connect-timeout ends what nobody answers', { timeout }, async (t) => {
  const seeds = await dead(t, 6);
  const cluster = new Cluster(t);
  const flags = ['--connect-timeout', '200', '--attempts', '1', '--exit-when-done'];
  const master = await cluster.master([...seeds, ...flags]);
  cluster.slave();
  assert.equal((await master.exited).code, 4);
  const lines = cluster.fetched();
  assert.deepEqual(lines.map(({ url }) => url).sort(), [...seeds].sort());
  assert.ok(lines.every(({ error }) => error?.kind === 'timeout'));
});

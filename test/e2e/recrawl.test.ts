/** A crawl of what an earlier crawl fetched: what has not changed is asked for and not sent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Resource, Resources, TestSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, assertLeavesWith, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const date = 'Fri, 20 Nov 2026 10:00:00 GMT';

function versionedSite(): Resources {
  return new Map([
    [
      '/',
      {
        kind: 'page',
        links: ['/a', '/b', '/c', '/moved', '/file'],
        images: ['/0.png'],
        etag: '"0"',
      },
    ],
    ['/a', { kind: 'page', links: ['/a/deep'], images: ['/a.png', '/0.png'], etag: 'W/"a"' }],
    ['/a/deep', { kind: 'page', links: ['/gone'], images: ['/deep.png'], lastModified: date }],
    ['/b', { kind: 'page', links: [], images: ['/b.png'], etag: '"b1"' }],
    ['/c', { kind: 'page', links: [], images: ['/c.png'] }],
    ['/target', { kind: 'page', links: [], images: ['/t.png'], etag: '"t"' }],
    ['/moved', { kind: 'redirect', to: '/target' }],
    ['/file', { kind: 'file', type: 'text/plain', etag: '"f"' }],
  ]);
}

/** A crawl `first` of the site that is done, and a running slave. */
async function crawled(t: TestContext, flags: readonly string[] = []) {
  const site = await siteFor(t, versionedSite());
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--crawl', 'first', ...flags]);
  const slave = cluster.slave();
  await master.said(/crawl first is done/);
  return { site, cluster, master, slave };
}

const earlier = ['--pages', 'out/first/pages.jsonl'];

test('recrawl: what is unchanged is not sent again, and the files are complete', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave } = await crawled(t);
  assert.equal(cluster.fetched('first').length, 8);
  site.log.length = 0;
  site.resources.set('/b', { kind: 'page', links: ['/new'], images: ['/b2.png'], etag: '"b2"' });
  site.resources.set('/new', { kind: 'page', links: [], images: ['/new.png'] });
  const said = await cluster.ask('recrawl', 'first', '--as', 'second', ...earlier);
  assert.equal(said, 'crawl second started: 9 URLs of first, 7 of them fetched only if changed\n');
  await master.said(/crawl second is done.* 7 pages \(4 unchanged\), /);
  const statuses = new Map(site.log.map(({ path, status }) => [path, status]));
  assert.deepEqual(Object.fromEntries(statuses), expectedStatuses);
  const truth = site.truth();
  assert.deepEqual(cluster.pages('second').sort(), truth.pages);
  assert.deepEqual(cluster.lines('img_src.txt', 'second').sort(), truth.images);
  assertCarried(site, cluster);
  const status = await cluster.status('second');
  assert.equal(status.unchanged, 4);
  assert.match(status.ending?.text ?? '', /links of 4 unchanged pages were not read again/);
  // And what it wrote is the base of the next one.
  site.log.length = 0;
  await cluster.ask('recrawl', 'second', '--as', 'third', '--pages', 'out/second/pages.jsonl');
  await master.said(/crawl third is done.* 7 pages \(5 unchanged\), /);
  assert.deepEqual(cluster.lines('img_src.txt', 'third').sort(), truth.images);
  master.signal('SIGTERM');
  slave.signal('SIGTERM');
  await assertLeaves(master, slave);
});

const expectedStatuses = {
  '/': 304,
  '/a': 304,
  '/a/deep': 304,
  '/b': 200,
  '/c': 200,
  '/file': 304,
  '/gone': 404,
  '/moved': 302,
  '/new': 200,
  '/target': 304,
};

/** The line of an unchanged page says what the earlier one said. */
function assertCarried(site: TestSite, cluster: Cluster): void {
  const of = (crawl: string, path: string) =>
    cluster.fetched(crawl).find(({ url }) => url === site.origin + path);
  for (const path of ['/', '/a', '/a/deep', '/file']) {
    const [before, after] = [of('first', path), of('second', path)];
    const { at: _, ms: __, ...kept } = { at: '', ms: 0, ...before };
    const { at: ___, ms: ____, ...now } = { at: '', ms: 0, ...after };
    assert.deepEqual(now, { ...kept, status: 304, unchanged: true });
  }
}

test('recrawl: survives a crash of the master in the middle', { timeout }, async (t) => {
  const { site, cluster, master, slave } = await crawled(t);
  site.log.length = 0;
  site.delayMs = 300;
  await cluster.ask('recrawl', 'first', '--as', 'second', ...earlier, '--per-host', '1');
  await site.requested(2);
  const { address } = cluster;
  await master.kill('SIGKILL');
  site.delayMs = 0;
  const again = await cluster.master(['--exit-when-done'], { listen: address });
  await assertLeaves(again, slave);
  assert.deepEqual(cluster.pages('second').sort(), site.truth().pages);
  assert.deepEqual(cluster.lines('img_src.txt', 'second').sort(), site.truth().images);
  assert.equal(cluster.fetched('second').filter(({ unchanged }) => unchanged).length, 6);
});

test('recrawl: a 304 that nobody asked for is an error', { timeout }, async (t) => {
  const server: Server = createServer((_, response) => response.writeHead(304).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const cluster = new Cluster(t);
  const args = [url, '--exit-when-done', '--ignore-robots', '--slaves', '1'];
  const master = await cluster.master(args);
  await assertLeavesWith(4, master);
  assert.equal(cluster.fetched()[0]?.error?.message, '304 Not Modified');
});

test('recrawl: a wrong name, a missing or foreign file get one line', { timeout }, async (t) => {
  const { cluster } = await crawled(t);
  const refusal = async (...args: readonly string[]): Promise<string> => {
    const key = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
    const program = cluster.run(['master.js', 'recrawl', ...key, ...args]);
    const { code } = await program.exited;
    assert.equal(code, 2, program.output);
    assert.equal(program.output.trim().split('\n').length, 1, program.output);
    return program.output;
  };
  assert.match(await refusal('first', '--as', 'x'), /cannot read crawl-data.* --pages/);
  assert.match(await refusal('other', '--as', 'x', ...earlier), /there is no crawl "other"/);
  assert.match(await refusal('first', ...earlier), /--as/);
  const file = join(cluster.folder, 'foreign.txt');
  writeFileSync(file, 'hello\n');
  assert.match(await refusal('first', '--as', 'x', '--pages', file), /foreign.txt:1 is not a line/);
  writeFileSync(file, '');
  assert.match(await refusal('first', '--as', 'x', '--pages', file), /has no lines/);
  const [line = ''] = readFileSync(join(cluster.out, 'first/pages.jsonl'), 'utf8').split('\n');
  writeFileSync(file, line.replace('"via":"img"', '"via":"nowhere"'));
  appendFileSync(file, '\n');
  assert.match(await refusal('first', '--as', 'x', '--pages', file), /images/);
});

test('recrawl: each sitemap is read once, has one line, and opens no scope', {
  timeout,
}, async (t) => {
  const other = await siteFor(t, new Map<string, Resource>([['/page', page([])]]));
  const listed = (...urls: readonly string[]): Resource => {
    const body = `<urlset>${urls.map((url) => `<url><loc>${url}</loc></url>`).join('')}</urlset>`;
    return { kind: 'file', type: 'application/xml', body };
  };
  const site = await siteFor(t, new Map<string, Resource>([['/listed', page([])]]));
  const { origin, resources } = site;
  resources.set('/', { kind: 'page', links: [`${other.origin}/page`], images: [], etag: '"0"' });
  other.resources.set('/map.xml', listed(`${origin}/listed`));
  resources.set('/map.xml', listed(`${origin}/listed`));
  const nested = `<sitemap><loc>${origin}/nested.xml</loc></sitemap>`;
  const index = `<sitemapindex>${nested}</sitemapindex>`;
  resources.set('/index.xml', { kind: 'file', type: 'application/xml', body: index });
  resources.set('/nested.xml', listed(`${origin}/`));
  resources.set('/old.xml', { kind: 'redirect', to: '/map.xml' });
  const named = ['/map.xml', '/index.xml', '/gone.xml', '/old.xml', '/secret.xml'];
  const lines = [...named.map((path) => origin + path), `${other.origin}/map.xml`];
  site.robots = `User-agent: *\nDisallow: /secret.xml\n${lines.map((url) => `Sitemap: ${url}\n`).join('')}`;
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--crawl', 'first', '--allow-private']);
  cluster.slave();
  await master.said(/crawl first is done/);
  const asked = [...site.counts];
  site.log.length = other.log.length = 0;
  await cluster.ask('recrawl', 'first', '--as', 'second', ...earlier);
  await master.said(/crawl second is done/);
  assert.deepEqual([...site.counts].sort(), asked.sort(), 'as often as the first time');
  assert.deepEqual([...other.counts], [['/map.xml', 1]]);
  const urls = (crawl: string) => cluster.fetched(crawl).map(({ url }) => url);
  assert.equal(new Set(urls('second')).size, urls('second').length);
  assert.deepEqual(urls('second').sort(), urls('first').sort());
});

function page(links: readonly string[]): Resource {
  return { kind: 'page', links: [...links], images: [] };
}

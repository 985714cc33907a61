/** --include and --exclude against links that were made to be slow to match, and of old crawls. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { afterPrefix, crawlKey, decodeCrawl, encodeCrawl } from '../../master/store/records.ts';
import { cpuMs } from '../bench/measure.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const page = (...links: readonly string[]) => ({
  kind: 'file' as const,
  type: 'text/html',
  body: links.map((href) => `<a href="${href}">x</a>`).join(''),
});

test('patterns: an innocent one and nine long links take no time', { timeout }, async (t) => {
  const long = Array.from({ length: 9 }, (_, i) => `/${i}${'/x'.repeat(455)}`);
  const site = await siteFor(
    t,
    new Map([
      ['/', page(...long, '/a', '/b/c/d.pdf')],
      ['/a', page()],
      ...long.map((path) => [path, page()] as const),
    ]),
  );
  const cluster = new Cluster(t);
  const flags = ['--exclude', '^https?://.*/.*/.*/.*\\.pdf$', '--traps', 'off'];
  const master = await cluster.master([site.url, ...flags]);
  const before = cpuMs(master.pid);
  cluster.slave();
  await master.said(/crawl default is done/);
  // It takes 32 s by backtracking; a crawl of a dozen pages some 0.1.
  assert.ok(cpuMs(master.pid) - before < 4_000);
  const { skipped, pages } = await cluster.status();
  assert.deepEqual([skipped, pages], [{ exclude: 1 }, 11]);
});

test('patterns: a link is a trap before a pattern sees it', { timeout }, async (t) => {
  const links = [`/no/${'x'.repeat(3_000)}`, '/no/x', `/no${'/y'.repeat(40)}`];
  const site = await siteFor(t, new Map([['/', page(...links)]]));
  const cluster = await crawlToEnd(t, [site.url], { flags: ['--exclude', '/no/'] });
  assert.equal(cluster.pages().length, 1);
  const again = await cluster.master([]);
  assert.deepEqual((await cluster.status()).skipped, { length: 1, segments: 1, exclude: 1 });
  await again.kill('SIGTERM');
});

test('patterns: a crawl cannot be made with one that RE2 cannot run', { timeout }, async (t) => {
  const says = /--exclude "a\(\?!:\)b" has a negative lookahead, \(\?!:\): write \[\^:\]\* for/;
  const cluster = new Cluster(t);
  const refused = cluster.run(['master.js', 'http://127.0.0.1:1/', '--exclude', 'a(?!:)b']);
  assert.equal((await refused.exited).code, 2);
  assert.match(refused.stderr, says);
  assert.equal(refused.stderr.trim().split('\n').length, 1, refused.stderr);
  assert.equal(existsSync(join(cluster.folder, 'orb-data')), false, 'nothing is made');

  const master = await cluster.master([]);
  await assert.rejects(cluster.ask('add', 'http://127.0.0.1:1/', '--exclude', 'a(?!:)b'), says);
  await assert.rejects(
    cluster.ask('add', 'http://127.0.0.1:1/', '--include', '('),
    /not a regular/,
  );
  await master.kill('SIGTERM');
  // There is a store now, and no such crawl in it.
  const folders = ['--data', cluster.data, '--out', cluster.out];
  const second = cluster.run([
    'master.js',
    'http://127.0.0.1:1/',
    '--exclude',
    'a(?!:)b',
    ...folders,
  ]);
  assert.equal((await second.exited).code, 2);
  assert.match(second.stderr, says);
  assert.equal(existsSync(join(cluster.out, 'default')), false);
});

test('patterns: a crawl of an older version goes on with its own', { timeout }, async (t) => {
  const site = await siteFor(
    t,
    new Map([
      ['/', page('/blog/a', '/shop/b')],
      ['/blog/a', page('/shop/c', '/blog/d')],
      ['/blog/d', page()],
      ['/shop/b', page()],
    ]),
  );
  const cluster = new Cluster(t);
  const first = await cluster.master([site.url, '--exclude', '/never/']);
  await first.kill('SIGTERM');
  const old = '^http://[^/]*/(?!blog/).';
  const store = await openLmdbStore(join(cluster.data, 'store'));
  const range = { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) };
  const changes = store.range('crawls', range).map(({ key, value }) => {
    const record = decodeCrawl(value);
    const spec = { ...record.spec, exclude: [old, '/never/'] };
    return { table: 'crawls' as const, key, value: encodeCrawl({ ...record, spec }) };
  });
  await store.commit(changes);
  await store.close();

  // As it was started, and so it goes on.
  const again = await cluster.master([
    site.url,
    '--exclude',
    old,
    '--exclude',
    '/never/',
    '--exit-when-done',
  ]);
  const slave = cluster.slave();
  await assertLeaves(again, slave);
  assert.match(again.output, /keeps a pattern that new crawls may not have.* 512 char.*lookahead/);
  assert.deepEqual(
    cluster
      .pages()
      .map((url) => new URL(url).pathname)
      .sort(),
    ['/', '/blog/a', '/blog/d'],
  );
});

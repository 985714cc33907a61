/** robots.txt end to end: real slaves fetch it, the master keeps to it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sitePages } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const pages = { '/': ['/a', '/private/b', '/private/c'], '/a': [] };
const all = sitePages({ ...pages, '/private/b': [], '/private/c': [] });
const forbid = '\ufeffUser-agent: Orbweaver\r\nDisallow: /private/\r\n';

test('robots: a file is fetched once and kept to, by two slaves', { timeout }, async (t) => {
  const site = await siteFor(t, all);
  site.robots = forbid;
  const cluster = await crawlToEnd(t, [site.url], { slaves: 2 });
  assert.equal(site.robotsLog.length, 1);
  assert.deepEqual(site.log.map(({ path }) => path).sort(), ['/', '/a']);
  const lines = readFileSync(join(cluster.out, 'default', 'pages.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const excluded = lines.map((line) => JSON.parse(line)).filter((line) => line.excluded);
  assert.deepEqual(
    excluded.map(({ url, depth, excluded: why }) => [url, depth, why]).sort(),
    ['b', 'c'].map((name) => [`${site.url}private/${name}`, 1, 'robots']),
  );
});

test('robots: a restart does not ask again', { timeout }, async (t) => {
  const site = await siteFor(t, all, { delayMs: 100 });
  site.robots = forbid;
  const cluster = new Cluster(t);
  const flags = [site.url, '--exit-when-done', '--per-host', '1'];
  const first = await cluster.master(flags);
  const { address } = cluster;
  const slave = cluster.slave();
  await site.requested(1);
  await first.kill('SIGKILL');
  const second = await cluster.master(flags, { listen: address });
  await assertLeaves(second, slave);
  assert.equal(site.robotsLog.length, 1);
  assert.equal(site.counts.get('/private/b'), undefined);
  assert.match(second.output, /2 excluded/);
});

test('robots: --ignore-robots is loud and fetches all', { timeout }, async (t) => {
  const site = await siteFor(t, all);
  site.robots = forbid;
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done', '--ignore-robots']);
  await assertLeaves(master, cluster.slave());
  assert.match(master.output, /IGNORES robots\.txt/);
  assert.equal(site.robotsLog.length, 0);
  assert.equal(site.log.length, 4);
});

test('robots: the file may be redirected to another host', { timeout }, async (t) => {
  const target = await siteFor(t, sitePages({ '/': [] }));
  target.robots = forbid;
  const site = await siteFor(t, all);
  site.robotsMovedTo = `${target.url}robots.txt`;
  await crawlToEnd(t, [site.url, '--allow-private']);
  assert.equal(target.robotsLog.length, 1);
  assert.deepEqual(site.log.map(({ path }) => path).sort(), ['/', '/a']);
});

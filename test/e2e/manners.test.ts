/** Delay and concurrency as the asked server sees them: kept over the whole cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatSite, type Resource, sitePages } from '../../selftest/site.ts';
import { Beats } from '../support/beats.ts';
import { Cluster, type Line } from '../support/cluster.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;

test('manners: --delay holds between two starts, over all slaves', { timeout }, async (t) => {
  const delayMs = 150;
  const beats = new Beats(t);
  const site = await siteFor(t, flatSite(20), { delayMs: 20 });
  const flags = ['--delay', String(delayMs), '--per-host', '8'];
  await crawlToEnd(t, [site.url], { flags, slaves: 2 });
  const starts = site.log.map(({ at }) => at);
  assert.equal(starts.length, 21);
  assert.deepEqual(beats.shortGaps([site.log], delayMs), []);
  const wholeMs = (starts.at(-1) ?? 0) - (starts[0] ?? 0);
  assert.ok(wholeMs > 19 * delayMs, `21 starts within ${Math.round(wholeMs)} ms`);
  const clients = new Set(site.log.map(({ client }) => client));
  assert.ok(clients.size >= 2, 'both slaves took part');
});

test('manners: --per-host holds over all slaves', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(60), { delayMs: 20 });
  const flags = ['--delay', '0', '--per-host', '3'];
  await crawlToEnd(t, [site.url], { flags, slaves: 2 });
  assert.equal(site.log.length, 61);
  assert.equal(site.atOnceMax, 3);
});

test('manners: one host does not keep another from being fetched', { timeout }, async (t) => {
  const slow = await siteFor(t, flatSite(10));
  const quick = await siteFor(t, flatSite(60));
  const flags = ['--delay', '0', '--per-host', '1'];
  slow.hold();
  const crawl = crawlToEnd(t, [slow.url, quick.url], { flags });
  await quick.requested(61);
  slow.release();
  await crawl;
  assert.equal(slow.log.length, 11);
});

test('manners: with a slot for each, a slow site is asked by all slots', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(200), { delayMs: 50 });
  await crawlToEnd(t, [site.url], { slaves: 2 });
  assert.ok(site.atOnceMax <= 32, `${site.atOnceMax} at once`);
  assert.ok(site.atOnceMax >= 24, `only ${site.atOnceMax} at once`);
});

test('manners: no gap is shorter than the delay, over 4 slaves and a restart', {
  timeout,
}, async (t) => {
  const delayMs = 120;
  const beats = new Beats(t);
  const sites = await Promise.all([1, 2, 3].map(() => siteFor(t, flatSite(15), { delayMs: 30 })));
  const cluster = new Cluster(t);
  const seeds = sites.map(({ url }) => url);
  const flags = [...seeds, '--exit-when-done', '--delay', String(delayMs), '--per-host', '4'];
  const first = await cluster.master(flags);
  const { address } = cluster;
  for (let i = 0; i < 4; i++) cluster.slave();
  await sites[0]?.requested(6);
  await first.kill('SIGKILL');
  const second = await cluster.master(flags, { listen: address });
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(second);
  for (const site of sites) {
    const logs = [site.robotsLog, site.log];
    assert.ok(logs.flat().length >= 17);
    // The exact check is test/bench/manners.ts, on the log of nginx.
    assert.deepEqual(beats.shortGaps(logs, delayMs), []);
    assert.ok(site.atOnceMax <= 4);
  }
});

/** `count` links that are redirected three times each before they are a page. */
function windingSite(count: number) {
  const site = sitePages({ '/': Array.from({ length: count }, (_, i) => `/go/${i}`) });
  for (let i = 0; i < count; i++) {
    site.set(`/go/${i}`, { kind: 'redirect', to: `/on/${i}` });
    site.set(`/on/${i}`, { kind: 'redirect', to: `/page/${i}` });
    site.set(`/page/${i}`, { kind: 'page', links: [], images: [] });
  }
  return site;
}

test('manners: redirects keep the delay, too, over 2 slaves', { timeout }, async (t) => {
  const delayMs = 120;
  const beats = new Beats(t);
  const site = await siteFor(t, windingSite(6), { delayMs: 20 });
  const flags = ['--delay', String(delayMs), '--per-host', '4'];
  const cluster = await crawlToEnd(t, [site.url], { flags, slaves: 2 });
  assert.equal(site.log.length, 19);
  assert.deepEqual(beats.shortGaps([site.robotsLog, site.log], delayMs), []);
  assert.equal(cluster.pages().length, 7);
  const clients = new Set(site.log.map(({ client }) => client));
  assert.ok(clients.size >= 2, 'both slaves took part');
});

test('manners: the wait of a redirect is not part of --fetch-timeout', { timeout }, async (t) => {
  const site = await siteFor(t, windingSite(1));
  const flags = ['--delay', '600', '--fetch-timeout', '400', '--attempts', '1'];
  const cluster = await crawlToEnd(t, [site.url], { flags });
  const line = cluster.fetched().find(({ url }) => url.endsWith('/go/0')) as { ms?: number };
  assert.equal(cluster.pages().length, 2);
  assert.ok((line.ms ?? 999) < 400, `${line.ms} ms`);
});

test('manners: a redirect to what robots.txt or --exclude leaves out is not followed', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, sitePages({ '/': ['/go/private', '/go/out', '/go/open'] }));
  site.robots = 'User-agent: *\nDisallow: /private/';
  for (const name of ['private', 'out', 'open']) {
    site.resources.set(`/go/${name}`, { kind: 'redirect', to: `/${name}/x` });
    site.resources.set(`/${name}/x`, { kind: 'page', links: [], images: [] });
  }
  const cluster = await crawlToEnd(t, [site.url], { flags: ['--exclude', '/out/'] });
  const asked = site.log.map(({ path }) => path).sort();
  assert.deepEqual(asked, ['/', '/go/open', '/go/out', '/go/private', '/open/x']);
  const lines = cluster.fetched() as readonly { url: string; excluded?: string }[];
  const ofPath = (path: string) => lines.find(({ url }) => new URL(url).pathname === path);
  assert.equal((ofPath('/go/private') as Line).redirectedTo, `${site.url}private/x`);
  assert.equal(ofPath('/private/x')?.excluded, 'robots');
  assert.equal((ofPath('/go/out') as Line).redirectedTo, `${site.url}out/x`);
  assert.equal(ofPath('/out/x'), undefined);
});

test('manners: --per-host holds while a master is killed and another one starts', {
  timeout,
}, async (t) => {
  // The first answers take so long that they are under way when the next master hands out.
  const quick = flatSite(8);
  const slow = [...quick].map(([path, resource]): [string, Resource] =>
    path === '/' ? [path, resource] : [path, { ...resource, delayMs: 5_000 }],
  );
  const site = await siteFor(t, new Map(slow));
  const cluster = new Cluster(t);
  const flags = [site.url, '--exit-when-done', '--per-host', '2', '--ignore-robots'];
  const first = await cluster.master(flags);
  const { address } = cluster;
  for (let i = 0; i < 2; i++) cluster.slave();
  await site.requested(3);
  await first.kill('SIGKILL');
  for (const [path, resource] of quick) site.resources.set(path, resource);
  const second = await cluster.master(flags, { listen: address });
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(second);
  assert.equal(site.atOnceMax, 2);
  assert.equal(cluster.pages().length, 9);
});

test('manners: hosts of one group share the delay, each with its robots.txt', {
  timeout,
}, async (t) => {
  const delayMs = 120;
  const beats = new Beats(t);
  const sites = await Promise.all([1, 2, 3].map(() => siteFor(t, flatSite(4), { delayMs: 20 })));
  const seeds = sites.map(({ url }) => url);
  for (const kind of ['domain', 'ip']) {
    for (const site of sites) {
      site.log.length = 0;
      site.robotsLog.length = 0;
    }
    const cluster = new Cluster(t);
    const group = ['--politeness-group', kind, '--delay', String(delayMs), '--per-host', '4'];
    const master = await cluster.master([...seeds, ...group, '--exit-when-done']);
    for (let i = 0; i < 2; i++) cluster.slave();
    // A slave that is late finds no master any more, and waits for one.
    await assertLeaves(master);
    const logs = sites.flatMap(({ log, robotsLog }) => [log, robotsLog]);
    assert.deepEqual(logs.flat().length, 18, kind);
    assert.deepEqual(beats.shortGaps(logs, delayMs), [], kind);
    for (const { robotsLog } of sites) assert.equal(robotsLog.length, 1);
  }
});

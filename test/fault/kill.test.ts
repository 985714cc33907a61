/**
 * Kill what you like: the files are exact all the same. Every test ends with the same check:
 * each page of the site once, none missing, no torn line.
 */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { flatSite, generateSite, randomOf, sitePages } from '../../selftest/site.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 90_000;
/** Printed with each test: SEED=n runs the same again. */
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));
const pagesCount = 400;

test(`kill -9 a slave every 40 requests, another takes its place (seed ${seed})`, {
  timeout,
}, async (t) => {
  const { site, cluster, start } = await crawlOf(t, seed);
  const master = await start();
  const { address } = cluster;
  const slaves = [cluster.slave(), cluster.slave()];
  let kills = 0;
  while (master.isAlive) {
    const next = site.log.length + 40;
    await Promise.race([site.requested(next), master.exited]);
    if (!master.isAlive) break;
    await slaves.shift()?.kill('SIGKILL');
    slaves.push(cluster.slave([], address));
    kills++;
  }
  await assertLeaves(master);
  assert.ok(kills >= 5, `${kills} kills`);
  assertExact(cluster, site.truth());
});

test(`kill -9 the master three times at random, start it again (seed ${seed})`, {
  timeout,
}, async (t) => {
  const { site, cluster, start } = await crawlOf(t, seed + 1);
  const random = randomOf(seed + 1);
  let master = await start();
  const { address } = cluster;
  for (let i = 0; i < 2; i++) cluster.slave();
  for (let kill = 0; kill < 3; kill++) {
    await Promise.race([site.requested(site.log.length + 1 + random() * 150), master.exited]);
    await master.kill('SIGKILL');
    master = await start(address);
    await master.said(/slave joined/);
  }
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(master);
  assertExact(cluster, site.truth());
});

test(`kill -9 master and slaves together, three times (seed ${seed})`, { timeout }, async (t) => {
  const { site, cluster, start } = await crawlOf(t, seed + 2);
  const random = randomOf(seed + 2);
  let master = await start();
  const { address } = cluster;
  let slaves = [cluster.slave(), cluster.slave()];
  for (let kill = 0; kill < 3; kill++) {
    await Promise.race([site.requested(site.log.length + 1 + random() * 150), master.exited]);
    await Promise.all([master, ...slaves].map((program) => program.kill('SIGKILL')));
    master = await start(address);
    slaves = [cluster.slave(), cluster.slave()];
    await master.said(/slave joined/);
  }
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(master);
  assertExact(cluster, site.truth());
});

test(`kill -9 the master while its files are being written (seed ${seed})`, {
  timeout,
}, async (t) => {
  const { site, cluster, start } = await crawlOf(t, seed + 3);
  let master = await start();
  const { address } = cluster;
  const slave = cluster.slave();
  // The sink writes every 200 ms; the file tells when.
  for (let kill = 0; kill < 4; kill++) {
    const before = cluster.lines('pages.jsonl').length;
    await Promise.race([cluster.grown('pages.jsonl', before), master.exited]);
    await master.kill('SIGKILL');
    master = await start(address);
    await master.said(/slave joined|listens/);
  }
  await assertLeaves(master, slave);
  assertExact(cluster, site.truth());
});

test('a slave that was stopped beyond its lease changes nothing when it goes on', {
  timeout,
}, async (t) => {
  const resources = flatSite(6);
  // Answered when the slave that asked is stopped already.
  resources.set('/4', { kind: 'page', links: ['/behind'], images: ['/4.png'], delayMs: 700 });
  resources.set('/behind', { kind: 'page', links: [], images: [] });
  const site = await siteFor(t, resources);
  const cluster = new Cluster(t);
  const timing = ['--lease', '1', '--heartbeat', '0.5'];
  const master = await cluster.master([site.url, '--per-host', '8', ...timing]);
  const stopped = cluster.slave();
  await site.until((log) => log.some(({ path }) => path === '/4'));
  stopped.signal('SIGSTOP');
  const other = cluster.slave();
  await master.said(/crawl default is done/);
  assert.equal(site.counts.get('/4'), 2, 'the lease ended and another slave had the page');
  const again = site.log.slice(7).filter(({ path }) => path !== '/behind');
  const spanMs = (again.at(-1)?.at ?? 0) - (again[0]?.at ?? 0);
  assert.ok(spanMs < 900, `one slave had all that came back, and at once: ${spanMs} ms`);
  assertExact(cluster, site.truth());

  await other.kill('SIGTERM');
  stopped.signal('SIGCONT');
  const more = await siteFor(t, sitePages({ '/': [] }));
  await cluster.ask('add', more.url);
  await master.said(/crawl default is done.* 9 pages/);
  // Its statements about old leases were answered, so it can leave.
  stopped.signal('SIGTERM');
  await assertLeaves(stopped);
  const pages = [...site.truth().pages, more.url];
  assertExact(cluster, { ...site.truth(), pages });
  const { leased, waiting } = await cluster.status();
  assert.deepEqual({ leased, waiting }, { leased: 0, waiting: 0 });
});

test('a slave that still works keeps its leases longer than they last', { timeout }, async (t) => {
  const resources = sitePages({ '/': ['/long'], '/long': [] });
  resources.set('/long', { kind: 'page', links: [], images: [], delayMs: 2_500 });
  const site = await siteFor(t, resources);
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done', '--lease', '0.5']);
  await assertLeaves(master, cluster.slave());
  assert.equal(site.counts.get('/long'), 1);
  assertExact(cluster, site.truth());
});

async function crawlOf(t: TestContext, siteSeed: number) {
  const site = await siteFor(t, generateSite(siteSeed, pagesCount), { delayMs: 15 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done', '--per-host', '12'];
  const start = (listen?: string): Promise<Program> =>
    cluster.master(args, listen === undefined ? {} : { listen });
  return { site, cluster, start };
}

/** How programs stop, come back and find each other again. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { flatSite, generateSite, sitePages, type TestSite } from '../../selftest/site.ts';
import type { MasterClient } from '../../shared/client.ts';
import { packValue } from '../../shared/frame.ts';
import type { TaskPush } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact, pagesOf, readPages } from '../support/exact.ts';
import { FarAway } from '../support/far.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 60_000;

test('drain: a slave finishes what it fetches, gives back the rest, leaves with 0', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(60), { delayMs: 200 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done']);
  const leaver = cluster.slave(['--slots', '4']);
  await site.until(() => underWay(site) === 4);
  const asked = site.log.length;
  leaver.signal('SIGTERM');
  await leaver.said(/leaving when .* a second signal ends at once +fetching=4/);
  await assertLeaves(leaver);
  assert.equal(site.log.length, asked, 'nothing more was begun');
  assert.equal(underWay(site), 0, 'what was begun was finished');
  site.delayMs = 0;
  const other = cluster.slave();
  await assertLeaves(master, other);
  assertExact(cluster, site.truth());
  for (const [path, count] of site.counts) assert.equal(count, 1, `${path} was fetched again`);
  const bySlave = readPages(cluster).filter(({ slave }) => slave === 'slave-1');
  assert.equal(bySlave.length, asked, 'its last pages count');
});

test('drain: a host does not wait for a slave that leaves while a task is on its way', {
  timeout,
}, async (t) => {
  const delayMs = 400;
  const slow = await siteFor(t, flatSite(1));
  slow.resources.set('/1', { kind: 'page', links: [], images: [], delayMs: 8_000 });
  const site = await siteFor(t, flatSite(20));
  const cluster = new Cluster(t);
  const flags = ['--exit-when-done', '--delay', String(delayMs), '--ignore-robots'];
  // Without trains: each page is on its way alone.
  const master = await cluster.master([slow.url, site.url, ...flags, '--order', 'dfs']);
  const far = await FarAway.start(cluster.address, delayMs / 2, t);
  const leaver = cluster.slave(['--slots', '4'], far.address);
  await site.requested(5);
  // The master hears of a request half a delay later, and gives the next one out after a delay.
  await setTimeout(1.5 * delayMs);
  leaver.signal('SIGTERM');
  const other = cluster.slave();
  const asked = site.requested(site.log.length + 3).then(() => 'asked');
  assert.equal(await Promise.race([asked, leaver.exited]), 'asked');
  await assertLeaves(master, leaver, other);
  assert.equal(pagesOf(readPages(cluster)).length, 23);
});

test('drain: a second signal ends a slave at once, its pages go to another', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(6), { delayMs: 0 });
  site.resources.set('/3', { kind: 'page', links: [], images: [], delayMs: 20_000 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done']);
  const leaver = cluster.slave();
  await site.until((log) => log.length === 7 && underWay(site) === 1);
  leaver.signal('SIGTERM');
  leaver.signal('SIGINT');
  const { code } = await leaver.exited;
  assert.equal(code, 1);
  site.resources.set('/3', { kind: 'page', links: [], images: [] });
  const again = performance.now();
  const other = cluster.slave();
  await assertLeaves(master, other);
  assert.ok(performance.now() - again < 10_000, 'its lease returned with its session');
  assertExact(cluster, site.truth());
});

test('drain: a killed slave returns its leases at once', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(3), { delayMs: 0 });
  site.resources.set('/2', { kind: 'page', links: [], images: [], delayMs: 20_000 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done', '--per-host', '1']);
  const victim = cluster.slave();
  await site.until((log) => log.some(({ path }) => path === '/2'));
  const other = cluster.slave();
  await other.said(/joined/);
  site.resources.set('/2', { kind: 'page', links: [], images: [] });
  const killedAt = performance.now();
  await victim.kill('SIGKILL');
  await site.until((log) => log.filter(({ path }) => path === '/2').length === 2);
  assert.ok(performance.now() - killedAt < 3_000, 'asked again soon');
  await assertLeaves(master, other);
  assertExact(cluster, site.truth());
});

test('drain: a slave that has no master leaves at SIGTERM', { timeout }, async (t) => {
  const silent = createServer(() => {});
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => silent.close());
  const cluster = new Cluster(t);
  await (await cluster.master([])).kill('SIGTERM');
  const { port } = silent.address() as { port: number };
  const slave = cluster.slave([], `127.0.0.1:${port}`);
  await once(silent, 'connection');
  const askedAt = performance.now();
  slave.signal('SIGTERM');
  await assertLeaves(slave);
  assert.ok(performance.now() - askedAt < 3_000);
});

test('drain: a master ends the crawl under way in order, a restart goes on', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(31, 150), { delayMs: 10 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done', '--per-host', '8'];
  const first = await cluster.master(args);
  const { address } = cluster;
  for (let i = 0; i < 2; i++) cluster.slave();
  await site.requested(60);
  first.signal('SIGTERM');
  await first.said(/stopping when .* a second signal stops at once +leased=\d/);
  await assertLeaves(first);
  const before = pagesOf(readPages(cluster)).length;
  assert.ok(before > 10, `${before} pages were written`);
  assert.equal(underWay(site), 0, 'it waited for what was being fetched');
  const second = await cluster.master(args, { listen: address });
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(second);
  assertExact(cluster, site.truth());
  for (const [path, count] of site.counts) {
    const { kind, heals = 0 } = site.resources.get(path) ?? {};
    if (kind === 'file') assert.equal(count, 1 + heals, `${path} was fetched again`);
  }
});

test('drain: who breaks off a handshake with a master that ends is no news', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(1));
  site.resources.set('/1', { kind: 'page', links: [], images: [], delayMs: 2_000 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done']);
  cluster.slave();
  await site.until((log) => log.length === 2 && underWay(site) === 1);
  master.signal('SIGINT');
  await master.said(/stopping when/);
  const { hostname, port } = new URL(`tcp://${cluster.address}`);
  const stranger = connect(Number(port), hostname);
  await once(stranger, 'data');
  stranger.resetAndDestroy();
  await assertLeaves(master);
  assert.doesNotMatch(master.output, /connection closed/);
});

test('drain: a second signal ends a master at once, nothing is lost', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(20));
  site.resources.set('/9', { kind: 'page', links: [], images: [], delayMs: 20_000 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done'];
  const first = await cluster.master(args);
  const { address } = cluster;
  const slave = cluster.slave();
  await site.until((log) => log.length === 21 && underWay(site) === 1);
  first.signal('SIGINT');
  first.signal('SIGTERM');
  assert.equal((await first.exited).code, 1);
  site.resources.set('/9', { kind: 'page', links: [], images: [] });
  const second = await cluster.master(args, { listen: address });
  await slave.kill();
  const other = cluster.slave();
  await assertLeaves(second, other);
  assertExact(cluster, site.truth());
});

test('drain: without a terminal SIGHUP ends no program: nohup', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(20), { delayMs: 100 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done']);
  const slaves = [cluster.slave(), cluster.slave(['--processes', '2'])];
  await site.requested(6);
  for (const program of [master, ...slaves]) program.signal('SIGHUP');
  await assertLeaves(master, ...slaves);
  assertExact(cluster, site.truth());
});

test('slave: --processes 2 works as two, drains, and leaves with 0', { timeout }, async (t) => {
  const site = await siteFor(t, generateSite(32, 150), { delayMs: 10 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done']);
  const slave = cluster.slave(['--processes', '2']);
  await assertLeaves(master, slave);
  assertExact(cluster, site.truth());
  const names = new Set(readPages(cluster).map(({ slave: name }) => name));
  assert.deepEqual([...names].sort(), ['slave-1.1', 'slave-1.2']);
});

test('slave: of --processes 2 nothing stays when the first process is killed', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const slave = cluster.slave(['--processes', '2']);
  await master.said(/slave joined[\s\S]*slave joined/);
  await slave.kill('SIGKILL');
  await master.said(/slave left[\s\S]*slave left/);
});

test('slave: one signal drains --processes 2, also from a terminal', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(20), { delayMs: 300 });
  const cluster = new Cluster(t);
  await cluster.master([site.url]);
  const slave = cluster.slave(['--processes', '2', '--slots', '2'], undefined, { detached: true });
  await site.until(() => underWay(site) === 4);
  // A terminal sends Ctrl-C to the whole group.
  process.kill(-slave.pid, 'SIGINT');
  await assertLeaves(slave);
  assert.equal(underWay(site), 0);
  assert.ok(
    site.log.every(({ endedAt }) => endedAt !== undefined),
    'what was begun was finished',
  );
});

test('slave: joins again when its master is back on the same port', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const first = await cluster.master([]);
  const { address } = cluster;
  const slave = cluster.slave();
  await slave.said(/joined/);
  await first.kill('SIGKILL');
  await slave.said(/lost the master/);
  const second = await cluster.master([], { listen: address });
  await second.said(/slave joined.*slave-1/);
});

test('slave: a report that was not acknowledged is sent again', { timeout }, async (t) => {
  const resources = sitePages({ '/': ['/slow'], '/slow': [] });
  resources.set('/slow', { kind: 'page', links: [], images: [], delayMs: 600 });
  const site = await siteFor(t, resources);
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done'];
  const first = await cluster.master(args);
  const { address } = cluster;
  const slave = cluster.slave();
  await site.until((log) => log.length === 2);
  // The page comes while the master is there and takes nothing.
  first.signal('SIGSTOP');
  await site.until((log) => log[1]?.endedAt !== undefined);
  await first.kill('SIGKILL');
  const second = await cluster.master(args, { listen: address });
  await assertLeaves(second, slave);
  assertExact(cluster, site.truth());
  assert.ok((site.counts.get('/slow') ?? 0) <= 2);
});

test('report: one of an earlier master does not pass --max-pages', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(20));
  const cluster = new Cluster(t);
  const args = [site.url, '--max-pages', '2', '--per-host', '2', '--ignore-robots'];
  const first = await cluster.master(args);
  const { address } = cluster;
  const early = await taker(cluster, 2);
  await report(early.master, await early.task(), ['/1', '/2', '/3', '/4'], site);
  // One task is all that may still become a page, so another master has to give the second.
  const kept = await early.task();
  await first.kill('SIGKILL');
  const second = await cluster.master(args, { listen: address });
  const other = await taker(cluster);
  const same = await other.task();
  assert.equal(same.url, kept.url);
  await other.master.request('task.release', {
    task: same.task,
    lease: same.lease,
    error: { kind: 'timeout', message: 'too slow' },
  });
  const late = await other.task();
  assert.notEqual(late.url, kept.url);
  const again = await taker(cluster, 0);
  assert.deepEqual(await report(again.master, kept, [], site), { state: 'done' });
  assert.deepEqual(await report(other.master, late, [], site), { state: 'stale' });
  await second.said(/crawl default is done/);
  assert.equal(pagesOf(readPages(cluster)).length, 2);
  for (const each of [other, again]) await each.master.close();
});

/** A slave made of a connection: takes tasks, fetches nothing. */
async function taker(cluster: Cluster, credit = 1) {
  const queued: TaskPush[] = [];
  let wake = () => {};
  const master = await cluster.connect({
    role: 'slave',
    name: 'taker',
    onPush: (push) => {
      if (push.verb === 'task.push') queued.push(...push.tasks);
      wake();
    },
  });
  if (credit > 0) master.notify('task.credit', { count: credit, slots: credit * 4 });
  const task = async (): Promise<TaskPush> => {
    while (true) {
      const next = queued.shift();
      if (next) return next;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return { master, task };
}

async function report(
  master: MasterClient,
  { task, lease, url }: TaskPush,
  paths: readonly string[],
  site: TestSite,
): Promise<{ state: string }> {
  const { state } = await master.request('task.report', {
    task,
    lease,
    result: packValue({ finalUrl: url, status: 200, type: 'text/html', bytes: 10, ms: 1 }),
    images: packValue([]),
    links: Buffer.from(paths.map((path) => `${site.origin}${path}`).join('\n')),
  });
  return { state };
}

function underWay({ log }: TestSite): number {
  return log.filter(({ status }) => status === 0).length;
}

test('a slave that leaves while its master is away says first what it has found', {
  timeout,
}, async (t) => {
  const resources = sitePages({ '/': ['/found', '/long'], '/found': [], '/long': [] });
  const site = await siteFor(t, resources);
  resources.set('/long', { kind: 'page', links: [], images: [], delayMs: 5_000 });
  const cluster = new Cluster(t);
  const first = await cluster.master([site.url]);
  const { address } = cluster;
  // Its report of `/` is taken, then the master falls silent.
  resources.set('/found', { kind: 'page', links: [], images: [], delayMs: 500 });
  const slave = cluster.slave(['--slots', '1']);
  await site.until((log) => log.some(({ path }) => path === '/found'));
  first.signal('SIGSTOP');
  await site.until((log) => log.some(({ path }) => path === '/long'));
  await first.kill('SIGKILL');
  await slave.said(/lost the master/);
  slave.signal('SIGTERM');
  const second = await cluster.master([], { listen: address });
  await assertLeaves(slave);
  resources.set('/long', { kind: 'page', links: [], images: [] });
  const other = cluster.slave();
  await second.said(/crawl default is done/);
  assert.equal(site.counts.get('/found'), 1, 'nobody had to fetch it again');
  await other.kill('SIGTERM');
  assertExact(cluster, site.truth());
});

test('start: on a port that is in use leaves no result files', { timeout }, async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  t.after(() => other.close());
  await once(other, 'listening');
  const address = other.address();
  assert.ok(typeof address === 'object' && address !== null);
  const listen = `127.0.0.1:${address.port}`;
  const cluster = new Cluster(t);
  const args = ['http://127.0.0.1:9/', '--output', 'csv:a.csv', '--listen', listen];
  const program = cluster.run(['master.js', ...args]);
  assert.equal((await program.exited).code, 2);
  assert.match(program.stderr, /is in use; stop the other program or choose another --listen/);
  assert.deepEqual(readdirSync(join(cluster.folder, 'crawl-data')), []);
});

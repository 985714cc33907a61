/** `--slaves n`: a master that starts and watches slaves of its own. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { flatSite, generateSite } from '../../selftest/site.ts';
import { Cluster, root } from '../support/cluster.ts';
import { assertExact, readPages } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { childrenOf, gone } from '../support/process-tree.ts';

const timeout = 60_000;

test('local slaves: a crawl on one machine, to its end', { timeout }, async (t) => {
  const site = await siteFor(t, generateSite(41, 150), { delayMs: 10 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--slaves', '2', '--exit-when-done']);
  await master.said(/slave joined[\s\S]*slave joined/);
  const slaves = childrenOf(master.pid);
  assert.equal(slaves.length, 2);
  await assertLeaves(master);
  assertExact(cluster, site.truth());
  const names = new Set(readPages(cluster).map(({ slave }) => slave));
  assert.deepEqual([...names].sort(), ['slave-1', 'slave-2']);
  await gone(slaves);
});

test('local slaves: one that dies is started again', { timeout }, async (t) => {
  const site = await siteFor(t, generateSite(42, 150), { delayMs: 20 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--slaves', '1', '--exit-when-done']);
  await site.requested(20);
  const [pid = 0] = childrenOf(master.pid);
  process.kill(pid, 'SIGKILL');
  await master.said(/the slave died \(SIGKILL\); starting another/);
  await assertLeaves(master);
  assertExact(cluster, site.truth());
});

test('local slaves: they end with a master that is killed', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master(['--slaves', '2']);
  await master.said(/slave joined[\s\S]*slave joined/);
  const slaves = childrenOf(master.pid);
  await master.kill('SIGKILL');
  await gone(slaves);
});

test('local slaves: one whose master ends while it starts ends, too', { timeout }, async (t) => {
  const env = { ...process.env, ORB_AUTHKEY: 'x'.repeat(32), ORB_JOIN_TIMEOUT: '600' };
  const slave = fork(join(root, 'slave.js'), ['--master', '127.0.0.1:1'], { env, silent: true });
  t.after(() => slave.kill('SIGKILL'));
  slave.disconnect();
  const [code] = await once(slave, 'exit', { signal: AbortSignal.timeout(20_000) });
  assert.equal(code, 0);
});

test('local slaves: a stop drains them, a second signal ends them', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(20), { delayMs: 300 });
  const cluster = new Cluster(t);
  const args = [site.url, '--slaves', '1', '--per-host', '4'];
  const first = await cluster.master(args);
  await site.requested(4);
  const slaves = childrenOf(first.pid);
  assert.deepEqual(await first.kill('SIGTERM'), { code: 0, signal: null });
  await gone(slaves);
  assert.ok(
    site.log.every(({ endedAt }) => endedAt !== undefined),
    'what was begun was finished',
  );

  const second = await cluster.master([...args, '--exit-when-done']);
  await site.requested(site.log.length + 4);
  const others = childrenOf(second.pid);
  second.signal('SIGTERM');
  await second.said(/stopping when/);
  assert.deepEqual(await second.kill('SIGTERM'), { code: 1, signal: null });
  await gone(others);
});

test('local slaves: a master that can have none stops and says so', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(3));
  const cluster = new Cluster(t);
  const env = { ...process.env, ORB_SLOTS: '0' };
  const master = await cluster.master([site.url, '--slaves', '2'], { env });
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(master.stdout, /It must be a whole number from 1 to 1000/);
  assert.match(master.stderr, /^master: stopped, since no slave is left .*to go on\n$/);
});

test('local slaves: what they warn of is in the log of the master', { timeout }, async (t) => {
  const site = await siteFor(t, flatSite(2));
  const cluster = new Cluster(t);
  const env = { ...process.env, ORB_BROWSER: 'true', ORB_BROWSER_PROGRAM: '/none/chromium' };
  const options = { env: { ...env, ORB_NO_SANDBOX: 'true' } };
  const master = await cluster.master([site.url, '--slaves', '1', '--json-logs'], options);
  await master.said(/"level":"warn".*"slave":"slave-1".*"msg":"no browser: /);
  assert.ok(!/"msg":"joined/.test(master.stdout.replace(/slave joined/g, '')), 'no other lines');
});

/** Delay and concurrency as the asked server sees them: kept over the whole cluster. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
/** Starts are spaced by the master; the way to the server and a busy machine blur them so much. */
const blurMs = 60;

test('manners: --delay holds between two starts, over all slaves', { timeout }, async (t) => {
  const delayMs = 150;
  const site = await siteFor(t, flatSite(20), { delayMs: 20 });
  const flags = ['--delay', String(delayMs), '--per-host', '8'];
  await crawlToEnd(t, [site.url], { flags, slaves: 2 });
  const starts = site.log.map(({ at }) => at);
  assert.equal(starts.length, 21);
  for (const [i, at] of starts.entries()) {
    const before = starts[i - 1];
    if (before === undefined) continue;
    assert.ok(at - before > delayMs - blurMs, `gap ${i}: ${Math.round(at - before)} ms`);
  }
  const wholeMs = (starts.at(-1) ?? 0) - (starts[0] ?? 0);
  assert.ok(wholeMs > 20 * delayMs - blurMs, `21 starts within ${Math.round(wholeMs)} ms`);
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
  const slow = await siteFor(t, flatSite(10), { delayMs: 100 });
  const quick = await siteFor(t, flatSite(60));
  const flags = ['--delay', '0', '--per-host', '1'];
  await crawlToEnd(t, [slow.url, quick.url], { flags });
  const quickEnd = quick.log.at(-1)?.at ?? 0;
  const slowEnd = slow.log.at(-1)?.at ?? 0;
  assert.ok(quickEnd < slowEnd, 'the quick host was done before the slow one');
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
  const sites = await Promise.all([1, 2, 3].map(() => siteFor(t, flatSite(15), { delayMs: 30 })));
  const cluster = new Cluster(t);
  const seeds = sites.map(({ url }) => url);
  const flags = [...seeds, '--exit-when-done', '--delay', String(delayMs), '--per-host', '4'];
  const first = await cluster.master(flags);
  const { address } = cluster;
  const slaves = [1, 2, 3, 4].map(() => cluster.slave());
  await sites[0]?.requested(6);
  await first.kill('SIGKILL');
  const second = await cluster.master(flags, { listen: address });
  await assertLeaves(second, ...slaves);
  for (const site of sites) {
    const all = [...site.robotsLog, ...site.log].map(({ at }) => at).sort((a, b) => a - b);
    assert.ok(all.length >= 17);
    const gaps = all.slice(1).map((at, i) => at - (all[i] ?? 0));
    // A request is stamped when this process, which does other things, too, comes to read it; the
    // exact check is test/bench/manners.ts, on the log of nginx.
    const short = gaps.filter((gap) => gap < delayMs - 30).map(Math.round);
    assert.deepEqual(short, [], `gaps: ${gaps.map(Math.round)}`);
    assert.ok(site.atOnceMax <= 4);
  }
});

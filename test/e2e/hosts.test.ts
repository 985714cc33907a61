/** `hosts` and `host`: what holds hosts back, and how an operator changes it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import type { HostRow } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';
import { WallClock } from '../support/wall-clock.ts';

const timeout = 60_000;
const hourMs = 3_600_000;

async function rows(cluster: Cluster, ...args: readonly string[]): Promise<HostRow[]> {
  return JSON.parse(await cluster.ask('hosts', '--json', ...args)) as HostRow[];
}

describe('hosts', { concurrency: 2 }, () => {
  test('hosts: waiting, delay, robots.txt and last answer, for people and as JSON', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(300));
    const cluster = new Cluster(t);
    assert.ok(site.url);
    await cluster.master([site.url, '--delay', '50']);
    while ((await rows(cluster)).length === 0);
    assert.match(await cluster.ask('hosts'), /^host +waiting +under way +delay +from +pace/);
    cluster.slave();
    await site.requested(10);
    const [row] = await rows(cluster, 'default');
    assert.ok(row);
    assert.deepEqual(
      [row.host, row.crawls, row.delayMs, row.delayFrom, row.robots?.state, row.blocked],
      [site.origin, ['default'], 50, 'crawl', 'none', undefined],
    );
    assert.ok(row.waiting > 100 && row.last && 'status' in row.last && row.last.status === 200);
    const text = await cluster.ask('hosts', 'default');
    assert.match(text, /50 ms +crawl +ok +ok +none for .* +200, .* ago +0\n$/);
    await assert.rejects(cluster.ask('hosts', 'nothing'), /no crawl "nothing"/);
    await assert.rejects(cluster.ask('hosts', '--sort', 'name'), /--sort/);
  });

  test('hosts: a clock that is set counts for the times of answers, also in lines', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(100));
    const cluster = new Cluster(t);
    const clock = new WallClock(cluster.folder);
    await cluster.master([site.url, '--delay', '50'], clock);
    // As after a night in which the machine slept.
    clock.set(8 * hourMs);
    cluster.slave();
    await cluster.grown('pages.jsonl', 3);
    const line = JSON.parse(cluster.lines('pages.jsonl').at(-1) ?? '') as { at: string };
    const [row] = await rows(cluster);
    for (const at of [Date.parse(line.at), row?.last?.at ?? 0]) {
      const offMs = at - Date.now() - 8 * hourMs;
      assert.ok(Math.abs(offMs) < hourMs, `off by ${offMs} ms`);
    }
  });

  test('host: a blocked host is not asked, also after a restart, until it is unblocked', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(100), { delayMs: 5 });
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--per-host', '2']);
    cluster.slave();
    await site.requested(10);
    site.hold();
    const { host } = new URL(site.url);
    const said = await cluster.ask('host', host, '--block');
    site.release();
    assert.match(said, new RegExp(`^http://${host}: blocked, the delay of its crawls$`, 'm'));
    const before = await cluster.status();
    assert.equal(before.leased, 0);
    const asked = site.log.length;
    const status = await cluster.ask('status');
    assert.match(
      status,
      /default: 1 host is blocked \(\d+ URLs wait there\): run host with --unbl/,
    );
    const [row] = await rows(cluster);
    assert.deepEqual([row?.blocked, row?.underWay], [true, 0]);
    assert.match(await cluster.ask('hosts'), / blocked /);

    const listen = cluster.address;
    await master.kill('SIGKILL');
    const again = await cluster.master([], { listen });
    await again.said(/slave joined/);
    // Two ticks of the master, in which a host that is not blocked would be asked.
    await cluster.ask('hosts');
    const after = await cluster.status();
    assert.deepEqual([after.state, after.waiting], ['running', before.waiting]);
    assert.ok(site.log.length <= asked + 2, 'nothing but what was under way');
    await cluster.ask('host', host, '--unblock');
    await again.said(/crawl default is done.* 101 pages/);
  });

  test("host: a delay takes the place of the crawl's, is kept, and is taken back", {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(400));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--delay', '60000']);
    cluster.slave();
    // Its robots.txt was fetched; the first page is due in a minute.
    while ((await rows(cluster))[0]?.last === undefined);
    await cluster.ask('host', site.origin, '--delay', '20');
    await site.requested(10);
    assert.deepEqual(
      (await rows(cluster)).map((row) => [row.delayMs, row.delayFrom]),
      [[20, 'host']],
    );
    const listen = cluster.address;
    await master.kill('SIGKILL');
    await cluster.master([], { listen });
    await site.requested(site.log.length + 10);
    await cluster.ask('host', site.origin, '--no-delay');
    assert.deepEqual(
      (await rows(cluster)).map((row) => [row.delayMs, row.delayFrom]),
      [[60_000, 'crawl']],
    );
  });

  test('host: one that was out of reach is tried again', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master(['http://gone.invalid/', '--attempts', '1']);
    cluster.slave();
    await master.said(/crawl default is done/);
    const text = await cluster.ask('host', 'gone.invalid', '--retry');
    assert.match(text, /^http:\/\/gone\.invalid: asked again/m);
    assert.match(text, /^put 1 back into the task queue$/m);
    await master.said(/crawl default is done[\s\S]*crawl default is done/);
    await assert.rejects(cluster.ask('host', 'gone.invalid'), /say what is to change/);
    await assert.rejects(cluster.ask('host', 'a b', '--wake'), /"a b" is not a host/);
    await assert.rejects(cluster.ask('host', 'x', '--block', '--unblock'), /contradict/);
  });
});

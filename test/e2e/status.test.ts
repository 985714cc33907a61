/** `status` of many crawls: what it lists, in which order, and what it says of their speed. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import type { Replies } from '../../shared/replies.ts';
import { Cluster } from '../support/cluster.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 60_000;

/** The crawls that a text of `status` lists, in their order. */
function listed(text: string): string[] {
  const [table = ''] = text.split('\n\n');
  return table
    .split('\n')
    .slice(1)
    .map((line) => line.split(/ {2,}/))
    .filter((cells) => cells.length > 4)
    .map(([name = '']) => name);
}

describe('status', { concurrency: 2 }, () => {
  test('status: open crawls come first, and of many others their number', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    const client = await cluster.connect();
    t.after(() => client.close());
    const names = Array.from({ length: 30 }, (_, i) => `c${String(i).padStart(2, '0')}`);
    const made = async (crawl: string) => {
      await client.request('crawl.add', { crawl, seeds: ['http://127.0.0.1:1/'] });
    };
    for (const name of names) await made(name);
    const cancelled = names.filter((_, i) => i % 10 !== 5);
    const open = ['c05', 'c15', 'c25'];
    for (const crawl of cancelled.slice(0, 20)) await client.request('crawl.cancel', { crawl });
    const few = listed(await cluster.ask('status'));
    assert.deepEqual(few.slice(10), cancelled.slice(0, 20));
    for (const crawl of cancelled.slice(20)) await client.request('crawl.cancel', { crawl });
    const text = await cluster.ask('status');
    assert.deepEqual(listed(text), open);
    assert.match(text, /^27 ended; list them with --all$/m);
    assert.deepEqual(listed(await cluster.ask('status', '--all')), [...open, ...cancelled]);
    assert.deepEqual(listed(await cluster.ask('status', '--state', 'cancelled')), cancelled);
    assert.deepEqual(listed(await cluster.ask('status', '--crawl', 'c07')), ['c07']);
    const newest = listed(await cluster.ask('status', '--sort', 'started'));
    assert.deepEqual(newest, open.toReversed());
    await assert.rejects(cluster.ask('status', '--state', 'gone'), /exit code 2: .*--state/);
    await assert.rejects(cluster.ask('status', '--crawl', 'gone'), /no crawl "gone"/);
    const json = JSON.parse(await cluster.ask('status', '--json')) as Replies['crawl.list'];
    assert.equal(json.crawls.length, 30);
    assert.deepEqual(json.counts, { running: 3, cancelled: 27 });
  });

  test('status: without slaves none is said to be too old', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master(['http://127.0.0.1:1/', '--archive', 'warc', '--download', 'images']);
    const text = await cluster.ask('status');
    assert.match(text, /^default: archive: 0\.0 MB in 0 files$/m);
    assert.match(text, /^default: downloaded: 0 images, 0\.0 MB$/m);
    assert.match(text, /^no slaves$/m);
  });

  test('status: a failure before the last attempt is no example of failed URLs', {
    timeout,
  }, async (t) => {
    const server = createServer((_, answer) => answer.writeHead(500).end()).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const cluster = new Cluster(t);
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await cluster.master([url, '--ignore-robots', '--slaves', '1']);
    let text = '';
    while (!text.includes(url)) text = await cluster.ask('status');
    assert.match(text, /^default: status, to be tried again: http:.*: 500 /m);
    assert.doesNotMatch(text, /for example/);
  });

  test('status: a host that asks for a long pause is said to', { timeout }, async (t) => {
    const head = { 'retry-after': '99999999999' };
    const server = createServer((_, answer) => answer.writeHead(503, head).end());
    t.after(() => server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const cluster = new Cluster(t);
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await cluster.master([url, '--ignore-robots', '--slaves', '1']);
    let text = '';
    while (!text.includes(url)) text = await cluster.ask('status');
    assert.match(text, /: 503 Service Unavailable, so it waits for 24\.0 h$/m);
  });

  test('status: rates, and a time that knows the delay of the slowest host', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(2_000));
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, '--delay', '100', '--per-host', '1']);
    cluster.slave();
    const first = await cluster.connect();
    let requests = 20;
    for (let etaMs: number | undefined; etaMs === undefined; requests += 10) {
      await site.requested(requests);
      ({ etaMs } = (await first.request('crawl.list', {})).crawls[0]?.rates ?? {});
    }
    await first.close();
    const text = await cluster.ask('status');
    const [, rate, , left] =
      /^default: ([\d.]+) pages\/s, ([\d.]+) MB\/s over the last minute, about (\d+) s left$/m.exec(
        text.replace(/about (\d+) min left/, (_, min) => `about ${Number(min) * 60} s left`),
      ) ?? [];
    assert.ok(Number(rate) > 1 && Number(rate) < 11, text);
    // 2,000 pages at 100 ms; it cannot be less, whatever the first second looked like.
    assert.ok(Number(left) >= 120 && Number(left) < 1_000, text);
    // After a restart, the waiting URLs of the host are counted again.
    const listen = cluster.address;
    await master.kill('SIGKILL');
    await cluster.master([], { listen });
    await site.requested(requests + 30);
    const client = await cluster.connect();
    t.after(() => client.close());
    const { crawls } = await client.request('crawl.list', {});
    const { waiting = 0, rates } = crawls[0] ?? {};
    assert.ok(Number(rates?.etaMs) >= (waiting - 20) * 100, JSON.stringify(crawls));
  });
});

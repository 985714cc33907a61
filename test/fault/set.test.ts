/** `set` on real processes that are killed, and on result files that are gone. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { flatSite, randomOf } from '../../selftest/site.ts';
import type { MasterClient } from '../../shared/client.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertStops, fileIn, keptOf, started } from '../support/held.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 120_000;
/** Printed with the tests: SEED=n runs the same again. */
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));

async function set(client: MasterClient, spec: CrawlSpecInput | object) {
  return await client.request('crawl.set', { crawl: 'default', spec: { ...spec } });
}

/** A change of two options at once. */
function withNumber(maxPages: number) {
  return { maxPages, fetch: { headers: [['X-Number', `${maxPages}`]] } };
}

test(`kill -9 between changes: the last one that was answered holds (seed ${seed})`, {
  timeout,
}, async (t) => {
  const random = randomOf(seed);
  const site = await siteFor(t, flatSite(300), { delayMs: 60 });
  const cluster = new Cluster(t);
  let master = await cluster.master([site.url, '--per-host', '2']);
  const { address } = cluster;
  const slave = cluster.slave();
  await cluster.grown('pages.jsonl', 0);
  let answered = 0;
  let sent = 1_000_000;
  for (let kill = 0; kill < 4; kill++) {
    const client = await cluster.connect();
    const changes = Math.ceil(random() * 40);
    const all: Promise<unknown>[] = [];
    for (let i = 0; i < changes; i++) {
      const maxPages = ++sent;
      all.push(set(client, withNumber(maxPages)).then(() => (answered = maxPages)));
    }
    const last = Promise.allSettled(all);
    // Some of them are answered, some are on their way, some may not have been read.
    await Promise.all(all.slice(0, Math.floor(random() * changes)));
    await master.kill('SIGKILL');
    await last;
    master = await cluster.master([], { listen: address });
    const other = await cluster.connect();
    const { changed } = await set(other, { maxPages: 999_999 });
    const from = Number(changed.find(({ field }) => field === 'maxPages')?.from ?? 0);
    assert.ok(from >= answered && from <= sent, `${answered} <= ${from} <= ${sent}`);
    // One change is one commit: all of it, or nothing.
    const { fetch } = withNumber(from);
    const same = await set(other, { fetch: from === 0 ? { headers: [] } : fetch });
    assert.deepEqual(same.changed, []);
    answered = sent;
    // The next master may be killed before it has read any change.
    await set(other, withNumber(sent));
    await other.close();
  }
  const client = await cluster.connect();
  const { state } = await set(client, { maxPages: null, perHost: 32 });
  await client.close();
  if (state !== 'finished') await master.said(/crawl default is done/);
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
});

test('a limit that is raised again and again, with a kill after each: each page once', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(120));
  const cluster = new Cluster(t);
  const first = await cluster.master([site.url, '--max-pages', '10']);
  const { address } = cluster;
  const slave = cluster.slave();
  await slave.said(/joined/);
  let master = first;
  for (let limit = 20; limit <= 140; limit += 20) {
    await master.said(/crawl default is done/);
    const client = await cluster.connect();
    const { reopened } = await set(client, { maxPages: limit });
    assert.equal(reopened, true);
    await master.kill('SIGKILL');
    await client.close();
    master = await cluster.master([], { listen: address });
  }
  await master.said(/every URL in scope was fetched/);
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
});

test('a finished crawl whose files are gone is held when it goes on, and loses nothing', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, undefined, [
    ...['--max-pages', '20'],
  ]);
  await master.said(/crawl default is done/);
  const folder = join(cluster.out, 'default');
  renameSync(fileIn(folder), keptOf(folder));
  await set(client, { maxPages: null });
  await master.said(/crawl default is held/);
  assert.equal((await set(client, { attemptsMax: 5 })).state, 'held');
  renameSync(keptOf(folder), fileIn(folder));
  await cluster.ask('resume', 'default');
  await master.said(/every URL in scope was fetched/);
  await client.close();
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
});

test('slaves come and go while options change: each page once, all with one of the agents', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(600), { delayMs: 20 });
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--per-host', '8', '--user-agent', 'A/0']);
  const { address } = cluster;
  const slaves = [cluster.slave(), cluster.slave()];
  for (const slave of slaves) await slave.said(/joined/);
  const client = await cluster.connect();
  const agents = ['A/0'];
  for (let round = 1; round <= 6; round++) {
    await site.requested(site.log.length + 20);
    const userAgent = `A/${round}`;
    await set(client, { fetch: { userAgent } });
    agents.push(userAgent);
    await slaves.shift()?.kill('SIGKILL');
    slaves.push(cluster.slave([], address));
  }
  await master.said(/crawl default is done/);
  await client.close();
  await assertStops(...slaves, master);
  assertExact(cluster, site.truth());
  assert.ok(site.log.every(({ userAgent }) => agents.includes(userAgent)));
  assert.equal(site.log.at(-1)?.userAgent, 'A/6');
});

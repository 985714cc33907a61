/** A slave far away from its master, by real processes behind a proxy that delays. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import type { MasterClient } from '../../shared/client.ts';
import { Cluster } from '../support/cluster.ts';
import { FarAway } from '../support/far.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 90_000;
const slots = 8;

/** Leases of each slave, at most, until `isOver`. */
async function leasesMax(client: MasterClient, isOver: () => boolean) {
  const most = new Map<string, number>();
  while (!isOver()) {
    const { sessions } = await client.request('crawl.list', {});
    for (const { name, role, leases } of sessions)
      if (role === 'slave') most.set(name, Math.max(most.get(name) ?? 0, leases));
  }
  return most;
}

test('far: a slave that is far away asks for more leases, one close by does not', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, flatSite(6_000));
  const cluster = new Cluster(t);
  const master = await cluster.master(['--exit-when-done']);
  const far = await FarAway.start(cluster.address, 100, t);
  const flags = ['--slots', String(slots)];
  const near = cluster.slave(flags);
  const away = cluster.slave(flags, far.address);
  await Promise.all([near.said(/joined/), away.said(/joined/)]);
  const client = await cluster.connect();
  let isOver = false;
  const watched = leasesMax(client, () => isOver).catch(() => new Map<string, number>());
  await cluster.ask('add', site.url, '--delay', '0', '--per-host', '2000', '--ignore-robots');
  await cluster.grown('pages.jsonl', 5_000);
  isOver = true;
  const most = await watched;
  await client.close();
  await assertLeaves(master, near, away);
  const [nearMost = 0, awayMost = 0] = ['slave-1', 'slave-2'].map((name) => most.get(name));
  const what = `${nearMost} close by, ${awayMost} far away`;
  assert.ok(awayMost > 3 * slots && awayMost <= 32 * slots, what);
  // On a crowded machine the way to a master on it takes some time, too.
  assert.ok(nearMost < awayMost, what);
  // Neither is left without work by the other.
  assert.equal(cluster.pages().length, 6_001);
  for (const name of ['slave-1', 'slave-2']) {
    const { length } = cluster.fetched().filter(({ slave }) => slave === name);
    assert.ok(length > 600, `${name}: ${length} pages`);
  }
});

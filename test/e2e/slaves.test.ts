/** `slaves` and `drain`: what operators see of slaves, and how one leaves. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import type { SlaveRow } from '../../shared/protocol.ts';
import { version } from '../../shared/version.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { siteFor } from '../support/parts.ts';

const timeout = 60_000;

describe('slaves', { concurrency: 2 }, () => {
  test('slaves: address, version, speed and memory; a drained one leaves for good', {
    timeout,
  }, async (t) => {
    const site = await siteFor(t, flatSite(200), { delayMs: 20 });
    const cluster = new Cluster(t);
    assert.equal((await cluster.master([site.url, '--per-host', '4'])).output.length > 0, true);
    assert.equal(await cluster.ask('slaves'), 'no slaves\n');
    const first = cluster.slave(['--slots', '3']);
    await site.requested(10);
    const [row] = JSON.parse(await cluster.ask('slaves', '--json')) as SlaveRow[];
    assert.deepEqual([row?.name, row?.version, row?.slots], ['slave-1', version, 3]);
    assert.ok(row?.memoryBytes && row.memoryBytes > 1 << 20 && row.fetchesPerS > 0);
    assert.match(row.address, /^127\.0\.0\.1:\d+$/);
    const text = await cluster.ask('slaves');
    assert.match(text, /^slave-1 +127\.0\.0\.1:\d+ +[\d.]+ +3 +\d+ +[\d.]+ +0 +\d+ MiB +.* ago$/m);
    const second = cluster.slave();
    await second.said(/joined/);
    const said = await cluster.ask('drain', 'slave-1');
    assert.match(
      said,
      /^slave slave-1 \(127.*\) leaves when it has finished its \d+ leased URLs\n$/,
    );
    assert.equal((await first.exited).code, 0, first.output);
    assert.doesNotMatch(await cluster.ask('slaves'), /slave-1/);
    await assert.rejects(cluster.ask('drain', 'slave-1'), /exit code 2: .*no slave "slave-1"/);
    while ((await cluster.status()).state !== 'finished');
    assertExact(cluster, site.truth());
  });

  test('drain: the processes of one slave leave together', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const slave = cluster.slave(['--processes', '2']);
    await master.said(/slave joined[\s\S]*slave joined/);
    const lines = (await cluster.ask('drain', 'slave-1')).trim().split('\n');
    assert.deepEqual(lines.map((line) => /slave-1\.\d/.exec(line)?.[0]).sort(), [
      'slave-1.1',
      'slave-1.2',
    ]);
    assert.equal((await slave.exited).code, 0, slave.output);
  });
});

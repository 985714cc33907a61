/** Pages that a slave has got ahead: nothing of them is lost, and their host hears of none too
 *  soon. Source: PROTOCOL.md [T-146] to [T-149]. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { flatSite } from '../../selftest/site.ts';
import { Beats } from '../support/beats.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { httpServer } from '../support/http-server.ts';
import { assertLeaves, crawlToEnd, siteFor } from '../support/parts.ts';

const timeout = 60_000;
const delayMs = 80;

test('trains: slaves and a master that are killed within them lose nothing, and gaps hold', {
  timeout,
}, async (t) => {
  const beats = new Beats(t);
  const site = await siteFor(t, flatSite(50));
  const cluster = new Cluster(t);
  const flags = [site.url, '--exit-when-done', '--delay', String(delayMs), '--ignore-robots'];
  let master = await cluster.master(flags);
  const { address } = cluster;
  let slave = cluster.slave();
  cluster.slave();
  for (const requests of [9, 19, 29]) {
    await site.requested(requests);
    if (requests === 19) {
      await master.kill('SIGKILL');
      master = await cluster.master(flags, { listen: address });
      continue;
    }
    await slave.kill('SIGKILL');
    slave = cluster.slave([], address);
  }
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(master);
  assertExact(cluster, site.truth());
  assert.deepEqual(beats.shortGaps([site.log], delayMs), []);
});

test('trains: after 429 none of the pages that are on their way is asked for', {
  timeout,
}, async (t) => {
  const count = 24;
  const at: number[] = [];
  let refusedAt = Number.POSITIVE_INFINITY;
  const port = await httpServer(t, ({ url }, response) => {
    at.push(performance.now());
    if (at.length === 12) {
      refusedAt = performance.now();
      response.writeHead(429, { 'retry-after': '1' }).end();
      return;
    }
    const links = Array.from({ length: count }, (_, i) => `<a href="/${i}">x</a>`);
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end(url === '/' ? links.join('') : 'a page');
  });
  const flags = ['--delay', String(delayMs), '--ignore-robots', '--sitemaps', 'none'];
  const cluster = await crawlToEnd(t, [`http://127.0.0.1:${port}/`], { flags });
  const next = at.find((one) => one > refusedAt) ?? 0;
  assert.ok(next - refusedAt > 900, `${next - refusedAt} ms`);
  assert.equal(cluster.pages().length, count + 1);
  assert.equal(at.length, count + 2);
});

import assert from 'node:assert/strict';
import { needs } from '../../master/frontier/crawl/needs.ts';
import { FakeSlave } from '../support/fake-slave.ts';
import { leaseMarginMs, leaseMs, reportOf, taskId, worldTest } from '../support/world.ts';

const a = 'http://a.example';
const b = 'http://b.example';

worldTest('a failed fetch waits, longer every time, and is buried at last', async (world) => {
  await world.seed(`${a}/`, { attemptsMax: 3 });
  const slave = world.slave();
  await world.settle();
  for (const waitMs of [1_000, 4_000]) {
    assert.equal(await world.fail(slave, `${a}/`), 'done');
    assert.deepEqual(slave.urls, []);
    await world.advance(waitMs * 0.7);
    assert.deepEqual(slave.urls, [], 'too early');
    await world.advance(waitMs * 0.6);
    assert.deepEqual(slave.urls, [`${a}/`]);
  }
  assert.deepEqual(world.finished, []);
  await world.fail(slave, `${a}/`);
  assert.deepEqual(world.finished, ['default']);
  const { failed, buried, waiting } = world.crawl().status();
  assert.deepEqual({ failed, buried, waiting }, { failed: 1, buried: 1, waiting: 0 });
  assert.deepEqual(
    world.lines().map(({ error }) => error?.attempts),
    [3],
  );
  const { urls } = world.frontier.crawls.buried('default', undefined, 10);
  assert.deepEqual(urls, [{ url: `${a}/`, kind: 'connect', message: 'refused', attempts: 3 }]);
});

worldTest('a server that says when is asked then', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  await world.fail(slave, `${a}/`, 90_000);
  await world.advance(89_000);
  assert.deepEqual(slave.urls, []);
  await world.advance(1_100);
  assert.deepEqual(slave.urls, [`${a}/`]);
});

worldTest('a failure outlives a restart', async (world) => {
  await world.seed(`${a}/`, { attemptsMax: 2 });
  await world.settle();
  const slave = world.slave();
  await world.settle();
  await world.fail(slave, `${a}/`, 50_000);
  world.crash();
  const again = world.slave('again');
  await world.settle();
  assert.deepEqual(again.urls, [], 'it still has to wait');
  await world.advance(51_000);
  await world.fail(again, `${a}/`);
  assert.equal(world.crawl().counters.buried, 1);
});

worldTest('the buried are replayed, one or all, each once', async (world) => {
  const urls = [1, 2, 3, 4].map((i) => `${a}/${i}`);
  await world.seed(urls, { attemptsMax: 1 });
  const slave = world.slave();
  await world.settle();
  for (const url of urls) await world.fail(slave, url);
  assert.equal(world.crawl().state, 'finished');
  assert.equal(await world.done(world.frontier.replay('default', `${a}/2`)), 1);
  assert.deepEqual(slave.urls, [`${a}/2`]);
  assert.equal(world.crawl().state, 'running');
  assert.equal(await world.done(world.frontier.replay('default', `${a}/none`)), 0);
  const both = [1, 2].map(() => world.frontier.replay('default', undefined));
  const counts = await world.done(Promise.all(both));
  assert.deepEqual(counts, [3, 0], 'asked twice at once');
  assert.deepEqual(slave.urls.sort(), urls);
  for (const url of urls) await world.page(slave, url);
  const { buried, failed, known, waiting, pages } = world.crawl().status();
  assert.deepEqual(
    { buried, failed, known, waiting, pages },
    {
      buried: 0,
      failed: 0,
      known: 4,
      waiting: 0,
      pages: 4,
    },
  );
  assert.equal(world.crawl().state, 'finished');
});

worldTest('the buried come in pages', async (world) => {
  const urls = [1, 2, 3, 4].map((i) => `${a}/${i}`);
  await world.seed(urls, { attemptsMax: 1 });
  const slave = world.slave();
  await world.settle();
  for (const url of urls) await world.fail(slave, url);
  const first = world.frontier.crawls.buried('default', undefined, 3);
  const second = world.frontier.crawls.buried('default', first.next, 3);
  assert.deepEqual([...first.urls, ...second.urls].map(({ url }) => url).sort(), urls);
  assert.equal(second.next, undefined);
});

worldTest('a report is taken once, however often it comes', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const [lease] = slave.leases;
  const both = [world.report(slave, lease), world.report(slave, lease)];
  assert.deepEqual(await world.done(Promise.all(both)), ['done', 'stale']);
  assert.equal(await world.done(world.report(slave, lease)), 'stale');
  assert.equal(world.lines().length, 1);
});

worldTest('a report without a lease counts, and takes the lease away', async (world) => {
  await world.seed(`${a}/`);
  const slow = world.slave('slow');
  await world.settle();
  const [lease] = slow.leases;
  await world.advance(leaseMs + 1_000);
  assert.deepEqual(slow.cancelled, [lease]);
  world.frontier.leave(slow);
  const other = world.slave('other');
  await world.settle();
  const held = [...other.leases];
  assert.deepEqual(other.urls, [`${a}/`]);
  assert.equal(await world.done(world.report(slow, lease)), 'done');
  assert.deepEqual(other.cancelled, held);
  assert.equal(other.leases.size, 0);
  assert.equal(await world.done(world.report(other, held[0])), 'stale');
  assert.equal(world.lines().length, 1);
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a late report of a task that waits for its next try ends it', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`, `${a}/3`]);
  const slave = world.slave('slave', 1);
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  await world.fail(slave, `${a}/1`);
  assert.equal(await world.done(world.report(slave, lease)), 'done');
  await world.advance(10_000);
  for (const url of [`${a}/2`, `${a}/3`]) {
    assert.deepEqual(slave.urls, [url]);
    await world.page(slave, url);
  }
  assert.deepEqual(slave.urls, []);
  assert.deepEqual(
    world.lines().map(({ url }) => url),
    [1, 2, 3].map((i) => `${a}/${i}`),
  );
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a report after a restart counts once', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave();
  await world.settle();
  const [one, two] = slave.leases;
  world.crash();
  assert.equal(await world.done(world.report(slave, one, { links: [`${a}/3`] })), 'done');
  assert.equal(await world.done(world.report(slave, one, { links: [`${a}/3`] })), 'stale');
  const other = world.slave('other');
  await world.settle();
  assert.deepEqual(other.urls.sort(), [`${a}/2`, `${a}/3`]);
  assert.equal(await world.done(world.report(slave, two)), 'done');
  assert.deepEqual(other.urls, [`${a}/3`]);
  assert.equal(world.lines().length, 2);
});

worldTest('ids that mean nothing are stale', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  const wrongHost = Buffer.from(taskId(lease));
  wrongHost[6] = (wrongHost[6] ?? 0) ^ 1;
  const wrongCrawl = Buffer.from(taskId(lease));
  wrongCrawl[3] = 9;
  for (const name of [Buffer.alloc(0), Buffer.alloc(5), Buffer.alloc(22), wrongHost, wrongCrawl]) {
    const claim = { holder: slave, id: 1, name };
    const verdict = world.frontier.report(claim, reportOf(`${a}/`));
    assert.equal(await world.done(verdict), 'stale');
  }
  assert.equal(slave.leases.size, 1);
});

worldTest(
  'a failure under the lease of another task is not held against its host',
  async (world) => {
    await world.seed([`${a}/1`, `${a}/2`, `${b}/1`]);
    const lost = world.slave('lost', 3);
    await world.settle();
    const ids = new Map([...lost.leases].map((one) => [one.task.url, taskId(one)]));
    world.frontier.leave(lost);
    const slave = world.slave('slave', 1);
    await world.settle();
    const [lease] = slave.leases;
    assert.ok(lease);
    const { url } = lease.task;
    const named = ids.get(url === `${b}/1` ? `${a}/1` : `${b}/1`);
    assert.ok(named);
    const error = { kind: 'status', message: '429' } as const;
    const claim = { holder: slave, id: lease.id, name: named };
    const failed = world.frontier.release(claim, { error, retryAfterMs: 60_000 });
    assert.equal(await world.done(failed), 'done');
    assert.deepEqual(slave.urls, [url]);
    assert.ok(world.rooms.dispatcher.release(lease));
    await world.settle();
    assert.equal(slave.leases.size, 1);
  },
);

worldTest('no lease ages while the master stands still', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  world.standstillMs = leaseMs + 1_000;
  await world.advance(leaseMs + 1_000);
  assert.deepEqual(slave.cancelled, []);
  await world.advance(leaseMs + 1_000);
  assert.equal(slave.cancelled.length, 1);
});

worldTest('leases of a lost slave return at once', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave();
  const other = world.slave('other', 0);
  await world.settle();
  assert.equal(slave.leases.size, 2);
  other.credit = other.slots = 4;
  world.frontier.leave(slave);
  await world.settle();
  assert.deepEqual(other.urls.sort(), [`${a}/1`, `${a}/2`]);
  assert.equal(world.crawl().open.leased, 2);
});

worldTest('an extended lease does not expire; a lost one is told', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave();
  await world.settle();
  const [one, two] = slave.leases;
  assert.ok(one && two);
  await world.advance(leaseMs / 2);
  assert.deepEqual(world.frontier.extend(slave, [one.id, 99]), [99]);
  slave.credit = 1;
  await world.advance(leaseMs / 2 + 2_000);
  assert.deepEqual(slave.cancelled, [two]);
  assert.deepEqual(slave.urls, [`${a}/1`]);
  assert.deepEqual(world.frontier.extend(slave, [one.id, two.id]), [two.id]);
});

worldTest('a page that takes its slaves with it is given up', async (world) => {
  await world.seed(`${a}/`);
  let losses = 0;
  for (; losses < 50 && world.finished.length === 0; losses++) {
    const slave = world.slave(`slave ${losses}`);
    await world.settle();
    if (slave.leases.size === 0) await world.advance(600_000);
    if (slave.leases.size === 0) break;
    world.frontier.leave(slave);
    await world.settle();
  }
  assert.equal(losses, 12);
  assert.deepEqual(world.finished, ['default']);
  const [line] = world.lines();
  assert.equal(line?.error?.kind, 'lost');
  assert.equal(line?.error?.attempts, 1);
  assert.equal(world.crawl().counters.buried, 1);
});

worldTest('a released task waits again, without a failed attempt', async (world) => {
  await world.seed(`${a}/`, { attemptsMax: 1 });
  const slave = world.slave();
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  slave.credit = 0;
  assert.ok(world.rooms.dispatcher.release(lease));
  assert.ok(!world.rooms.dispatcher.release(lease));
  slave.credit = 1;
  world.rooms.dispatcher.dispatchSoon();
  await world.settle();
  assert.deepEqual(slave.urls, [`${a}/`]);
  assert.equal([...slave.leases][0]?.task.attempts, 0);
});

worldTest('a slave gets no more than its credit', async (world) => {
  await world.seed(Array.from({ length: 9 }, (_, i) => `${a}/${i}`));
  const slave = world.slave('slave', 3);
  await world.settle();
  assert.equal(slave.leases.size, 3);
  await world.page(slave, slave.urls[0] ?? '');
  assert.equal(slave.leases.size, 3);
});

worldTest('two slaves share the work in turn', async (world) => {
  const slaves = [world.slave('one', 100), world.slave('two', 100)];
  await world.seed(Array.from({ length: 40 }, (_, i) => `${a}/${i}`));
  await world.settle();
  assert.deepEqual(
    slaves.map(({ leases }) => leases.size),
    [20, 20],
  );
});

worldTest('nothing is given while it drains', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave('slave', 1);
  await world.settle();
  world.rooms.dispatcher.drain();
  await world.page(slave, `${a}/1`);
  assert.deepEqual(slave.urls, []);
  assert.equal(world.rooms.dispatcher.leaseCount, 0);
});

worldTest('a slave that is no holder changes nothing', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  const stranger = new FakeSlave('stranger');
  assert.ok(!world.rooms.dispatcher.release({ holder: stranger, id: lease.id }));
  assert.deepEqual(world.frontier.extend(stranger, [lease.id]), [lease.id]);
  assert.equal(slave.leases.size, 1);
});

worldTest('13 pages that a slave holds and extends do not stall a crawl of 201', async (world) => {
  const hoarder = world.slave('hoarder', 13);
  const urls = Array.from({ length: 201 }, (_, i) => `${a}/${i}`);
  await world.seed(urls);
  await world.settle();
  assert.equal(hoarder.leases.size, 13);
  const good = world.slave('good', 8);
  await world.settle();
  const lifeMs = 2 * 30_000 + leaseMarginMs;
  let waitedMs = 0;
  while (world.finished.length === 0 && waitedMs < 3 * lifeMs) {
    for (const lease of [...good.leases]) await world.done(world.report(good, lease));
    if (good.leases.size > 0) continue;
    world.frontier.heard(hoarder);
    const ids = [...hoarder.leases].map(({ id }) => id);
    world.frontier.extend(hoarder, ids);
    await world.advance(5_000);
    waitedMs += 5_000;
  }
  assert.deepEqual(world.finished, ['default']);
  assert.equal(world.lines().length, 201);
  assert.ok(waitedMs <= lifeMs + 10_000, `${waitedMs} ms`);
});

worldTest('a lease does not age while its slave is not read from', async (world) => {
  await world.seed([`${a}/1`]);
  const slave = Object.assign(world.slave(), { heldBackMs: 0 });
  await world.settle();
  slave.heldBackMs = 500_000;
  await world.advance(500_000);
  assert.deepEqual(slave.cancelled, []);
  await world.advance(leaseMs + 1_000);
  assert.equal(slave.cancelled.length, 1);
});

worldTest('hops without end do not keep a lease for ever', async (world) => {
  await world.seed([`${a}/1`], { fetch: { redirectsMax: 3 }, delayMs: 5_000 });
  const slave = world.slave('slave', 1);
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  const { dispatcher } = world.rooms;
  let waitedMs = 0;
  while (slave.cancelled.length === 0 && waitedMs < 1_000_000) {
    dispatcher.started(lease);
    const turn = world.frontier.hop(lease, `${a}/${waitedMs}`);
    dispatcher.extend(slave, [lease.id]);
    await world.advance(6_000);
    waitedMs += 6_000;
    await turn;
  }
  assert.deepEqual(slave.cancelled, [lease]);
  assert.ok(waitedMs >= 120_000 && waitedMs < 160_000, `${waitedMs} ms`);
});

worldTest('what a crawl needs has one slave to do: others do not add to it', async (world) => {
  await world.seed(`${a}/`, {
    fetch: { render: { when: 'auto' }, items: { a: { article: true } }, archive: 'warc' },
  });
  const held = (name: string, abilities: number) => {
    const slave = new FakeSlave(name);
    slave.abilities = abilities;
    Object.assign(slave, { hasRules: true });
    world.frontier.give(slave);
    return slave;
  };
  const { archive, articles, browser } = needs;
  const one = held('one', archive | articles);
  const other = held('other', browser);
  await world.settle();
  assert.deepEqual([...one.urls, ...other.urls], []);
  const { wantsBrowser, wantsArticles } = world.crawl().status();
  assert.deepEqual(
    { wantsBrowser, wantsArticles },
    { wantsBrowser: true, wantsArticles: undefined },
  );
  assert.equal(world.crawl().open.offered, 0);
  const able = held('able', archive | articles | browser);
  await world.settle();
  assert.deepEqual(able.urls, [`${a}/`]);
});

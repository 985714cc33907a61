/** Hosts beyond the memory limit: parked in the store, read in when others are done. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { clockMs } from '../../master/machine/clock.ts';
import { encodeBreaker, encodeRobots } from '../../master/store/records.ts';
import type { FakeSlave } from '../support/fake-slave.ts';
import { type Bounds, hostHash, leaseOf, reportOf, World } from '../support/world.ts';

const hub = 'http://hub.test/';
const bounds: Bounds = { queuesMax: 4, tasksMax: 1_000 };
const any = { scope: 'any', maxDepth: 1 } as const;

function hostsTest(name: string, run: (world: World) => Promise<void>, of = bounds): void {
  test(`frontier: ${name}`, async () => {
    const world = new World(undefined, of);
    try {
      await run(world);
    } finally {
      world.close();
    }
  });
}

function hosts(count: number, name = 'host'): string[] {
  return Array.from({ length: count }, (_, i) => `http://${name}-${i}.test/`);
}

/** Reports all that comes, page by page, until nothing more does. Gives the URLs. */
async function crawlAll(world: World, slave: FakeSlave): Promise<string[]> {
  const urls: string[] = [];
  for (let rest = 1_000; rest > 0; rest--) {
    const [lease] = slave.leases;
    if (lease === undefined) break;
    urls.push(lease.task.url);
    await world.done(world.report(slave, lease));
    await world.advance(1_000);
  }
  return urls;
}

/** Reports page after page. Gives the URLs, and how many hosts were in memory at most. */
async function crawlCounting(world: World, slave: FakeSlave) {
  const { queues } = world.rooms.crawls;
  const urls: string[] = [];
  let most = 0;
  while (slave.leases.size > 0) {
    most = Math.max(most, queues.count);
    const [lease] = slave.leases;
    urls.push(lease?.task.url ?? '');
    await world.done(world.report(slave, lease));
  }
  return { urls, most };
}

hostsTest('a page that names many hosts takes memory for a few; all are crawled', async (world) => {
  const slave = world.slave('slave', 2);
  await world.seed(hub, any);
  const links = hosts(60);
  await world.page(slave, hub, { links });
  const { queues } = world.rooms.crawls;
  const { urls, most } = await crawlCounting(world, slave);
  assert.deepEqual(urls.sort(), links.sort());
  assert.ok(most <= 4, `${most} hosts in memory`);
  assert.equal(world.crawl().state, 'finished');
  assert.equal(queues.count, 0);
  assert.ok(!queues.hasParked);
});

hostsTest(
  'a host that is done takes no memory, also where no other one needs its room',
  async (world) => {
    const slave = world.slave('slave', 2);
    const seen = new WeakSet<object>();
    const refs: WeakRef<object>[] = [];
    for (let i = 0; i < 20; i++) {
      await world.seed(hosts(10, `round-${i}`), any);
      for (const { queues } of world.rooms.crawls) {
        for (const place of queues.values()) {
          if (!seen.has(place)) refs.push(new WeakRef(place));
          seen.add(place);
        }
      }
      await crawlAll(world, slave);
    }
    assert.equal(refs.length, 200);
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await new Promise((resolve) => setImmediate(resolve));
    collect();
    const kept = refs.filter((ref) => ref.deref() !== undefined).length;
    assert.ok(kept <= 20, `${kept} of 200 hosts are still in memory`);
  },
  { queuesMax: 1_000, tasksMax: 1_000 },
);

hostsTest('after a start hosts are read in as there is room', async (world) => {
  await world.seed(hosts(30), any);
  world.crash();
  const { queues } = world.rooms.crawls;
  assert.equal(queues.count, 0, 'none before one is wanted');
  assert.ok(world.rooms.dispatcher.hasDue, 'but they are there');
  const slave = world.slave('slave', 2);
  await world.settle();
  assert.ok(queues.count <= 4);
  const urls = await crawlAll(world, slave);
  assert.deepEqual(urls.sort(), hosts(30).sort());
  assert.equal(world.crawl().state, 'finished');
});

hostsTest('a parked task that is reported is done', async (world) => {
  const before = world.slave('slave', 2);
  await world.seed(hosts(30), any);
  const [lease] = before.leases;
  assert.ok(lease);
  world.crash();
  const slave = world.slave('slave', 0);
  await world.settle();
  const claim = { ...lease, holder: slave };
  const report = () => world.done(world.frontier.report(claim, reportOf(lease.task.url)));
  assert.equal(await report(), 'done');
  assert.equal(await report(), 'stale');
  assert.equal(world.crawl().counters.waiting, 29);
});

hostsTest(
  'a paused crawl leaves the room to others, and goes on when it is resumed',
  async (world) => {
    await world.seed(hosts(20), any, 'first');
    await world.seed(hosts(20, 'other'), any, 'second');
    const { queues } = world.rooms.crawls;
    const first = world.crawl('first');
    await world.done(world.frontier.pause(first.name));
    assert.equal(first.queues.size, 0);
    const slave = world.slave('slave', 1);
    await world.settle();
    const second = await crawlAll(world, slave);
    assert.deepEqual(second.sort(), hosts(20, 'other').sort());
    assert.equal(queues.count, 0);
    await world.done(world.frontier.resume(first.name));
    await world.settle();
    assert.deepEqual((await crawlAll(world, slave)).sort(), hosts(20).sort());
  },
);

hostsTest('what is leased of a paused crawl may come in', async (world) => {
  const slave = world.slave('slave', 2);
  await world.seed(hosts(20), any);
  await world.done(world.frontier.pause('default'));
  assert.equal(world.crawl().queues.size, 2, 'those that are leased');
  for (const lease of [...slave.leases]) {
    assert.equal(await world.done(world.report(slave, lease)), 'done');
  }
  assert.equal(world.crawl().queues.size, 0);
  assert.equal(world.crawl().counters.waiting, 18);
});

hostsTest('a crawl that comes later gets some room at once', async (world) => {
  await world.seed(hosts(20), any, 'first');
  const slave = world.slave('slave', 2);
  await world.settle();
  slave.credit = 6;
  await world.seed('http://late.test/', any, 'second');
  assert.ok(leaseOf(slave, 'http://late.test/'), `it has only ${slave.urls}`);
});

hostsTest('hosts that are out of reach hold up nobody', async (world) => {
  const slave = world.slave('slave', 4);
  await world.seed(hosts(4, 'gone'), { ...any, attemptsMax: 100 });
  // An hour each.
  for (const url of slave.urls) await world.fail(slave, url, 3_600_000);
  await world.seed(hosts(20), any);
  assert.equal(slave.leases.size, 0, 'there is no room');
  await world.advance(2_000);
  const urls = await crawlAll(world, slave);
  assert.deepEqual(urls.sort(), hosts(20).sort());
  await world.advance(3_700_000);
  assert.deepEqual((await crawlAll(world, slave)).sort(), hosts(4, 'gone').sort());
});

hostsTest('a crawl at its page limit keeps no hosts in memory', async (world) => {
  const slave = world.slave('slave', 1);
  await world.seed(hosts(20), { ...any, maxPages: 1 });
  await world.page(slave, slave.urls[0] ?? '');
  assert.equal(world.crawl().state, 'finished');
  assert.equal(world.rooms.crawls.queues.count, 0);
  assert.equal(world.crawl().counters.waiting, 19, 'they are there');
});

hostsTest('a host keeps its delay though it was parked meanwhile', async (world) => {
  const slave = world.slave('slave', 1);
  await world.seed(['http://a.test/1', 'http://a.test/2'], { ...any, delayMs: 5_000 });
  await world.page(slave, slave.urls[0] ?? '');
  await world.done(world.frontier.pause('default'));
  assert.equal(world.rooms.crawls.queues.count, 0);
  await world.advance(2_000);
  await world.done(world.frontier.resume('default'));
  await world.settle();
  assert.deepEqual(slave.urls, [], 'not before its delay is over');
  await world.advance(3_100);
  assert.equal(slave.urls.length, 1);
});

hostsTest('a seed of a parked host that was out of reach is tried', async (world) => {
  const slave = world.slave('slave', 1);
  await world.seed(hosts(20), any);
  const now = clockMs();
  const until = now + 600_000;
  const error = { kind: 'connect', message: 'refused' } as const;
  const lost = {
    access: 'unreachable',
    askAt: until,
    failures: 4,
    failingSince: now,
    error,
  } as const;
  const key = hostHash('http://gone.test');
  await world.done(
    world.store.commit([
      { table: 'breakers', key, value: encodeBreaker({ sleeps: 9, until, error }, now) },
      { table: 'robots', key, value: encodeRobots(lost, new Uint8Array(0), now) },
    ]),
  );
  await world.seed('http://gone.test/', { ...any, ignoreRobots: false });
  const urls = await crawlAll(world, slave);
  assert.ok(urls.includes('http://gone.test/'), `it was given up: ${urls}`);
});

hostsTest('a late report of a parked host lets its other pages go on', async (world) => {
  const pages = ['http://a.test/1', 'http://a.test/2'];
  await world.seed(pages, any);
  const before = world.slave('before', 1);
  await world.settle();
  const [lease] = before.leases;
  world.crash();
  assert.equal(await world.done(world.report(before, lease)), 'done');
  const slave = world.slave('slave', 1);
  await world.settle();
  assert.deepEqual(slave.urls, [pages[1]]);
});

hostsTest(
  'many that may be asked: a few are in memory at once, and all are crawled',
  async (world) => {
    const slave = world.slave('slave', 1);
    await world.seed(hosts(60), any);
    const { urls, most } = await crawlCounting(world, slave);
    assert.deepEqual(urls.sort(), hosts(60).sort());
    assert.ok(most <= 6, `${most} hosts in memory`);
  },
  { queuesMax: 1_000, tasksMax: 1_000, dueMin: 3 },
);

hostsTest(
  'hosts with a delay that wait make room for others, and stay',
  async (world) => {
    const slave = world.slave('slave', 1);
    await world.seed(
      hosts(40).flatMap((url) => [`${url}1`, `${url}2`]),
      { ...any, delayMs: 60_000 },
    );
    for (let i = 0; i < 40; i++) {
      await world.page(slave, slave.urls[0] ?? '');
      await world.settle();
    }
    assert.equal(world.rooms.crawls.queues.count, 40);
    await world.advance(2_000);
    assert.equal(world.rooms.crawls.queues.count, 40, 'nobody wants their room');
  },
  { queuesMax: 1_000, tasksMax: 1_000, dueMin: 3 },
);

/** Reports a page a second until every host was met. */
async function meetAll(world: World, slave: FakeSlave, count: number): Promise<void> {
  const met = new Set<string>();
  let pages = 0;
  for (; met.size < count && pages < 1_000; pages++) {
    const [lease] = slave.leases;
    met.add(new URL(lease?.task.url ?? '').host);
    await world.done(world.report(slave, lease));
    await world.advance(1_000);
  }
  assert.equal(met.size, count, `${met.size} hosts after ${pages} pages`);
}

function largeHosts(count: number, name?: string): string[] {
  return hosts(count, name).flatMap((url) => Array.from({ length: 400 }, (_, i) => `${url}${i}`));
}

hostsTest(
  'large hosts take turns: the first page of each does not wait for the last of others',
  async (world) => {
    const slave = world.slave('slave', 1);
    await world.seed(largeHosts(12), any);
    await meetAll(world, slave, 12);
    assert.ok(world.rooms.crawls.queues.count <= 6, `${world.rooms.crawls.queues.count} in memory`);
  },
  { queuesMax: 1_000, tasksMax: 1_000, dueMin: 3 },
);

hostsTest(
  'they do with more slots than there is memory for hosts',
  async (world) => {
    const slave = world.slave('slave', 1, 1_000);
    await world.seed(largeHosts(24), any);
    await meetAll(world, slave, 24);
  },
  { queuesMax: 8, tasksMax: 1_000, dueMin: 3 },
);

hostsTest(
  'a crawl of which no host is parked keeps its hosts while those of others take turns',
  async (world) => {
    const slave = world.slave('slave', 1);
    await world.seed(largeHosts(2, 'small'), any, 'small');
    await world.seed(largeHosts(12), any, 'large');
    const queues = () => [...world.crawl('small').queues.values()].map(({ queue }) => queue);
    const before = queues();
    assert.equal(before.length, 2);
    for (let second = 0; second < 100; second++) {
      await world.done(world.report(slave, [...slave.leases][0]));
      await world.advance(1_000);
    }
    assert.ok(world.rooms.crawls.queues.hasParked);
    assert.ok(before.every((queue) => queues().includes(queue)));
  },
  { queuesMax: 1_000, tasksMax: 1_000, dueMin: 3 },
);

hostsTest(
  'a group of more hosts than there is memory for leaves room for others',
  async (world) => {
    const slave = world.slave('slave', 8);
    const group = hosts(200, 'one').map((url) => url.replace('.test', '.large.test'));
    await world.seed([...group, ...hosts(12)], { ...any, delayMs: 1_000 });
    assert.equal(world.rooms.crawls.queues.count, 64);
    const left = new Set(hosts(12));
    let asked = 0;
    for (let second = 0; second < 40; second++) {
      for (const lease of [...slave.leases]) {
        if (!left.delete(lease.task.url)) asked++;
        await world.done(world.report(slave, lease));
      }
      await world.advance(1_100);
    }
    assert.deepEqual([...left], []);
    assert.ok(asked >= 36, `${asked} of the group`);
  },
  { queuesMax: 64, tasksMax: 1_000, grouping: 'domain' },
);

hostsTest(
  'a host that is alone in its group waits for nobody, however long its delay',
  async (world) => {
    await world.seed(hosts(8), { ...any, delayMs: 10_000 });
    const { queues } = world.rooms.crawls;
    const before = [...world.crawl().queues.keys()];
    assert.equal(queues.count, 4);
    await world.advance(3_000);
    assert.deepEqual([...world.crawl().queues.keys()], before);
  },
);

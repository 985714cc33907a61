/** Pages of a host with a delay that a slave gets together. Source: PROTOCOL.md [T-146] to
 *  [T-149]. */
import assert from 'node:assert/strict';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { guardMs } from '../../master/frontier/politeness/politeness.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import type { FakeSlave } from '../support/fake-slave.ts';
import { randomUint32s } from '../support/random.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.test';
const delayMs = 100;
const gapMs = delayMs + guardMs;
const pages = (count: number, host = a) => Array.from({ length: count }, (_, i) => `${host}/${i}`);

function slaveOf(world: World, name = 'slave', slots = 16): FakeSlave {
  const slave = world.slave(name, 2 * slots, slots);
  slave.hasTrains = true;
  return slave;
}

async function crawl(world: World, count: number, spec: CrawlSpecInput = {}): Promise<FakeSlave> {
  await world.seed(pages(count), { delayMs, ...spec });
  const slave = slaveOf(world);
  await world.settle();
  return slave;
}

/** All that the slave holds leaves and is answered, as a train that goes well. */
async function goWell(world: World, slave: FakeSlave): Promise<void> {
  const held = [...slave.leases];
  const last = held.at(-1);
  assert.ok(last);
  world.frontier.started(last);
  // They are on the disk later: there is no hurry while many wait.
  for (const lease of held) void world.report(slave, lease);
  await world.settle();
}

/** Trains grow to their full length. */
async function warmUp(world: World, slave: FakeSlave): Promise<void> {
  while ([...slave.leases].length < 8) {
    await goWell(world, slave);
    await world.advance(gapMs);
  }
}

worldTest('a slave gets a train of a host with a delay, a longer one each time', async (world) => {
  const slave = await crawl(world, 100);
  const lengths: number[] = [];
  for (let i = 0; i < 6; i++) {
    const [first] = slave.leases;
    assert.deepEqual(first?.train?.gapMs, gapMs);
    assert.equal(world.frontier.crawls.pushOf(first as Lease).train?.first, first?.id);
    lengths.push(slave.leases.size);
    await goWell(world, slave);
    assert.equal(slave.leases.size, 0, 'too early');
    await world.advance(gapMs);
  }
  assert.deepEqual(lengths, [2, 4, 8, 16, 24, 24], 'three seconds of it at most');
  assert.deepEqual(
    slave.pushed.map(({ task }) => task.url),
    pages(slave.pushed.length),
  );
});

worldTest('the host waits until the last of a train has left', async (world) => {
  const slave = await crawl(world, 40);
  await warmUp(world, slave);
  const held = [...slave.leases];
  void world.report(slave, held[0]);
  assert.equal(held[0]?.host.ahead, 7);
  world.frontier.started(held[5] as Lease);
  await world.advance(10 * gapMs);
  assert.equal(slave.leases.size, 7);
  assert.equal(held[0]?.host.ahead, 2);
  world.frontier.started(held[7] as Lease, 20);
  assert.equal(held[0]?.host.ahead, 0);
  await world.advance(gapMs - 40);
  assert.equal(slave.leases.size, 7);
  await world.advance(20);
  assert.equal(slave.leases.size, 15, 'those that are under way may be slow');
});

worldTest('others get one page: programs, older slaves, long delays', async (world) => {
  await world.seed(pages(9), { delayMs });
  const old = world.slave('old', 32, 16);
  await world.settle();
  assert.equal(old.leases.size, 1);
  assert.equal(world.frontier.crawls.pushOf([...old.leases][0] as Lease).train, undefined);
});

worldTest('a delay of three seconds or more makes no train', async (world) => {
  const slave = await crawl(world, 9, { delayMs: 3_000 });
  assert.equal(slave.leases.size, 1);
});

worldTest(
  'what a page leads to goes before deeper pages, so only equals travel together',
  async (world) => {
    const slave = await crawl(world, 5);
    await goWell(world, slave);
    const links = pages(9, `${a}/deep`);
    await world.advance(gapMs);
    assert.deepEqual(slave.urls, pages(5).slice(2));
    const [, , last] = slave.leases;
    world.frontier.started(last as Lease);
    for (const [i, lease] of [...slave.leases].entries()) {
      await world.done(world.report(slave, lease, i === 0 ? { links } : {}));
    }
    await world.advance(gapMs);
    assert.deepEqual(slave.urls, links.slice(0, 4));
  },
);

worldTest(
  'a host that answers slowly, and may not be asked beside that, has none',
  async (world) => {
    const slave = await crawl(world, 40, { perHost: 1 });
    const [first] = slave.leases;
    for (let i = 0; i < 40; i++) first?.host.group.pace.answered(3 * gapMs, performance.now());
    await goWell(world, slave);
    await world.advance(gapMs);
    assert.equal(slave.leases.size, 1);
  },
);

worldTest('in a crawl of order dfs each page is alone', async (world) => {
  const slave = await crawl(world, 9, { order: 'dfs' });
  assert.equal(slave.leases.size, 1);
});

worldTest('a train takes one slot, and few hosts have one', async (world) => {
  const slave = await crawl(world, 40);
  await warmUp(world, slave);
  const hosts = Array.from({ length: 20 }, (_, i) => pages(4, `http://h${i}.test`)).flat();
  await world.seed(hosts, { delayMs }, 'others');
  const held = [...slave.leases];
  const trains = new Set(held.flatMap(({ train }) => train ?? []));
  assert.ok(trains.size >= 1 && trains.size <= slave.slots / 4, String(trains.size));
  const alone = held.filter(({ train }) => train === undefined);
  assert.equal(alone.length + trains.size, slave.slots);
});

worldTest('no more pages travel than a page limit allows', async (world) => {
  const slave = await crawl(world, 9, { maxPages: 5 });
  await goWell(world, slave);
  await world.advance(gapMs);
  assert.equal(slave.leases.size, 3);
});

worldTest('a pause, a longer delay and a refusal call back what has not begun', async (world) => {
  const slave = await crawl(world, 80);
  const recalls: [string, () => Promise<unknown>, () => Promise<unknown>][] = [
    [
      'a pause',
      () => world.done(world.frontier.pause('default')),
      () => world.done(world.frontier.resume('default')),
    ],
    [
      'a longer delay',
      () => world.done(world.frontier.change('default', { delayMs: 200 })),
      () => world.done(world.frontier.change('default', { delayMs })),
    ],
    [
      '429',
      async () => {
        const [lease] = slave.leases;
        const error = { kind: 'status', message: '429 Too Many Requests' } as const;
        void world.frontier.release(lease as Lease, { error, retryAfterMs: 5_000 });
        await world.settle();
      },
      () => world.advance(700_000),
    ],
  ];
  for (const [name, stop, goOn] of recalls) {
    await warmUp(world, slave);
    slave.recalled.length = 0;
    world.frontier.started([...slave.leases][1] as Lease);
    const waiting = [...slave.leases].slice(2);
    await stop();
    await world.settle();
    assert.deepEqual(slave.recalled, waiting, name);
    for (const lease of waiting) void world.frontier.release(lease);
    for (const lease of slave.leases) void world.report(slave, lease);
    await world.advance(gapMs);
    if (name !== 'a longer delay') assert.equal(slave.leases.size, 0, name);
    await goOn();
    await world.advance(2 * gapMs);
    assert.equal(slave.leases.size, 1, `${name}: the next one is alone`);
  }
});

worldTest('a slave that dies with a train loses nothing, and the delay holds', async (world) => {
  const slave = await crawl(world, 40);
  await warmUp(world, slave);
  const held = slave.urls;
  const other = slaveOf(world, 'other');
  world.frontier.leave(slave);
  await world.settle(1);
  assert.deepEqual(other.urls, [], 'one of them may have left just now');
  await world.advance(gapMs);
  assert.deepEqual(other.urls, held.slice(0, 1), 'what may have been its end travels alone');
  while (other.leases.size > 0) {
    await goWell(world, other);
    await world.advance(gapMs);
  }
  await world.advance(1_500);
  assert.equal(world.lines().length, 40);
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a redirect within a train has its turn when the rest is given back', async (world) => {
  const slave = await crawl(world, 40);
  await warmUp(world, slave);
  const [first, ...rest] = slave.leases;
  world.frontier.started(first as Lease);
  for (const lease of rest) void world.frontier.release(lease);
  let state = '';
  void world.frontier.hop(first as Lease, `${a}/next`).then((verdict) => {
    state = verdict.state;
  });
  await world.settle(2);
  assert.equal(state, '');
  await world.advance(gapMs);
  assert.equal(state, 'go');
});

worldTest(
  'whatever happens to trains, no gap is too short and all pages come once',
  async (world) => {
    const next = randomUint32s(7);
    const random = () => next() / 2 ** 32;
    const slaves = [slaveOf(world, 'one'), slaveOf(world, 'two')];
    await world.seed(pages(60), { delayMs });
    const leaves = new Map<Lease, number>();
    let lastAt = Number.NEGATIVE_INFINITY;
    for (let step = 0; step < 3_000 && world.finished.length === 0; step++) {
      await world.settle(1);
      await world.advance(10);
      const now = performance.now();
      for (const slave of slaves) {
        for (const lease of [...slave.leases]) {
          const { train } = lease;
          const before = train?.leases[train.leases.indexOf(lease) - 1];
          const from = before && leaves.get(before);
          const isFirst = before === undefined;
          if (leaves.has(lease)) {
            if (random() < 0.3) void world.report(slave, lease);
            continue;
          }
          if (!isFirst && (from === undefined || now < from + gapMs)) {
            // Its slave gives it back, or dies, or waits.
            if (random() < 0.01) void world.frontier.release(lease);
            continue;
          }
          if (random() < 0.2) continue;
          assert.ok(now - lastAt >= delayMs, `${now - lastAt} ms`);
          lastAt = now;
          leaves.set(lease, now);
          world.frontier.started(lease);
        }
        if (random() < 0.005) {
          world.frontier.leave(slave);
          world.frontier.give(slave);
        }
      }
    }
    await world.settle();
    assert.deepEqual(world.finished, ['default']);
    assert.equal([...leaves.keys()][0]?.host.ahead, 0);
    const urls = world.lines().map(({ url }) => url);
    assert.deepEqual(urls.sort(), pages(60).sort());
    assert.ok(leaseOf(slaves[0] as FakeSlave, a) === undefined);
  },
);

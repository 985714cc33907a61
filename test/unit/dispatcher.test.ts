/** Holders that take some kinds of tasks only: robots.txt is parked until somebody takes it. */
import assert from 'node:assert/strict';
import { kindOf } from '../../master/frontier/kinds/kinds.ts';
import { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

function holder(world: World, name: string, takes: FakeSlave['takes'], credit = 4): FakeSlave {
  const slave = new FakeSlave(name, credit);
  slave.takes = takes;
  world.frontier.give(slave);
  return slave;
}

const polite = { ignoreRobots: false };

async function answer(world: World, slave: FakeSlave): Promise<void> {
  const [lease] = slave.leases;
  assert.ok(lease);
  assert.equal(kindOf(lease.task).name, 'robots');
  const file = Buffer.alloc(0);
  const said = { verb: 'task.robots', answer: { status: 404 }, file } as const;
  await world.done(world.frontier.report(lease, said));
}

worldTest('a holder of pages is never given a robots.txt, one of probes no page', async (world) => {
  const python = holder(world, 'python', 'pages');
  await world.seed('http://a.example/', polite);
  assert.deepEqual(python.urls, []);
  assert.ok(world.filesWanted > 0);
  const probes = holder(world, 'probes', 'probes');
  await world.settle();
  assert.deepEqual(probes.urls, ['http://a.example/robots.txt']);
  await answer(world, probes);
  assert.deepEqual(python.urls, ['http://a.example/']);
  assert.deepEqual(probes.urls, []);
});

worldTest(
  'a parked robots.txt goes to a slave that joins, and holds no other host',
  async (world) => {
    const python = holder(world, 'python', 'pages');
    await world.seed('http://b.example/', { ignoreRobots: true }, 'rude');
    await world.seed('http://a.example/', polite);
    assert.deepEqual(python.urls, ['http://b.example/']);
    const slave = world.slave('native');
    await world.settle();
    assert.deepEqual(slave.urls, ['http://a.example/robots.txt']);
    const missed = world.filesWanted;
    await answer(world, slave);
    assert.equal(world.filesWanted, missed);
  },
);

worldTest('a parked robots.txt of a cancelled crawl is there for another crawl', async (world) => {
  const python = holder(world, 'python', 'pages');
  await world.seed('http://a.example/', polite, 'first');
  await world.done(world.frontier.cancel('first'));
  await world.seed('http://a.example/x', polite, 'second');
  const slave = world.slave('native');
  await world.settle();
  assert.deepEqual(slave.urls, ['http://a.example/robots.txt']);
  await answer(world, slave);
  assert.deepEqual([...slave.urls, ...python.urls], ['http://a.example/x']);
});

worldTest('a host with a delay is not asked while its robots.txt is parked', async (world) => {
  const python = holder(world, 'python', 'pages');
  await world.seed(['http://a.example/', 'http://a.example/2'], { ...polite, delayMs: 1_000 });
  await world.advance(5_000);
  assert.deepEqual(python.urls, []);
  const probes = holder(world, 'probes', 'probes');
  await world.settle();
  const [lease] = probes.leases;
  assert.equal(lease?.timing, 'awaited');
  world.frontier.started(lease);
  await answer(world, probes);
  assert.deepEqual(python.urls, []);
  await world.advance(1_100);
  assert.equal(python.leases.size, 1);
  assert.ok(leaseOf(python, 'http://a.example/') !== undefined);
});

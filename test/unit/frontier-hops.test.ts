/** Redirects that ask before they are followed: scope, robots.txt, their turn, and every end. */
import assert from 'node:assert/strict';
import type { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.test';
const b = 'http://b.test';

/** Asks for a hop of the lease of `url`; gives what was answered so far. */
function ask(world: World, slave: FakeSlave, url: string, to: string) {
  const lease = leaseOf(slave, url);
  assert.ok(lease, `no lease of ${url}`);
  const answer: { state?: string; isTimed?: boolean } = {};
  const asked = world.frontier.hop(lease, to).then((verdict) => {
    Object.assign(answer, verdict);
  });
  return { answer, asked, lease };
}

async function started(world: World, slave: FakeSlave, url: string) {
  const lease = leaseOf(slave, url);
  assert.ok(lease);
  world.frontier.started(lease);
  await world.settle(1);
}

worldTest('a hop of a host without a delay goes on at once', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const { answer } = ask(world, slave, `${a}/`, `${a}/next`);
  await world.settle();
  assert.deepEqual(answer, { state: 'go', isTimed: false });
});

worldTest('a hop waits for the delay, and the next task for the hop', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`], { delayMs: 1_000 });
  const slave = world.slave();
  await world.settle();
  await started(world, slave, `${a}/1`);
  const { answer } = ask(world, slave, `${a}/1`, `${a}/next`);
  await world.advance(900);
  assert.deepEqual(answer, {});
  await world.advance(200);
  assert.deepEqual(answer, { state: 'go', isTimed: true });
  await world.advance(5_000);
  assert.deepEqual(slave.urls, [`${a}/1`], 'the request of the hop has not left');
  await started(world, slave, `${a}/1`);
  await world.advance(1_100);
  assert.deepEqual(slave.urls, [`${a}/1`, `${a}/2`]);
});

worldTest('a hop that robots.txt or --exclude leaves out is refused', async (world) => {
  const slave = world.slave();
  await world.seed(`${a}/`, { ignoreRobots: false, exclude: ['/out'] });
  const [lease] = slave.leases;
  assert.ok(lease);
  const file = Buffer.from('User-agent: *\nDisallow: /private');
  const learned = world.frontier.report(lease, {
    verb: 'task.robots',
    answer: { status: 200 },
    file: file,
  });
  await world.done(learned);
  for (const [path, state] of [
    ['/private/x', 'robots'],
    ['/out', 'scope'],
    ['/open', 'go'],
  ]) {
    const { answer } = ask(world, slave, `${a}/`, `${a}${path}`);
    await world.settle();
    assert.equal(answer.state, state, path);
  }
});

worldTest(
  'a hop to another host, no URL, or a second one at once are no requests',
  async (world) => {
    await world.seed(`${a}/`, { delayMs: 1_000 });
    const slave = world.slave();
    await world.settle();
    await started(world, slave, `${a}/`);
    for (const to of [`${b}/`, 'nonsense', `${a}/#fragment`]) {
      await assert.rejects(ask(world, slave, `${a}/`, to).asked, { code: 'E_BAD_REQUEST' });
    }
    const { answer } = ask(world, slave, `${a}/`, `${a}/1`);
    await world.settle();
    await assert.rejects(ask(world, slave, `${a}/`, `${a}/2`).asked, { code: 'E_BAD_REQUEST' });
    assert.deepEqual(answer, {});
    assert.equal(
      (await world.frontier.hop({ holder: slave, id: 1 }, `${a}/1`)).state,
      'lost',
      'no such lease',
    );
  },
);

worldTest('every end of a lease answers its hop', async (world) => {
  const ends: [string, string, (slave: FakeSlave) => Promise<unknown> | unknown][] = [
    ['cancel', 'lost', () => world.done(world.frontier.cancel('cancel'))],
    ['pause', 'later', () => world.done(world.frontier.pause('pause'))],
    ['session', 'lost', (slave) => world.frontier.leave(slave)],
    ['lease', 'lost', () => world.advance(70_000)],
    ['drain', 'later', () => world.rooms.dispatcher.drain()],
  ];
  for (const [name, state, end] of ends) {
    const url = `http://${name}.test/`;
    await world.seed(url, { delayMs: 600_000 }, name);
    const slave = world.slave(name, 1);
    await world.settle();
    await started(world, slave, url);
    const { answer, asked } = ask(world, slave, url, `${url}next`);
    await world.settle();
    assert.deepEqual(answer, {}, name);
    await end(slave);
    await world.done(asked);
    assert.equal(answer.state, state, name);
    world.frontier.leave(slave);
    if (name !== 'drain') await world.done(world.frontier.cancel(name));
  }
});

worldTest('a robots.txt that is redirected counts for the host that it leads to', async (world) => {
  const spec = { ignoreRobots: false, delayMs: 1_000, perHost: 1 };
  const slave = world.slave('slave', 8);
  await world.seed([`${a}/`, `${b}/`], spec);
  assert.deepEqual(slave.urls.sort(), [`${a}/robots.txt`, `${b}/robots.txt`]);
  for (const url of slave.urls) await started(world, slave, url);
  // Both lead to the other one: neither keeps its slot, so neither waits for ever.
  const one = ask(world, slave, `${a}/robots.txt`, `${b}/rules`);
  const two = ask(world, slave, `${b}/robots.txt`, `${a}/rules`);
  await world.settle();
  assert.deepEqual([one.answer, two.answer], [{}, {}], 'asked within the delay');
  await world.advance(1_100);
  assert.deepEqual([one.answer.state, two.answer.state], ['go', 'go']);
  const answered = { status: 404 } as const;
  for (const { lease } of [one, two]) {
    const nothing = Buffer.alloc(0);
    await world.done(
      world.frontier.report(lease, { verb: 'task.robots', answer: answered, file: nothing }),
    );
  }
  await world.advance(1_100);
  assert.deepEqual(slave.urls.sort(), [`${a}/`, `${b}/`]);
});

worldTest('a 429 of robots.txt holds the host', async (world) => {
  const slave = world.slave();
  await world.seed(`${a}/`, { ignoreRobots: false, attemptsMax: 9 });
  const [lease] = slave.leases;
  assert.ok(lease);
  const said = { status: 429, retryAfterMs: 60_000 } as const;
  await world.done(
    world.frontier.report(lease, { verb: 'task.robots', answer: said, file: Buffer.alloc(0) }),
  );
  assert.equal(lease.host.group.pace.record.lessons, 1);
  await world.advance(50_000);
  assert.deepEqual(slave.urls, []);
  await world.advance(30_000);
  assert.deepEqual(slave.urls, [`${a}/robots.txt`]);
});

worldTest(
  'a robots.txt whose redirect must wait allows nothing, and is asked for again',
  async (world) => {
    const slave = world.slave('slave', 8);
    await world.seed(`${b}/`);
    const error = { kind: 'status', message: '429 Too Many Requests' } as const;
    const [refused] = slave.leases;
    assert.ok(refused);
    void world.frontier.release(refused, { error, retryAfterMs: 60_000 });
    await world.seed(`${a}/`, { ignoreRobots: false }, 'second');
    const { answer, asked, lease } = ask(world, slave, `${a}/robots.txt`, `${b}/robots.txt`);
    await world.done(asked);
    assert.equal(answer.state, 'later');
    void world.frontier.release(lease);
    await world.advance(50_000);
    assert.deepEqual(slave.urls, [], 'neither the page nor the file');
    await world.advance(15_000);
    assert.ok(leaseOf(slave, `${a}/robots.txt`));
    assert.equal(leaseOf(slave, `${a}/`), undefined);
  },
);

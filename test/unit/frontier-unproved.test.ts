/** Hosts that have not proved that they answer: how much of the slaves they may have. */
import assert from 'node:assert/strict';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const unproved = { hosts: 'unproved' } as const;
const urlsOf = (count: number, path = '', from = 0) =>
  Array.from({ length: count }, (_, i) => `http://h${from + i}.example/${path}`);

function join(world: World, name: string, slots: number, trials = 0): FakeSlave {
  const slave = new FakeSlave(name, slots * 2 + trials, slots);
  slave.trials = trials;
  world.frontier.give(slave);
  return slave;
}

const timeout = { kind: 'timeout', message: 'no answer' } as const;

/** Nobody answered. */
async function unanswered(world: World, slave: FakeSlave, url: string): Promise<void> {
  const lease = leaseOf(slave, url);
  assert.ok(lease, url);
  await world.done(world.frontier.release(lease, { error: timeout }));
}

worldTest(
  'hosts that never answered have a quarter of all slots, one at least',
  async (world) => {
    const slaves = [join(world, 'one', 16), join(world, 'two', 5)];
    await world.seed(urlsOf(100));
    await world.settle();
    assert.equal(slaves[0] && slaves[1] && slaves[0].leases.size + slaves[1].leases.size, 5);
    for (const slave of slaves) world.frontier.leave(slave);
    const small = join(world, 'small', 1);
    await world.settle();
    assert.equal(small.leases.size, 1);
  },
  unproved,
);

worldTest(
  'a host that answered has the slots that the others leave',
  async (world) => {
    const slave = join(world, 'slave', 8);
    await world.seed([...urlsOf(1), ...urlsOf(50, '', 1)]);
    await world.settle();
    assert.equal(slave.leases.size, 2);
    const [first = ''] = slave.urls;
    const links = Array.from({ length: 30 }, (_, i) => `${first}${i}`);
    await world.page(slave, first, { links });
    const ofFirst = () => slave.urls.filter((url) => url.startsWith(first)).length;
    assert.equal(slave.leases.size, 16);
    assert.equal(ofFirst(), 14);
  },
  unproved,
);

worldTest(
  'places beside the slots are for such hosts alone, and leave the slots to others',
  async (world) => {
    const slave = join(world, 'slave', 4, 20);
    await world.seed(urlsOf(40));
    await world.settle();
    assert.equal(slave.leases.size, 8, 'two a slot are tried at once');
    await world.advance(60);
    assert.equal(slave.leases.size, 16, 'as many again for those that had their time');
    await world.advance(60);
    assert.equal(slave.leases.size, 20);
    assert.ok([...slave.leases].every(({ room }) => room.kind === 'trial'));
    const [first = ''] = slave.urls;
    const links = Array.from({ length: 30 }, (_, i) => `${first}${i}`);
    await world.page(slave, first, { links });
    assert.equal([...slave.leases].filter(({ room }) => room.kind === 'trial').length, 20);
    assert.equal([...slave.leases].filter(({ room }) => room.kind === 'slot').length, 8);
  },
  unproved,
);

worldTest(
  'hosts that failed leave half of the places to those that nobody asked',
  async (world) => {
    const slave = join(world, 'slave', 8, 10);
    await world.seed(urlsOf(10));
    await world.settle();
    for (const url of [...slave.urls]) await unanswered(world, slave, url);
    await world.advance(2_000);
    assert.equal(slave.leases.size, 5, 'of those that failed');
    await world.seed(urlsOf(10, '', 10));
    await world.settle();
    assert.equal(slave.leases.size, 10);
  },
  unproved,
);

worldTest(
  'a host that dies has no slot any more until it answers again',
  async (world) => {
    const slave = join(world, 'slave', 4, 1);
    await world.seed(['http://a.example/1', 'http://a.example/2', 'http://a.example/3']);
    await world.settle();
    const [first = '', ...rest] = slave.urls;
    assert.deepEqual(rest, []);
    await world.page(slave, first);
    const rooms = () => [...slave.leases].map(({ room }) => room.kind);
    assert.deepEqual(rooms(), ['slot', 'slot']);
    const [second = ''] = slave.urls;
    await unanswered(world, slave, second);
    await world.advance(2_000);
    assert.deepEqual(rooms(), ['slot', 'trial']);
    const [third = ''] = slave.urls;
    await world.page(slave, third);
    await world.seed('http://a.example/4');
    await world.settle();
    assert.deepEqual(rooms(), ['trial', 'slot']);
  },
  unproved,
);

worldTest(
  'a host whose answers take long has trials beside the slots until they do not',
  async (world) => {
    const slave = join(world, 'slave', 2, 8);
    const [first = ''] = urlsOf(1);
    await world.seed(first);
    await world.settle();
    const links = Array.from({ length: 20 }, (_, i) => `${first}${i}`);
    await world.page(slave, first, { links, ms: 5_000 });
    const rooms = () => [...slave.leases].map(({ room }) => room.kind);
    assert.deepEqual(new Set(rooms()), new Set(['trial']));
    for (let n = 0; n < 8; n++) await world.page(slave, slave.urls[0] ?? '', { ms: 10 });
    assert.ok(rooms().includes('slot'), `${rooms()}`);
  },
  unproved,
);

worldTest(
  'through proxies there are no more such fetches than slots',
  async (world) => {
    const slave = join(world, 'slave', 3, 50);
    // Those of other fetches, whose answers are late.
    slave.lent = 20;
    const fetch = { proxies: ['http://proxy.example:8080'] };
    await world.seed(urlsOf(30), { fetch });
    await world.settle();
    assert.equal(slave.leases.size, 3);
  },
  unproved,
);

worldTest(
  'through proxies a host whose answers take long has slots',
  async (world) => {
    const slave = join(world, 'slave', 2, 8);
    const [first = ''] = urlsOf(1);
    await world.seed(first, { fetch: { proxies: ['http://proxy.example:8080'] } });
    await world.settle();
    const links = Array.from({ length: 20 }, (_, i) => `${first}${i}`);
    await world.page(slave, first, { links, ms: 5_000 });
    assert.deepEqual(new Set([...slave.leases].map(({ room }) => room.kind)), new Set(['slot']));
  },
  unproved,
);

worldTest(
  'a program that takes pages alone is given any host',
  async (world) => {
    const workers = Array.from({ length: 6 }, (_, i) => join(world, `python ${i}`, 1));
    for (const worker of workers) {
      worker.takes = 'pages';
      worker.credit = 1;
    }
    await world.seed(urlsOf(10));
    await world.settle();
    assert.deepEqual(
      workers.map(({ leases }) => leases.size),
      [1, 1, 1, 1, 1, 1],
    );
  },
  unproved,
);

worldTest(
  'new hosts wait while those that answer have no slot for their pages',
  async (world) => {
    const slave = join(world, 'slave', 1, 20);
    await world.seed(urlsOf(12));
    await world.settle();
    assert.equal(slave.leases.size, 2);
    const trial = () => [...slave.leases].find(isTrial)?.task.url;
    let proved = 0;
    for (let url = trial(); url !== undefined; url = trial()) {
      await world.page(slave, url, { links: [`${url}a`, `${url}b`] });
      proved++;
    }
    assert.ok(proved >= 2 && proved <= 6, `${proved} of 12 hosts proved ahead of their pages`);
    while (trial() === undefined) await world.page(slave, slave.urls[0] ?? '');
  },
  unproved,
);

function isTrial({ room }: Lease): boolean {
  return room.kind === 'trial';
}

worldTest(
  'hosts that answer keep their room, however many that nobody has tried want it',
  async (world) => {
    const slave = new FakeSlave('slave', 2, 1);
    slave.trials = 1;
    world.frontier.give(slave);
    const pages = Array.from({ length: 100 }, (_, i) => [
      `http://a.test/${i}`,
      `http://b.test/${i}`,
    ]);
    const once = { scope: 'any', maxDepth: 0 } as const;
    await world.seed(pages.flat(), once);
    const answer = async () => {
      const url = slave.urls.find((one) => !one.includes('silent'));
      await world.page(slave, url ?? '');
      return new URL(url ?? '').host;
    };
    while (new Set([await answer(), await answer(), await answer()]).size < 2);
    await world.seed(
      Array.from({ length: 40 }, (_, i) => `http://silent-${i}.test/`),
      once,
    );
    const last: string[] = [];
    for (let second = 0; second < 45; second++) {
      await world.advance(1_000);
      last[second % 8] = await answer();
    }
    for (const host of ['a.test', 'b.test']) assert.ok(last.includes(host), `${host}: ${last}`);
  },
  { hosts: 'unproved', dueMin: 3 },
);

worldTest(
  'a host that does not answer is found dead, though others take turns',
  async (world) => {
    const slave = new FakeSlave('slave', 4, 2);
    slave.trials = 2;
    world.frontier.give(slave);
    const once = { scope: 'any', maxDepth: 0 } as const;
    const pagesOf = (host: string, count: number) =>
      Array.from({ length: count }, (_, i) => `http://${host}.example/${i}`);
    await world.seed(
      [0, 1, 2, 3, 4, 5].flatMap((i) => pagesOf(`early${i}`, 100)),
      once,
    );
    for (let i = 0; i < 12; i++) await world.page(slave, slave.urls[0] ?? '');
    await world.seed(pagesOf('dead', 60), once);
    const late = Array.from({ length: 50 }, (_, i) => `late${i}`);
    await world.seed(
      late.flatMap((host) => pagesOf(host, 100)),
      once,
    );
    const isDead = (url: string) => url.startsWith('http://dead.');
    const begun = new Map<string, number>();
    let sleeps = 0;
    let timeouts = 0;
    for (let second = 0; second < 400 && sleeps === 0; second++) {
      await world.advance(1_000);
      for (const url of slave.urls.filter(isDead)) {
        const since = begun.get(url) ?? second;
        begun.set(url, since);
        if (second - since < 20) continue;
        begun.delete(url);
        timeouts++;
        await unanswered(world, slave, url);
      }
      const url = slave.urls.find((one) => !isDead(one));
      if (url !== undefined) await world.page(slave, url);
      sleeps = world.rooms.politeness.known('http://dead.example')?.breaker.record.sleeps ?? 0;
    }
    assert.ok(world.rooms.crawls.queues.hasParked, 'others are parked');
    assert.ok(sleeps > 0, `it is tried as if it were new after ${timeouts} time-outs`);
  },
  { hosts: 'unproved', dueMin: 3 },
);

/** robots.txt in the frontier: first of all, once for all crawls, kept, and what it forbids. */
import assert from 'node:assert/strict';
import { kindOf } from '../../master/frontier/kinds/kinds.ts';
import type { RobotsAnswer } from '../../master/frontier/robots/gate.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import type { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, specOf, type World, worldTest } from '../support/world.ts';

const site = 'http://a.test';
const robots = `${site}/robots.txt`;
const obey = { ignoreRobots: false };

async function answer(world: World, slave: FakeSlave, said: RobotsAnswer, text = '') {
  const lease = leaseOf(slave, robots);
  assert.ok(lease, `no lease of ${robots} among ${slave.urls}`);
  const file = Buffer.from(text);
  const taken = world.frontier.report(lease, { verb: 'task.robots', answer: said, file: file });
  return await world.done(taken);
}

async function begin(world: World, spec: CrawlSpecInput = {}, paths = ['/', '/b', '/private/c']) {
  const slave = world.slave('slave', 16);
  await world.seed(
    paths.map((path) => site + path),
    { ...obey, ...spec },
  );
  return slave;
}

worldTest('robots.txt is the first task of a host, and pages wait for it', async (world) => {
  const slave = await begin(world);
  assert.deepEqual(slave.urls, [robots]);
  assert.deepEqual(
    [...slave.leases].map(({ task }) => kindOf(task).name),
    ['robots'],
  );
  assert.equal(await answer(world, slave, { status: 404 }), 'done');
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b`, `${site}/private/c`]);
});

worldTest('what robots.txt forbids ends as excluded, with a line', async (world) => {
  const slave = await begin(world);
  await answer(world, slave, { status: 200 }, 'User-agent: *\nDisallow: /private/');
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b`]);
  const { excluded, waiting, known } = world.crawl().counters;
  assert.deepEqual({ excluded, waiting, known }, { excluded: 1, waiting: 2, known: 3 });
  const [line] = world.lines();
  assert.equal(line?.url, `${site}/private/c`);
  assert.equal((line as { excluded?: string }).excluded, 'robots');
});

worldTest('a host that forbids all is through at once, however many URLs', async (world) => {
  const paths = Array.from({ length: 2_000 }, (_, i) => `/${i}`);
  const slave = await begin(world, {}, paths);
  await answer(world, slave, { status: 200 }, 'User-agent: orbweaver\nDisallow: /');
  for (let i = 0; i < 20; i++) await world.settle();
  assert.equal(world.crawl().counters.excluded, 2_000);
  assert.equal(world.crawl().counters.waiting, 0);
  assert.equal(world.lines().length, 2_000);
});

worldTest('one robots.txt serves all crawls of a host, each under its own name', async (world) => {
  const slave = await begin(world, {}, ['/x']);
  const fetch = { userAgent: 'other/1.0' };
  await world.seed(`${site}/x`, { ...obey, fetch }, 'second');
  assert.deepEqual(slave.urls, [robots]);
  await answer(world, slave, { status: 200 }, 'User-agent: other\nDisallow: /x');
  assert.deepEqual(slave.urls, [`${site}/x`]);
  assert.equal(world.crawl('second').counters.excluded, 1);
  await world.seed(`${site}/y`, specOf(obey), 'third');
  assert.deepEqual(slave.urls.sort(), [`${site}/x`, `${site}/y`]);
});

worldTest('a restart neither asks again nor forgets', async (world) => {
  let slave = await begin(world);
  await answer(world, slave, { status: 200 }, 'User-agent: *\nDisallow: /private/');
  world.crash();
  slave = world.slave('slave', 16);
  await world.settle();
  assert.deepEqual(slave.urls.sort(), [`${site}/`, `${site}/b`]);
  await world.seed(`${site}/private/d`, obey);
  assert.equal(world.crawl().counters.excluded, 2);
});

worldTest('after a day it is asked for again', async (world) => {
  const slave = await begin(world, {}, ['/']);
  await answer(world, slave, { status: 404 });
  await world.page(slave, `${site}/`);
  await world.advance(24 * 3_600_000 + 1);
  await world.seed(`${site}/late`, obey);
  assert.deepEqual(slave.urls, [robots]);
});

worldTest(
  'a lost slave and a cancelled crawl leave robots.txt to be asked again',
  async (world) => {
    const first = await begin(world);
    world.frontier.leave(first);
    const slave = world.slave('next', 16);
    await world.settle();
    assert.deepEqual(slave.urls, [robots]);
    await world.seed(`${site}/z`, obey, 'second');
    await world.done(world.frontier.cancel('default'));
    assert.deepEqual(slave.urls, [robots]);
    await answer(world, slave, { status: 404 });
    assert.deepEqual(slave.urls, [`${site}/z`]);
  },
);

worldTest('out of reach: asked again, then its pages are buried with the reason', async (world) => {
  const slave = await begin(world, { attemptsMax: 2 });
  await world.fail(slave, robots);
  assert.deepEqual(slave.urls, []);
  await world.advance(2_000);
  assert.deepEqual(slave.urls, [robots]);
  await world.fail(slave, robots);
  assert.equal(world.crawl().counters.buried, 3);
  assert.deepEqual(world.lines()[0]?.error, { kind: 'connect', message: 'refused', attempts: 2 });
  assert.equal(world.crawl().state === 'finished' || world.crawl().counters.waiting === 0, true);
  // A replay is the operator's word that it is worth another try.
  await world.done(world.frontier.replay('default', undefined));
  assert.deepEqual(slave.urls, [robots]);
  await answer(world, slave, { status: 404 });
  assert.equal(slave.urls.length, 3);
});

worldTest('5xx of robots.txt forbids all, for now', async (world) => {
  const slave = await begin(world, { attemptsMax: 1 });
  await answer(world, slave, { status: 503 });
  assert.equal(world.crawl().counters.buried, 3);
  assert.equal(world.lines()[0]?.error?.kind, 'status');
});

worldTest('Crawl-delay is honoured up to the limit', async (world) => {
  const slave = await begin(world, { crawlDelayMaxMs: 2_000 });
  await answer(world, slave, { status: 200 }, 'User-agent: *\nCrawl-delay: 30');
  assert.equal(slave.urls.length, 0, 'the file was a request, too');
  await world.advance(2_000);
  assert.equal(slave.urls.length, 1);
  for (const { id } of slave.leases) world.frontier.started({ holder: slave, id });
  await world.advance(1_000);
  assert.equal(slave.urls.length, 1);
  await world.advance(1_100);
  assert.equal(slave.urls.length, 2);
});

worldTest('--ignore-robots asks for none', async (world) => {
  const slave = await begin(world, { ignoreRobots: true });
  assert.equal(slave.urls.length, 3);
});

worldTest('Retry-After holds the whole host, over a restart, too', async (world) => {
  let slave = await begin(world, { ignoreRobots: true, perHost: 1 });
  const [lease] = slave.leases;
  assert.ok(lease);
  const error = { kind: 'status', message: '429 Too Many Requests' } as const;
  await world.done(world.frontier.release(lease, { error, retryAfterMs: 30_000 }));
  assert.deepEqual(slave.urls, []);
  await world.advance(20_000);
  assert.deepEqual(slave.urls, []);
  world.crash();
  slave = world.slave('slave', 16);
  await world.settle();
  assert.deepEqual(slave.urls, []);
  await world.advance(11_000);
  assert.equal(slave.urls.length, 1);
});

const hourMs = 3_600_000;

worldTest('a clock that is put back makes no hold and no wait longer', async (world) => {
  await world.advance(2 * hourMs);
  let slave = await begin(world, { ignoreRobots: true, perHost: 1 }, ['/']);
  const [lease] = slave.leases;
  assert.ok(lease);
  const error = { kind: 'status', message: '429 Too Many Requests' } as const;
  await world.done(world.frontier.release(lease, { error, retryAfterMs: 30_000 }));
  world.crash(0, hourMs);
  slave = world.slave('slave', 16);
  await world.advance(20_000);
  assert.deepEqual(slave.urls, []);
  // The hold of the host, and then what the page was told, seen when it is read.
  await world.advance(11_000);
  await world.advance(30_000);
  assert.deepEqual(slave.urls, [`${site}/`]);
});

worldTest('a clock that is put back does not put off robots.txt', async (world) => {
  await world.advance(2 * hourMs);
  let slave = await begin(world, { attemptsMax: 9 }, ['/']);
  await answer(world, slave, { error: { kind: 'timeout', message: 'no answer' } });
  world.crash(0, hourMs);
  slave = world.slave('slave', 16);
  await world.advance(2_000);
  assert.deepEqual(slave.urls, [robots]);
});

worldTest('a host that died does not hold the crawl open', async (world) => {
  const paths = Array.from({ length: 300 }, (_, i) => `/${i}`);
  const slave = await begin(world, { ignoreRobots: true, attemptsMax: 50 }, paths);
  for (let round = 0; round < 120 && world.crawl().counters.waiting > 0; round++) {
    for (const url of slave.urls) await world.fail(slave, url);
    await world.advance(30_000);
  }
  assert.equal(world.crawl().counters.waiting, 0);
  assert.equal(world.crawl().counters.buried, 300);
  assert.equal(world.lines()[0]?.error?.kind, 'connect');
});

worldTest('records of hosts are swept when nobody needs them any more', async (world) => {
  const slave = await begin(world, {}, ['/']);
  await answer(world, slave, { status: 404 });
  const [lease] = slave.leases;
  assert.ok(lease);
  const error = { kind: 'status', message: '429 Too Many Requests' } as const;
  await world.done(world.frontier.release(lease, { error, retryAfterMs: 30_000 }));
  const rows = () =>
    (['robots', 'paces'] as const).map((table) => {
      const all = { from: Buffer.alloc(1), to: Buffer.alloc(9, 0xff) };
      return world.store.range(table, all).length;
    });
  const sweep = async () => {
    for (let i = 0; i < 8; i++) await world.advance(1_000);
  };
  await sweep();
  assert.deepEqual(rows(), [1, 1]);
  await world.done(world.frontier.cancel('default'));
  await world.advance(7 * 86_400_000 + 700_000);
  await sweep();
  assert.deepEqual(rows(), [1, 0], 'the robots.txt was good for a day longer');
  await world.advance(86_400_000);
  await sweep();
  assert.deepEqual(rows(), [0, 0]);
});

worldTest('a robots.txt behind no secure connection is tried once, as pages are', async (world) => {
  const slave = await begin(world, { attemptsMax: 4 }, ['/', '/b']);
  const error = { kind: 'tls', message: 'no secure connection: CERT_HAS_EXPIRED' } as const;
  const lease = leaseOf(slave, robots);
  assert.ok(lease);
  await world.done(world.frontier.release(lease, { error }));
  await world.settle();
  assert.deepEqual(slave.urls, []);
  for (const line of world.lines()) assert.deepEqual(line.error, { ...error, attempts: 1 });
  assert.equal(world.lines().length, 2);
});

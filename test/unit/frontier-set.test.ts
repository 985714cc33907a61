/** Options of a crawl that change while it runs, or after its end. */
import assert from 'node:assert/strict';
import { Filter } from '../../master/frontier/filter/filter.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import { leaseMarginMs, leaseOf, specOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.example';
const b = 'http://b.example';

async function set(world: World, part: object, name = 'default') {
  return await world.done(world.frontier.change(name, { ...part }));
}

/** A crawl of these paths of one host, and a slave with one of them. */
async function waiting(world: World, paths: readonly string[], spec: CrawlSpecInput = {}) {
  await world.seed(`${a}/`, spec);
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.pageAndWait(slave, `${a}/`, { links: paths.map((path) => new URL(path, a).href) });
  return slave;
}

/** The slave answers all that it gets, with pages without links, until nothing comes. */
async function answerAll(world: World, slave: ReturnType<World['slave']>): Promise<string[]> {
  const fetched: string[] = [];
  for (let url = slave.urls[0]; url !== undefined; url = slave.urls[0]) {
    fetched.push(url);
    await world.page(slave, url);
    await world.settle();
  }
  return fetched;
}

worldTest('a page limit that is raised opens a finished crawl again', async (world) => {
  const slave = await waiting(world, ['/1', '/2', '/3', '/4'], { maxPages: 2 });
  await answerAll(world, slave);
  assert.equal(world.crawl().state, 'finished');
  assert.equal(world.crawl().ending?.why, 'max-pages');
  const answer = await set(world, { maxPages: 4 });
  assert.deepEqual(answer, {
    state: 'running',
    changed: [{ field: 'maxPages', from: 2, to: 4 }],
    waiting: 3,
    reopened: true,
  });
  assert.equal((await answerAll(world, slave)).length, 2);
  assert.deepEqual([world.crawl().state, world.crawl().counters.pages], ['finished', 4]);
  assert.equal((await set(world, { maxPages: null })).reopened, true);
  await answerAll(world, slave);
  assert.deepEqual([world.crawl().counters.pages, world.crawl().ending?.why], [5, 'finished']);
  assert.deepEqual(world.finished, ['default', 'default', 'default']);
});

worldTest('a crawl at rest goes on after a restart, too', async (world) => {
  const slave = await waiting(world, ['/1', '/2', '/3'], { maxPages: 1 });
  assert.deepEqual(slave.urls, []);
  await world.reopen();
  const other = world.slave('other', 1);
  await world.settle();
  assert.deepEqual([world.crawl().filter.isAwake, other.urls], [false, []]);
  const { reopened } = await set(world, { maxPages: 3 });
  assert.equal(reopened, true);
  assert.equal((await answerAll(world, other)).length, 2);
  assert.equal(world.crawl().state, 'finished');
});

worldTest('a finished crawl of which nothing waits stays finished', async (world) => {
  const slave = await waiting(world, ['/1'], { maxPages: 10, maxDepth: 1 });
  await answerAll(world, slave);
  const answer = await set(world, { maxPages: 20, maxDepth: 2 });
  assert.deepEqual([answer.state, answer.reopened, answer.waiting], ['finished', undefined, 0]);
  assert.equal(world.crawl().spec.maxPages, 20);
});

worldTest(
  'no memory for its filter: a crawl is not opened again, and keeps its options',
  async (world) => {
    await waiting(world, ['/1'], { maxPages: 1, urlsExpected: 30_000_000 });
    await world.advance(5_000);
    await world.seed(`${b}/`, { urlsExpected: 30_000_000 }, 'other');
    await assert.rejects(set(world, { maxPages: 2 }), { code: 'E_LIMIT' });
    assert.deepEqual([world.crawl().state, world.crawl().spec.maxPages], ['finished', 1]);
  },
);

worldTest('a page limit below what is there ends the crawl', async (world) => {
  const slave = await waiting(world, ['/1', '/2', '/3']);
  await world.page(slave, slave.urls[0] ?? '');
  const answer = await set(world, { maxPages: 1 });
  assert.equal(answer.full, true);
  // Pages that a slave holds would not be taken any more.
  assert.deepEqual([slave.cancelled.length, slave.urls], [1, []]);
  await world.settle();
  assert.equal(world.crawl().state, 'finished');
  assert.match(world.crawl().ending?.text ?? '', /stopped at --max-pages 1 with 2 URLs left/);
});

worldTest('an option that changes nothing is no change', async (world) => {
  await world.seed(`${a}/`, { maxPages: 9 });
  const before = world.crawl().record().specVersion;
  const { changed } = await set(world, { maxPages: 9, delayMs: 0 });
  assert.deepEqual([changed, world.crawl().record().specVersion], [[], before]);
  await set(world, { maxPages: 10 });
  assert.equal(world.crawl().record().specVersion, before + 1);
});

worldTest('a change outlives a crash that comes after the answer, and only that', async (world) => {
  await world.seed(`${a}/`, { maxPages: 9 });
  await set(world, { maxPages: 10, exclude: ['/x'] });
  void world.frontier.change('default', { maxPages: 11 });
  world.crash();
  assert.equal(world.crawl().spec.maxPages, 10);
  assert.deepEqual(world.crawl().spec.exclude, ['/x']);
  assert.equal(world.crawl().isNarrowed, true);
  assert.equal(world.crawl().record().specVersion, 2);
});

worldTest('two changes at once are both taken, in their order', async (world) => {
  await world.seed(`${a}/`);
  const both = [
    world.frontier.change('default', { maxPages: 5, delayMs: 7 }),
    world.frontier.change('default', { maxPages: 6 }),
  ];
  const [first, second] = await world.done(Promise.all(both));
  assert.equal(first?.changed.length, 2);
  assert.deepEqual(second?.changed, [{ field: 'maxPages', from: 5, to: 6 }]);
  assert.deepEqual([world.crawl().spec.maxPages, world.crawl().spec.delayMs], [6, 7]);
});

worldTest('no crawl, a cancelled one, one that is removed: nothing changes', async (world) => {
  await assert.rejects(set(world, { maxPages: 1 }, 'none'), { code: 'E_NO_CRAWL' });
  await world.seed(`${a}/`);
  await world.done(world.frontier.cancel('default'));
  await assert.rejects(set(world, { maxPages: 1 }), {
    code: 'E_BAD_REQUEST',
    message: /"default" was cancelled/,
  });
  await world.done(world.frontier.remove('default', false));
  await assert.rejects(set(world, { maxPages: 1 }), { code: 'E_NO_CRAWL' });
});

worldTest('a crawl that is paused or held stays so, with its new options', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  await world.done(world.frontier.pause('default'));
  const slave = world.slave('slave', 4);
  assert.equal((await set(world, { exclude: ['/2'] })).state, 'paused');
  assert.deepEqual(slave.urls, []);
  await world.done(world.frontier.resume('default'));
  await world.settle();
  assert.deepEqual(slave.urls, [`${a}/1`]);
  world.rooms.lifeCycle.held(world.crawl(), 'the disk is gone');
  assert.equal((await set(world, { exclude: null })).state, 'held');
});

worldTest('links are judged anew from then on', async (world) => {
  const links = [`${a}/x/1`, `${a}/2`, `${b}/3`, `${a}/deep`];
  const slave = await waiting(world, ['/2', '/4', ...links], { exclude: ['/x/'], maxDepth: 2 });
  const { skipped } = await set(world, { exclude: null, scope: 'any', maxDepth: 9 });
  assert.deepEqual(skipped, { host: 1, exclude: 1 });
  await world.pageAndWait(slave, `${a}/2`, { links });
  assert.deepEqual(world.waitingUrls().sort(), [`${a}/4`, `${a}/deep`, `${a}/x/1`, `${b}/3`]);
});

worldTest('URLs that wait are judged when their turn comes', async (world) => {
  const paths = ['/a/b/c/d', '/x/1', '/2', `${b}/3`, '/4'];
  const slave = await waiting(world, paths, { scope: 'any' });
  const held = slave.urls;
  const answer = await set(world, { exclude: ['/x/'], scope: 'host', traps: { segments: 2 } });
  assert.equal(answer.narrower, true);
  assert.deepEqual(slave.urls, held, 'a slave keeps what it has');
  const fetched = await answerAll(world, slave);
  await world.settle();
  assert.deepEqual(fetched.sort(), [...new Set([...held, `${a}/2`, `${a}/4`])].sort());
  const left = world.lines().filter(({ excluded }) => excluded === 'scope');
  const gone = [`${a}/a/b/c/d`, `${a}/x/1`, `${b}/3`].filter((url) => !held.includes(url));
  assert.deepEqual(left.map(({ url }) => url).sort(), gone.sort());
  const row = world.crawl().status().ledger?.page;
  assert.deepEqual([row?.excluded, row?.waiting, row?.admitted], [gone.length, 0, 6]);
  assert.equal(world.crawl().state, 'finished');
});

worldTest('what is narrower stays so after a restart, also for parked hosts', async (world) => {
  await waiting(world, ['/x/1', '/x/2', '/3']);
  await set(world, { exclude: ['/x/'] });
  await world.reopen();
  const slave = world.slave('other', 1);
  await world.settle();
  assert.deepEqual(await answerAll(world, slave), [`${a}/3`]);
  assert.equal(world.crawl().counters.excluded, 2);
});

worldTest('more URLs than wait for the disk at once are left out', async (world) => {
  const paths = Array.from({ length: 1_200 }, (_, i) => `/x/${i}`);
  const slave = await waiting(world, [...paths, '/last']);
  await set(world, { exclude: ['/x/'] });
  for (let i = 0; i < 20; i++) await world.settle();
  const left = slave.urls.filter((url) => url.includes('/x/'));
  for (const url of left) await world.page(slave, url);
  for (let i = 0; i < 20; i++) await world.settle();
  assert.deepEqual(slave.urls, [`${a}/last`]);
  assert.equal(world.crawl().counters.excluded, 1_200 - left.length);
});

worldTest('a depth of 0 leaves seeds, and drops what links led to', async (world) => {
  const slave = await waiting(world, ['/1', '/2']);
  const held = slave.urls.length;
  await world.seed(`${a}/seed`);
  await set(world, { maxDepth: 0 });
  await answerAll(world, slave);
  await world.settle();
  assert.equal(world.crawl().counters.excluded, 2 - held);
  assert.equal(world.crawl().state, 'finished');
});

worldTest('a host that is out of scope is not asked for its robots.txt', async (world) => {
  await world.seed([`${a}/`], { scope: 'any', ignoreRobots: false });
  const slave = world.slave('slave', 1);
  await world.settle();
  const robots = leaseOf(slave, `${a}/robots.txt`);
  assert.ok(robots);
  await world.done(
    world.frontier.report(robots, {
      verb: 'task.robots',
      answer: { status: 404 },
      file: new Uint8Array(0),
    }),
  );
  await world.pageAndWait(slave, `${a}/`, { links: [`${b}/`, 'http://c.example/'] });
  const asked = slave.urls;
  await set(world, { scope: 'host' });
  for (const url of asked) {
    const lease = leaseOf(slave, url);
    if (lease !== undefined) await world.done(world.frontier.release(lease));
  }
  await world.settle();
  const robotsAsked = slave.pushed.filter(({ task }) => task.url.endsWith('/robots.txt'));
  assert.equal(robotsAsked.length, 1 + asked.length);
  assert.equal(world.crawl().counters.excluded + slave.urls.length, 2);
});

worldTest('a shorter delay counts at once', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`], { delayMs: 3_600_000, perHost: 1 });
  const slave = world.slave('slave', 4);
  await world.settle();
  assert.equal(slave.pushed.length, 1);
  const [lease] = slave.pushed;
  assert.ok(lease);
  world.frontier.started(lease);
  await world.page(slave, lease.task.url);
  await world.advance(60_000);
  assert.equal(slave.pushed.length, 1);
  await set(world, { delayMs: 100 });
  assert.equal(slave.pushed.length, 2);
});

worldTest(
  'a longer delay and fewer fetches at once count from the next fetch on',
  async (world) => {
    await world.seed(
      [1, 2, 3, 4].map((n) => `${a}/${n}`),
      { perHost: 2 },
    );
    const slave = world.slave('slave', 4);
    await world.settle();
    assert.equal(slave.pushed.length, 2);
    await set(world, { perHost: 1, delayMs: 5_000 });
    for (const url of slave.urls) await world.page(slave, url);
    await world.settle();
    assert.equal(slave.pushed.length, 2);
    await world.advance(5_000);
    assert.equal(slave.pushed.length, 3);
  },
);

worldTest('fewer attempts bury at the next failure', async (world) => {
  await world.seed(`${a}/`, { attemptsMax: 4 });
  const slave = world.slave('slave', 1);
  await world.settle();
  await set(world, { attemptsMax: 1 });
  await world.fail(slave, `${a}/`);
  assert.equal(world.crawl().counters.buried, 1);
});

worldTest('a longer time-out prolongs the leases that are out', async (world) => {
  await world.seed(`${a}/`, { fetch: { timeoutMs: 1_000 } });
  const slave = world.slave('slave', 1);
  await world.settle();
  const [lease] = slave.pushed;
  assert.ok(lease);
  await set(world, { fetch: { timeoutMs: 100_000 } });
  for (let ms = 0; ms < leaseMarginMs + 100_000; ms += 20_000) {
    await world.advance(20_000);
    world.frontier.extend(slave, [lease.id]);
  }
  assert.deepEqual(slave.cancelled, []);
});

worldTest(
  'without proxies the hosts of seeds are looked up before they are asked',
  async (world) => {
    let answer = () => {};
    const proxies = ['http://proxy.example:1'];
    await world.seed('http://in.example/', { fetch: { proxies } });
    world.lookUp = (names) =>
      new Promise((resolve) => {
        answer = () => resolve(new Map([...names].map((name) => [name, ['10.0.0.1']])));
      });
    await set(world, { fetch: { proxies: null } });
    const slave = world.slave('slave', 1);
    await world.settle();
    assert.deepEqual(slave.urls, []);
    answer();
    await world.settle();
    assert.deepEqual(slave.urls, ['http://in.example/']);
    const [lease] = slave.pushed;
    assert.ok(lease);
    assert.deepEqual(world.frontier.crawls.pushOf(lease).private, ['10.0.0.0/8']);
  },
);

worldTest('wider scopes keep the hosts that seeds opened', async (world) => {
  const slave = await waiting(world, ['/1'], { scope: 'host' });
  await set(world, { scope: 'domain' });
  await set(world, { scope: 'host' });
  await world.pageAndWait(slave, slave.urls[0] ?? '', {
    links: [`${a}/2`, 'http://www.a.example/'],
  });
  assert.deepEqual(world.crawl().scope.kept, { named: ['a.example'], followed: [] });
  assert.deepEqual(slave.urls, [`${a}/2`]);
});

worldTest('a crawl that no seed answered takes other options with its seeds', async (world) => {
  await world.seed(`${a}/`, { maxDepth: 1 });
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.page(slave, `${a}/`, { status: 404 });
  await world.settle();
  assert.equal(world.crawl().ending?.why, 'unanswered');
  const seeds = { crawl: 'default', seeds: [`${a}/`], priority: 0 };
  const spec = { maxDepth: 7, order: 'dfs', fetch: { images: 'img' } };
  await world.done(world.frontier.seed({ ...seeds, spec }));
  const { maxDepth, order, fetch } = world.crawl().spec;
  assert.deepEqual([maxDepth, order, fetch.images], [7, 'dfs', 'img']);
  await world.page(slave, `${a}/`);
  // The same may be said again, another one not.
  await world.done(world.frontier.seed({ ...seeds, spec }));
  const other = { ...spec, maxDepth: 8 };
  await assert.rejects(world.done(world.frontier.seed({ ...seeds, spec: other })), {
    code: 'E_BAD_REQUEST',
    message: /set default/,
  });
});

worldTest('old patterns are kept, new ones must run in linear time', async (world) => {
  await world.seed(`${a}/`);
  const crawl = world.crawl();
  world.rooms.crawls.respec(crawl, { ...crawl.spec, exclude: ['(?!x)y'] });
  await set(world, { maxPages: 7 });
  await assert.rejects(set(world, { include: ['(?=z)'] }), { code: 'E_BAD_REQUEST' });
  await assert.rejects(set(world, { include: ['('] }), { message: /--include/ });
  assert.ok(world.crawl().filter instanceof Filter);
});

worldTest(
  'the same start again takes nothing back, one with a higher limit does',
  async (world) => {
    const start = async (maxPages: number) =>
      await world.done(world.frontier.startAgain('default', specOf({ maxPages }), true));
    const limit = () => world.crawl().spec.maxPages;
    await world.seed(`${a}/`, { maxPages: 100 });
    await set(world, { maxPages: 50 });
    await start(100);
    assert.equal(limit(), 50);
    await world.reopen();
    await start(100);
    assert.equal(limit(), 50, 'it is on record');
    await start(200);
    assert.equal(limit(), 200);
    await set(world, { maxPages: 500 });
    await start(300);
    assert.equal(limit(), 500, 'it is lower');
    await set(world, { maxPages: null });
    await start(10_000);
    assert.equal(limit(), undefined);
  },
);

worldTest('the same start of an unanswered crawl keeps what was set since', async (world) => {
  const start = async (spec: CrawlSpecInput) =>
    await world.done(world.frontier.startAgain('default', specOf(spec), false));
  await world.seed(`${a}/`, { maxDepth: 3 });
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.page(slave, `${a}/`, { status: 401 });
  await world.settle();
  await set(world, { fetch: { headers: [['X-Key', 'x']] } });
  await start({ maxDepth: 3 });
  assert.equal(world.crawl().spec.fetch.headers.length, 1);
  await start({ maxDepth: 4 });
  assert.deepEqual(world.crawl().spec, specOf({ maxDepth: 4 }));
});

worldTest('changes that come at once are all in force', async (world) => {
  await world.seed(`${a}/`);
  let prepared = () => {};
  world.results.prepareOutputs = () => new Promise((resolve) => (prepared = resolve));
  const outputs = [{ kind: 'csv', target: 'a.csv' }];
  // A database may take its time to answer.
  const first = world.frontier.change('default', { outputs });
  await set(world, { delayMs: 1_000 });
  prepared();
  await world.done(first);
  const { spec } = world.crawl();
  assert.deepEqual([spec.delayMs, spec.outputs?.[0]?.target], [1_000, 'a.csv']);
});

worldTest('a crawl that ends while a change of it is prepared stays as it is', async (world) => {
  await world.seed(`${a}/`);
  let prepared = () => {};
  world.results.prepareOutputs = () => new Promise((resolve) => (prepared = resolve));
  const outputs = [{ kind: 'csv', target: 'a.csv' }];
  const change = world.frontier.change('default', { outputs });
  const refused = assert.rejects(change, { message: /is being removed: nothing of it can change/ });
  await world.done(world.frontier.remove('default', false));
  prepared();
  await world.done(refused);
  for (let i = 0; i < 20; i++) await world.advance(100);
  assert.deepEqual(world.rows('crawls', 1), []);
});

for (const [name, command] of [
  ['pause', ({ frontier }) => frontier.pause('default')],
  ['resume', ({ frontier }) => frontier.resume('default')],
  ['set', ({ frontier }) => frontier.change('default', { maxPages: 4 })],
  ['add', (world) => world.offerSeeds([`${a}/new`], specOf({}))],
  ['cancel', ({ frontier }) => frontier.cancel('default')],
] as [string, (world: World) => Promise<unknown>][]) {
  worldTest(`${name} twice: none is answered before the first is on the disk`, async (world) => {
    await waiting(world, ['/1', '/2']);
    if (name === 'resume') await world.done(world.frontier.pause('default'));
    let isFirst = false;
    const first = command(world).then(() => (isFirst = true));
    // Those of one commit are answered in one turn.
    const turn = () => new Promise<boolean>((done) => setImmediate(() => done(isFirst)));
    const second = command(world).then(turn);
    assert.equal(await world.done(second), true);
    await world.done(first);
  });
}

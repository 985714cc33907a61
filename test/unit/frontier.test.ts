import assert from 'node:assert/strict';
import { FakeSlave } from '../support/fake-slave.ts';
import { leaseOf, reportOf, specOf, worldTest } from '../support/world.ts';

const a = 'http://a.example';
const b = 'http://b.example';

worldTest('a crawl goes from its seed to its end', async (world) => {
  assert.deepEqual(await world.seed(`${a}/`), { admitted: 1, known: 0, refused: [] });
  const slave = world.slave();
  await world.settle();
  assert.deepEqual(slave.urls, [`${a}/`]);
  const links = [`${a}/1`, `${a}/2`, `${a}/1`, `${a}/`, `${b}/`];
  assert.equal(await world.page(slave, `${a}/`, { links, images: [`${b}/i.png`] }), 'done');
  assert.deepEqual(slave.urls.sort(), [`${a}/1`, `${a}/2`]);
  assert.deepEqual(world.finished, []);
  await world.page(slave, `${a}/1`, { links, images: [`${b}/i.png#x`, `${b}/j.png`] });
  assert.deepEqual(world.finished, []);
  await world.page(slave, `${a}/2`, { links });
  assert.deepEqual(world.finished, ['default']);
  assert.deepEqual(
    world.lines().map(({ url }) => url),
    [`${a}/`, `${a}/1`, `${a}/2`],
  );
  assert.deepEqual(world.images(), [`${b}/i.png`, `${b}/j.png`]);
  const { pages, images, known, waiting, leased } = world.crawl().status();
  assert.deepEqual(
    { pages, images, known, waiting, leased },
    {
      pages: 3,
      images: 2,
      known: 3,
      waiting: 0,
      leased: 0,
    },
  );
  assert.equal(world.seenKeys().length, world.crawl().counters.seen);
});

worldTest('seeds are refused with a reason, or known', async (world) => {
  await world.seed(`${a}/`, { exclude: ['/private'] });
  const urls = ['nonsense', 'ftp://a/', `${a}/private/x`, `${a}/#part`, `${a}/new`, `${a}/new`];
  const verdict = await world.seed(urls, {});
  assert.equal(verdict.admitted, 1);
  assert.equal(verdict.known, 2);
  assert.deepEqual(
    verdict.refused.map(({ url }) => url),
    urls.slice(0, 3),
  );
});

worldTest('one URL offered in one commit by several pages is admitted once', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`, `${a}/3`]);
  const slave = world.slave();
  await world.settle();
  const leases = [...slave.leases];
  const links = [`${a}/x`, `${a}/y`];
  const reports = leases.map((lease) => world.report(slave, lease, { links }));
  assert.deepEqual(await world.done(Promise.all(reports)), ['done', 'done', 'done']);
  assert.deepEqual(slave.urls.sort(), links);
  assert.equal(world.crawl().counters.known, 5);
});

worldTest('a link that was out of scope is taken as a seed later', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/`, { links: [`${b}/`, `${b}/page`, `${a}/next`] });
  assert.deepEqual(await world.seed(`${b}/`), { admitted: 1, known: 0, refused: [] });
  await world.page(slave, `${a}/next`, { links: [`${b}/page`] });
  assert.deepEqual(slave.urls.sort(), [`${b}/`, `${b}/page`]);
});

worldTest('a page counts under its final URL, and once', async (world) => {
  await world.seed([`${a}/old`, `${a}/older`, `${a}/known`]);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/old`, { finalUrl: `${a}/new`, images: [`${a}/1.png`] });
  await world.page(slave, `${a}/older`, { finalUrl: `${a}/new`, images: [`${a}/2.png`] });
  await world.page(slave, `${a}/known`, { links: [`${a}/new`] });
  assert.deepEqual(
    world.lines().map((line) => line.redirectedTo ?? line.images?.length),
    [1, `${a}/new`, 0],
  );
  assert.equal(world.crawl().counters.pages, 2);
  assert.deepEqual(world.images(), [`${a}/1.png`]);
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a redirect to a page that waits leaves that page to its own task', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/1`, { finalUrl: `${a}/2` });
  await world.page(slave, `${a}/2`);
  assert.equal(world.crawl().counters.pages, 1);
  assert.deepEqual(
    world.lines().map(({ redirectedTo }) => redirectedTo),
    [`${a}/2`, undefined],
  );
});

worldTest('a redirect out of scope is no page', async (world) => {
  await world.seed(`${a}/1`, { exclude: ['/private'] });
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/1`, { finalUrl: `${a}/private` });
  assert.equal(world.crawl().counters.pages, 0);
  assert.equal(world.lines()[0]?.redirectedTo, `${a}/private`);
});

worldTest('links beyond the depth are not admitted', async (world) => {
  await world.seed(`${a}/0`, { maxDepth: 2 });
  const slave = world.slave();
  await world.settle();
  for (let depth = 0; depth <= 2; depth++) {
    await world.page(slave, `${a}/${depth}`, { links: [`${a}/${depth + 1}`] });
  }
  assert.deepEqual(
    world.lines().map(({ depth }) => depth),
    [0, 1, 2],
  );
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a chain of links deeper than a depth can be told goes on', async (world) => {
  await world.seed(`${a}/0`);
  const slave = world.slave('slave', 1);
  await world.settle();
  const [lease] = slave.leases;
  assert.ok(lease);
  Object.assign(lease.task, { depth: 65_535 });
  await world.page(slave, `${a}/0`, { links: [`${a}/1`] });
  await world.page(slave, `${a}/1`, { links: [`${a}/2`] });
  await world.page(slave, `${a}/2`);
  assert.deepEqual(world.finished, ['default']);
});

for (const [order, expected] of [
  ['bfs', ['0', 'a', 'b', 'aa', 'ba']],
  ['dfs', ['0', 'a', 'aa', 'b', 'ba']],
] as const) {
  worldTest(`${order} fetches in that order`, async (world) => {
    const tree: Record<string, string[]> = { '0': ['a', 'b'], a: ['aa'], b: ['ba'] };
    await world.seed(`${a}/0`, { order });
    const slave = world.slave('slave', 1);
    await world.settle();
    for (const name of expected) {
      assert.deepEqual(slave.urls, [`${a}/${name}`]);
      const links = (tree[name] ?? []).map((next) => `${a}/${next}`);
      await world.pageAndWait(slave, `${a}/${name}`, { links });
    }
  });
}

worldTest('a higher priority goes first, and links inherit it', async (world) => {
  const spec = specOf({ order: 'priority' });
  await world.done(world.offerSeeds([`${a}/low`], spec, { priority: -5 }));
  await world.done(world.offerSeeds([`${a}/mid`], spec));
  await world.done(world.offerSeeds([`${a}/high`], spec, { priority: 1000 }));
  const slave = world.slave('slave', 1);
  await world.settle();
  const order: string[] = [];
  while (order.length < 4) {
    const [url = 'none'] = slave.urls;
    order.push(url);
    const links = url === `${a}/high` ? [`${a}/child`] : [];
    await world.pageAndWait(slave, url, { links });
  }
  assert.deepEqual(order, [`${a}/high`, `${a}/child`, `${a}/mid`, `${a}/low`]);
});

worldTest('the page limit is never passed and ends the crawl', async (world) => {
  const seeds = Array.from({ length: 12 }, (_, i) => `${a}/${i}`);
  await world.seed(seeds, { maxPages: 5 });
  const slaves = [world.slave('one'), world.slave('two')];
  await world.settle();
  assert.equal(slaves.flatMap(({ urls }) => urls).length, 5);
  for (let round = 0; round < 5; round++) {
    for (const slave of slaves) {
      const [url] = slave.urls;
      // Every second one is no page and makes room for another.
      if (url) await world.page(slave, url, round === 0 ? { status: 404 } : {});
      const leased = slaves.flatMap(({ urls }) => urls).length;
      assert.ok(world.crawl().counters.pages + leased <= 5);
    }
  }
  assert.equal(world.crawl().counters.pages, 5);
  assert.deepEqual(world.finished, ['default']);
});

worldTest('late reports do not pass the page limit either', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`, `${a}/3`], { maxPages: 2 });
  const slave = world.slave('slave', 2);
  await world.settle();
  const [first] = slave.leases;
  assert.ok(first);
  await world.fail(slave, `${a}/1`);
  assert.deepEqual(slave.urls, [`${a}/2`, `${a}/3`], 'in the place of the failed one');
  // It was a page after all, as a slave says that had it before.
  await world.done(world.report(new FakeSlave('late'), first));
  for (const url of slave.urls) await world.page(slave, url);
  assert.equal(world.crawl().counters.pages, 2);
  assert.equal(world.lines().filter(({ images }) => images).length, 2);
  assert.deepEqual(world.finished, ['default']);
  assert.equal(world.waitingUrls().length, 1, 'the third one still waits');
});

worldTest('a paused crawl gives no tasks, takes reports, and goes on', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave('slave', 1);
  await world.settle();
  await world.done(world.frontier.pause('default'));
  await world.page(slave, `${a}/1`);
  assert.deepEqual(slave.urls, []);
  world.crash();
  const again = world.slave('again', 1);
  await world.settle();
  assert.deepEqual(again.urls, []);
  await world.done(world.frontier.resume('default'));
  assert.deepEqual(again.urls, [`${a}/2`]);
});

worldTest('a crawl that was done while it was paused ends when it goes on', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  await world.done(world.frontier.pause('default'));
  await world.page(slave, `${a}/`);
  assert.deepEqual(world.finished, []);
  await world.done(world.frontier.resume('default'));
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a cancelled crawl leaves nothing behind but its name', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  await world.seed(`${a}/other`, {}, 'other');
  const slave = world.slave('slave', 3);
  await world.settle();
  const lease = leaseOf(slave, `${a}/1`);
  const late = world.report(slave, leaseOf(slave, `${a}/2`), { links: [`${a}/3`] });
  await world.done(world.frontier.cancel('default'));
  assert.equal(await world.done(late), 'stale');
  assert.deepEqual(slave.urls, [`${a}/other`]);
  assert.equal(slave.cancelled.length, 1);
  assert.equal(await world.done(world.report(slave, lease)), 'stale');
  for (const table of ['tasks', 'runs', 'recent', 'buried'] as const) {
    assert.deepEqual(world.rows(table), [], table);
  }
  assert.equal(world.rows('tasks', 2).length, 1);
  await assert.rejects(world.seed(`${a}/`), { code: 'E_BAD_REQUEST' });
  world.crash();
  assert.equal(world.crawl().state, 'cancelled');
  const again = world.slave('again');
  await world.settle();
  assert.deepEqual(again.urls, [`${a}/other`]);
});

worldTest('a crawl can be cancelled while others work without a pause', async (world) => {
  await world.seed(`${a}/1`);
  let isBusy = true;
  world.commits.addGatherer(() => {
    if (isBusy) world.commits.request();
    return { changes: [], done: () => {} };
  });
  world.commits.request();
  await world.done(world.frontier.cancel('default'));
  assert.deepEqual(world.rows('tasks'), []);
  isBusy = false;
});

worldTest('a finished crawl goes on with new seeds', async (world) => {
  await world.seed(`${a}/1`);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/1`);
  assert.equal(world.crawl().state, 'finished');
  assert.equal((await world.seed(`${a}/1`)).known, 1);
  assert.equal(world.crawl().state, 'finished');
  await world.seed(`${a}/2`);
  assert.deepEqual(slave.urls, [`${a}/2`]);
  await world.page(slave, `${a}/2`);
  assert.deepEqual(world.finished, ['default', 'default']);
});

worldTest('an end that was not written down is found again at the start', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  void world.report(slave, [...slave.leases][0]);
  for (let turn = 0; world.lines().length === 0; turn++) {
    assert.ok(turn < 100);
    await world.settle(1);
  }
  world.crash();
  await world.settle();
  assert.deepEqual(world.finished, ['default']);
});

worldTest('a host that was left while tasks for it were on the way is served', async (world) => {
  await world.seed([`${a}/1`, `${b}/1`]);
  const slave = world.slave('slave', 8);
  await world.settle();
  const [one, two] = [leaseOf(slave, `${a}/1`), leaseOf(slave, `${b}/1`)];
  // The last task of b ends in one commit, new ones for b come in the next.
  const first = world.report(slave, two);
  await world.settle(1);
  const second = world.report(slave, one, { links: [`${b}/2`, `${b}/3`] });
  await world.done(Promise.all([first, second]));
  assert.deepEqual(slave.urls.sort(), [`${b}/2`, `${b}/3`]);
  await world.page(slave, `${b}/3`);
  await world.fail(slave, `${b}/2`);
  await world.advance(2_000);
  assert.deepEqual(slave.urls, [`${b}/2`]);
  await world.page(slave, `${b}/2`);
  assert.deepEqual(world.finished, ['default']);
});

worldTest('senders wait when the filter queue is full, and are let in again', async (world) => {
  await world.seed(Array.from({ length: 80 }, (_, i) => `${a}/${i}`));
  const slave = world.slave('slave', 80);
  await world.settle();
  const links = `${b}/${'x'.repeat(1000)}\n`.repeat(1000);
  const reports = [...slave.leases].map((lease) => {
    const report = { ...reportOf(lease.task.url), links: Buffer.from(links) };
    return world.frontier.report(lease, report);
  });
  const room = world.frontier.room();
  assert.ok(room);
  await world.done(room);
  assert.equal(world.frontier.room(), undefined);
  await world.done(Promise.all(reports));
  assert.equal(world.lines().length, 80);
});

worldTest('there are at most 1,000 crawls, and those that there are go on', async (world) => {
  const { crawls } = world.rooms;
  const spec = specOf({ urlsExpected: 1 });
  for (let i = 0; i < 1_000; i++) crawls.open(`crawl-${i}`, spec);
  const limit = { name: 'CommandError', code: 'E_LIMIT' };
  assert.throws(() => crawls.open('one-more', spec), limit);
  assert.throws(() => crawls.refuseOneMore(spec), limit);
  assert.ok(!crawls.has('one-more'));
  const { admitted } = await world.seed('http://a.test/', { urlsExpected: 1 }, 'crawl-999');
  assert.equal(admitted, 1);
});

/** Crawls that are removed or over: what is left of them, in memory and in the store. */
import assert from 'node:assert/strict';
import { crawlKey, encodeCrawl, parseCursorKey } from '../../master/store/records.ts';
import { crawlTables } from '../../master/store/store.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.example';

/** Rows of a crawl in any table. */
function rowsOf(world: World, id: number): string[] {
  const found: string[] = [];
  for (const table of [...crawlTables, 'crawls'] as const) {
    const count = world.rows(table, id).length;
    if (count > 0) found.push(`${table}: ${count}`);
  }
  const meta = world.store.range('meta', { from: Buffer.alloc(1), to: Buffer.alloc(40, 0xff) });
  for (const { key } of meta) {
    const isOf = parseCursorKey(key)?.crawl === id || key.toString() === `traps/${id}`;
    if (isOf) found.push(key.toString());
  }
  return found;
}

/** Moves the clock until the rows of a crawl are gone. */
async function erased(world: World, id: number): Promise<void> {
  for (let i = 0; i < 200 && rowsOf(world, id).length > 0; i++) await world.advance(100);
  assert.deepEqual(rowsOf(world, id), []);
}

worldTest('a removed crawl frees its name, and no later crawl gets its number', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave('slave', 2);
  await world.settle();
  const lease = leaseOf(slave, `${a}/1`);
  const late = world.report(slave, leaseOf(slave, `${a}/2`), { links: [`${a}/3`] });
  await world.done(world.frontier.remove('default', false));
  assert.equal(await world.done(late), 'stale');
  assert.equal(await world.done(world.report(slave, lease)), 'stale');
  assert.deepEqual(world.frontier.crawls.has('default'), false);
  await assert.rejects(world.frontier.remove('default', false), { code: 'E_NO_CRAWL' });
  const { admitted } = await world.seed(`${a}/1`);
  assert.equal(admitted, 1);
  assert.equal(world.crawl().id, 2);
  await erased(world, 1);
  assert.equal(world.rows('tasks', 2).length, 1);
  await world.done(world.frontier.remove('default', false));
  await erased(world, 2);
  world.crash();
  await world.seed(`${a}/1`);
  assert.equal(world.crawl().id, 3, 'the store has no crawl, and knows the numbers all the same');
});

worldTest('a removal goes on after a crash, whenever that comes', async (world) => {
  const urls = Array.from({ length: 5_000 }, (_, i) => `${a}/${i}`);
  await world.seed(urls);
  await world.seed(`${a}/other`, {}, 'other');
  await world.done(world.frontier.remove('default', true));
  assert.ok(rowsOf(world, 1).length > 0, 'it takes its time');
  assert.deepEqual(world.frontier.crawls.removing(5), { count: 1, names: ['default'] });
  void world.seed(`${a}/new`);
  await world.settle(6);
  for (let applied = 0; applied < 3; applied++) {
    world.crash(applied);
    await world.settle(2);
  }
  await erased(world, 1);
  await world.settle();
  assert.equal(world.frontier.crawls.removing(5).count, 0);
  assert.deepEqual([world.rows('tasks', 2).length, world.rows('tasks', 3).length], [1, 1]);
});

worldTest(
  'a crash before the files are closed leaves a removal that a start ends',
  async (world) => {
    await world.seed(`${a}/1`);
    const crawl = world.crawl();
    crawl.remove('deleting');
    const { lifeCycle } = world.rooms;
    await assert.rejects(lifeCycle.cancel(crawl), { code: 'E_BAD_REQUEST' });
    const value = encodeCrawl(crawl.record());
    await world.done(world.commits.written([{ table: 'crawls', key: crawlKey(1), value }]));
    world.crash();
    await world.settle();
    assert.equal(world.frontier.crawls.has('default'), false);
    await erased(world, 1);
  },
);

worldTest('a crawl that is about to be removed keeps its name', async (world) => {
  await world.seed(`${a}/1`);
  let rotated = () => {};
  world.results.rotate = () => new Promise((resolve) => (rotated = () => resolve([])));
  const rotating = world.frontier.rotate('default');
  const removal = world.frontier.remove('default', true);
  await world.settle();
  const refused = { code: 'E_BAD_REQUEST', message: /is being removed already/ };
  await world.done(assert.rejects(world.frontier.rename('default', 'other'), refused));
  rotated();
  await world.done(rotating);
  await world.done(removal);
  assert.ok(!world.frontier.crawls.has('default') && !world.frontier.crawls.has('other'));
});

worldTest('a crawl can be removed in any state', async (world) => {
  for (const name of ['running', 'paused', 'finished', 'cancelled']) {
    await world.seed(`${a}/${name}`, {}, name);
  }
  await world.done(world.frontier.pause('paused'));
  await world.done(world.frontier.cancel('cancelled'));
  await world.done(world.frontier.pause('running'));
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/finished`);
  assert.equal(world.crawl('finished').state, 'finished');
  for (const name of ['running', 'paused', 'finished', 'cancelled']) {
    await world.done(world.frontier.remove(name, false));
    assert.equal(world.frontier.crawls.has(name), false, name);
  }
  for (const id of [1, 2, 3, 4]) await erased(world, id);
  assert.equal(world.frontier.crawls.size, 0);
});

worldTest('a finished crawl has no filter in memory until it gets URLs', async (world) => {
  await world.seed([`${a}/1`, `${a}/2`]);
  const slave = world.slave();
  await world.settle();
  await world.page(slave, `${a}/1`, { links: [`${a}/2`] });
  assert.equal(world.crawl().filter.isAwake, true);
  await world.page(slave, `${a}/2`);
  await world.settle();
  assert.equal(world.crawl().state, 'finished');
  assert.equal(world.crawl().filter.isAwake, false);
  await world.reopen();
  assert.equal(world.crawl().filter.isAwake, false, 'a start reads none');
  assert.deepEqual(await world.seed([`${a}/1`, `${a}/2`]), { admitted: 0, known: 2, refused: [] });
  assert.equal(world.crawl().filter.isAwake, true);
  await world.advance(2_000);
  assert.equal(world.crawl().filter.isAwake, false, 'nothing came of it');
  assert.equal((await world.seed(`${a}/3`)).admitted, 1);
  assert.equal(world.crawl().state, 'running');
  await world.advance(2_000);
  assert.equal(world.crawl().filter.isAwake, true);
  const again = world.slave('again');
  await world.settle();
  await world.page(again, `${a}/3`, { links: [`${a}/1`, `${a}/2`] });
  assert.deepEqual(again.urls, []);
  assert.deepEqual(world.finished, ['default']);
});

worldTest(
  'a finished crawl with a page limit keeps its tasks, and goes on with them',
  async (world) => {
    await world.seed([`${a}/1`, `${a}/2`, `${a}/3`], { maxPages: 1 });
    const slave = world.slave();
    await world.settle();
    await world.page(slave, `${a}/1`);
    await world.reopen();
    const crawl = world.crawl();
    assert.deepEqual([crawl.state, crawl.open.waiting], ['finished', 2]);
    assert.equal(world.frontier.crawls.hasDue, false);
    // It has tasks, and gets one more.
    world.rooms.crawls.respec(crawl, { ...crawl.spec, maxPages: 4 });
    await world.seed(`${a}/4`);
    const again = world.slave('again');
    await world.settle();
    assert.deepEqual(again.urls.sort(), [`${a}/2`, `${a}/3`, `${a}/4`]);
  },
);

/** The queues of a crawl in the Python dialect, clause by clause, by clients made by hand. */
import assert from 'node:assert/strict';
import { after, afterEach, type TestContext, test } from 'node:test';
import { PyDict, type PyValue } from '../../master/python/pickle/values.ts';
import { PythonPeer } from '../support/python-peer.ts';
import type { RawPeer } from '../support/raw-peer.ts';
import { nextTask, unreadPushes } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const tasks = 'task_queue';
const dict = (fields: Record<string, PyValue>) => PyDict.of(Object.entries(fields));

/** A crawl of `count` pages that nobody else works on, and who asks how it stands. A new host has
 *  two fetches at once: more take more `hosts`. [T-24] */
async function crawlOf(
  t: TestContext,
  count: number,
  spec: Record<string, unknown> = {},
  hosts = 1,
): Promise<{ seed: string; urls: string[]; operator: RawPeer; crawl: string } | undefined> {
  if (target.process(t) === undefined) return undefined;
  for (const queue of [tasks, 'filter_queue', 'result_queue']) {
    await PythonPeer.create(target, queue);
  }
  const operator = await target.join();
  const seed = target.seed();
  const seeds = [seed, ...Array.from({ length: hosts - 1 }, () => target.seed())];
  const urls = Array.from({ length: count }, (_, i) => `${seeds[i % hosts]}${i}`);
  const crawl = await target.crawl(operator, urls, spec);
  t.after(() => operator.abort());
  return { seed, urls, operator, crawl };
}

async function worker(t: TestContext, name?: string): Promise<PythonPeer> {
  const peer = await PythonPeer.attach(target, name);
  t.after(() => peer.kill());
  return peer;
}

/** Something that takes a program longer than to ask again. */
const fetched = () => new Promise((resolve) => setTimeout(resolve, 60));

async function counts(operator: RawPeer, crawl: string) {
  // Commits end in order: when this one is on the disk, so is what came before.
  await operator.must('crawl.pause', { crawl });
  await operator.must('crawl.resume', { crawl });
  const { pages, others, waiting, leased, images, state } = await statusOf(operator, crawl);
  return { pages, others, waiting, leased, images, state };
}

test('[Y-7] a page is done by the first request for more after a put', async (t) => {
  const world = await crawlOf(t, 1);
  if (world === undefined) return;
  const { seed, urls, operator, crawl } = world;
  const peer = await worker(t);
  assert.equal(await peer.call(tasks, 'get'), urls[0]);
  await peer.call('result_queue', 'put', [`${seed}a.png`, '/b.png']);
  await peer.call('filter_queue', 'put', 'next');
  assert.deepEqual(await counts(operator, crawl), {
    pages: 0,
    others: 0,
    waiting: 1,
    leased: 1,
    images: 0,
    state: 'running',
  });
  assert.equal(await peer.call(tasks, 'get', true, 10), `${seed}next`);
  assert.deepEqual(await counts(operator, crawl), {
    pages: 1,
    others: 0,
    waiting: 1,
    leased: 1,
    images: 2,
    state: 'running',
  });
  const told = { url: `${seed}next`, status: 404 };
  await peer.call('result_queue', 'put', dict(told));
  assert.equal(await peer.call(tasks, 'empty'), true);
  const { pages, failed, waiting } = await statusOf(operator, crawl);
  assert.deepEqual([pages, failed, waiting], [1, 1, 0]);
});

test('[Y-8] pages that were got in a row go back when the connection is lost', async (t) => {
  const world = await crawlOf(t, 3, {}, 3);
  if (world === undefined) return;
  const [first, second] = [await worker(t), await worker(t)];
  const got = [await first.call(tasks, 'get'), await first.call(tasks, 'get')];
  await fetched();
  got.push(await first.call(tasks, 'get'));
  const waiting = second.call(tasks, 'get', true, 20);
  first.kill();
  const again = [await waiting];
  again.push(await second.call(tasks, 'get', true, 20), await second.call(tasks, 'get', true, 20));
  assert.deepEqual(again.sort(), got.sort());
  assert.equal((await counts(world.operator, world.crawl)).pages, 0);
});

test('[Y-9] at an orderly end a page is done when something was put for it', async (t) => {
  const world = await crawlOf(t, 3);
  if (world === undefined) return;
  const [told, untold, named] = [await worker(t), await worker(t), await worker(t)];
  const urls = [await told.call(tasks, 'get')];
  const back = await untold.call(tasks, 'get');
  await told.call('result_queue', 'put', 'a.png');
  await told.leave(target, tasks);
  await untold.leave(target, tasks);
  urls.push(await named.call(tasks, 'get', true, 20), await named.call(tasks, 'get', true, 20));
  assert.ok(urls.includes(back));
  // One of two pages by its name: it may have stopped in the middle of the other.
  await named.call('result_queue', 'put', dict({ url: back, images: ['b.png'] }));
  await named.leave(target, tasks);
  const rest = await worker(t);
  assert.notEqual(await rest.call(tasks, 'get', true, 20), back);
  const { pages, waiting } = await counts(world.operator, world.crawl);
  assert.deepEqual([pages, waiting], [2, 1]);
});

test('[Y-10] task_done and release say it at once, by the URL', async (t) => {
  const world = await crawlOf(t, 2);
  if (world === undefined) return;
  const peer = await worker(t);
  const url = await peer.call(tasks, 'get');
  const other = await peer.call(tasks, 'get');
  assert.equal(await peer.call(tasks, 'task_done', url), true);
  assert.equal(await peer.call(tasks, 'task_done', url), false);
  assert.equal(await peer.call(tasks, 'release', other), true);
  assert.equal(await peer.call(tasks, 'release', other), false);
  assert.match((await peer.request(tasks, 'task_done', [7])).text, /TypeError/);
  const { others, waiting, leased } = await counts(world.operator, world.crawl);
  assert.deepEqual([others, waiting, leased], [1, 1, 0]);
  assert.equal(await peer.call(tasks, 'get', true, 20), other);
});

test('[Y-10] after task_done the next page is not done before something is put for it', async (t) => {
  const world = await crawlOf(t, 3);
  if (world === undefined) return;
  const peer = await worker(t);
  const url = await peer.call(tasks, 'get');
  await peer.call('result_queue', 'put', dict({ url, images: ['a.png'] }));
  await peer.call(tasks, 'task_done', url);
  await peer.call(tasks, 'get');
  await fetched();
  assert.equal(await peer.call(tasks, 'empty'), false);
  const { pages, waiting } = await counts(world.operator, world.crawl);
  assert.deepEqual([pages, waiting], [1, 2]);
});

test('[Y-11] empty keeps a page for the next get, and is true when nothing can come', async (t) => {
  const world = await crawlOf(t, 2, { perHost: 2 });
  if (world === undefined) return;
  const [first, second] = [await worker(t), await worker(t)];
  assert.equal(await first.call(tasks, 'empty'), false);
  await first.call(tasks, 'get');
  assert.equal(await first.call(tasks, 'empty'), false);
  assert.match((await second.request(tasks, 'get_nowait')).text, /Empty/);
  await first.call(tasks, 'get');
  // It collects a batch, and has all that there is: it is to work on that first.
  assert.equal(await first.call(tasks, 'empty'), true);
  // Others may find more: that is waited for.
  const mayCome = second.call(tasks, 'empty');
  await first.call('filter_queue', 'put', 'found');
  await fetched();
  const more = first.call(tasks, 'empty');
  const [holder, isEmpty] = await Promise.race([
    mayCome.then((answer) => [second, answer] as const),
    more.then((answer) => [first, answer] as const),
  ]);
  assert.equal(isEmpty, false);
  assert.equal(await holder.call(tasks, 'get', true, 20), `${world.seed}found`);
  await holder.call('result_queue', 'put', dict({ url: `${world.seed}found`, status: 200 }));
  assert.equal(await holder.call(tasks, 'empty'), true);
  assert.equal(await (holder === first ? mayCome : more), true);
  assert.match((await holder.request(tasks, 'get')).text, /Empty/);
});

test('[Y-12] what another thread of the process puts belongs to the page', async (t) => {
  const world = await crawlOf(t, 1, { maxDepth: 1 });
  if (world === undefined) return;
  const { seed, operator, crawl } = world;
  const [main, thread] = [await worker(t, 'P-1'), await worker(t, 'P-1|Thread-1')];
  await main.call(tasks, 'get');
  await thread.call('filter_queue', 'put', 'deeper');
  await thread.call('result_queue', 'put', 'a.png');
  assert.equal(await main.call(tasks, 'get', true, 20), `${seed}deeper`);
  await thread.call('filter_queue', 'put', 'too-deep');
  assert.equal(await main.call(tasks, 'empty'), true);
  const { pages, images } = await counts(operator, crawl);
  assert.deepEqual([pages, images], [2, 1]);
});

test('[Y-12] what a process pool puts belongs to the pages of the process that made it', async (t) => {
  const world = await crawlOf(t, 2, { perHost: 2 });
  if (world === undefined) return;
  const { seed, urls, operator, crawl } = world;
  const [main, child] = [await worker(t), await worker(t, 'ForkPoolWorker-1')];
  const got = [await main.call(tasks, 'get'), await main.call(tasks, 'get')];
  assert.deepEqual(got.sort(), urls);
  await child.call('filter_queue', 'put', `${seed}deeper`);
  await child.call('result_queue', 'put', `${seed}a.png`);
  // Both are done when nothing more comes for them, though nothing names them.
  assert.equal(await main.call(tasks, 'empty'), false);
  assert.equal(await main.call(tasks, 'get', true, 20), `${seed}deeper`);
  const before = await counts(operator, crawl);
  assert.deepEqual([before.pages, before.others, before.images], [2, 0, 1]);
  await child.call('result_queue', 'put', 'b.png');
  assert.equal(await main.call(tasks, 'empty'), true);
  const after = await counts(operator, crawl);
  assert.deepEqual([after.pages, after.others, after.images], [3, 0, 2]);
});

test('[Y-13] [T-40] robots.txt goes to who takes probes, pages to who takes them', async (t) => {
  const world = await crawlOf(t, 1, { ignoreRobots: false });
  if (world === undefined) return;
  const files = await target.join('slave', `conformance-files-${process.pid}`);
  t.after(() => files.abort());
  await files.must('task.credit', { count: 4, takes: 'probes' });
  const refused = await files.request('task.credit', { count: 4, takes: 'sitemaps' });
  assert.equal(refused['error'], 'E_BAD_REQUEST');
  const peer = await worker(t);
  const page = peer.call(tasks, 'get', true, 20);
  const { task, lease, kind, url } = (await nextTask(files)) as Awaited<
    ReturnType<typeof nextTask>
  > & { kind?: string };
  assert.deepEqual([kind, url], ['robots', `${world.seed}robots.txt`]);
  await files.must('task.robots', { task, lease, status: 404, body: Buffer.alloc(0) });
  assert.equal(await page, world.urls[0]);
  assert.deepEqual(unreadPushes(files), []);
});

test('[Y-14] a seed is put into task_queue; only the master takes from the other two', async (t) => {
  const world = await crawlOf(t, 1);
  if (world === undefined) return;
  const peer = await worker(t);
  for (const queue of ['filter_queue', 'result_queue']) {
    assert.match((await peer.request(queue, 'get')).text, /RuntimeError.*only the master/s);
  }
  assert.match((await peer.request(tasks, 'put', ['ftp://a/'])).text, /ValueError.*not an http/s);
  assert.match((await peer.request(tasks, 'put', [7])).text, /TypeError/);
  const wrong = await peer.request('result_queue', 'put', [[1, 2]]);
  assert.match(wrong.text, /TypeError.*not int/s);
});

test('[Y-17] a key that means nothing is a TypeError that names it, and nothing is taken', async (t) => {
  const world = await crawlOf(t, 1);
  if (world === undefined) return;
  const { seed } = world;
  const peer = await worker(t);
  const url = await peer.call(tasks, 'get');
  const refused: [Record<string, PyValue>, RegExp][] = [
    [
      { url: String(url), images: ['a.png'], prise: 7 },
      /TypeError.*put does not know the key 'prise'; put fields of your own under 'item'/s,
    ],
    [{ [`${seed}x`]: ['b.png'], status: 200 }, /TypeError.*the key 'status'; a dict of pages has/s],
    [{ ['k'.repeat(200)]: 1 }, /TypeError.*the key 'k{64}';/s],
  ];
  for (const [value, said] of refused) {
    for (const queue of ['filter_queue', 'result_queue']) {
      assert.match((await peer.request(queue, 'put', [dict(value)])).text, said);
      const list = [`${seed}c.png`, dict(value)];
      assert.match((await peer.request(queue, 'put', [list])).text, said);
    }
  }
  // The aliases of an image are all taken.
  await peer.call(
    'result_queue',
    'put',
    dict({ url: String(url), src: 'a.png', img: 'b.png', image: ['c.png'] }),
  );
  assert.equal(await peer.call(tasks, 'task_done', url), true);
  const { pages, waiting, images } = await counts(world.operator, world.crawl);
  assert.deepEqual([pages, waiting, images], [1, 0, 3]);
});

test('[Y-18] items belong to the page in hand, and are values of JSON', async (t) => {
  const world = await crawlOf(t, 1);
  if (world === undefined) return;
  const peer = await worker(t);
  const url = String(await peer.call(tasks, 'get'));
  const put = (item: PyValue) => peer.request('result_queue', 'put', [dict({ url, item })]);
  const refused: [PyValue, RegExp][] = [
    [7, /TypeError.*item must be a dict, or a list of dicts, not int/s],
    [[dict({ a: 1 }), 'x'], /TypeError.*not str/s],
    [dict({ a: dict({ b: [1, Buffer.from('x')] }) }), /TypeError.*item\.a\.b\[1\] is a bytes/s],
    [dict({ a: 2n ** 70n }), /TypeError.*item\.a is an int beyond 2\*\*53/s],
    [dict({ a: Number.NaN }), /TypeError.*item\.a is NaN/s],
    [PyDict.of([[1, 2]]), /TypeError.*item has a key that is not a str: int/s],
    [PyDict.of([['__proto__', 2]]), /TypeError.*item has the key __proto__, which is no name/s],
  ];
  for (const [item, said] of refused) assert.match((await put(item)).text, said);
  await put(dict({ name: 'one', price: 7.5, tags: ['a', null, true] }));
  await put([dict({ name: 'two' }), dict({ name: 'three' })]);
  assert.equal(await peer.call(tasks, 'task_done', url), true);
  const late = await put(dict({ late: 1 }));
  assert.match(late.text, /ValueError.*the page of the item is not in hand/s);
  await counts(world.operator, world.crawl);
  const { rules } = await statusOf(world.operator, world.crawl);
  assert.equal((rules as { item: { rows: number } }).item.rows, 3);
});

test('[Y-15] a worker that asks a host with a delay gets its next page after the delay', async (t) => {
  const world = await crawlOf(t, 3, { delayMs: 200 });
  if (world === undefined) return;
  const peer = await worker(t);
  const since = performance.now();
  await peer.call(tasks, 'get');
  assert.equal(await peer.call(tasks, 'empty'), false);
  await peer.call(tasks, 'get');
  assert.ok(performance.now() - since > 195);
});

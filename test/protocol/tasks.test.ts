/** Tasks: credit, push, report, release, extend, cancel, drain. Source: PROTOCOL.md
 *  [T-1]..[T-21]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import { pack } from '../support/msgpack.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { RawPeer as Raw } from '../support/raw-peer.ts';
import {
  nextTask,
  nothingPushed,
  page,
  pushed,
  release,
  report,
  type Task,
  timeout,
} from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const paths = (seed: string, count: number) =>
  Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);

test('[T-1] a slave holds at most as many leases as its credit, counted over pushes', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const seeds = Array.from({ length: 10 }, () => target.seed());
  await target.crawl(slave, seeds);
  await nothingPushed(slave);
  await slave.must('task.credit', { count: 3, slots: 20 });
  const held = await pushed(slave);
  assert.equal(held.length, 3);
  await nothingPushed(slave);
  await slave.must('task.credit', { count: 5, slots: 20 });
  held.push(...(await pushed(slave)));
  assert.equal(held.length, 5);
  await slave.must('task.credit', { count: 2, slots: 20 });
  for (const task of held.splice(0, 3)) await report(slave, task);
  await nothingPushed(slave);
  await report(slave, held[0] as Task);
  assert.equal((await pushed(slave)).length, 1);
  await slave.must('task.credit', { count: 0 });
  await report(slave, held[1] as Task);
  await nothingPushed(slave);
  await slave.close();
});

test('[T-2] a push names the task, its lease, crawl, URL, depth and attempt', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed('a?b=c');
  await target.crawl(slave, [seed]);
  const spec = await slave.push('crawl.spec');
  const { task, lease, ...rest } = await nextTask(slave);
  assert.ok(Buffer.isBuffer(task) && task.length >= 1 && task.length <= 64);
  assert.ok(Number.isSafeInteger(lease));
  assert.deepEqual(rest, { crawl: spec['crawl'], url: seed, depth: 0, attempt: 1, open: true });
  await slave.close();
});

test('[T-3] the spec of a crawl comes before its first task, once a session', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const fetch = { userAgent: 'conformance', redirectsMax: 3, images: ['img', 'og'] };
  const crawl = await target.crawl(slave, paths(seed, 3), { fetch });
  const first = await slave.next(({ verb }) => verb === 'crawl.spec' || verb === 'task.push');
  assert.equal(first['verb'], 'crawl.spec');
  assert.equal(first['name'], crawl);
  const { timeoutMs, bodyBytesMax, ...rest } = first['fetch'] as Message;
  // A crawl may have more options than those that are asked for here.
  for (const [name, value] of Object.entries(fetch)) assert.deepEqual(rest[name], value, name);
  assert.deepEqual(rest['allowPrivate'], []);
  assert.ok(Number(timeoutMs) >= 1 && Number(bodyBytesMax) >= 1);
  for (let i = 0; i < 3; i++) await report(slave, await nextTask(slave));
  assert.equal(
    slave.unread.find(({ verb }) => verb === 'crawl.spec'),
    undefined,
  );
  await slave.close();
});

test('[T-5] a report ends its lease, and its links become tasks one deeper', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  const links = paths(seed, 2);
  const images = [
    { src: `${seed}i.png`, via: 'img', alt: 'i' },
    { src: `${seed}i.png`, via: 'srcset' },
  ];
  const reply = await report(slave, await nextTask(slave), { links, images });
  assert.equal(reply['state'], 'done');
  const found = await nextTask(slave);
  assert.deepEqual([found.url, found.depth], [links[0], 1]);
  const { pages, images: distinct, known, waiting, leased } = await statusOf(slave, crawl);
  assert.deepEqual([pages, distinct, known, waiting, leased], [1, 1, 3, 2, 1]);
  await slave.close();
});

test('[T-6] a release without an error gives the task back at once and counts nothing', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()]);
  const first = await nextTask(slave);
  assert.equal((await release(slave, first))['state'], 'done');
  const again = await nextTask(slave);
  assert.deepEqual([again.url, again.attempt], [first.url, 1]);
  assert.notEqual(again.lease, first.lease);
  assert.equal((await release(slave, first))['state'], 'stale');
  await slave.close();
});

test('[T-6] a release with an error is an attempt: later again, at the last one buried', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { attemptsMax: 2 });
  const begun = performance.now();
  assert.equal((await release(slave, await nextTask(slave), timeout))['state'], 'done');
  const again = await nextTask(slave);
  const waited = performance.now() - begun;
  assert.ok(waited > 700 && waited < 3_000, `again after ${waited} ms`);
  assert.equal(again.attempt, 2);
  await release(slave, again, timeout);
  const { buried, failed, waiting } = await statusOf(slave, crawl);
  assert.deepEqual([buried, failed, waiting], [1, 1, 0]);
  await slave.close();
});

test('[T-6] what no second try mends is buried at once', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  for (const kind of ['tls', 'too-large']) {
    await release(slave, await nextTask(slave), { kind, message: 'for good' });
  }
  const { buried, waiting, errors } = await statusOf(slave, crawl);
  assert.deepEqual([buried, waiting, errors], [2, 0, { tls: 1, 'too-large': 1 }]);
  await slave.close();
});

test('[T-6] retryAfterMs is the least wait before the next attempt', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()]);
  const begun = performance.now();
  await release(slave, await nextTask(slave), timeout, { retryAfterMs: 1_400 });
  await nextTask(slave);
  assert.ok(performance.now() - begun > 1_390);
  await slave.close();
});

test('[T-7] extend answers with the leases that are not held', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()]);
  const { lease } = await nextTask(slave);
  const { lost } = await slave.must('task.extend', { leases: [lease, lease + 1, 0] });
  assert.deepEqual(lost, [lease + 1, 0]);
  const other = await target.join('slave', 'conformance-other');
  assert.deepEqual((await other.must('task.extend', { leases: [lease] }))['lost'], [lease]);
  await other.close();
  await slave.close();
});

test('[T-8] a lease that is taken away is cancelled', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const task = await nextTask(slave);
  await slave.must('crawl.cancel', { crawl });
  assert.deepEqual((await slave.push('task.cancel'))['leases'], [task.lease]);
  assert.equal((await report(slave, task))['state'], 'stale');
  await slave.close();
});

test('[T-9] a report is acknowledged only when it is on the disk', async (t) => {
  if (target.process(t) === undefined) return;
  let slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  const task = await nextTask(slave);
  const links = paths(seed, 5);
  assert.equal((await report(slave, task, { links }))['state'], 'done');
  await target.restart('SIGKILL');
  slave = await target.join('slave', 'conformance-after');
  const { pages, waiting, known } = await statusOf(slave, crawl);
  assert.deepEqual([pages, waiting, known], [1, 5, 6]);
  // Sent again, because the acknowledgement might have been lost: nothing twice.
  assert.equal((await report(slave, task))['state'], 'stale');
  while ((await statusOf(slave, crawl))['unwritten'] !== 0) await slave.sync();
  assert.equal(target.cluster?.fetched(crawl).length, 1);
  await slave.close();
});

test('[T-10] a report of a lease that ended counts once while the task is open', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const before = await nextTask(slave);
  slave.abort();
  const heir = await target.join('slave', 'conformance-heir');
  await heir.must('task.credit', { count: 1 });
  const now = await nextTask(heir);
  assert.notEqual(now.lease, before.lease);
  // The first slave is back and tells what it fetched; the other lease is taken away.
  const back = await target.join('slave', 'conformance-back');
  assert.equal((await report(back, before))['state'], 'done');
  assert.deepEqual((await heir.push('task.cancel'))['leases'], [now.lease]);
  assert.equal((await report(heir, now))['state'], 'stale');
  assert.equal((await statusOf(back, crawl))['pages'], 1);
  await heir.close();
  await back.close();
});

test('[T-10] after a restart a report of before counts', async (t) => {
  if (target.process(t) === undefined) return;
  let slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const task = await nextTask(slave);
  await target.restart('SIGKILL');
  slave = await target.join('slave', 'conformance-after');
  assert.equal((await report(slave, task))['state'], 'done');
  assert.equal((await statusOf(slave, crawl))['pages'], 1);
  await slave.close();
});

test('[T-11] the same report twice is one page', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const task = await nextTask(slave);
  const answers = await Promise.all([report(slave, task), report(slave, task)]);
  assert.deepEqual(answers.map(({ state }) => state).sort(), ['done', 'stale']);
  assert.equal((await report(slave, task))['state'], 'stale');
  assert.equal((await statusOf(slave, crawl))['pages'], 1);
  await slave.close();
});

test('[T-11] a report about a task that never was is stale', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  for (const id of [Buffer.from([0]), Buffer.alloc(26), Buffer.alloc(64, 255)]) {
    const task = { task: id, lease: 1, url: 'http://a.invalid/', crawl: 1, depth: 0, attempt: 1 };
    assert.equal((await report(slave, task))['state'], 'stale');
    assert.equal((await release(slave, task))['state'], 'stale');
    assert.equal((await release(slave, task, timeout))['state'], 'stale');
  }
  await slave.close();
});

const orders: readonly [string, readonly string[]][] = [
  ['bfs', ['/', '/b', '/a/1', '/a/2']],
  ['dfs', ['/', '/a/1', '/a/2', '/b']],
];
for (const [order, expected] of orders) {
  test(`[T-12] order ${order}: ${expected.join(' ')}`, async (t) => {
    const slave = await target.slave(t, 1);
    if (slave === undefined) return;
    const seed = target.seed();
    const at = (path: string) => new URL(path, seed).href;
    await target.crawl(slave, [seed, at('/b')], { order });
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      const task = await nextTask(slave);
      seen.push(new URL(task.url).pathname);
      await reportAlone(slave, task, i === 0 ? [at('/a/1'), at('/a/2')] : []);
    }
    assert.deepEqual(seen, expected);
    await slave.close();
  });
}

/** Reports while no task may follow, so that the links are waiting when one does. */
async function reportAlone(slave: RawPeer, task: Task, links: readonly string[]): Promise<void> {
  await slave.must('task.credit', { count: 0 });
  await report(slave, task, { links });
  await slave.must('task.credit', { count: 1 });
}

test('[T-12] order priority: higher first, and links inherit it', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const seed = target.seed();
  const at = (path: string) => new URL(path, seed).href;
  const crawl = await target.crawl(slave, [at('/low')], { order: 'priority' });
  await slave.must('crawl.add', { crawl, seeds: [at('/high')], priority: 5 });
  await slave.must('crawl.add', { crawl, seeds: [at('/lowest')], priority: -5 });
  await slave.must('task.credit', { count: 1 });
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) {
    const task = await nextTask(slave);
    seen.push(new URL(task.url).pathname);
    await reportAlone(slave, task, i === 0 ? [at('/heir')] : []);
  }
  assert.deepEqual(seen, ['/high', '/heir', '/low', '/lowest']);
  await slave.close();
});

test('[T-13] a task of a host with a delay is given only for a free slot, and after the delay', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const seed = target.seed();
  await target.crawl(slave, paths(seed, 3), { delayMs: 300, perHost: 10 });
  await slave.must('task.credit', { count: 3, slots: 1 });
  const first = await nextTask(slave);
  await nothingPushed(slave);
  const begun = performance.now();
  await report(slave, first);
  await nextTask(slave);
  assert.ok(performance.now() - begun < 1_000);
  await slave.close();
});

test('[T-14] links that are not canonical, in scope or shallow enough are left out', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { maxDepth: 1, exclude: ['/no'] });
  const links = [
    new URL('/yes', seed).href,
    new URL('/yes', seed).href,
    seed,
    new URL('/no', seed).href,
    `${seed}#fragment`,
    seed.toUpperCase(),
    'ftp://a.invalid/',
    'javascript:alert(1)',
    'http://elsewhere.invalid/',
    'not a URL',
    '',
    '\u0000\u00ff',
  ];
  await report(slave, await nextTask(slave), { links });
  const yes = await nextTask(slave);
  assert.equal(new URL(yes.url).pathname, '/yes');
  await report(slave, yes, { links: [new URL('/deeper', seed).href] });
  const { known, waiting } = await statusOf(slave, crawl);
  assert.deepEqual([known, waiting], [2, 0]);
  await slave.close();
});

test('[T-15] a page is named by its final URL and counted once', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const [a = '', b = ''] = paths(seed, 2);
  const crawl = await target.crawl(slave, [a, b]);
  await report(slave, await nextTask(slave), { result: page(new URL('/final', seed).href) });
  await report(slave, await nextTask(slave), { result: page(new URL('/final', seed).href) });
  const { pages, others } = await statusOf(slave, crawl);
  assert.deepEqual([pages, others], [1, 1]);
  await slave.close();
});

test('[T-19] noindex is kept to on demand, and a name is taken once', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const spec = { canonical: true, fetch: { obey: ['noindex'] } };
  const crawl = await target.crawl(slave, paths(seed, 4), spec);
  const canonical = new URL('/name', seed).href;
  const said = [{ canonical }, { canonical }, { directives: ['noindex'] }, {}];
  for (const [i, words] of said.entries()) {
    const task = await nextTask(slave);
    const links = [new URL(`/next-${i}`, seed).href];
    const images = [{ src: new URL(`/${i}.png`, seed).href, via: 'img' }];
    await report(slave, task, { result: { ...page(task.url), ...words }, links, images });
  }
  const { pages, excluded, images, known } = await statusOf(slave, crawl);
  assert.deepEqual([pages, excluded, images, known], [2, 2, 3, 8]);
  await slave.close();
});

test('[T-19] a page is not named by a URL of another site', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const spec = { canonical: true, scope: 'any' } as const;
  const crawl = await target.crawl(slave, paths(target.seed(), 2), spec);
  const canonical = 'http://another.example/name';
  for (let i = 0; i < 2; i++) {
    const task = await nextTask(slave);
    await report(slave, task, { result: { ...page(task.url), canonical } });
  }
  const { pages, excluded } = await statusOf(slave, crawl);
  assert.deepEqual([pages, excluded], [2, 0]);
  await slave.close();
});

test('[T-16] when all is done a master that leaves tells slaves to drain, then closes', async (t) => {
  if (target.process(t) === undefined) return;
  await using cluster = new Cluster();
  const seed = target.seed();
  const master = await cluster.master([
    seed,
    '--ignore-robots',
    '--delay',
    '0',
    '--exit-when-done',
  ]);
  const [host = '', port] = cluster.address.split(':');
  const address = { host, port: Number(port), authkey: cluster.authkey };
  const slave = await Raw.join(address, 'slave');
  await slave.must('task.credit', { count: 1 });
  await report(slave, await nextTask(slave));
  assert.deepEqual(await slave.push('drain'), { verb: 'drain' });
  assert.equal(await slave.ended, 'fin');
  assert.deepEqual(await master.exited, { code: 0, signal: null });
});

test('[T-17] a robots.txt comes as a task of its kind before any page', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const seed = target.seed();
  await target.crawl(slave, [seed, `${seed}private`], { ignoreRobots: false });
  const { task, lease, kind, url } = (await nextTask(slave)) as Task & { kind?: string };
  assert.deepEqual([kind, url], ['robots', `${seed}robots.txt`]);
  await nothingPushed(slave);
  const body = Buffer.from('User-agent: *\nDisallow: /private');
  const answer = { task, lease, status: 200, body };
  const refused = await slave.request('task.robots', { ...answer, body: Buffer.alloc(512_001) });
  assert.equal(refused['error'], 'E_BAD_REQUEST');
  assert.equal((await slave.must('task.robots', answer))['state'], 'done');
  assert.equal((await slave.must('task.robots', answer))['state'], 'stale');
  const page = (await nextTask(slave)) as Task & { kind?: string };
  assert.deepEqual([page.kind, page.url], [undefined, seed]);
  await nothingPushed(slave);
  await slave.close();
});

test('[T-18] the delay of a host counts from task.started', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  await target.crawl(slave, paths(target.seed(), 2), { delayMs: 300, perHost: 10 });
  const first = (await nextTask(slave)) as Task & { timed?: boolean };
  assert.equal(first.timed, true);
  await new Promise((resolve) => setTimeout(resolve, 500));
  await nothingPushed(slave);
  const begun = performance.now();
  await slave.must('task.started', { lease: first.lease });
  await nextTask(slave);
  const tookMs = performance.now() - begun;
  assert.ok(tookMs > 290 && tookMs < 2_000, `${tookMs} ms`);
  await slave.close();
});

test('[T-145] a request may be announced late, but not as earlier than half a delay ago', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  await target.crawl(slave, paths(target.seed(), 3), { delayMs: 1_000, perHost: 10 });
  let task = (await nextTask(slave)) as Task & { tellMs?: number };
  for (const [agoMs, leastMs] of [
    [400, 600],
    [60_000, 500],
  ] as const) {
    assert.equal(task.tellMs, 500);
    await new Promise((resolve) => setTimeout(resolve, 800));
    const begun = performance.now();
    await slave.must('task.started', { lease: task.lease, agoMs });
    const reported = report(slave, task);
    task = await nextTask(slave);
    const tookMs = performance.now() - begun;
    assert.ok(tookMs > leastMs - 10 && tookMs < 950, `${agoMs}: ${tookMs} ms`);
    await reported;
  }
  await slave.close();
});

test('[T-30] a slave is told that a crawl has ended, and its spec again if it goes on', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  const spec = await slave.push('crawl.spec');
  await report(slave, await nextTask(slave));
  assert.equal((await slave.push('crawl.ended'))['crawl'], spec['crawl']);
  await slave.must('crawl.add', { crawl, seeds: [target.seed()] });
  assert.equal((await slave.push('crawl.spec'))['crawl'], spec['crawl']);
  await nextTask(slave);
  await slave.must('crawl.cancel', { crawl });
  assert.equal((await slave.push('crawl.ended'))['crawl'], spec['crawl']);
  await slave.close();
});

test('[T-31] a report of status 304 that nobody asked for is no page', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  const result = { finalUrl: seed, status: 304, bytes: 0, ms: 1 };
  await report(slave, await nextTask(slave), { result });
  const { pages, failed, unchanged } = await statusOf(slave, crawl);
  assert.deepEqual([pages, failed, unchanged], [0, 1, 0]);
  await slave.close();
});

test('[T-32] the spec has the proxies and user agents of its crawl', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const proxies = ['http://a:b@proxy.example:8080', 'socks5://[::1]:1080'];
  const fetch = { userAgent: 'one', otherUserAgents: ['two'], proxies };
  await target.crawl(slave, [target.seed()], { fetch });
  const spec = (await slave.push('crawl.spec'))['fetch'] as Message;
  for (const [name, value] of Object.entries(fetch)) assert.deepEqual(spec[name], value, name);
  await slave.close();
});

test('[T-6] an error of kind proxy is no attempt of the page', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()], { attemptsMax: 1 });
  const error = { kind: 'proxy', message: 'no connection to the proxy' };
  await release(slave, await nextTask(slave), error);
  const again = await nextTask(slave);
  assert.equal(again.attempt, 1);
  const { buried, waiting } = await statusOf(slave, crawl);
  assert.deepEqual([buried, waiting], [0, 1]);
  await slave.close();
});

/** A slave that has the page and the sitemap that a robots.txt of the test's own names. */
async function withSitemap(t: Parameters<typeof target.slave>[0], spec: Message = {}) {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return undefined;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { ignoreRobots: false, ...spec });
  const { task, lease } = await nextTask(slave);
  const body = Buffer.from(`Sitemap: ${seed}map.xml`);
  await slave.must('task.robots', { task, lease, status: 200, body });
  const tasks = [...(await pushed(slave))] as (Task & { kind?: string })[];
  while (tasks.length < 2) tasks.push(...((await pushed(slave)) as Task[]));
  const sitemap = tasks.find(({ kind }) => kind === 'sitemap') as Task;
  const home = tasks.find(({ kind }) => kind === undefined) as Task;
  return { slave, seed, crawl, sitemap, home };
}

const end = (url: string) => ({ result: pack(page(url)), urls: 1, images: 0 });
const none = Buffer.alloc(0);

test('[T-20] a sitemap that robots.txt names comes as a task; its URLs are one deep', async (t) => {
  const { slave, seed, crawl, sitemap } = (await withSitemap(t)) ?? {};
  if (slave === undefined || sitemap === undefined || crawl === undefined) return;
  assert.deepEqual([sitemap.url, sitemap.depth, sitemap.attempt], [`${seed}map.xml`, 0, 1]);
  const { task, lease, url } = sitemap;
  const said = { task, lease, kind: 'urlset', urls: Buffer.from(`${seed}x`), images: none };
  const answer = { ...said, end: end(url) };
  assert.equal((await slave.must('task.sitemap', answer))['state'], 'done');
  assert.equal((await slave.must('task.sitemap', answer))['state'], 'stale');
  const listed = await nextTask(slave);
  assert.deepEqual([listed.url, listed.depth], [`${seed}x`, 1]);
  const { others, failed } = await statusOf(slave, crawl);
  assert.deepEqual([others, failed], [1, 0]);
  await slave.close();
});

test('[T-20] a sitemap that was reported as a page has failed, and is not buried', async (t) => {
  const { slave, crawl, sitemap } = (await withSitemap(t, { attemptsMax: 1 })) ?? {};
  if (slave === undefined || sitemap === undefined || crawl === undefined) return;
  assert.equal((await report(slave, sitemap, { links: [`${sitemap.url}x`] }))['state'], 'done');
  await nothingPushed(slave);
  const { others, failed, buried } = await statusOf(slave, crawl);
  assert.deepEqual([others, failed, buried], [1, 0, 0]);
  await slave.close();
});

test('[T-21] a sitemap may come in parts; until the last one its task is open', async (t) => {
  const { slave, seed, crawl, sitemap, home } = (await withSitemap(t)) ?? {};
  if (slave === undefined || sitemap === undefined || crawl === undefined) return;
  // A new host has two tasks at once. [T-24]
  await report(slave, home as Task);
  const { task, lease, url } = sitemap;
  const images = Buffer.from(`${seed}1.png`);
  const part = { task, lease, kind: 'index', urls: Buffer.from(`${seed}2.xml`), images };
  assert.equal((await slave.must('task.sitemap', part))['state'], 'done');
  const below = (await nextTask(slave)) as Task & { kind?: string };
  assert.deepEqual([below.kind, below.url, below.depth], ['sitemap', `${seed}2.xml`, 0]);
  assert.equal((await statusOf(slave, crawl))['images'], 1);
  assert.deepEqual((await slave.must('task.extend', { leases: [lease] }))['lost'], []);
  const last = { ...part, urls: none, images: none, end: end(url) };
  assert.equal((await slave.must('task.sitemap', last))['state'], 'done');
  assert.deepEqual((await slave.must('task.extend', { leases: [lease] }))['lost'], [lease]);
  await slave.close();
});

/** Verbs of operators. Source: PROTOCOL.md [C-1]..[C-12], [C-20]. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import {
  nextTask,
  page,
  pushed,
  release,
  report,
  type Task,
  timeout,
} from '../support/raw-slave.ts';
import { type Status, statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

/** A crawl with this many buried URLs, and their slave. */
async function bury(slave: RawPeer, count: number): Promise<{ crawl: string; urls: string[] }> {
  const seed = target.seed();
  const urls = Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1 });
  for (let i = 0; i < count; i++) await release(slave, await nextTask(slave), timeout);
  return { crawl, urls };
}

test('[C-1] add makes the crawl and tells of each seed: admitted, known, or refused and why', async () => {
  const peer = await target.join();
  const seed = target.seed();
  const crawl = await target.crawl(peer, [], { exclude: ['/private'] });
  const seeds = [seed, seed, `${seed}#part`, `${seed}private`, 'ftp://a.invalid/', 'no URL'];
  const { id: _, ok, ...verdict } = await peer.must('crawl.add', { crawl, seeds });
  assert.equal(ok, true);
  const { refused, ...counts } = verdict as { refused: { url: string; why: string }[] };
  assert.deepEqual(counts, { admitted: 1, known: 2 });
  assert.deepEqual(
    refused.map(({ url }) => url),
    seeds.slice(3),
  );
  for (const { why } of refused) assert.match(why, /\S/);
  assert.deepEqual((await peer.must('crawl.add', { crawl, seeds: [seed] }))['known'], 1);
  await peer.close();
});

test('[C-1] a seed is on the disk when add is answered', async (t) => {
  if (target.process(t) === undefined) return;
  const peer = await target.join();
  const crawl = await target.crawl(peer, [target.seed(), target.seed()]);
  await target.restart('SIGKILL');
  const after = await target.join();
  assert.equal((await statusOf(after, crawl))['waiting'], 2);
  await after.close();
});

/** Of a ledger. [C-50] */
const noRow = {
  admitted: 0,
  waiting: 0,
  pages: 0,
  redirects: 0,
  others: 0,
  failed: 0,
  excluded: 0,
  buried: 0,
  dropped: 0,
  replayed: 0,
};

test('[C-2] [C-50] list has every crawl with its counters, and every session', async (t) => {
  const slave = await target.slave(t, 2);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  await nextTask(slave);
  const { crawls, sessions } = (await slave.must('crawl.list')) as unknown as Status;
  const found = crawls.find(({ name }) => name === crawl);
  const { rates: _, startedAt, ...mine }: Record<string, unknown> = found ?? {};
  assert.ok(Number(startedAt) > 0);
  assert.deepEqual(mine, {
    name: crawl,
    state: 'running',
    waiting: 1,
    leased: 1,
    unwritten: 0,
    pages: 0,
    images: 0,
    others: 0,
    failed: 0,
    buried: 0,
    unchanged: 0,
    excluded: 0,
    skipped: {},
    errors: {},
    statuses: {},
    known: 1,
    bytes: 0,
    aliases: 0,
    malformed: 0,
    ledger: { page: { ...noRow, admitted: 1, waiting: 1 } },
  });
  const me = sessions.filter(({ role, leases }) => role === 'slave' && leases === 1);
  assert.equal(me.length, 1);
  assert.deepEqual(Object.keys(me[0] ?? {}).sort(), ['leases', 'name', 'role']);
  await slave.close();
});

test('[C-2] a crawl of which nothing is left is finished, and runs again with a new seed', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  await report(slave, await nextTask(slave));
  let now = await statusOf(slave, crawl);
  while (now['state'] !== 'finished') {
    assert.equal(now['state'], 'running');
    now = await statusOf(slave, crawl);
  }
  assert.deepEqual([now['waiting'], now['leased'], now['unwritten']], [0, 0, 0]);
  await slave.must('crawl.add', { crawl, seeds: [target.seed()] });
  assert.equal((await statusOf(slave, crawl))['state'], 'running');
  await slave.close();
});

test('[C-50] [C-51] the ledger names the end of every URL, and the crawl why it ended', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const [seed, gone, left] = [target.seed(), target.seed(), target.seed()];
  const crawl = await target.crawl(slave, [seed, gone, left]);
  const tasks: Task[] = [];
  while (tasks.length < 3) tasks.push(...(await pushed(slave)));
  for (const task of tasks) {
    if (task['url'] === seed) await report(slave, task);
    else if (task['url'] === gone) {
      const error = { kind: 'dns', message: 'no address' };
      const { task: name, lease } = task;
      await slave.must('task.release', { task: name, lease, error, final: true });
    } else {
      const redirectedTo = 'http://elsewhere.invalid/';
      await report(slave, task, { result: { ...page(seed), status: 301, redirectedTo } });
    }
  }
  let now = await statusOf(slave, crawl);
  while (now['state'] !== 'finished') now = await statusOf(slave, crawl);
  const row = { ...noRow, admitted: 3, pages: 1, redirects: 1, buried: 1 };
  assert.deepEqual(now['ledger'], { page: row });
  assert.equal((now['ending'] as { why: string }).why, 'finished');
  await slave.must('crawl.replay', { crawl });
  const replayed = (await statusOf(slave, crawl))['ledger'];
  assert.deepEqual(replayed, { page: { ...row, buried: 0, waiting: 1, replayed: 1 } });
  assert.equal((await statusOf(slave, crawl))['ending'], undefined);
  await slave.must('crawl.cancel', { crawl });
  const cancelled = (await statusOf(slave, crawl))['ledger'];
  assert.deepEqual(cancelled, { page: { ...row, buried: 0, dropped: 1, replayed: 1 } });
  await slave.close();
});

test('[C-52] a seed that redirects within its site opens that host, without its secrets', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = 'http://a-site.invalid/';
  const to = `http://www.a-site.invalid/${Math.random()}`;
  const crawl = await target.crawl(slave, [seed]);
  const task = await nextTask(slave);
  assert.equal(task.open, true);
  await report(slave, task, { result: { ...page(seed), status: 301, redirectedTo: to } });
  const next = await nextTask(slave);
  assert.deepEqual([next.url, next.depth, next.open], [to, 0, undefined]);
  await slave.must('crawl.cancel', { crawl });
  await slave.close();
});

test('[C-52] where a seed redirects to in scope is a seed, and answers for it', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const host = `a${Math.random()}-site.invalid`;
  const crawl = await target.crawl(slave, [`http://${host}/`]);
  const to = `https://${host}/`;
  const task = await nextTask(slave);
  await report(slave, task, { result: { ...page(task.url), status: 301, redirectedTo: to } });
  const next = await nextTask(slave);
  assert.deepEqual([next.url, next.depth, next.open], [to, 0, true]);
  await report(slave, next);
  let status = await statusOf(slave, crawl);
  while (status['state'] === 'running') status = await statusOf(slave, crawl);
  assert.equal((status['ending'] as { why: string }).why, 'finished');
  await slave.close();
});

test('[C-3] [C-4] a paused crawl hands out nothing until it is resumed', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  assert.equal((await slave.must('crawl.pause', { crawl }))['state'], 'paused');
  assert.equal((await statusOf(slave, crawl))['state'], 'paused');
  await slave.must('task.credit', { count: 1 });
  for (let i = 0; i < 3; i++) await slave.sync();
  assert.deepEqual(slave.unread, []);
  await slave.must('crawl.pause', { crawl }); // paused already: no error
  assert.equal((await slave.must('crawl.resume', { crawl }))['state'], 'running');
  const task = await nextTask(slave);
  // Pages under way when a crawl is paused may still come in.
  await slave.must('crawl.pause', { crawl });
  assert.equal((await report(slave, task))['state'], 'done');
  for (let i = 0; i < 3; i++) await slave.sync();
  assert.equal(
    slave.unread.find(({ verb }) => verb === 'task.push'),
    undefined,
  );
  await slave.close();
});

test('[C-3] a pause outlives the master', async (t) => {
  if (target.process(t) === undefined) return;
  const peer = await target.join();
  const crawl = await target.crawl(peer, [target.seed()]);
  await peer.must('crawl.pause', { crawl });
  await target.restart('SIGKILL');
  const after = await target.join();
  assert.equal((await statusOf(after, crawl))['state'], 'paused');
  await after.close();
});

test('[C-5] a cancelled crawl is over for good', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  const task = await nextTask(slave);
  await slave.must('crawl.cancel', { crawl });
  const { state, waiting, leased } = await statusOf(slave, crawl);
  assert.deepEqual([state, waiting, leased], ['cancelled', 0, 0]);
  assert.equal((await report(slave, task))['state'], 'stale');
  const more = await slave.request('crawl.add', { crawl, seeds: [target.seed()] });
  assert.equal(more.error, 'E_BAD_REQUEST');
  await slave.must('crawl.cancel', { crawl });
  assert.equal((await slave.must('crawl.resume', { crawl }))['state'], 'cancelled');
  assert.equal((await statusOf(slave, crawl))['state'], 'cancelled');
  assert.equal((await slave.must('crawl.replay', { crawl }))['replayed'], 0);
  await slave.close();
});

test('[C-6] buried gives every URL that was given up once, a page at a time', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const { crawl, urls } = await bury(slave, 7);
  const all: Message[] = [];
  let after: unknown;
  let pages = 0;
  do {
    const page = await slave.must('crawl.buried', { crawl, limit: 3, ...(after ? { after } : {}) });
    const rows = page['urls'] as Message[];
    assert.ok(rows.length <= 3);
    all.push(...rows);
    after = page['next'];
    pages++;
  } while (after !== undefined);
  assert.equal(pages, 3);
  assert.deepEqual(all.map(({ url }) => url).sort(), urls);
  assert.deepEqual({ ...all[0], url: '' }, { url: '', ...timeout, attempts: 1 });
  const other = await target.crawl(slave, []);
  const { next } = await slave.must('crawl.buried', { crawl, limit: 3 });
  const wrong = [Buffer.alloc(0), Buffer.alloc(19), Buffer.alloc(20), Buffer.alloc(5_000, 1)];
  for (const after of wrong) {
    assert.equal((await slave.request('crawl.buried', { crawl, after })).error, 'E_BAD_REQUEST');
  }
  const foreign = await slave.request('crawl.buried', { crawl: other, after: next });
  assert.equal(foreign.error, 'E_BAD_REQUEST');
  await slave.close();
});

test('[C-7] replay puts one or all of the buried back into the task queue', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const { crawl, urls } = await bury(slave, 3);
  assert.equal((await slave.must('crawl.replay', { crawl, url: urls[1] }))['replayed'], 1);
  const one = await nextTask(slave);
  assert.deepEqual([one.url, one.attempt], [urls[1], 1]);
  await report(slave, one);
  assert.equal((await slave.must('crawl.replay', { crawl, url: urls[1] }))['replayed'], 0);
  assert.equal((await slave.must('crawl.replay', { crawl }))['replayed'], 2);
  const { buried, waiting, pages } = await statusOf(slave, crawl);
  assert.deepEqual([buried, waiting, pages], [0, 2, 1]);
  await slave.close();
});

test('[C-8] a crawl that is not there is E_NO_CRAWL', async () => {
  const peer = await target.join();
  const crawl = target.name();
  for (const verb of ['pause', 'resume', 'cancel', 'remove', 'rename', 'buried', 'replay']) {
    assert.equal(
      (await peer.request(`crawl.${verb}`, verb === 'rename' ? { crawl, to: 'x' } : { crawl }))
        .error,
      'E_NO_CRAWL',
      verb,
    );
  }
  await peer.close();
});

test('[C-9] the spec of a crawl is fixed when it is made', async () => {
  const peer = await target.join();
  const crawl = await target.crawl(peer, [target.seed()]);
  const spec = { maxDepth: 1 };
  const again = await peer.request('crawl.add', { crawl, seeds: [target.seed()], spec });
  assert.equal(again.error, 'E_BAD_REQUEST');
  assert.equal((await statusOf(peer, crawl))['known'], 1);
  const same = await peer.request('crawl.add', { crawl, seeds: [target.seed()], spec: {} });
  assert.equal(same.ok, true);
  // Also for two that make it at once: one of them is too late.
  const name = await target.crawl(peer, []);
  const twin = `${name}-twin`;
  const both = await Promise.all([
    peer.request('crawl.add', { crawl: twin, seeds: [target.seed()], spec: { maxDepth: 1 } }),
    peer.request('crawl.add', { crawl: twin, seeds: [target.seed()], spec: { maxDepth: 2 } }),
  ]);
  assert.deepEqual(both.map(({ ok }) => ok).sort(), [false, true]);
  await peer.must('crawl.cancel', { crawl: twin });
  await peer.close();
});

test('[C-10] maxPages ends a crawl with that many pages', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed], { maxPages: 2 });
  const links = Array.from({ length: 5 }, (_, i) => new URL(`/${i}`, seed).href);
  await report(slave, await nextTask(slave), { links });
  await report(slave, await nextTask(slave));
  let now = await statusOf(slave, crawl);
  while (now['state'] !== 'finished') now = await statusOf(slave, crawl);
  assert.deepEqual([now['pages'], now['waiting']], [2, 4]);
  await slave.close();
});

test('[C-12] a link that is not taken is counted once, by its reason; a seed is taken', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const spec = { maxDepth: 1, include: ['^http'], exclude: ['/no'], traps: { segments: 2 } };
  const crawl = await target.crawl(slave, [seed], spec);
  const at = (path: string) => new URL(path, seed).href;
  const links = [
    at('/yes'),
    at('/no'),
    at('/a/b/c'),
    at('/yes;jsessionid=1'),
    'http://elsewhere.invalid/',
  ];
  await report(slave, await nextTask(slave), { links });
  await report(slave, await nextTask(slave), { links: [...links, at('/deeper'), at('/deeper')] });
  const now = await statusOf(slave, crawl);
  assert.deepEqual(now['skipped'], { exclude: 1, segments: 1, session: 1, host: 1, depth: 1 });
  const { admitted } = await slave.must('crawl.add', { crawl, seeds: [at('/a/b/c')] });
  assert.equal(admitted, 1);
  assert.equal((await nextTask(slave)).url, at('/a/b/c'));
  const bad = { crawl: target.name(), seeds: [], spec: { traps: { segments: -1 } } };
  assert.equal((await slave.request('crawl.add', bad)).error, 'E_BAD_REQUEST');
  await slave.close();
});

test('[C-24] a crawl cannot be made with a pattern that takes more than linear time', async () => {
  const peer = await target.join();
  const crawl = target.name();
  const refused: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ exclude: ['/a', '/b(?!:)'] }, /\(\?!:\).*\[\^:\]\*/],
    [{ include: ['(.)\\1'] }, /backreference, \\1/],
    [{ include: ['(?:a{1000}){1000}'] }, /too large/],
    [{ include: ['('] }, /not a regular expression/],
  ];
  for (const [spec, says] of refused) {
    const reply = await peer.request('crawl.add', { crawl, seeds: [target.seed()], spec });
    assert.equal(reply.error, 'E_BAD_REQUEST');
    assert.match(String(reply['message']), says);
  }
  const { crawls } = await peer.must('crawl.list');
  assert.ok(Array.isArray(crawls) && !crawls.some(({ name }) => name === crawl));
  await peer.close();
});

test('[C-11] a master that stops lets what is under way come in and makes nothing new', async (t) => {
  const program = target.process(t);
  if (program === undefined) return;
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  const task = await nextTask(slave);
  program.child.kill('SIGTERM');
  // The signal and the request race; the master stays until the lease has ended.
  let refused = await slave.request('crawl.add', { crawl, seeds: [] });
  while (refused.ok) refused = await slave.request('crawl.add', { crawl, seeds: [] });
  assert.equal(refused.error, 'E_DRAINING');
  for (const verb of ['queue.put', 'queue.get']) {
    const body = { queue: 'q', ...(verb === 'queue.put' ? { items: [Buffer.from([1])] } : {}) };
    assert.equal((await slave.request(verb, body)).error, 'E_DRAINING', verb);
  }
  assert.equal((await report(slave, task))['state'], 'done');
  assert.equal(await slave.ended, 'fin');
  assert.equal(
    slave.unread.find(({ verb }) => verb === 'task.push'),
    undefined,
  );
  assert.deepEqual(await program.exited, { code: 0, signal: null });
  await target.restart();
});

test('[C-13] backup answers when the copy is made, and refuses a name that is taken', async () => {
  const peer = await target.join();
  const name = `conformance-${process.pid}`;
  const answer = await peer.request('backup', { name });
  if (answer['ok'] === true) assert.ok(Number(answer['bytes']) > 0);
  else assert.equal(answer['error'], 'E_BAD_REQUEST');
  assert.equal((await peer.request('backup', { name }))['error'], 'E_BAD_REQUEST');
  await peer.close();
});

test('[C-20] recrawl makes a paused crawl, whose unchanged pages are written as before', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const first = await target.crawl(slave, [], { maxDepth: 3 });
  const crawl = target.name();
  const image = { src: `${seed}i.png`, via: 'img' };
  const known = { type: 'text/html', bytes: 9, title: 'before', images: [image], links: 4 };
  const urls = [
    { url: seed, depth: 0, page: { etag: '"1"', lastModified: 'yesterday', ...known } },
    { url: `${seed}deep`, depth: 2, page: { etag: 'W/"2"', finalUrl: `${seed}f`, ...known } },
    { url: `${seed}deeper`, depth: 4 },
    { url: 'no URL', depth: 0 },
  ];
  const { id: _, ok, ...verdict } = await slave.must('crawl.recrawl', { crawl, like: first, urls });
  assert.ok(ok);
  assert.deepEqual(verdict, { admitted: 2, known: 0, refused: 2 });
  assert.equal((await statusOf(slave, crawl))['state'], 'paused');
  await slave.must('crawl.resume', { crawl });
  const task = (await nextTask(slave)) as unknown as Message;
  assert.deepEqual([task['etag'], task['lastModified']], ['"1"', 'yesterday']);
  const result = { finalUrl: seed, status: 304, bytes: 0, ms: 1 };
  await report(slave, task as unknown as Task, { result });
  const { pages, images, unchanged, bytes } = await statusOf(slave, crawl);
  assert.deepEqual([pages, images, unchanged, bytes], [1, 1, 1, 0]);
  const second = (await nextTask(slave)) as unknown as Message;
  assert.deepEqual([second['etag'], second['validatedUrl']], ['W/"2"', `${seed}f`]);
  const missing = await slave.request('crawl.recrawl', {
    crawl: target.name(),
    like: target.name(),
    urls,
  });
  assert.equal(missing.error, 'E_NO_CRAWL');
  await slave.must('crawl.cancel', { crawl });
  await slave.close();
});

test('[C-1] a filter that there is no memory for is refused, and nothing is made', async (t) => {
  const { cluster } = target;
  if (target.process(t) === undefined || cluster === undefined) return;
  const peer = await target.join();
  const spec = { urlsExpected: 1_000_000_000 };
  for (const [verb, offered] of [
    ['crawl.add', { seeds: [target.seed()] }],
    ['crawl.recrawl', { urls: [{ url: target.seed(), depth: 0 }] }],
  ] as const) {
    const crawl = target.name();
    const answer = await peer.request(verb, { crawl, spec, ...offered });
    assert.equal(answer.error, 'E_LIMIT');
    assert.match(String(answer.message), /--memory-limit/);
    assert.deepEqual(await statusOf(peer, crawl), {});
    assert.ok(!existsSync(join(cluster.out, crawl)), verb);
  }
  await peer.close();
});

test('[C-40] [C-41] a removed crawl is forgotten, its name is free, and late reports are stale', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  const first = await nextTask(slave);
  const { name, ok, id: _, ...reply } = await slave.must('crawl.remove', { crawl });
  assert.deepEqual([name, ok, reply], [undefined, true, {}]);
  const { crawls } = (await slave.must('crawl.list')) as unknown as Status;
  assert.ok(!crawls.some((one) => one.name === crawl));
  assert.equal((await report(slave, first))['state'], 'stale');
  assert.equal((await slave.request('crawl.remove', { crawl })).error, 'E_NO_CRAWL');
  const { admitted } = await slave.must('crawl.add', { crawl, seeds: [target.seed()] });
  assert.equal(admitted, 1);
  const second = await nextTask(slave);
  assert.ok(Number(second.crawl) > Number(first.crawl));
  const gone = await slave.must('crawl.remove', { crawl, files: true });
  const names = [...(gone['deleted'] as string[]), ...(gone['kept'] as string[])];
  for (const file of names) assert.match(file, /^[\w.-]+$/);
  await slave.close();
});

test('[C-42] a renamed crawl goes on under its new name, and the old one is free', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed(), target.seed()]);
  const first = await nextTask(slave);
  const to = target.name();
  await slave.must('crawl.rename', { crawl, to });
  assert.equal((await slave.request('crawl.pause', { crawl })).error, 'E_NO_CRAWL');
  assert.equal((await report(slave, first))['state'], 'done');
  await nextTask(slave);
  assert.equal((await statusOf(slave, to))['pages'], 1);
  const other = await target.crawl(slave, [target.seed()]);
  for (const name of [to, other]) {
    const refusal = await slave.request('crawl.rename', { crawl: to, to: name });
    assert.equal(refusal.error, 'E_BAD_REQUEST', name);
  }
  await slave.must('crawl.remove', { crawl: to });
  await slave.close();
});

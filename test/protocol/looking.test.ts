/** Verbs with which operators look at what the master knows. Source: PROTOCOL.md [C-70], [C-76],
 *  [C-77]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, release, report, timeout } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

/** All pages of a list of failed URLs. */
async function failedOf(peer: RawPeer, crawl: string, more: object): Promise<Message[]> {
  const all: Message[] = [];
  let after: unknown;
  do {
    const page = await peer.must('crawl.failed', { crawl, ...more, ...(after ? { after } : {}) });
    all.push(...(page['urls'] as Message[]));
    after = page['next'];
  } while (after !== undefined);
  return all;
}

test('[C-70] failed gives every failed URL once, a page at a time', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const urls = Array.from({ length: 7 }, (_, i) => new URL(`/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1 });
  const definite: string[] = [];
  for (let i = 0; i < urls.length; i++) {
    const task = await nextTask(slave);
    if (i % 2 === 0) await release(slave, task, timeout);
    else {
      definite.push(task.url);
      const error = { kind: 'status', message: '404 Not Found' };
      await report(slave, task, {
        result: { finalUrl: task.url, status: 404, bytes: 0, ms: 1, error },
      });
    }
  }
  const all = await failedOf(slave, crawl, { limit: 2 });
  assert.deepEqual(all.map(({ url }) => url).sort(), urls);
  const found = all.filter(({ status }) => status === 404);
  assert.deepEqual(found.map(({ url }) => url).sort(), definite.sort());
  assert.deepEqual({ ...all[0], url: '' }, { url: '', ...timeout, attempts: 1 });
  const timeouts = await failedOf(slave, crawl, { limit: 3, kinds: ['timeout'] });
  assert.equal(timeouts.length, urls.length - definite.length);
  assert.deepEqual(await failedOf(slave, crawl, { kinds: ['dns'] }), []);

  const other = await target.crawl(slave, []);
  const { next } = await slave.must('crawl.failed', { crawl, limit: 3 });
  for (const after of [Buffer.alloc(0), Buffer.alloc(20), Buffer.alloc(5_000, 1)]) {
    assert.equal((await slave.request('crawl.failed', { crawl, after })).error, 'E_BAD_REQUEST');
  }
  const foreign = await slave.request('crawl.failed', { crawl: other, after: next });
  assert.equal(foreign.error, 'E_BAD_REQUEST');
  await slave.close();
});

test('[C-71] list gives open crawls first, a page at a time, and the number of all', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const names: string[] = [];
  for (let i = 0; i < 6; i++) {
    names.push(await target.crawl(slave, [target.seed()]));
    if (i % 2 === 0) await slave.must('crawl.pause', { crawl: names[i] });
    if (i % 3 === 0) await slave.must('crawl.cancel', { crawl: names[i] });
  }
  const found: string[] = [];
  const states = new Map<string, string>();
  let after: unknown;
  let counts: Record<string, number> = {};
  do {
    const page = await slave.must('crawl.list', { limit: 2, ...(after ? { after } : {}) });
    const crawls = page['crawls'] as { name: string; state: string; startedAt: number }[];
    assert.ok(crawls.length <= 2);
    for (const { name, state, startedAt } of crawls) {
      found.push(name);
      states.set(name, state);
      assert.ok(startedAt > 0);
    }
    counts = page['counts'] as Record<string, number>;
    after = page['next'];
  } while (after !== undefined);
  const ours = found.filter((name) => names.includes(name));
  assert.deepEqual(
    ours,
    [1, 2, 4, 5, 0, 3].map((i) => names[i]),
  );
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5].map((i) => states.get(names[i] ?? '')),
    ['cancelled', 'running', 'paused', 'cancelled', 'paused', 'running'],
  );
  const sum = Object.values(counts).reduce((all, count) => all + count, 0);
  assert.equal(sum, found.length);
  const { crawls: paused } = await slave.must('crawl.list', { states: ['paused', 'held'] });
  for (const { state } of paused as { state: string }[]) assert.match(state, /^(paused|held)$/);
  const { crawls: one } = await slave.must('crawl.list', { crawl: names[1] });
  assert.deepEqual(
    (one as { name: string }[]).map(({ name }) => name),
    [names[1]],
  );
  assert.equal((await slave.request('crawl.list', { crawl: 'never' })).error, 'E_NO_CRAWL');
  for (const wrong of [Buffer.alloc(0), Buffer.alloc(6), Buffer.alloc(7, 9)]) {
    assert.equal((await slave.request('crawl.list', { after: wrong })).error, 'E_BAD_REQUEST');
  }
  await slave.close();
});

type Row = Record<string, unknown> & { readonly host: string };

/** The rows of all pages. */
async function hostsOf(peer: RawPeer, request: Record<string, unknown>): Promise<Row[]> {
  const rows: Row[] = [];
  let after: unknown;
  do {
    const page = await peer.must('host.list', { ...request, ...(after ? { after } : {}) });
    rows.push(...(page['hosts'] as Row[]));
    after = page['next'];
  } while (after !== undefined);
  return rows;
}

test('[C-72] hosts are listed once each, the largest first, a page at a time', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  const seeds = [1, 2, 3].flatMap((count) => {
    const seed = target.seed();
    return Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);
  });
  const crawl = await target.crawl(slave, seeds, { delayMs: 1_000 });
  const rows = await hostsOf(slave, { crawl, limit: 1, sort: 'slow' });
  const hosts = [...new Set(seeds.map((seed) => new URL(seed).origin))];
  assert.deepEqual(
    rows.map(({ host }) => host),
    hosts.toReversed(),
  );
  assert.deepEqual(
    rows.map(({ waiting }) => waiting),
    [3, 2, 1],
  );
  for (const { delayMs, delayFrom, crawls, underWay } of rows) {
    assert.deepEqual([delayMs, delayFrom, crawls, underWay], [1_000, 'crawl', [crawl], 0]);
  }
  for (const after of [Buffer.alloc(0), Buffer.alloc(20, 1), Buffer.from([0xc0])]) {
    assert.equal((await slave.request('host.list', { after })).error, 'E_BAD_REQUEST');
  }
  assert.equal((await slave.request('host.list', { crawl: 'never' })).error, 'E_NO_CRAWL');
  await slave.close();
});

test('[C-73] a blocked host gives out no tasks, and its leases are cancelled', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const crawl = await target.crawl(slave, [seed]);
  const task = await nextTask(slave);
  const host = new URL(seed).origin;
  const set = await slave.must('host.set', { host, blocked: true, delayMs: 70_000 });
  assert.deepEqual(set['hosts'], [{ host, delayMs: 70_000, blocked: true, known: true }]);
  const [row] = await hostsOf(slave, { crawl });
  assert.deepEqual(
    [row?.['blocked'], row?.['underWay'], row?.['delayMs'], row?.['delayFrom']],
    [true, 0, 70_000, 'host'],
  );
  await slave.must('host.set', { host, blocked: false, delayMs: null });
  const again = await nextTask(slave);
  assert.equal(again.url, task.url);
  assert.notEqual(again.lease, task.lease);
  assert.equal((await report(slave, again)).ok, true);
  for (const wrong of ['', 'a b', 'http://x/path', 'ftp://x', 'x'.repeat(301)]) {
    assert.equal((await slave.request('host.set', { host: wrong })).error, 'E_BAD_REQUEST');
  }
  await slave.close();
});

test('[C-73] a host that is tried again gets back what was given up', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const urls = ['/a', '/b', '/c'].map((path) => new URL(path, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1 });
  for (const _ of urls) await release(slave, await nextTask(slave), timeout);
  const { replayed } = await slave.must('host.set', { host: new URL(seed).host, retry: true });
  assert.equal(replayed, 3);
  const found: string[] = [];
  for (const _ of urls) {
    const task = await nextTask(slave);
    found.push(task.url);
    await report(slave, task);
  }
  assert.deepEqual(found.sort(), urls);
  assert.deepEqual(await failedOf(slave, crawl, {}), []);
  await slave.close();
});

test('[T-70] [C-74] a slave is listed with what it says of itself', async () => {
  const name = target.name();
  const slave = await target.join('slave', name);
  const client = await target.join();
  const mine = async () => {
    const { slaves } = await client.must('slave.list');
    return (slaves as Row[]).find((row) => row['name'] === name);
  };
  const before = await mine();
  assert.deepEqual(
    ['version', 'memoryBytes', 'fetching'].map((field) => before?.[field]),
    [undefined, undefined, undefined],
  );
  const said = { version: '9.9', memoryBytes: 5_000_000, fetching: 3 };
  slave.send({ verb: 'slave.state', ...said });
  await slave.must('slave.state', said);
  const { since, address, fetchesPerS, errors, leases, ...row } = { ...(await mine()) };
  assert.ok(Number(since) > 1e12 && String(address).includes(':'));
  assert.deepEqual([fetchesPerS, errors, leases], [0, 0, 0]);
  assert.deepEqual({ ...row, session: 0 }, { session: 0, name, slots: 0, ...said });
  const refused = await client.request('slave.state', said);
  assert.equal(refused.error, 'E_BAD_REQUEST');
  const first = await client.must('slave.list', { limit: 1 });
  assert.equal((first['slaves'] as Row[]).length, 1);
  await slave.close();
  assert.equal(await mine(), undefined);
  await client.close();
});

test('[C-75] drain gives a slave no more tasks, and tells it to leave', async (t) => {
  const slave = await target.slave(t, 2);
  if (slave === undefined) return;
  const { slaves } = await slave.must('slave.list');
  const { name } = (slaves as Row[]).find(({ slots }) => slots === 8) ?? { name: '' };
  await target.crawl(slave, [target.seed()]);
  const task = await nextTask(slave);
  const { slaves: told } = await slave.must('slave.drain', { slave: name });
  assert.deepEqual(
    (told as Row[]).map((row) => [row['name'], row['draining']]),
    [[name, true]],
  );
  await slave.push('drain');
  assert.equal((await report(slave, task)).ok, true);
  await slave.must('task.credit', { count: 2 });
  await target.crawl(slave, [target.seed()]);
  assert.equal((await slave.request('slave.drain', { slave: 'never' })).error, 'E_BAD_REQUEST');
  const { slaves: after } = await slave.must('slave.list');
  assert.equal((after as Row[]).find((row) => row['name'] === name)?.['leases'], 0);
  await slave.close();
});

/** What `why` says of a URL, after as many requests as it takes. */
async function fatesOf(peer: RawPeer, crawl: string, url: string): Promise<Message[]> {
  let after: unknown;
  while (true) {
    const reply = await peer.must('crawl.why', { crawl, url, ...(after ? { after } : {}) });
    if (reply['next'] === undefined) return reply['fates'] as Message[];
    after = reply['next'];
  }
}

test('[C-76] why says how a URL stands, whatever became of it', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const urls = Array.from({ length: 4 }, (_, i) => new URL(`/why/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1, exclude: ['/never'] });
  const stateOf = async (url: string) => (await fatesOf(slave, crawl, url))[0]?.['state'];
  const leased = await nextTask(slave);
  assert.equal(await stateOf(leased.url), 'leased');
  const waiting = urls.filter((url) => url !== leased.url);
  assert.equal(await stateOf(waiting[0] ?? ''), 'waiting');
  await release(slave, leased, timeout);
  const [buried] = await fatesOf(slave, crawl, leased.url);
  assert.deepEqual([buried?.['state'], buried?.['attempts']], ['buried', 1]);
  const task = await nextTask(slave);
  const error = { kind: 'status', message: '404 Not Found' };
  const result = { finalUrl: task.url, status: 404, bytes: 0, ms: 1, error };
  await report(slave, task, { result });
  const [done] = await fatesOf(slave, crawl, `${task.url}#part`);
  assert.equal(done?.['state'], 'done');
  assert.equal((JSON.parse(String(done?.['line'])) as { url: string }).url, task.url);
  const [refused] = await fatesOf(slave, crawl, new URL('/never', seed).href);
  assert.deepEqual(refused?.['rule'], { by: 'exclude', pattern: '/never' });
  const [odd] = await fatesOf(slave, crawl, 'mailto:x');
  assert.deepEqual(odd?.['rule'], { by: 'url' });
  for (const after of [Buffer.alloc(0), Buffer.from([0x92, 1, 0x80]), Buffer.alloc(5_000, 1)]) {
    const reply = await slave.request('crawl.why', { crawl, url: urls[0], after });
    assert.equal(reply.error, 'E_BAD_REQUEST');
  }
  const none = await slave.request('crawl.why', { crawl: 'conformance-no-such', url: urls[0] });
  assert.equal(none.error, 'E_NO_CRAWL');
  await slave.close();
});

test('[C-77] verify counts what the ledger says, while a crawl goes on', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  const urls = Array.from({ length: 4 }, (_, i) => new URL(`/verify/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { attemptsMax: 1 });
  const countsOf = async () => {
    const { crawl: name, rows, differs, missing } = await slave.must('crawl.verify', { crawl });
    assert.deepEqual([name, differs, missing], [crawl, [], undefined]);
    return rows;
  };
  assert.equal(await countsOf(), 4);
  await release(slave, await nextTask(slave), timeout);
  assert.equal(await countsOf(), 4);
  const task = await nextTask(slave);
  await report(slave, task, { result: { finalUrl: task.url, status: 200, bytes: 0, ms: 1 } });
  assert.equal(await countsOf(), 3);
  const none = await slave.request('crawl.verify', { crawl: 'conformance-no-such' });
  assert.equal(none.error, 'E_NO_CRAWL');
  await slave.close();
});

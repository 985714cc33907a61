import assert from 'node:assert/strict';
import test from 'node:test';
import { Books } from '../../master/frontier/crawl/books.ts';
import { Crawl } from '../../master/frontier/crawl/crawl.ts';
import type { OpenWork } from '../../master/frontier/crawl/open-work.ts';
import { Filter } from '../../master/frontier/filter/filter.ts';
import { RecentTable } from '../../master/frontier/filter/recent.ts';
import { WaitingRoom } from '../../master/frontier/filter/waiting-room.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { type CrawlCounters, decodeCrawl, encodeCrawl } from '../../master/store/records.ts';
import { type CrawlSpecInput, crawlSpecSchema } from '../../shared/crawl.ts';

const filter = new Filter({
  crawl: 1,
  store: new MemoryStore(),
  recent: new RecentTable(4),
  room: new WaitingRoom(16),
  urlsExpected: 1,
  path: undefined,
  seenCount: () => 0,
});

function makeCrawl(spec: CrawlSpecInput = {}, counters: Partial<CrawlCounters> = {}): Crawl {
  return new Crawl(
    {
      id: 1,
      name: 'test',
      state: 'running',
      spec: crawlSpecSchema.parse(spec),
      secret: Buffer.alloc(16, 1),
      nextSeq: 1,
      nextCommit: 1,
      uid: Buffer.alloc(16, 1),
      specVersion: 1,
      nextRecord: 1,
      counters: { ...new Books().counters, ...counters },
      seenSum: [0, 0, 0, 0],
      startedAt: 1234,
    },
    filter,
    () => ({ hosts: { named: ['a.example'], followed: [] } }),
  );
}

test('crawl: comes back from its record as it was', () => {
  const crawl = makeCrawl({ maxDepth: 3, include: ['/x'], order: 'dfs' });
  crawl.takeSeq();
  crawl.takeCommit();
  crawl.books.page(0, { unchanged: true });
  crawl.books.skipped('depth');
  crawl.books.buried(0, { kind: 'dns', message: 'no address' }, 'http://a.example/x');
  crawl.books.seen(new Uint32Array([1, 2, 3, 4]), 0);
  crawl.moveTo('paused');
  crawl.scope.addSeed(new URL('http://b.example:81/'));
  const restored = new Crawl(decodeCrawl(encodeCrawl(crawl.record())), filter, () => ({
    hosts: crawl.scope.kept,
  }));
  const kept = (of: Crawl) => JSON.parse(JSON.stringify({ ...of.record(), openMs: 0 }));
  assert.deepEqual(kept(restored), kept(crawl));
  assert.equal(restored.takeSeq(), 2);
  assert.equal(restored.lastCommit, 1);
  assert.equal(restored.scope.refuses(new URL('http://b.example:81/x')), undefined);
});

test('crawl: how long it took is measured by a clock that does not jump', (t) => {
  let nowMs = 500;
  t.mock.method(performance, 'now', () => nowMs);
  const crawl = makeCrawl();
  nowMs += 7_000;
  // Put forward by more than a year.
  t.mock.method(Date, 'now', () => 9_600 * 3_600_000);
  assert.equal(crawl.openMs, 7_000);
  const restored = new Crawl(decodeCrawl(encodeCrawl(crawl.record())), filter, () => ({}));
  nowMs += 2_000;
  assert.equal(restored.openMs, 9_000);
  // A store of before has nothing of it on record.
  const { openMs: _, ...older } = crawl.record();
  assert.equal(new Crawl(older, filter, () => ({})).openMs, 0);
});

test('crawl: ranks order as the order says, within 32 bits', () => {
  const rankOf = (order: 'bfs' | 'dfs' | 'priority') => {
    const crawl = makeCrawl({ order });
    return (depth: number, priority = 0) => crawl.rank(depth, priority);
  };
  const [bfs, dfs, priority] = [rankOf('bfs'), rankOf('dfs'), rankOf('priority')];
  assert.ok(bfs(0, -5) < bfs(1, 1000));
  assert.ok(dfs(1) < dfs(0));
  assert.ok(priority(65_535, 1) < priority(0, 0));
  assert.ok(priority(0, 0) < priority(1, 0));
  assert.ok(priority(0, -999) < priority(0, -1000));
  for (const rank of [bfs, dfs, priority]) {
    for (const depth of [0, 65_535]) {
      for (const level of [-1000, 0, 1000]) {
        const value = rank(depth, level);
        assert.ok(Number.isInteger(value) && value >= 0 && value <= 0xffffffff);
      }
    }
  }
});

test('crawl: is careful with hosts of others and quick with its own machine', () => {
  const paceOf = (crawl: Crawl, url: string) => {
    const { delayMs, perHost } = crawl.manners(new URL(url));
    return { delayMs, perHost };
  };
  assert.deepEqual(paceOf(makeCrawl(), 'http://127.0.0.1:8000/'), { delayMs: 0, perHost: 32 });
  assert.deepEqual(paceOf(makeCrawl(), 'http://a.example/'), { delayMs: 250, perHost: 2 });
  const told = makeCrawl({ delayMs: 5, perHost: 7 });
  assert.deepEqual(paceOf(told, 'http://a.example/'), { delayMs: 5, perHost: 7 });
  assert.deepEqual(paceOf(told, 'http://localhost/'), { delayMs: 5, perHost: 7 });
});

test('crawl: its name in a robots.txt is what its user agent begins with', () => {
  const nameOf = (spec: CrawlSpecInput) => makeCrawl(spec).manners(new URL('http://a/')).robots;
  assert.equal(nameOf({}), 'Orbweaver');
  assert.equal(nameOf({ fetch: { userAgent: 'my-bot/2 (+https://a.example)' } }), 'my-bot');
  assert.equal(nameOf({ fetch: { userAgent: '42' } }), 'Orbweaver');
  assert.equal(nameOf({ ignoreRobots: true }), undefined);
});

/** The calls that open work of each kind, and those that end it. */
const work = {
  offered: [(open: OpenWork) => open.offer(), (open: OpenWork) => open.settle()],
  waiting: [(open: OpenWork) => open.admit(), (open: OpenWork) => open.end()],
  leased: [(open: OpenWork) => open.lease(), (open: OpenWork) => open.unlease()],
  unwritten: [(open: OpenWork) => open.record(1), (open: OpenWork) => open.written(1)],
} as const;

test('crawl: is done when nothing is offered, waiting, leased or unwritten', () => {
  const crawl = makeCrawl();
  assert.ok(crawl.isDone);
  for (const [name, [begin, end]] of Object.entries(work)) {
    begin(crawl.open);
    assert.ok(!crawl.isDone, name);
    assert.equal(crawl.isFetched, name === 'unwritten');
    end(crawl.open);
    assert.ok(crawl.isDone, name);
  }
  crawl.moveTo('finished');
  assert.ok(!crawl.isDone && !crawl.active);
  crawl.moveTo('running');
  crawl.moveTo('paused');
  assert.ok(!crawl.isDone && !crawl.active);
});

test('crawl: open work is never counted below zero', () => {
  for (const [, end] of Object.values(work)) {
    assert.throws(() => end(makeCrawl().open), { code: 'ERR_ASSERTION' });
  }
});

test('crawl: its state changes only as it may', () => {
  const crawl = makeCrawl();
  crawl.moveTo('paused');
  assert.throws(() => crawl.moveTo('finished'), { code: 'ERR_ASSERTION' });
  crawl.moveTo('cancelled');
  for (const state of ['running', 'paused', 'finished'] as const) {
    assert.throws(() => crawl.moveTo(state), { code: 'ERR_ASSERTION' });
  }
});

test('crawl: at its page limit it leases no more and is done with tasks left', () => {
  const crawl = makeCrawl({ maxPages: 3 }, { waiting: 9, pages: 2 });
  assert.ok(crawl.active);
  crawl.open.lease();
  assert.ok(!crawl.active, 'what is under way may become a page');
  crawl.open.offer();
  crawl.books.page(0, { unchanged: false });
  assert.ok(!crawl.isDone && !crawl.isFetched, 'something is under way');
  crawl.open.unlease();
  crawl.open.settle();
  assert.ok(crawl.isDone && crawl.isFull && !crawl.active);
});

test('crawl: its status is what the wire names', () => {
  const crawl = makeCrawl();
  crawl.open.lease();
  assert.deepEqual(Object.keys(crawl.status()).sort(), [
    'aliases',
    'buried',
    'bytes',
    'errors',
    'excluded',
    'failed',
    'images',
    'known',
    'leased',
    'ledger',
    'malformed',
    'name',
    'others',
    'pages',
    'skipped',
    'state',
    'statuses',
    'unchanged',
    'unwritten',
    'waiting',
  ]);
});

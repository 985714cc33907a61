/**
 * The seen set against a plain set: random commits, of which some are under way at any time, reads
 * that see them early or late, crashes at any point, and starts that go on from there. Whatever
 * happened, the rows in the store are those of the keys that were committed.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { RunMerge } from '../../master/frontier/filter/run-merge.ts';
import { type Asked, inOrder } from '../../master/frontier/filter/run-order.ts';
import { manifestOf, SeenSet } from '../../master/frontier/filter/seen-set.ts';
import { WaitingRoom } from '../../master/frontier/filter/waiting-room.ts';
import { WaitingSet } from '../../master/frontier/filter/waiting-set.ts';
import { SeenCheck } from '../../master/repair/seen-check.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { crawlKey } from '../../master/store/records.ts';
import { firstOf, levelFor, mergeWidth, runKey, startOf } from '../../master/store/runs.ts';
import type { Change } from '../../master/store/store.ts';
import { addToSum } from '../../master/store/sums.ts';
import { LaggingStore } from '../support/lagging-store.ts';
import { randomUint32s, randomWords } from '../support/random.ts';

const crawl = 3;
const turn = () => new Promise((resolve) => setImmediate(resolve));

class History {
  store = new LaggingStore();
  set: SeenSet;
  /** Every key with its commit; those up to `acknowledged` are on the disk. */
  keys: { readonly words: Uint32Array; readonly commit: number }[] = [];
  readonly #freezeKeys: number;
  readonly #others = randomWords(200, 999);
  #seed: number;
  #commit = 0;
  #acknowledged = 0;

  constructor(freezeKeys: number, seed: number) {
    this.#freezeKeys = freezeKeys;
    this.#seed = seed * 1_000;
    this.set = this.open();
  }

  open(saved = 0): SeenSet {
    const { store } = this;
    const options = { crawl, store, freezeKeys: this.#freezeKeys, saved, visit: () => {} };
    return new SeenSet(options);
  }

  /** A commit of that many keys; nobody waits for it. */
  add(count: number): void {
    const words = randomWords(count, this.#seed++);
    const commit = ++this.#commit;
    for (let at = 0; at < words.length; at += 4) {
      this.set.add(words, at);
      this.keys.push({ words: words.slice(at, at + 4), commit });
    }
    this.commit(this.set.changes(commit), commit);
  }

  commit(changes: readonly Change[], number = 0): void {
    const { store } = this;
    const done = this.set.seal();
    void store.commit(changes).then(() => {
      if (store !== this.store) return;
      this.#acknowledged = Math.max(this.#acknowledged, number);
      done?.();
    });
  }

  /** Of the commits under way some are applied. The others are forgotten, as their slaves never got
   *  an answer. */
  async crash(applied: number): Promise<void> {
    this.store.crash(applied);
    this.store = new LaggingStore(this.store.disk);
    await turn();
    const rows = this.store.keys('recent', { from: crawlKey(crawl), to: crawlKey(crawl + 1) });
    const { flushed } = manifestOf(this.store, crawl);
    const last = Math.max(flushed, rows.at(-1)?.readUIntBE(4, 6) ?? 0);
    assert.ok(last >= this.#acknowledged, 'what was acknowledged is on the disk');
    this.keys = this.keys.filter(({ commit }) => commit <= last);
    this.#commit = last;
    this.set = this.open();
  }

  async settle(): Promise<void> {
    while (!this.store.isQuiet) await turn();
  }

  check(): void {
    for (const { words } of this.keys) assert.ok(this.set.has(words, 0), 'a key is lost');
    for (let at = 0; at < this.#others.length; at += 4) assert.ok(!this.set.has(this.#others, at));
  }
}

/** The faults of the rows in a store. */
function wrongWith(disk: MemoryStore, keys: readonly { readonly words: Uint32Array }[]): void {
  const sum = new Uint32Array(4);
  for (const { words } of keys) addToSum(sum, words, 0);
  const counters = { seen: keys.length };
  const record = { id: crawl, name: 'c', state: 'running', seenSum: [...sum], counters } as const;
  const check = new SeenCheck([record], 4, assert.fail);
  const all = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
  for (const { key, value } of disk.range('runs', all)) check.addRun(key, value);
  check.endRuns();
  for (const { key, value } of disk.range('recent', all)) check.addJournal(key, value);
  check.end();
}

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('add'), count: fc.integer({ min: 1, max: 400 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('turn'), count: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash'), count: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('saved'), count: fc.nat(50) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('relieve'), count: fc.nat(300) }) },
);

test('seen: random histories with crashes agree with a plain set', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 30, maxLength: 90 }),
      fc.constantFrom(100, 500, 1_500),
      fc.nat(1_000),
      async (steps, freezeKeys, seed) => {
        const history = new History(freezeKeys, seed);
        for (const { kind, count } of steps) {
          if (kind === 'add') history.add(count);
          else if (kind === 'saved') history.set.saved(count);
          else if (kind === 'relieve') history.commit(history.set.relieve(count));
          else if (kind === 'crash') await history.crash(count);
          else for (let i = 0; i < count; i++) await turn();
          if (kind !== 'add') history.check();
        }
        await history.settle();
        history.check();
        wrongWith(history.store.disk, history.keys);
        await history.crash(0);
        history.check();
      },
    ),
    { numRuns: 60, ...(process.env['SEED'] && { seed: Number(process.env['SEED']) }) },
  );
});

test('seen: a hundred thousand keys are in few runs, and in the journal while they wait', async () => {
  const history = new History(2_000, 5);
  for (let i = 0; i < 250; i++) {
    history.add(400);
    await turn();
    await turn();
  }
  await history.settle();
  history.set.saved(249);
  history.add(1);
  await history.settle();
  wrongWith(history.store.disk, history.keys);
  const rows = history.store.disk.keys('runs', { from: crawlKey(crawl), to: crawlKey(crawl + 1) });
  const runs = new Set(rows.map((key) => key.subarray(4, 8).toString('hex')));
  assert.ok(runs.size < 20, `${runs.size} runs`);
  // 100,001 keys by 224, and what a merge holds twice.
  assert.ok(rows.length < 1_200, `${rows.length} rows`);
  const waiting = history.set.waiting;
  assert.ok(waiting <= 4_000, `${waiting} keys wait`);
  await history.crash(0);
  assert.equal(history.set.waiting, waiting);
  history.check();
});

test('seen: the most that waits in all crawls together is bounded', async () => {
  const room = new WaitingRoom(1_000);
  const store = new MemoryStore();
  const sets = [1, 2, 3, 4].map((id) => {
    const set = new SeenSet({ crawl: id, store, freezeKeys: 1_000, saved: 0, visit: () => {} });
    room.enter(set);
    return set;
  });
  for (let round = 0; round < 30; round++) {
    for (const [i, set] of sets.entries()) {
      const words = randomWords(200, round * 10 + i);
      for (let at = 0; at < words.length; at += 4) set.add(words, at);
      await store.commit(set.changes(round + 1));
      set.seal()?.();
    }
    const relief = room.relieve();
    await store.commit(relief?.changes ?? []);
    relief?.done();
    assert.ok(room.waiting < 3_000, `${room.waiting} keys wait`);
  }
});

test('seen: one set, and half of one while it grows or is flushed, is the most that it takes', async () => {
  const freezeKeys = 20_000;
  const store = new MemoryStore();
  const set = new SeenSet({ crawl, store, freezeKeys, saved: 0, visit: () => {} });
  const most = new WaitingSet(freezeKeys * 1.125).bytes * 1.5 + 20_000;
  // The commit that fills it is larger than the one before.
  const commits = Array.from({ length: 200 }, (_, i) => (i % 20 === 19 ? 2_000 : 990));
  // Some are under way at once.
  const ended: ((() => void) | undefined)[] = [];
  for (const [i, count] of commits.entries()) {
    const words = randomWords(count, i);
    for (let at = 0; at < words.length; at += 4) {
      set.add(words, at);
      assert.ok(set.bytes <= most, `${set.bytes} bytes in commit ${i}`);
    }
    await store.commit(set.changes(i + 1));
    ended.push(set.seal());
    if (ended.length > 2) ended.shift()?.();
  }
  assert.ok(set.waiting > freezeKeys / 4);
});

test('seen: buckets follow each other without a gap, in runs of any size', () => {
  const next = randomUint32s(7);
  for (const buckets of [1, 2, 3, 7, 1_000, 4_681, 446_429, 5_000_001]) {
    assert.equal(startOf(0, buckets), 0);
    assert.equal(startOf(buckets, buckets), 2 ** 32);
    for (let i = 0; i < 200; i++) {
      const bucket = next() % buckets;
      const [start, end] = [startOf(bucket, buckets), startOf(bucket + 1, buckets)];
      assert.ok(start < end);
      const of = (first: number) => Math.floor((first / 2 ** 32) * buckets);
      assert.equal(of(start), bucket);
      assert.equal(of(end - 1), bucket);
    }
  }
  assert.equal(firstOf(0x01020304), 0x04030201);
  assert.equal(firstOf(0x000000ff), 0xff000000);
  const million = 1 << 20;
  assert.deepEqual(
    [1, million, million * mergeWidth - 1, million * mergeWidth, million * 27].map(levelFor),
    [0, 0, 0, 1, 3],
  );
});

test('seen: the run is asked first that has most keys of a Bloom filter', () => {
  const run = (id: number, level: number, keys: number) => ({ id, level, keys, buckets: 1 });
  const [old, a, b, c] = [run(1, 2, 900), run(2, 0, 100), run(3, 0, 110), run(4, 0, 90)];
  const runs = [a, b, c, old];
  const first = (from: number, to: number) => {
    return inOrder(runs, [], { from, to }).map((asked) => asked.run);
  };
  assert.deepEqual(first(0, Number.POSITIVE_INFINITY), [old, b, a, c]);
  assert.deepEqual(first(0, 500)[0], old);
  assert.deepEqual(first(880, 1_000).slice(0, 2), [a, old]);
  assert.deepEqual(first(1_105, 4_000).slice(0, 2), [c, b]);
  assert.deepEqual(first(5_000, 6_000).length, 4, 'none is left out');
});

test('seen: of a merge the source is asked first that has most keys, and the target at last', async () => {
  const run = (id: number, level: number, keys: number) => ({ id, level, keys, buckets: 1 });
  const sources = [run(1, 0, 100), run(2, 0, 100), run(3, 0, 100)];
  const [young, target] = [run(5, 0, 60), run(4, 1, 300)];
  const store = new MemoryStore();
  const value = Buffer.alloc(0);
  await store.commit(sources.map(({ id }) => ({ table: 'runs', key: runKey(1, id, 0), value })));
  const merge = new RunMerge(store, 1, { sources, target, at: 0 }, 0);
  const asked = inOrder([young], [merge], { from: 210, to: 350 });
  const isAsked = (one: Asked) => one.merge === undefined || one.merge.hasMoved(0) === one.isMoved;
  const askedNow = () => asked.filter(isAsked).map(({ run: { id } }) => id);
  assert.deepEqual(askedNow(), [3, 5, 2, 1, 4], 'it may have moved in the meantime');
  merge.safeAt = 1;
  assert.deepEqual(askedNow(), [4, 5]);
});

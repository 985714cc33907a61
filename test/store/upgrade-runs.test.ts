/** From format 3, where each seen URL had a row of its own, to runs: a real store, and crashes. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Fingerprinter } from '../../master/frontier/filter/fingerprint.ts';
import { SeenSet } from '../../master/frontier/filter/seen-set.ts';
import { storedSeen } from '../../master/frontier/look/stored-seen.ts';
import { checkStore } from '../../master/repair/check.ts';
import { SeenCheck } from '../../master/repair/seen-check.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import {
  type CrawlRecord,
  commitKey,
  crawlKey,
  decodeCrawl,
  decodeTask,
  encodeCrawl,
  fingerprintKey,
  formatKey,
} from '../../master/store/records.ts';
import type { Change, Store } from '../../master/store/store.ts';
import { addToSum } from '../../master/store/sums.ts';
import { parseTaskKey } from '../../master/store/task-keys.ts';
import { upgrade } from '../../master/store/upgrade.ts';
import { beginRuns, endRuns } from '../../master/store/upgrade-runs.ts';
import { root } from '../support/cluster.ts';
import { randomWords } from '../support/random.ts';
import { seenKeysOf } from '../support/seen-keys.ts';

/** Made by a master of format 3 that was killed while it took links of 100 hosts. */
const fixture = join(root, 'test/store/format-3/store.mdb.gz');

test('upgrade: from 3, a store that such a master left when it was killed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-upgrade-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(storeFile(folder), gunzipSync(readFileSync(fixture)));
  assert.equal(checkStore(storeFile(folder)), undefined, 'it is whole by its own format');
  const store = await openLmdbStore(folder);
  const range = { from: crawlKey(1), to: crawlKey(2) };
  const before = store.keys('seen', range).map((key) => key.toString('hex', 4));
  assert.ok(before.length > 300);
  assert.equal(await upgrade(store), 3);
  assert.deepEqual(store.keys('seen', range), []);
  assert.deepEqual(seenKeysOf(store), before.sort());
  const { secret } = decodeCrawl(store.get('crawls', crawlKey(1)) ?? Buffer.alloc(0));
  const hasher = new Fingerprinter();
  const tasks = store.range('tasks', range);
  assert.ok(tasks.length > 200);
  for (const { key, value } of tasks) {
    assert.equal(parseTaskKey(key)?.crawl, 1);
    const words = hasher.one(secret, decodeTask(value).url);
    assert.deepEqual(storedSeen(store, 1, [words]), [true]);
  }
  assert.deepEqual(storedSeen(store, 1, [hasher.one(secret, 'http://other.invalid/')]), [false]);
  await store.close();
  assert.equal(checkStore(storeFile(folder)), undefined, 'and by this one');
});

const words = randomWords(20_000, 11);

/** A store of format 3 with two crawls that have seen URLs, and one that is over. */
async function format3(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const changes: Change[] = [{ table: 'meta', key: formatKey, value: Buffer.from([3]) }];
  for (const [id, from, to, state] of [
    [1, 0, 15_000, 'running'],
    [2, 15_000, 20_000, 'finished'],
    [3, 0, 10, 'cancelled'],
  ] as const) {
    const seenSum = new Uint32Array(4);
    for (let at = from * 4; at < to * 4; at += 4) {
      addToSum(seenSum, words, at);
      const key = fingerprintKey(id, words, at);
      changes.push({ table: 'seen', key, value: Buffer.alloc(0) });
    }
    const counters = { seen: to - from };
    const record = { id, name: `c${id}`, state, nextCommit: 9, counters, seenSum: [...seenSum] };
    const value = encodeCrawl(record as unknown as CrawlRecord);
    changes.push({ table: 'crawls', key: crawlKey(id), value });
    // The journal of its Bloom filter: all of these keys are in `seen`, too.
    const last = Buffer.from(words.slice((to - 5) * 4, to * 4).buffer);
    changes.push({ table: 'recent', key: commitKey(id, 8), value: last });
  }
  await store.commit(changes);
  return store;
}

function check(store: MemoryStore): void {
  const all = { from: crawlKey(0), to: Buffer.alloc(24, 0xff) };
  const records = store.range('crawls', all).map(({ value }) => decodeCrawl(value));
  const format = store.get('meta', formatKey)?.[0] ?? 0;
  const seen = new SeenCheck(records, format, assert.fail);
  for (const { key, value } of store.range('runs', all)) seen.addRun(key, value);
  seen.endRuns();
  for (const { key, value } of store.range('recent', all)) seen.addJournal(key, value);
  for (const { key } of store.range('seen', all)) seen.addKey(key);
  seen.end();
}

test('upgrade: from 3, whole wherever it is killed, and it goes on from there', async () => {
  const store = await format3();
  check(store);
  const format = { table: 'meta', key: formatKey, value: Buffer.from([4]) } as const;
  await store.commit([...beginRuns(store), format]);
  check(store);
  let commits = 0;
  let isOver = false;
  // Two commits of each start reach the disk.
  for (let starts = 0; !isOver; starts++) {
    assert.ok(starts < 50, 'it goes on');
    let left = 2;
    const killed = new Error('killed');
    const mortal: Store = {
      has: (table, key) => store.has(table, key),
      get: (table, key) => store.get(table, key),
      peek: (table, key) => store.peek(table, key),
      keys: (table, range) => store.keys(table, range),
      range: (table, range) => store.range(table, range),
      snapshot: () => store.snapshot(),
      close: () => store.close(),
      commit: async (changes) => {
        if (left-- === 0) throw killed;
        await store.commit(changes);
        commits++;
        check(store);
        for (const at of [0, 4 * 7_000, 4 * 14_999]) {
          assert.deepEqual(storedSeen(store, 1, [words.slice(at, at + 4)]), [true]);
        }
      },
    };
    isOver = await endRuns(mortal, 3_000).then(
      () => true,
      (error: unknown) => {
        assert.equal(error, killed);
        return false;
      },
    );
  }
  assert.ok(commits > 5, `${commits} commits`);
  assert.equal(await upgrade(store), 4);
  for (const [crawl, from, to] of [
    [1, 0, 15_000],
    [2, 15_000, 20_000],
  ] as const) {
    const set = new SeenSet({ crawl, store, freezeKeys: 1_000, saved: 8, visit: assert.fail });
    for (let at = 0; at < words.length; at += 4) {
      assert.equal(set.has(words, at), at >= from * 4 && at < to * 4);
    }
    assert.equal(set.waiting, 0);
  }
  assert.equal(store.keys('seen', { from: crawlKey(1), to: crawlKey(3) }).length, 0);
});

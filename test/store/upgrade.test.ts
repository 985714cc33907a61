import assert from 'node:assert/strict';
import test from 'node:test';
import { UserQueues } from '../../master/queues/queues.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import {
  crawlKey,
  decodeCrawl,
  decodeSeedHosts,
  encodeCrawl,
  formatKey,
  itemKeys,
} from '../../master/store/records.ts';
import { type Steps, upgrade } from '../../master/store/upgrade.ts';

const key = Buffer.from('name');
const written = async (version: number): Promise<MemoryStore> => {
  const store = new MemoryStore();
  const format = Buffer.from([version]);
  await store.commit([
    { table: 'meta', key: formatKey, value: format },
    { table: 'items', key, value: Buffer.from('old') },
  ]);
  return store;
};
const add = (text: string) => (store: MemoryStore | { get: MemoryStore['get'] }) => [
  { table: 'items' as const, key, value: Buffer.from(`${store.get('items', key)}${text}`) },
];
const steps: Steps = new Map([
  [3, add('+4')],
  [4, add('+5')],
]);

test('upgrade: an older store goes through every step, and has the new version', async () => {
  const store = await written(3);
  assert.equal(await upgrade(store, 5, steps), 3);
  assert.equal(store.get('items', key)?.toString(), 'old+4+5');
  assert.deepEqual([...(store.get('meta', formatKey) ?? [])], [5]);
  assert.equal(await upgrade(store, 5, steps), 5);
  assert.equal(store.get('items', key)?.toString(), 'old+4+5', 'once');
});

test('upgrade: a crash between two steps leaves a version that goes on', async () => {
  const store = await written(3);
  await upgrade(store, 4, steps);
  assert.equal(await upgrade(store, 5, steps), 4);
  assert.equal(store.get('items', key)?.toString(), 'old+4+5');
});

test('upgrade: newer and unknown older versions are refused, and left as they are', async () => {
  await assert.rejects(upgrade(await written(6), 5, steps), /format 6, this is 5; use a newer/);
  await assert.rejects(upgrade(await written(2), 5, steps), /format 2, this is 5; use an older/);
});

test('upgrade: a new store gets this version', async () => {
  const store = new MemoryStore();
  assert.equal(await upgrade(store, 5, steps), undefined);
  assert.deepEqual([...(store.get('meta', formatKey) ?? [])], [5]);
});

test('upgrade: from 1, where each item of a queue had a row', async () => {
  const store = await written(1);
  await store.commit([{ table: 'items', key, value: undefined }]);
  const values = Array.from({ length: 3000 }, (_, number) => `item ${number}`);
  for (const name of ['a', 'b']) {
    const keyOf = itemKeys(name);
    await store.commit(
      values.map((value, number) => {
        return { table: 'items', key: keyOf(2 * number + 1), value: Buffer.from(value) };
      }),
    );
  }
  assert.equal(await upgrade(store), 1);
  const commits = new GroupCommit({
    store,
    everyMs: 0,
    onError: (error) => assert.fail(`${error}`),
  });
  const queues = new UserQueues(store, commits, { bytesMax: 1 << 26 });
  for (const name of ['a', 'b']) {
    const queue = queues.queue(name);
    assert.equal(queue.size, values.length);
    for (const value of values) {
      assert.equal(Buffer.from(queue.take()?.value ?? []).toString(), value);
    }
  }
});

test('upgrade: from 1, where the hosts of the seeds were in the record of a crawl', async () => {
  const store = await written(1);
  await store.commit([{ table: 'items', key, value: undefined }]);
  const seedHosts = ['a.example', 'b.example:81'];
  const record = { id: 7, name: 'old', seedHosts } as unknown as Parameters<typeof encodeCrawl>[0];
  await store.commit([{ table: 'crawls', key: crawlKey(7), value: encodeCrawl(record) }]);
  await upgrade(store);
  const hosts = store.get('seeds', crawlKey(7)) ?? Buffer.alloc(0);
  assert.deepEqual(decodeSeedHosts(hosts), seedHosts);
  const kept = store.get('crawls', crawlKey(7)) ?? Buffer.alloc(0);
  assert.deepEqual(decodeCrawl(kept), { id: 7, name: 'old' });
});

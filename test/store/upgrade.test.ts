import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { gunzipSync } from 'node:zlib';
import { UserQueues } from '../../master/queues/queues.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import { rowOfLines } from '../../master/store/line-rows.ts';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import {
  crawlKey,
  cursorKey,
  decodeCrawl,
  decodeCursor,
  decodeLastCrawl,
  decodeSeedHosts,
  decodeTask,
  encodeCrawl,
  formatKey,
  itemKeys,
  lastCrawlKey,
} from '../../master/store/records.ts';
import { imageUrlsOf, sectionsOf } from '../../master/store/result-rows.ts';
import { type Steps, upgrade } from '../../master/store/upgrade.ts';
import { decodeValue } from '../../shared/frame.ts';
import { root } from '../support/cluster.ts';

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
  assert.deepEqual(decodeSeedHosts(hosts), { named: seedHosts, followed: [] });
  const kept = store.get('crawls', crawlKey(7)) ?? Buffer.alloc(0);
  const { uid, ...rest } = decodeCrawl(kept);
  assert.equal(uid.length, 16);
  assert.deepEqual(rest, { id: 7, name: 'old', specVersion: 1, nextRecord: 1 });
});

/** Made by a master of format 2 that was killed while its crawl was held; `holds.json` is what its
 *  own code read in it. */
const fixture = join(root, 'test/store/format-2');

test('upgrade: from 2, a store that such a master left, line by line', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-upgrade-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const packed = readFileSync(join(fixture, 'store.mdb.gz'));
  writeFileSync(join(folder, 'store.mdb'), gunzipSync(packed));
  const holds = JSON.parse(readFileSync(join(fixture, 'holds.json'), 'utf8'));
  const store = await openLmdbStore(folder);
  t.after(() => store.close());
  assert.equal(await upgrade(store), 2);
  const range = { from: crawlKey(1), to: crawlKey(2) };
  const sections = store.range('results', range).flatMap(({ value }) => sectionsOf(value));
  const lines = (isWanted: (kind: string) => boolean) =>
    sections
      .filter(({ kind }) => isWanted(kind))
      .map(lineOf)
      .join('');
  assert.equal(
    lines((kind) => kind !== 'skipped' && kind !== 'image-url'),
    holds.pages,
  );
  assert.equal(
    lines((kind) => kind === 'skipped'),
    holds.skipped,
  );
  const images = sections.filter(({ kind }) => kind === 'image-url').flatMap(imageUrlsOf);
  assert.equal(images.map((url) => `${url}\n`).join(''), holds.images);
  // Numbered without a gap.
  let next = 1;
  for (const { seq, count } of sections) {
    assert.equal(seq, next);
    next += count;
  }
  const crawl = decodeCrawl(store.get('crawls', crawlKey(1)) ?? Buffer.alloc(0));
  assert.deepEqual(
    [crawl.counters, crawl.nextRecord, crawl.uid.length],
    [holds.counters, next, 16],
  );
  const cursor = decodeCursor(store.get('meta', cursorKey(1, 'files')) ?? Buffer.alloc(0));
  const mark = decodeValue(Buffer.from(holds.marks, 'hex'));
  assert.deepEqual(cursor, { commit: 0, mark });
  assert.equal(decodeLastCrawl(store.get('meta', lastCrawlKey) ?? Buffer.alloc(4)), 1);
  const tasks = store.range('tasks', range).map(({ value }) => decodeTask(value));
  assert.deepEqual(
    tasks.map(({ url, depth, level, attempts }) => ({ url, depth, level, attempts })),
    holds.tasks.map(({ kind: _, ...task }: Record<string, unknown>) => task),
  );
});

test('upgrade: from 2, every kind of line comes out as it was', () => {
  const end = '"slave":"s","at":"2026-11-20T15:18:20.199Z"}';
  const head = '{"url":"http://a/","finalUrl":"http://a/b"';
  const error = '"error":{"kind":"timeout","message":"no answer","attempts":3}';
  const blocked = '"error":{"kind":"blocked","message":"private","attempts":1}';
  const pages = [
    `${head},"status":304,"unchanged":true,"type":"text/html","charset":"utf-8","depth":1,"bytes":9,"ms":2,"title":"\\u202e","cut":true,"incomplete":true,"images":[{"src":"http://a/i","via":"img","alt":"x"}],"imagesCut":1,"dataImages":2,"links":3,"linksCut":4,"directives":["noai"],"nofollowed":5,"refresh":"http://a/r","canonical":"http://a/c","etag":"\\"x\\"","lastModified":"y",${end}`,
    `${head},"status":200,"type":"a/b","depth":1,"bytes":9,"ms":2,"etag":"x",${end}`,
    `${head},"status":200,"type":"text/html","depth":1,"bytes":9,"ms":2,"directives":["noindex"],"canonical":"http://a/c","excluded":"canonical",${end}`,
    `${head},"status":301,"depth":1,"ms":2,"redirectedTo":"http://b/",${end}`,
    `${head},"status":404,"type":"text/html","depth":1,"bytes":9,"ms":2,${error},${end}`,
    `${head},"depth":1,"ms":2,${blocked},${end}`,
    `{"url":"http://a/","depth":1,${error},${end}`,
    `{"url":"http://a/","depth":1,${blocked},${end}`,
    `{"url":"http://a/","depth":1,"excluded":"robots","at":"2026-11-20T15:18:20.199Z"}`,
    `${head},"status":200,"type":"text/xml","depth":1,"bytes":9,"ms":2,"sitemap":{"kind":"urlset","urls":1,"images":0},"cut":true,${end}`,
    `${head},"depth":1,"bytes":0,"ms":2,"sitemap":{"kind":"none","urls":0,"images":0},${error},${end}`,
    `{"url":"http://a/","depth":1,"sitemap":{"kind":"none","urls":0,"images":0},${error},${end}`,
    `{"url":"http://a/","depth":1,"sitemap":{"kind":"none","urls":0,"images":0},"excluded":"robots","at":"2026-11-20T15:18:20.199Z"}`,
  ];
  const skipped = [
    '{"url":"http://b/","skipped":"host","depth":2,"from":"http://a/","at":"2026-11-20T15:18:20.199Z"}',
  ];
  const [text, images, rest] = [pages, ['http://a/i', 'http://a/j'], skipped].map((lines) =>
    Buffer.from(lines.map((line) => `${line}\n`).join('')),
  );
  assert.ok(text && images && rest);
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(text.length, 0);
  lengths.writeUInt32BE(images.length, 4);
  const row = rowOfLines(Buffer.concat([lengths, text, images, rest]));
  const sections = sectionsOf(row.seal(1).bytes).filter(({ kind }) => kind !== 'image-url');
  assert.deepEqual(
    sections.map((section) => lineOf(section).slice(0, -1)),
    [...pages, ...skipped],
  );
  assert.deepEqual(new Set(sections.map(({ kind }) => kind)).size, 8);
});

/** Which pages show an image, while commits are gathered that the store does not show yet. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import type { CommitBatch } from '../../master/frontier/commit/commit-batch.ts';
import { Pictures } from '../../master/frontier/commit/pictures.ts';
import type { Crawl } from '../../master/frontier/crawl/crawl.ts';
import type { Task } from '../../master/frontier/tasks/tasks.ts';
import { contentKey, encodeContent } from '../../master/store/image-rows.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import type { Change } from '../../master/store/store.ts';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import type { Result } from '../../shared/requests.ts';

const src = 'http://h.test/logo.png';
const everything = { from: Buffer.of(0), to: Buffer.alloc(64, 0xff), limit: 10_000 };

/** One image, `src`, and the commits of its crawl. */
function crawlOf(store: MemoryStore) {
  const pictures = new Pictures(store);
  const spec = { fetch: fetchSpecSchema.parse({ download: { images: {} } }) };
  const crawl = { id: 1, spec, images: { takes: () => true, isFull: false } };
  const seen = new Set<string>();
  let changes: Change[] = [];
  const batch = {
    crawl,
    fingerprintOf: (name: string) => Buffer.alloc(16, name),
    also: (more: readonly Change[]) => void changes.push(...more),
    admit(_url: URL, name: string) {
      const isNew = !seen.has(name);
      seen.add(name);
      return isNew;
    },
  } as unknown as CommitBatch;
  const task = { url: src } as Task;
  const result = {} as Result;
  return {
    shows(seq: number, alt?: string) {
      const page = { seq, url: `http://h.test/${seq}`, depth: 0, priority: 0 };
      pictures.shown(batch, page, [{ src, via: 'img', ...(alt !== undefined && { alt }) }], result);
    },
    pages: () => pictures.namingsOf(batch, task).map(({ page }) => page),
    ends: () => pictures.ended(batch, task),
    /** The store shows what was gathered so far. */
    async commit() {
      const ready = changes;
      changes = [];
      await store.commit(ready);
    },
    rows: () => store.keys('namings', everything).length,
  };
}

test('pictures: an image that ends leaves no row of the pages that show it', async () => {
  const store = new MemoryStore();
  const logo = crawlOf(store);
  logo.shows(1);
  await logo.commit();
  logo.shows(2);
  assert.deepEqual(logo.pages(), ['http://h.test/1', 'http://h.test/2']);
  // Page 2 is not in the store yet, and page 1 is there until the commit.
  logo.ends();
  for (let seq = 3; seq < 200; seq++) logo.shows(seq);
  await logo.commit();
  assert.equal(logo.rows(), 0);
  logo.shows(200);
  await logo.commit();
  assert.equal(logo.rows(), 0);
});

test('pictures: an image that waits knows its first pages, over a start of the master', async () => {
  const store = new MemoryStore();
  const before = crawlOf(store);
  for (let seq = 1; seq <= 60; seq++) before.shows(seq);
  await before.commit();
  const after = crawlOf(store);
  for (let seq = 61; seq <= 400; seq++) after.shows(seq);
  await after.commit();
  assert.equal(after.rows(), 100);
  assert.deepEqual(
    after.pages(),
    Array.from({ length: 100 }, (_, i) => `http://h.test/${i + 1}`),
  );
  after.ends();
  await after.commit();
  assert.equal(after.rows(), 0);
});

test('pictures: the hashes of a large crawl are read in slices after a start', async () => {
  const store = new MemoryStore();
  const crawl = { id: 1, spec: { fetch: {} }, books: { kept() {} } } as unknown as Crawl;
  const [hash, first] = [Buffer.from('0123456789abcdef', 'hex'), Buffer.alloc(32, 1)];
  const rows: Change[] = Array.from({ length: 20_000 }, (_, n) => {
    const sha256 = Buffer.alloc(32, 1);
    sha256.writeUInt32BE(n);
    const dhash = n === 7 ? hash : randomBytes(8);
    const value = encodeContent({ bytes: 1, type: 'png', dhash, group: n === 7 ? first : sha256 });
    return { table: 'contents', key: contentKey(crawl.id, sha256), value };
  });
  await store.commit(rows);
  const pictures = new Pictures(store);
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const [ready, too] = [pictures.ready(crawl), pictures.ready(crawl)];
  assert.equal(ready, too, 'it is read once');
  await ready;
  isDone = true;
  assert.ok(turns >= 19, `${turns} turns for others`);
  assert.equal(pictures.ready(crawl), undefined);
  const batch = { crawl, also() {} } as unknown as CommitBatch;
  const image = { bytes: 1, type: 'png', dhash: hash } as const;
  const { group } = pictures.keep(batch, Buffer.alloc(32, 9), image, undefined);
  assert.deepEqual(group && Buffer.from(group), first);
});

test('pictures: an image that is kept lets go of the message that told it', () => {
  const crawl = { id: 1, spec: { fetch: {} }, books: { kept() {} } } as unknown as Crawl;
  const batch = { crawl, also() {} } as unknown as CommitBatch;
  const pictures = new Pictures(new MemoryStore());
  const message = randomBytes(65_536);
  const image = { bytes: 1, type: 'png', dhash: message.subarray(8, 16) } as const;
  const sha256 = Buffer.alloc(32, 9);
  pictures.keep(batch, sha256, image, undefined);
  const { dhash } = pictures.kept(crawl, sha256) ?? {};
  assert.deepEqual(dhash && Buffer.from(dhash), image.dhash);
  assert.equal(dhash?.buffer.byteLength, 8);
});

/** Images in tar files: what `tar` reads, the size of shards, and what a crash leaves. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { KeptContent } from '../../master/images/image-queue.ts';
import { TarShards } from '../../master/images/tar-shards.ts';
import type { Place } from '../../master/store/image-rows.ts';

function contentOf(n: number, length = 700): KeptContent {
  const bytes = Buffer.alloc(length, n);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const pieces = [bytes.subarray(0, 100), bytes.subarray(100)];
  const thumbnail = n % 2 === 0 ? { thumbnail: Buffer.from('webp') } : {};
  return { sha256, type: 'png', bytes: length, pieces, ...thumbnail, about: { n } };
}

/** A folder, what is on record of it, and a start of its keeper. */
function rig(t: TestContext, bytesMax = 1_000_000) {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-tar-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'images');
  const places = new Map<string, Place>();
  const sinceMs = Date.now() - 1_000;
  const start = () =>
    new TarShards({
      path,
      bytesMax,
      sinceMs,
      placeOf: (sha256) => places.get(sha256),
      isBegun: () => places.size > 0,
      lastShard: () => Math.max(-1, ...[...places.values()].map(({ shard }) => shard)),
    });
  /** Written and committed. */
  const keep = async (shards: TarShards, ...contents: KeptContent[]) => {
    for (const [sha256, place] of await shards.write(contents)) places.set(sha256, place);
  };
  const list = (shard: string) =>
    execFileSync('tar', ['-tf', join(path, shard)], { encoding: 'utf8' })
      .trim()
      .split('\n');
  const read = (shard: string, entry: string) =>
    execFileSync('tar', ['-xOf', join(path, shard), entry]);
  return { path, places, start, keep, list, read };
}

const entriesOf = ({ sha256, thumbnail }: KeptContent) => [
  `${sha256}.png`,
  ...(thumbnail ? [`${sha256}.thumb.webp`] : []),
  `${sha256}.json`,
];

test('tar shards: tar reads them at any time, and each is of limited size', async (t) => {
  const { path, places, start, keep, list, read } = rig(t, 8_192);
  const shards = start();
  const all = [0, 1, 2, 3, 4, 5].map((n) => contentOf(n));
  for (const content of all) {
    await keep(shards, content);
    const { shard = -1 } = places.get(content.sha256) ?? {};
    const name = `${String(shard).padStart(6, '0')}.tar`;
    assert.deepEqual(list(name).slice(-entriesOf(content).length), entriesOf(content));
    assert.deepEqual(read(name, `${content.sha256}.png`), Buffer.concat(content.pieces));
    assert.ok(statSync(join(path, name)).size <= 8_192);
  }
  assert.deepEqual(readdirSync(path).sort(), ['000000.tar', '000001.tar', '000002.tar']);
  const [first] = all;
  assert.deepEqual(JSON.parse(read('000000.tar', `${first?.sha256}.json`).toString()), { n: 0 });
  // One that is longer than a shard has one for itself; a batch may fill several.
  const [huge, next] = [contentOf(6, 20_000), contentOf(7)];
  await keep(shards, huge, next);
  assert.deepEqual(
    [huge, next].map(({ sha256 }) => places.get(sha256)?.shard),
    [3, 4],
  );
  await shards.close();
});

test('tar shards: what no record knows is cut off at the next start', async (t) => {
  const { path, places, start, keep, list } = rig(t, 10_000);
  const before = start();
  const [one, two, three, four] = [1, 2, 3, 4].map((n) => contentOf(n)) as [
    ...[KeptContent, KeptContent, KeptContent, KeptContent],
  ];
  await keep(before, one, two);
  // Written, and not committed: in this shard and in the next.
  await before.write([three, contentOf(8), contentOf(10)]);
  await before.close();
  assert.equal(readdirSync(path).length, 2);
  appendFileSync(join(path, '000001.tar'), 'torn');
  const after = start();
  assert.equal(await after.sweep(), 0);
  assert.deepEqual(readdirSync(path), ['000000.tar']);
  assert.deepEqual(list('000000.tar'), [...entriesOf(one), ...entriesOf(two)]);
  await keep(after, three);
  await after.close();
  assert.deepEqual(list('000000.tar').slice(-2), entriesOf(three));
  const has = (content: KeptContent) =>
    start().has(content.sha256, { ...content, place: places.get(content.sha256) });
  assert.deepEqual(await Promise.all([one, two, three, four].map(has)), [true, true, true, false]);
  // Somebody cut it, and took it away.
  truncateSync(join(path, '000000.tar'), 1_600);
  assert.deepEqual(await Promise.all([one, two].map(has)), [true, false]);
  const later = start();
  await keep(later, four);
  rmSync(join(path, '000000.tar'));
  await keep(later, two);
  assert.equal(places.get(two.sha256)?.shard, (places.get(four.sha256)?.shard ?? 0) + 1);
  await later.close();
});

test('tar shards: the same where the clock went back since the start', async (t) => {
  const { path, start, keep, list } = rig(t, 10_000);
  const before = start();
  const [one, two] = [contentOf(1), contentOf(2)];
  await keep(before, one);
  await before.write([two, contentOf(8), contentOf(10), contentOf(12), contentOf(14)]);
  await before.close();
  const names = readdirSync(path);
  assert.ok(names.length > 2);
  for (const name of names) utimesSync(join(path, name), 1_000, 1_000);
  const after = start();
  await keep(after, two);
  await after.close();
  assert.deepEqual(readdirSync(path), ['000000.tar']);
  assert.deepEqual(list('000000.tar'), [...entriesOf(one), ...entriesOf(two)]);
});

test('tar shards: those of somebody else stay', async (t) => {
  const { path, places, start, keep } = rig(t);
  mkdirSync(path);
  const old = join(path, '000004.tar');
  writeFileSync(old, 'mine');
  utimesSync(old, 1_000, 1_000);
  const shards = start();
  const content = contentOf(1);
  await keep(shards, content);
  assert.equal(places.get(content.sha256)?.shard, 5);
  await shards.close();
  const removed = await start().remove((sha256) => places.has(sha256));
  assert.deepEqual(removed, { deleted: 1, kept: 1 });
  assert.deepEqual(readdirSync(path), ['000004.tar']);
});

test('tar shards: the number of one that was taken away is not used again after a start', async (t) => {
  const { path, places, start, keep } = rig(t, 4_096);
  const before = start();
  const all = [1, 3, 5, 7, 9].map((n) => contentOf(n));
  for (const content of all) await keep(before, content);
  await before.close();
  const last = Math.max(...[...places.values()].map(({ shard }) => shard));
  assert.ok(last >= 2);
  // Whole shards, and the last one, are moved to where they are used.
  for (const name of readdirSync(path)) rmSync(join(path, name));
  const after = start();
  const more = contentOf(11);
  await keep(after, more);
  await after.close();
  assert.ok((places.get(more.sha256)?.shard ?? 0) > last, readdirSync(path).join());
  // An image that was taken away is written again where it is wanted.
  const has = all.map((content) =>
    start().has(content.sha256, { ...content, place: places.get(content.sha256) }),
  );
  assert.ok(has.every((is) => !is));
});

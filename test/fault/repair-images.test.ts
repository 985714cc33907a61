/** Repair of what is on record of downloaded images: without it the end of a crawl would delete
 *  them. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { entryOf, tarTrailer } from '../../master/images/tar.ts';
import { TarShards } from '../../master/images/tar-shards.ts';
import { repair } from '../../master/repair/repair.ts';
import {
  contentKey,
  decodeContent,
  encodeContent,
  encodeNaming,
  type KeptImage,
  namingKey,
  namingPrefix,
} from '../../master/store/image-rows.ts';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { crawlKey } from '../../master/store/records.ts';
import type { Change } from '../../master/store/store.ts';
import { entryName } from '../../shared/images.ts';
import { damagedStore, seenKey } from '../support/damaged-store.ts';

const url = 'http://a.example/a.png';
const download = { images: { store: 'tar' } } as const;
const all = { from: crawlKey(1), to: crawlKey(2) };

const [kept, dropped] = ['kept', 'dropped'].map((text) => {
  const bytes = Buffer.from(`an image that is ${text}`);
  const sha256 = createHash('sha256').update(bytes).digest();
  return { bytes, sha256, hex: sha256.toString('hex') };
}) as [Image, Image];
type Image = { readonly bytes: Buffer; readonly sha256: Buffer; readonly hex: string };

const records: readonly (readonly [Image, KeptImage])[] = [
  [
    kept,
    {
      bytes: kept.bytes.length,
      type: 'png',
      hasThumbnail: false,
      dhash: Buffer.alloc(8, 3),
      group: kept.sha256,
      place: { shard: 0, at: 512 },
    },
  ],
  [
    dropped,
    {
      bytes: dropped.bytes.length,
      type: 'jpg',
      hasThumbnail: false,
      isDropped: true,
      dhash: Buffer.alloc(8, 1),
      group: kept.sha256,
    },
  ],
];
const contents = records.map(([{ sha256 }, image]): Change => {
  return { table: 'contents', key: contentKey(1, sha256), value: encodeContent(image) };
});
const naming: Change = {
  table: 'namings',
  key: namingKey(namingPrefix(1, seenKey('%http://a.example/waits.png')), 3),
  value: encodeNaming({ page: 'http://a.example/' }),
};
const dhash = (byte: number) => Buffer.alloc(8, byte).toString('hex');
const lines = [
  {
    url,
    type: 'image/png',
    bytes: kept.bytes.length,
    sha256: kept.hex,
    group: kept.hex,
    file: 'images/000000.tar',
    entry: entryName(kept.hex, 'png'),
    dhash: dhash(3),
  },
  {
    url: `${url}?2`,
    type: 'image/jpeg',
    bytes: dropped.bytes.length,
    sha256: dropped.hex,
    dhash: dhash(1),
    group: kept.hex,
    excluded: 'similar',
  },
  // One that nothing was kept of, and one without an answer.
  { url: `${url}?3`, type: 'image/png', bytes: 9, excluded: 'min-width' },
  { url: `${url}?4`, error: { kind: 'connect', message: 'refused' } },
];
const shard = Buffer.concat([...entryOf(entryName(kept.hex, 'png'), [kept.bytes]), tarTrailer]);

/** Repairs a store without the pages that hold `harmed`. Returns its rows of images. */
async function rowsAfter(t: TestContext, harmed: Buffer) {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const written = { 'images.jsonl': text, 'images/000000.tar': shard };
  const host: Change = { table: 'robots', key: Buffer.from('a host'), value: Buffer.from('-') };
  const changes = [...contents, naming, host];
  const names = lines.map((line) => `%${line.url}`);
  const made = { names, changes, written, spec: { fetch: { download } }, harmed };
  const { storeFolder, ...folders } = await damagedStore(t, made);
  await repair(folders);
  const store = await openLmdbStore(storeFolder);
  const images = new Map(
    store
      .range('contents', all)
      .map(({ key, value }) => [key.toString('hex', 4), decodeContent(value)]),
  );
  const waiting = store.range('namings', all).map(({ key }) => key.toString('hex'));
  await store.close();
  return { images, waiting, folder: join(folders.outFolder, 'default/images') };
}

const expected = new Map(
  records.map(([{ hex }, { dhash = [], group = [], ...image }]) => [
    hex,
    { ...image, dhash: Uint8Array.from(dhash), group: Uint8Array.from(group) },
  ]),
);

test('repair: downloaded images stay on record, and so does what shows those that wait', async (t) => {
  const { images, waiting } = await rowsAfter(t, Buffer.from('a host'));
  assert.deepEqual(images, expected);
  assert.deepEqual(waiting, [Buffer.from(naming.key).toString('hex')]);
});

test('repair: images whose rows are lost are on record again, and no shard is cut', async (t) => {
  const { images, folder: path } = await rowsAfter(t, Buffer.from(contents[0]?.key ?? []));
  assert.deepEqual(images, expected);
  const placeOf = (sha256: string) => images.get(sha256)?.place;
  const shards = new TarShards({
    path,
    bytesMax: 1e6,
    sinceMs: 0,
    placeOf,
    isBegun: () => true,
    lastShard: () => undefined,
  });
  await shards.sweep();
  assert.ok(shards.has(kept.hex, images.get(kept.hex) ?? assert.fail('it has no row')));
});

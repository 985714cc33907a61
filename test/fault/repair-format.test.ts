/** `repair` of a store of another format: its rows stay as they are, and the next start upgrades them. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { repair } from '../../master/repair/repair.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import {
  decodeItemRow,
  formatKey,
  formatVersion,
  itemKeys,
  secretKey,
} from '../../master/store/records.ts';
import type { Change } from '../../master/store/store.ts';
import { upgrade } from '../../master/store/upgrade.ts';
import { harm } from '../support/damaged-store.ts';

const host = Buffer.from('a host that is lost');

/** A store of this format with an item of a queue, and a row of `robots` that has lost its page. */
async function damaged(t: TestContext, format: number): Promise<string> {
  const dataFolder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(dataFolder, { recursive: true }));
  const store = await openLmdbStore(join(dataFolder, 'store'));
  const row: Change = { table: 'robots', key: host, value: Buffer.from('-') };
  // Both sets of roots have to have it.
  for (let commit = 0; commit < 2; commit++) {
    await store.commit([
      row,
      { table: 'meta', key: formatKey, value: Buffer.from([format]) },
      { table: 'meta', key: secretKey, value: Buffer.alloc(16, 7) },
      { table: 'items', key: itemKeys('jobs')(1), value: Buffer.from('an item') },
    ]);
  }
  await store.close();
  harm(storeFile(join(dataFolder, 'store')), host);
  return dataFolder;
}

test('repair: a store of an older format is upgraded by the next start', async (t) => {
  const dataFolder = await damaged(t, 1);
  await repair({ dataFolder, outFolder: dataFolder });
  const store = await openLmdbStore(join(dataFolder, 'store'));
  assert.equal(await upgrade(store), 1);
  const row = store.get('items', itemKeys('jobs')(1)) ?? Buffer.alloc(0);
  assert.equal(Buffer.from(decodeItemRow(row)[0] ?? []).toString(), 'an item');
  await store.close();
});

test('repair: a store of a newer format is left to a newer version', async (t) => {
  const dataFolder = await damaged(t, formatVersion + 1);
  const path = storeFile(join(dataFolder, 'store'));
  const before = readFileSync(path);
  const repairing = repair({ dataFolder, outFolder: dataFolder });
  await assert.rejects(repairing, /this is \d+; use a newer version of Orbweaver/);
  assert.ok(before.equals(readFileSync(path)));
});

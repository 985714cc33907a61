/** Repair of a store whose newest roots are lost, and whose older ones are not whole either. */
import assert from 'node:assert/strict';
import { closeSync, openSync, writeSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { kinds } from '../../master/frontier/kinds/kinds.ts';
import { checkStore } from '../../master/repair/check.ts';
import { current, pageBytes, StoreFile } from '../../master/repair/pages.ts';
import { repair } from '../../master/repair/repair.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { crawlKey, encodeBuried, encodeTask, itemKeys } from '../../master/store/records.ts';
import type { Table } from '../../master/store/store.ts';
import { taskKey } from '../../master/store/task-keys.ts';
import { upgrade } from '../../master/store/upgrade.ts';
import { damagedStore, seenKey } from '../support/damaged-store.ts';

const host = Buffer.alloc(8, 1);
const tasksCount = 1_000;
/** Of a page, at most. */
const rowsMax = 60;

const urlOf = (task: number) => `http://a.example/page/${task}.html`;

function taskChange(seq: number) {
  const kind = kinds.page.number;
  const record = { kind, level: 0, url: urlOf(seq), depth: 0, priority: 0, attempts: 0 };
  const value = encodeTask({ ...record, notBefore: 0 });
  return { table: 'tasks', key: taskKey(1, host, 0, seq), value } as const;
}

/** A store in which one page of tasks is lost, and another page: that of these roots. */
async function harmedStore(t: TestContext, rootsOf: 'all tables' | 'tasks') {
  const changes = Array.from({ length: tasksCount }, (_, i) => taskChange(i + 1));
  const folders = await damagedStore(t, {
    names: ['http://a.example/'],
    changes,
    harmed: Buffer.from(urlOf(500)),
  });
  const path = storeFile(folders.storeFolder);
  zero(path, newestRoot(path, rootsOf));
  return folders;
}

function zero(path: string, page: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(pageBytes), 0, pageBytes, page * pageBytes);
  closeSync(file);
}

function newestRoot(path: string, of: 'all tables' | Table): number {
  const file = new StoreFile(path);
  const [a, b] = file.metas();
  assert.ok(a !== undefined && b !== undefined);
  const meta = current(a, b);
  const tables = file.tables({ meta, used: new Uint8Array(meta.end), onDamage: assert.fail });
  const root = of === 'all tables' ? meta.main.root : tables.get(of)?.root;
  file.close();
  assert.ok(root !== undefined);
  return root;
}

test('repair: where the newest roots are lost, one more page costs its own rows alone', async (t) => {
  const { storeFolder, ...folders } = await harmedStore(t, 'all tables');
  const lines = await repair(folders);
  assert.equal(checkStore(storeFile(storeFolder)), undefined);
  const [, saved, lost] = /^ {2}tasks +([\d,]+) +(\d+)$/m.exec(lines.join('\n')) ?? [];
  assert.equal(Number(saved?.replaceAll(',', '')) + Number(lost), tasksCount, lines.join('\n'));
  assert.ok(Number(lost) > 0 && Number(lost) < rowsMax, lines.join('\n'));
  assert.equal(lines.at(-2), 'the last commit is lost: all rows are those of the one before it');
});

test('repair: of two damaged sets of roots the newer one is read', async (t) => {
  // Both have the same page of tasks.
  const { storeFolder, ...folders } = await harmedStore(t, 'tasks');
  const lines = await repair(folders);
  assert.equal(checkStore(storeFile(storeFolder)), undefined);
  assert.match(lines.join('\n'), /^ {2}tasks +0 +1,000$/m);
  assert.match(lines.join('\n'), /^ {2}items +2 +0$/m);
});

test('repair: a store of an earlier version has spare records of its crawls after a start', async (t) => {
  const { storeFolder, ...folders } = await damagedStore(t, {
    names: ['http://a.example/'],
    changes: [taskChange(1)],
    harmed: Buffer.from('nothing'),
  });
  const store = await openLmdbStore(storeFolder);
  await upgrade(store);
  // Both sets of roots have the same page of crawls.
  for (let id = 2; id < 4; id++) {
    await store.commit([{ table: 'items', key: itemKeys('jobs')(id), value: Buffer.alloc(0) }]);
  }
  await store.close();
  const path = storeFile(storeFolder);
  zero(path, newestRoot(path, 'crawls'));
  const said = (await repair(folders)).join('\n');
  assert.equal(checkStore(path), undefined);
  assert.match(said, /^ {2}crawls +1 +0$/m);
  assert.match(said, /^ {2}tasks +1 +0$/m);
});

test('repair: rows of the commit before are said to be such', async (t) => {
  const { storeFolder, ...folders } = await damagedStore(t, {
    names: ['http://a.example/'],
    changes: [],
    harmed: Buffer.from('nothing'),
  });
  const path = storeFile(storeFolder);
  const bury = async (url: string, seal: string) => {
    const store = await openLmdbStore(storeFolder);
    const key = Buffer.concat([crawlKey(1), Buffer.alloc(16, seal)]);
    const of = { url, depth: 0, priority: 0, kind: 'dns', message: 'none', attempts: 1 } as const;
    const item = { table: 'items', key: itemKeys(seal)(1), value: Buffer.alloc(0) } as const;
    await store.commit([{ table: 'buried', key, value: encodeBuried(of) }, item]);
    await store.close();
  };
  await bury('http://a.example/1', 'a');
  const items = newestRoot(path, 'items');
  await bury('http://a.example/2', 'b');
  zero(path, newestRoot(path, 'buried'));
  zero(path, items);
  const said = (await repair(folders)).join('\n');
  assert.match(said, /^ {2}buried +1 {2}1, and what the last commit changed$/m);
  assert.match(said, /^ {2}items +4 {2}0$/m);
});

test('repair: a row of another table in the place of a crawl is that of the roots before', async (t) => {
  const { storeFolder, ...folders } = await damagedStore(t, {
    names: ['http://a.example/'],
    changes: [taskChange(1)],
    harmed: Buffer.from('nothing'),
  });
  const store = await openLmdbStore(storeFolder);
  // As an old page that the disk has kept, whose rows have the checksums of their table.
  await store.commit([{ table: 'crawls', key: crawlKey(1), value: seenKey('http://a.example/') }]);
  await store.close();
  const path = storeFile(storeFolder);
  assert.equal(checkStore(path), 'a row of crawls is of another table');
  const lines = await repair(folders);
  assert.equal(checkStore(path), undefined);
  assert.match(lines.join('\n'), /^ {2}crawls +1 +0$/m);
  assert.match(lines.join('\n'), /^ {2}tasks +1 +0$/m);
});

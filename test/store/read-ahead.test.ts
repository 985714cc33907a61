/** The reads of a start into the page cache, from a store that may change during them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pageBytes } from '../../master/repair/pages.ts';
import { readAhead } from '../../master/repair/read-ahead.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { parseRunKey, runKey } from '../../master/store/runs.ts';
import type { Change, Table } from '../../master/store/store.ts';
import { randomUint32s } from '../support/random.ts';

/** Of a row: a page each, as those of a run. */
const rowBytes = 3584;
const all = {
  isWanted: () => true,
  bytesMax: Number.POSITIVE_INFINITY,
  goesOn: () => true,
};

/** In each batch so many rows of `runs`, and as many of `buried`, each in a page of its own. */
async function storeOf(t: TestContext, batches: number, rows: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const store = await openLmdbStore(folder);
  for (let batch = 0; batch < batches; batch++) {
    for (const table of ['runs', 'buried'] as const satisfies Table[]) {
      const changes = Array.from({ length: rows }, (_, i): Change => {
        return { table, key: runKey(1, batch + 1, i), value: Buffer.alloc(rowBytes, batch) };
      });
      await store.commit(changes);
    }
  }
  await store.close();
  return storeFile(folder);
}

/** Returns how many bytes of a file are in the page cache; undefined: nothing here says so. */
function cachedBytes(path: string): number | undefined {
  const { stdout, stderr, error } = spawnSync('fincore', ['-n', '-b', '-o', 'RES', path]);
  if (error !== undefined) return undefined;
  assert.match(stdout.toString(), /^\s*\d+\s*$/, stderr.toString());
  return Number(stdout);
}

test('all rows of the table are in the page cache then, and little else is read', async (t) => {
  const path = await storeOf(t, 4, 2_000);
  spawnSync('sync', [path]);
  spawnSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0']);
  // A file system may lie in memory.
  const isCold = cachedBytes(path) === 0;
  const bytes = await readAhead(path, 'runs', all);
  const cached = cachedBytes(path) ?? 0;
  const wanted = 4 * 2_000 * pageBytes;
  const fileBytes = readFileSync(path).length;
  t.diagnostic(`${bytes} bytes read, ${wanted} of rows, the file has ${fileBytes}`);
  assert.ok(bytes >= wanted && bytes < wanted * 1.2, `${bytes} bytes read for ${wanted}`);
  if (isCold) assert.ok(cached >= wanted, `${cached} bytes are in memory`);
  assert.ok(fileBytes > wanted * 2);
});

test('only rows that are wanted are read', async (t) => {
  const path = await storeOf(t, 4, 500);
  const whole = await readAhead(path, 'runs', all);
  // Runs are numbered from 1.
  const isWanted = (key: Buffer) => parseRunKey(key)?.run === 2;
  const some = await readAhead(path, 'runs', { ...all, isWanted });
  assert.ok(some >= 500 * pageBytes && some < whole / 2, `${some} of ${whole} bytes`);
});

test('a table without rows, and a store without pages', async (t) => {
  const path = await storeOf(t, 1, 10);
  assert.equal(await readAhead(path, 'robots', all), 0);
  writeFileSync(path, '');
  assert.equal(await readAhead(path, 'runs', all), 0);
  rmSync(path);
  await assert.rejects(readAhead(path, 'runs', all), { code: 'ENOENT' });
});

test('it reads no more than it may, and stops when it is told to', async (t) => {
  const path = await storeOf(t, 4, 2_000);
  const whole = await readAhead(path, 'runs', all);
  const some = await readAhead(path, 'runs', { ...all, bytesMax: 200_000 });
  // Reads under way at that moment still come.
  assert.ok(some >= 200_000 && some < whole, `${some} of ${whole} bytes`);
  assert.equal(await readAhead(path, 'runs', { ...all, bytesMax: 0 }), 0);
  assert.equal(await readAhead(path, 'runs', { ...all, goesOn: () => false }), 0);
});

test('pages that are other ones by now, or cut, are left out', async (t) => {
  const path = await storeOf(t, 2, 300);
  const sound = readFileSync(path);
  const next = randomUint32s(20261125);
  for (let round = 0; round < 60; round++) {
    writeFileSync(path, sound);
    const file = openSync(path, 'r+');
    // Behind the meta pages.
    for (let i = 0; i < 200; i++) {
      const at = 2 * pageBytes + (next() % (sound.length - 2 * pageBytes));
      writeSync(file, Buffer.from([next()]), 0, 1, at);
    }
    closeSync(file);
    const bytes = await readAhead(path, 'runs', all);
    assert.ok(bytes <= sound.length * 2);
  }
  writeFileSync(path, sound.subarray(0, sound.length / 2));
  assert.ok((await readAhead(path, 'runs', all)) <= sound.length);
});

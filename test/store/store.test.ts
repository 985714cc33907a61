import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import type { Row } from '../../master/store/store.ts';
import { storeContract } from './contract.ts';

const makeFolder = () => mkdtempSync(join(tmpdir(), 'orbweaver-store-'));

storeContract('memory', async () => ({ store: new MemoryStore(), close: async () => {} }));

storeContract('lmdb', async () => {
  const folder = makeFolder();
  const store = await openLmdbStore(folder);
  return {
    store,
    close: async () => {
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
});

test('store: lmdb: is there again after it was closed', async () => {
  const folder = makeFolder();
  const key = Buffer.from('key');
  for (let round = 0; round < 3; round++) {
    const store = await openLmdbStore(folder);
    assert.equal(store.get('crawls', key)?.toString(), round === 0 ? undefined : `${round - 1}`);
    const last = store.commit([{ table: 'crawls', key, value: Buffer.from(`${round}`) }]);
    await last;
    await store.close();
  }
  rmSync(folder, { recursive: true });
});

test("store: lmdb: a folder that cannot be used is the operator's business", async () => {
  await assert.rejects(openLmdbStore('/dev/null/store'), { code: 'E_CONFIG' });
});

test('store: lmdb: kill -9 loses no acknowledged commit and halves none', async () => {
  const folder = makeFolder();
  const writer = fileURLToPath(new URL('./writer.js', import.meta.url));
  const all = { from: Buffer.from('0'), to: Buffer.from(':') };
  let from = 0;
  for (let round = 0; round < 5; round++) {
    const child = spawn(process.execPath, [writer, folder, String(from)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      // Killed in the middle of it, at another place every round.
      if (output.split('\n').length > 20 + round * 13) child.kill('SIGKILL');
    });
    await once(child, 'close');
    const acknowledged = output.split('\n').slice(0, -1).map(Number);
    assert.ok(acknowledged.length >= 20, `round ${round}`);
    const store = await openLmdbStore(folder);
    const rows = [...store.range('seen', all), ...store.range('tasks', all)];
    const commits = groupByCommit(rows);
    for (const n of acknowledged) assert.equal(commits.get(n)?.length, 40, `commit ${n} is there`);
    for (const [n, kept] of commits) assert.equal(kept.length, 40, `commit ${n} is whole`);
    from = Math.max(...commits.keys()) + 1;
    assert.equal(commits.size, from, 'none in between is missing');
    await store.close();
  }
  rmSync(folder, { recursive: true });
});

function commitOf(key: Buffer): number {
  return Number(key.toString('latin1', 0, 8));
}

function groupByCommit(rows: readonly Row[]): Map<number, Row[]> {
  const groups = new Map<number, Row[]>();
  for (const row of rows) {
    const n = commitOf(row.key);
    const group = groups.get(n);
    if (group === undefined) groups.set(n, [row]);
    else group.push(row);
  }
  return groups;
}

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkStore } from '../../master/repair/check.ts';
import { Salvage } from '../../master/repair/salvage.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import type { Row } from '../../master/store/store.ts';
import { Program } from '../../selftest/program.ts';
import { diskFailures, FailingDisk } from '../support/failing-disk.ts';
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

test('store: lmdb: commits that wait for the one before become one', async () => {
  const folder = makeFolder();
  const store = await openLmdbStore(folder);
  const put = (name: string, value: string) =>
    store.commit([{ table: 'crawls', key: Buffer.from(name), value: Buffer.from(value) }]);
  const commits = [put('a', '1'), put('b', '1'), put('c', '1'), put('b', '2')];
  await commits[1];
  const read = ['a', 'b', 'c'].map((name) => store.get('crawls', Buffer.from(name))?.toString());
  assert.deepEqual(read, ['1', '2', '1']);
  await Promise.all(commits);
  await store.close();
  rmSync(folder, { recursive: true });
});

test("store: lmdb: a folder that cannot be used is the operator's business", async () => {
  await assert.rejects(openLmdbStore('/dev/null/store'), { code: 'E_CONFIG' });
});

test('store: lmdb: kill -9 loses no acknowledged commit and halves none', async () => {
  const folder = makeFolder();
  let from = 0;
  for (let round = 0; round < 5; round++) {
    const { acknowledged } = await written(folder, from, {
      // In the middle of it, at another place every round.
      commits: 20 + round * 13,
      end: (child) => child.kill('SIGKILL'),
    });
    const commits = await commitsIn(folder, acknowledged);
    from = Math.max(...commits) + 1;
    assert.equal(commits.length, from, 'none in between is missing');
  }
  rmSync(folder, { recursive: true });
});

for (const [how, fail] of Object.entries(diskFailures)) {
  test(`store: lmdb: a disk that ${how} loses no acknowledged commit`, async (t) => {
    const disk = FailingDisk.mount(t);
    if (disk === undefined) return;
    // Between two commits: one under way when its journal is aborted may count as flushed to ext4.
    const { acknowledged, error } = await written(disk.path, 0, {
      commits: 30,
      pauses: true,
      end: (child) => {
        fail(disk);
        child.kill('SIGUSR2');
      },
    });
    assert.ok(acknowledged.length >= 30, how);
    assert.match(error, /E_STORE|cannot write the store .*(Read-only|Input\/output)/i);
    disk.mend();
    const path = storeFile(disk.path);
    if (checkStore(path) === undefined) await commitsIn(disk.path, acknowledged);
    // The failed commit may have come through in part; the one before it is whole all the same.
    else assertWhole(salvaged(path), acknowledged);
  });
}

/** Commits from the number `from` on, in a process of its own, until `end` ends that after so many
 *  that were acknowledged. */
async function written(
  folder: string,
  from: number,
  until: { commits: number; pauses?: boolean; end: (child: ChildProcess) => void },
): Promise<{ acknowledged: number[]; error: string }> {
  const writer = fileURLToPath(new URL('./writer.js', import.meta.url));
  const pauseAt = until.pauses ? [String(from + until.commits)] : [];
  const program = new Program([writer, folder, String(from), ...pauseAt]);
  await program.said(new RegExp(`(?:\\d+\\n){${until.commits}}`));
  until.end(program.child);
  await program.exited;
  const acknowledged = program.stdout.split('\n').slice(0, -1).map(Number);
  return { acknowledged, error: program.stderr };
}

/** The numbers of the commits in a store: whole ones, and all that were acknowledged. */
async function commitsIn(folder: string, acknowledged: readonly number[]): Promise<number[]> {
  const store = await openLmdbStore(folder);
  const all = { from: Buffer.from('0'), to: Buffer.from(':') };
  const commits = groupByCommit([...store.range('items', all), ...store.range('tasks', all)]);
  await store.close();
  assertWhole(commits, acknowledged);
  return [...commits.keys()];
}

function assertWhole(
  commits: ReadonlyMap<number, readonly unknown[]>,
  acknowledged: readonly number[],
): void {
  for (const n of acknowledged) assert.equal(commits.get(n)?.length, 40, `commit ${n} is there`);
  for (const [n, kept] of commits) assert.equal(kept.length, 40, `commit ${n} is whole`);
}

/** What `repair` reads of a damaged store. */
function salvaged(path: string): Map<number, Row[]> {
  const salvage = new Salvage(path);
  const rows: Row[] = [];
  for (const table of ['items', 'tasks'] as const) {
    const { damage } = salvage.table(table, (key, value) =>
      rows.push({ key: Buffer.from(key), value: Buffer.from(value) }),
    );
    assert.deepEqual(damage, []);
  }
  salvage.close();
  return groupByCommit(rows);
}

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

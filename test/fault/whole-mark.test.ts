/** A large store is read as a whole after a crash, and not after an orderly end. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { forgetMark, isMarkedWhole, markWhole } from '../../master/repair/whole-mark.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { formatKey, formatVersion } from '../../master/store/records.ts';
import { runKey } from '../../master/store/runs.ts';
import type { Change } from '../../master/store/store.ts';
import { Cluster } from '../support/cluster.ts';
import { bytesRead, flip, row } from '../support/store-file.ts';

async function make(folder: string, rows: readonly Change[]): Promise<string> {
  const store = await openLmdbStore(folder);
  const value = Buffer.from([formatVersion]);
  await store.commit([{ table: 'meta', key: formatKey, value }]);
  for (const change of rows) await store.commit([change]);
  await store.close();
  return storeFile(folder);
}

test('mark: it holds for the store that was closed, and for no other', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-mark-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = await make(folder, [row(1, 5_000)]);
  assert.ok(!isMarkedWhole(path, 0), 'nobody has marked it');
  await markWhole(path, 0);
  assert.ok(isMarkedWhole(path, 0));
  assert.ok(!isMarkedWhole(path), 'a small one is read');
  await flip(path, 3 * 4096 + 100);
  assert.ok(!isMarkedWhole(path, 0), 'a bit was changed');
  await flip(path, 3 * 4096 + 100);
  assert.ok(!isMarkedWhole(path, 0), 'and changed back');
  await markWhole(path, 0);
  copyFileSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, path);
  assert.ok(!isMarkedWhole(path, 0), 'it is a copy');
  await markWhole(path, 0);
  await make(folder, [row(2, 10)]);
  assert.ok(!isMarkedWhole(path, 0), 'it was written');
  await markWhole(path, 0);
  forgetMark(path);
  assert.ok(!isMarkedWhole(path, 0));
  forgetMark(path);
});

test('a start reads a large store after kill -9, and not after an orderly end', {
  timeout: 120_000,
  skip: !existsSync('/proc/self/io'),
}, async (t) => {
  const cluster = new Cluster(t);
  const first = await cluster.master([]);
  await first.kill('SIGTERM');
  const rows = Array.from({ length: 80 }, (_, id) => row(id, 1 << 20));
  const path = await make(join(cluster.data, 'store'), rows);
  const readBy = async (signal: NodeJS.Signals) => {
    const master = await cluster.master([]);
    const bytes = bytesRead(master.pid);
    await master.kill(signal);
    return bytes;
  };
  assert.ok((await readBy('SIGTERM')) > 80e6, 'another program has written it');
  assert.ok((await readBy('SIGTERM')) < 60e6, 'it is as the last master has left it');
  assert.ok((await readBy('SIGKILL')) < 60e6);
  assert.ok((await readBy('SIGTERM')) > 80e6, 'the last master was killed');
  assert.ok((await readBy('SIGTERM')) < 60e6);
  // In the middle of a large value.
  await flip(path, 40 << 20);
  const master = cluster.run([
    ...['master.js', '--data', cluster.data, '--out', cluster.out],
    ...['--listen', '127.0.0.1:0'],
  ]);
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(master.stderr, /is damaged/);
});

test('after an orderly end the seen URLs of open crawls are read in the background', {
  timeout: 60_000,
}, async (t) => {
  const cluster = new Cluster(t);
  // No slave comes, so it stays open.
  const first = await cluster.master(['http://127.0.0.1:1/']);
  await first.kill('SIGTERM');
  const runs = [1, 2].map((crawl) =>
    Array.from({ length: 10_000 }, (_, bucket): Change => {
      return { table: 'runs', key: runKey(crawl, 9, bucket), value: Buffer.alloc(3584) };
    }),
  );
  const store = await openLmdbStore(join(cluster.data, 'store'));
  for (const rows of runs) await store.commit(rows);
  await store.close();
  await markWhole(storeFile(join(cluster.data, 'store')));
  const master = await cluster.master(['--log-level', 'debug']);
  const line = /seen URLs read into the page cache {2}bytes=(\d+)/;
  await master.said(line);
  const bytes = Number(line.exec(master.stdout)?.[1]);
  assert.ok(bytes > 10_000 * 4096 && bytes < 15_000 * 4096, `${bytes} bytes are not of one crawl`);
  await master.kill('SIGTERM');
});

/** A large store is read after a crash while its master serves. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { BackgroundCheck } from '../../master/repair/background-check.ts';
import { forgetRead, markRead, startsSinceRead } from '../../master/repair/read-mark.ts';
import { type NativeStore, openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { formatKey, formatVersion } from '../../master/store/records.ts';
import type { Change } from '../../master/store/store.ts';
import { Cluster, root } from '../support/cluster.ts';
import { bytesRead, flip, row } from '../support/store-file.ts';

const canTellBoots = existsSync('/proc/sys/kernel/random/boot_id');

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orb-read-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function openWith(folder: string, rows: readonly Change[]): Promise<NativeStore> {
  const store = await openLmdbStore(folder);
  await store.commit([{ table: 'meta', key: formatKey, value: Buffer.from([formatVersion]) }]);
  for (const change of rows) await store.commit([change]);
  return store;
}

test('read mark: it holds for this file, until the machine starts again', {
  skip: !canTellBoots,
}, async (t) => {
  const folder = folderFor(t);
  const path = storeFile(folder);
  const starts = () => startsSinceRead(path, 0);
  let store = await openWith(folder, [row(1, 5_000)]);
  assert.equal(starts(), undefined, 'nobody has read it');
  markRead(path);
  assert.equal(starts(), 0);
  assert.equal(startsSinceRead(path), undefined, 'a small one is read');
  copyFileSync(path, `${path}.old`);
  await store.commit([row(2, 5_000)]);
  assert.equal(starts(), 0, 'its master writes it');
  await store.close();
  markRead(path, 2);
  assert.equal(starts(), 2);
  markRead(path, 3);
  assert.equal(starts(), undefined, 'too many starts');
  markRead(path);
  const mark = readFileSync(`${path}.read`, 'latin1');
  for (const [from, to] of [
    [/^read \S+/, 'read 11111111-1111-1111-1111-111111111111'],
    [/\n/, ''],
    [/ 0\n/, ' -1\n'],
  ] as const) {
    writeFileSync(`${path}.read`, mark.replace(from, to));
    assert.equal(starts(), undefined, mark.replace(from, to));
  }
  writeFileSync(`${path}.read`, mark);
  assert.equal(starts(), 0);
  copyFileSync(path, `${path}.copy`);
  copyFileSync(`${path}.old`, path);
  assert.equal(starts(), undefined, 'an older copy was written into it');
  renameSync(`${path}.copy`, path);
  assert.equal(starts(), undefined, 'it is another file');
  markRead(path);
  forgetRead(path);
  assert.equal(starts(), undefined);
  forgetRead(path);
  store = await openLmdbStore(folder);
  await store.close();
});

/** Writes rows of all sizes over each other until it is stopped. */
function write(store: NativeStore): () => Promise<void> {
  let isOver = false;
  let seed = 1;
  const random = (below: number) => {
    seed = (seed * 48_271) % 0x7fffffff;
    return seed % below;
  };
  const ended = (async () => {
    while (!isOver) {
      const changes = Array.from({ length: 300 }, (): Change => {
        const { table, key, value } = row(random(3_000), random(3) === 0 ? random(20_000) : 100);
        return { table, key, value: random(4) === 0 ? undefined : value };
      });
      await store.commit(changes);
    }
  })();
  return async () => {
    isOver = true;
    await ended;
  };
}

test('a store is read while it is written, and what is found is damage', {
  timeout: 120_000,
}, async (t) => {
  const folder = folderFor(t);
  const path = storeFile(folder);
  const store = await openWith(folder, []);
  const stop = write(store);
  const options = { path, store, program: join(root, 'master.js') };
  for (let round = 0; round < 8; round++) {
    const verdict = await new BackgroundCheck({ ...options, reserveBytes: 0 }).run();
    assert.deepEqual(verdict, { is: 'whole' }, `round ${round}`);
  }
  // The disk has no room for a file that grows: it is made again, until it is closed.
  const short = new BackgroundCheck({ ...options, reserveBytes: 2 ** 50, againMs: 10 });
  const closed = short.run();
  await new Promise((resolve) => setTimeout(resolve, 100));
  short.close();
  assert.equal(await closed, undefined);
  await stop();
  const value = randomBytes(200_000);
  await store.commit([{ ...row(9_999, 0), value }]);
  await flip(path, readFileSync(path).indexOf(value.subarray(100_000)));
  const verdict = await new BackgroundCheck({ ...options, reserveBytes: 0 }).run();
  assert.deepEqual(verdict, { is: 'damaged', damage: 'a row of earlier has changed' });
  await store.close();
});

test('a master of a large store serves at once after kill -9, and reads it then', {
  timeout: 180_000,
  skip: !canTellBoots,
}, async (t) => {
  const cluster = new Cluster(t);
  const first = await cluster.master([]);
  await first.kill('SIGTERM');
  const folder = join(cluster.data, 'store');
  const rows = Array.from({ length: 18 }, (_, id) => row(id, 64 << 20));
  const store = await openWith(folder, rows);
  await store.close();
  const start = async () => {
    const master = await cluster.master([]);
    return { master, bytes: bytesRead(master.pid) };
  };
  const read = /all of the store was read: it is whole/;
  const unread = await start();
  assert.ok(unread.bytes > 1e9, 'another program has written it');
  await unread.master.kill('SIGKILL');
  const second = await start();
  assert.ok(second.bytes < 60e6, 'the kernel has all that the last master wrote');
  await second.master.said(read);
  await second.master.kill('SIGTERM');
  const orderly = await start();
  assert.ok(orderly.bytes < 60e6);
  await orderly.master.kill('SIGKILL');
  // They end before they have read it, unless this process was kept from a processor.
  let unreadStarts = 0;
  for (const ending of ['SIGTERM', 'SIGKILL', 'SIGKILL'] as const) {
    const early = await start();
    assert.ok(early.bytes < 60e6);
    await early.master.kill(ending);
    unreadStarts = read.test(early.master.stdout) ? 0 : unreadStarts + 1;
    if (unreadStarts > 0) assert.ok(!existsSync(join(folder, 'store.mdb.whole')));
  }
  const last = await start();
  if (unreadStarts === 3) assert.ok(last.bytes > 1e9, 'three have not read it');
  await last.master.kill('SIGKILL');
  await flip(storeFile(folder), 600 << 20);
  const harmed = await cluster.master([]);
  const ended = await harmed.exited;
  assert.equal(ended.code, 2, harmed.stdout + harmed.stderr);
  assert.match(harmed.stderr, /is damaged \(a row of earlier has changed\); save the .* repair/);
  const refused = cluster.run([
    ...['master.js', '--data', cluster.data, '--out', cluster.out],
    ...['--listen', '127.0.0.1:0'],
  ]);
  assert.deepEqual(await refused.exited, { code: 2, signal: null });
  assert.doesNotMatch(refused.stdout, /listens on/);
});

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
import { checkStore, refuseDamagedHead } from '../../master/repair/check.ts';
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
  const store = await openWith(folder, [row(1, 5_000)]);
  assert.equal(starts(), undefined, 'nobody has read it');
  markRead(path);
  assert.equal(starts(), 0);
  assert.equal(startsSinceRead(path), undefined, 'a small one is read');
  await store.commit([row(2, 5_000)]);
  assert.equal(starts(), 0, 'its master writes it');
  await store.backup(`${path}.backup`);
  await store.commit([row(3, 5_000)]);
  await store.close();
  assert.equal(starts(), 0);
  markRead(path, 2);
  assert.equal(starts(), 2);
  markRead(path, 3);
  assert.equal(starts(), undefined, 'too many starts');
  markRead(path);
  const mark = readFileSync(`${path}.read`, 'latin1');
  for (const [from, to] of [
    [/^read \d+/, 'read 4'],
    [/[0-9a-f-]{36}/, '11111111-1111-1111-1111-111111111111'],
    [/\n/, ''],
    [/ 0\n/, ' -1\n'],
  ] as const) {
    writeFileSync(`${path}.read`, mark.replace(from, to));
    assert.equal(starts(), undefined, mark.replace(from, to));
  }
  writeFileSync(`${path}.read`, mark);
  assert.equal(starts(), 0);
  copyFileSync(path, `${path}.copy`);
  copyFileSync(`${path}.backup`, path);
  assert.equal(starts(), undefined, 'a backup was written into it');
  copyFileSync(`${path}.copy`, path);
  assert.equal(starts(), 0);
  renameSync(`${path}.copy`, path);
  assert.equal(starts(), undefined, 'it is another file');
  markRead(path);
  assert.equal(starts(), 0);
  forgetRead(path);
  assert.equal(starts(), undefined);
  forgetRead(path);
});

test('a start that reads the store later reads its small tables', async (t) => {
  const folder = folderFor(t);
  const path = storeFile(folder);
  const [small, large] = [randomBytes(40), randomBytes(20 << 20)];
  const key = Buffer.from('a row');
  const store = await openWith(folder, [{ ...row(1, 0), value: large }]);
  await store.commit([{ table: 'meta', key, value: small }]);
  await store.close();
  const bytes = readFileSync(path);
  const inLarge = bytes.indexOf(large.subarray(5 << 20, (5 << 20) + 100));
  await flip(path, inLarge);
  refuseDamagedHead(path, folder);
  assert.equal(checkStore(path), 'a row of earlier has changed');
  await flip(path, inLarge);
  await flip(path, bytes.lastIndexOf(small));
  const message = /is damaged \(a row of meta has changed\); save .* node master.js repair/;
  assert.throws(() => refuseDamagedHead(path, folder), { name: 'ConfigError', message });
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
  const options = { path, store, program: join(root, 'master.js'), reserveBytes: 0, againMs: 10 };
  const given: string[] = [];
  const check = () => new BackgroundCheck(options).run((why) => given.push(why));
  for (let round = 0; round < 8; round++) {
    assert.deepEqual(await check(), { is: 'whole' }, `round ${round}`);
  }
  await stop();
  for (const why of given) assert.equal(why, 'the file grew too much');
  // It is damaged when the check begins, and written over before it comes there.
  const value = randomBytes(200_000);
  await store.commit([{ ...row(9_999, 0), value }]);
  await flip(path, readFileSync(path).indexOf(value.subarray(100_000)));
  const early = new BackgroundCheck(options);
  for (let i = 0; i < 3; i++)
    await store.commit([{ ...row(9_999, 0), value: randomBytes(200_000) }]);
  const damaged = { is: 'damaged', damage: 'a row of earlier has changed' };
  assert.deepEqual(await early.run(assert.fail), damaged);
  assert.deepEqual(await check(), { is: 'whole' });
  await store.close();
});

test('a check that cannot end is made again', { timeout: 60_000 }, async (t) => {
  const folder = folderFor(t);
  const path = storeFile(folder);
  const store = await openWith(folder, [row(1, 100)]);
  const options = { path, store, program: join(root, 'master.js'), reserveBytes: 0, againMs: 10 };
  const twice = async (more: Partial<typeof options>) => {
    const given: string[] = [];
    const check = new BackgroundCheck({ ...options, ...more });
    const found = await check.run((why) => {
      given.push(why);
      if (given.length === 2) check.close();
    });
    assert.equal(found, undefined);
    return given;
  };
  const full = 'the disk is almost full';
  assert.deepEqual(await twice({ reserveBytes: 2 ** 50 }), [full, full]);
  const ended = 'its process ended: 1';
  assert.deepEqual(await twice({ program: join(folder, 'missing.js') }), [ended, ended]);
  const grown: string[] = [];
  for (let i = 2; i < 40; i++) await store.commit([row(i, 1 << 20)]);
  const slow = join(folder, 'slow.mjs');
  writeFileSync(slow, 'setInterval(() => {}, 1_000);');
  const stuck = new BackgroundCheck({ ...options, program: slow });
  const over = stuck.run((why) => {
    grown.push(why);
    stuck.close();
  });
  for (let i = 40; i < 120; i++) await store.commit([row(i, 1 << 20)]);
  assert.equal(await over, undefined);
  assert.deepEqual(grown, ['the file grew too much']);
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
  const read = /all of the store was read: it is whole/;
  const unread = await cluster.master([]);
  assert.ok(bytesRead(unread.pid) > 1e9, 'another program has written it');
  await unread.kill('SIGKILL');
  const second = await cluster.master([]);
  await second.said(read);
  await second.kill('SIGTERM');
  const orderly = await cluster.master([]);
  assert.ok(bytesRead(orderly.pid) < 60e6);
  await orderly.kill('SIGKILL');
  // They end before they have read it, unless this process was kept from a processor.
  let unreadStarts = 0;
  for (const ending of ['SIGTERM', 'SIGKILL', 'SIGKILL'] as const) {
    const early = await cluster.master([]);
    await early.kill(ending);
    unreadStarts = read.test(early.stdout) ? 0 : unreadStarts + 1;
    if (unreadStarts > 0) assert.ok(!existsSync(join(folder, 'store.mdb.whole')));
  }
  const last = await cluster.master([]);
  if (unreadStarts === 3) assert.ok(bytesRead(last.pid) > 1e9, 'three have not read it');
  await last.kill('SIGKILL');
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

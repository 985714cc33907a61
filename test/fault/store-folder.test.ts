/** Tools of a store that is on another disk, belongs to another user, or changed below its mark. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkStore, refuseDamagedStore } from '../../master/repair/check.ts';
import { OpenStore } from '../../master/repair/open-store.ts';
import { isMarkedWhole, markWhole } from '../../master/repair/whole-mark.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { generateSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertStops } from '../support/held.ts';
import { siteFor } from '../support/parts.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 60_000;
const otherDisk = '/dev/shm';
const hasOther = existsSync(otherDisk) && statSync(otherDisk).dev !== statSync(tmpdir()).dev;
const isRoot = process.getuid?.() === 0;
const nobody = 65_534;

/** Flips a bit of each copy of the text in the file. */
function harm(path: string, text: string): void {
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
    bytes[at + 2] = (bytes[at + 2] ?? 0) ^ 1;
  }
  writeFileSync(path, bytes);
}

async function stopped(t: TestContext): Promise<Cluster> {
  const cluster = new Cluster(t);
  if (hasOther) {
    const store = mkdtempSync(join(otherDisk, 'orbweaver-'));
    t.after(() => rmSync(store, { recursive: true, force: true }));
    mkdirSync(cluster.data);
    symlinkSync(store, join(cluster.data, 'store'));
  }
  const urls = ['http://127.0.0.1:9/one', 'http://127.0.0.1:9/two'];
  await assertStops(await cluster.master(urls));
  return cluster;
}

test('a store on another disk than its data folder is compacted and repaired', {
  timeout,
  skip: !hasOther,
}, async (t) => {
  const cluster = await stopped(t);
  const path = storeFile(join(cluster.data, 'store'));
  const tool = async (verb: string) => {
    const program = cluster.run(['master.js', verb, '--data', cluster.data, '--out', cluster.out]);
    assert.equal((await program.exited).code, 0, program.output);
    return program.stdout;
  };
  assert.match(await tool('compact'), /^compacted the store/);
  harm(path, '127.0.0.1:9/two');
  assert.match(await tool('repair'), /the damaged file is kept as/);
  assert.equal(checkStore(path), undefined);
  const names = readdirSync(join(cluster.data, 'store')).filter(
    (name) => !name.startsWith('store.mdb.'),
  );
  assert.deepEqual(names, ['store.mdb']);
  const master = await cluster.master([]);
  assert.equal((await cluster.status()).waiting, 1);
  await assertStops(master);
});

test('repair: kill -9 leaves a store at its path at any moment', { timeout }, async (t) => {
  const cluster = await stopped(t);
  const path = storeFile(join(cluster.data, 'store'));
  harm(path, '127.0.0.1:9/two');
  const kill = join(cluster.folder, 'kill.cjs');
  writeFileSync(
    kill,
    `const fs = require('fs'); const { renameSync } = fs; let count = 0;
    fs.renameSync = (from, to) => {
      const isIt = /store/.test(to) && ++count === Number(process.env.KILL);
      if (isIt) process.kill(process.pid, 'SIGKILL');
      renameSync(from, to);
    };
    require('module').syncBuiltinESMExports();`,
  );
  for (const KILL of ['1', '2']) {
    const env = { ...process.env, NODE_OPTIONS: `--require ${kill}`, KILL };
    const args = ['master.js', 'repair', '--data', cluster.data, '--out', cluster.out];
    await cluster.run(args, { env }).exited;
    assert.ok(existsSync(path), `kill ${KILL}`);
  }
});

test('a file of readers that another user has made is said so in one line', {
  timeout,
  skip: !isRoot,
}, async (t) => {
  const cluster = await stopped(t);
  const store = join(cluster.data, 'store');
  const run = (uid: number, ...args: string[]) =>
    spawnSync(
      process.execPath,
      ['master.js', ...args, '--data', cluster.data, '--out', cluster.out],
      {
        uid,
        encoding: 'utf8',
        timeout: 20_000,
      },
    );
  for (const path of [cluster.folder, cluster.data, cluster.out, store]) {
    if (existsSync(path)) chownSync(path, nobody, nobody);
  }
  for (const folder of [cluster.data, store]) {
    for (const name of readdirSync(folder)) chownSync(join(folder, name), nobody, nobody);
  }
  // A user who may read everything leaves nothing behind that the owner may not use.
  rmSync(`${storeFile(store)}-lock`);
  assert.equal(run(0, 'status', '--ledger').status, 0);
  assert.equal(statSync(`${storeFile(store)}-lock`).uid, nobody);
  chownSync(`${storeFile(store)}-lock`, 0, 0);
  const { status, stderr } = run(nobody, 'compact');
  assert.equal(status, 2);
  assert.match(stderr, /^master: cannot open the store .*EACCES.*store\.mdb-lock'.*\n$/);
});

test('a store without an inode for its file of readers is refused in one line', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 96);
  if (disk === undefined) return;
  // For the two folders, the lock of the master, and the store.
  disk.fillFiles(4);
  const cluster = new Cluster(t);
  const flags = ['--disk-reserve', '24', '--listen', '127.0.0.1:0', '--out', cluster.out];
  const master = cluster.run(['master.js', '--data', join(disk.path, 'data'), ...flags]);
  assert.deepEqual(await master.exited, { code: 2, signal: null }, master.output);
  assert.match(master.output, /^master: cannot open the store .*(?:ENOSPC|No space left).*\n$/);
});

test('compact: a marked store is read before its rows get new checksums', {
  timeout,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = await openLmdbStore(folder);
  const rows = Array.from({ length: 5_000 }, (_, i) => ({
    table: 'buried' as const,
    key: Buffer.from(`\0\0\0\x01${String(i).padStart(16, '0')}`),
    value: Buffer.alloc(16_000, 'value'),
  }));
  await store.commit(rows);
  await store.close();
  const path = storeFile(folder);
  harm(path, 'value');
  // As a bit that flips on the disk, which changes no time of the file.
  await markWhole(path);
  assert.equal(refuseDamagedStore(path, folder), false);
  assert.throws(() => refuseDamagedStore(path, folder, true), /a row of buried has changed/);
});

test('a store that is gone while seeds are added ends the master in one line', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const seeds = join(cluster.folder, 'seeds.txt');
  const urls = Array.from({ length: 300_000 }, (_, index) => `http://127.0.0.1:9/${index}\n`);
  writeFileSync(seeds, urls.join(''));
  const master = await cluster.master(['--seeds', seeds]);
  rmSync(join(cluster.data, 'store'), { recursive: true });
  assert.equal((await master.exited).code, 2, master.output.slice(-2000));
  const lines = master.output.trimEnd().split('\n');
  // It said to repair the disk, on which all of it was.
  const said = /^master: the store .*store\.mdb was moved or removed while .*: put it back/;
  assert.match(lines.at(-1) ?? '', said);
  assert.deepEqual(
    lines.filter((line) => !/^\d\d:\d\d:\d\d |^master: /.test(line)),
    [],
  );
});

/** `add` adds a crawl of that name: one commit. */
async function masterToAdd(t: TestContext) {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const client = await cluster.connect();
  const seeds = ['http://127.0.0.1:9/'];
  const add = (crawl: string) => client.request('crawl.add', { crawl, seeds, priority: 0 });
  return { cluster, master, add };
}

test('a copy in the place of a store ends its master: nothing more is acknowledged', {
  timeout,
}, async (t) => {
  const { cluster, master, add } = await masterToAdd(t);
  await add('before');
  // As by `mv` to another disk, and a link in its place.
  const [moved, copy] = [`${cluster.data}.moved`, `${cluster.data}.copy`];
  cpSync(cluster.data, copy, { recursive: true });
  renameSync(cluster.data, moved);
  renameSync(copy, cluster.data);
  await assert.rejects(add('after'));
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(
    master.output,
    /^master: another file has taken the place of the store .*: put it back, and start again$/m,
  );
  rmSync(cluster.data, { recursive: true });
  renameSync(moved, cluster.data);
  await assertStops(await cluster.master([]));
});

test('an old store that is written over one in use ends its master, and is left whole', {
  timeout,
}, async (t) => {
  const { cluster, master, add } = await masterToAdd(t);
  const path = storeFile(join(cluster.data, 'store'));
  await add('before');
  const old = readFileSync(path);
  await add('later');
  // As `cp`, which keeps the file and so its inode.
  writeFileSync(path, old, { flag: 'r+' });
  await assert.rejects(add('after'));
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(
    master.output,
    /^master: another program has written into the store .*; put a backup in its place, or /m,
  );
  assert.equal(checkStore(path), undefined);
});

test('a copy of a data folder in use is free, but not the results of that master', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(611, 60), { delayMs: 15 });
  const [cluster, other] = [new Cluster(t), new Cluster(t)];
  const master = await cluster.master([site.url, '--per-host', '12']);
  await cluster.ask('backup', 'early');
  const slave = cluster.slave();
  await site.requested(20);
  // As by `cp -r`, of a store that is whole: one that a master writes to need not be.
  cpSync(join(cluster.data, 'backups/early/data'), other.data, { recursive: true });
  cpSync(join(cluster.data, 'master.lock'), join(other.data, 'master.lock'));
  const flags = ['--listen', '127.0.0.1:0', '--data', other.data];
  const refused = cluster.run(['master.js', ...flags, '--out', cluster.out]);
  assert.deepEqual(await refused.exited, { code: 2, signal: null });
  const pid = master.pid;
  assert.match(
    refused.stderr,
    new RegExp(`is a copy of that of the master with process id ${pid}, .*; choose another --out`),
  );
  await master.said(/crawl default is done/);
  await assertStops(slave, master);
  // Both could go on with these files, and would cut them in turn.
  const late = cluster.run(['master.js', ...flags, '--out', cluster.out]);
  assert.deepEqual(await late.exited, { code: 2, signal: null });
  assert.match(
    late.stderr,
    /is a copy of .*data, which has its results in .*; choose another --out, or move .*data away/,
  );
  assertExact(cluster, site.truth());
  await assertStops(await other.master([]));
});

test('the lock of a master counts, also when another program has put it back', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  const lock = join(cluster.data, 'master.lock');
  cpSync(lock, `${lock}.copy`);
  renameSync(`${lock}.copy`, lock);
  const second = cluster.run(['master.js', '--listen', '127.0.0.1:0', '--data', cluster.data]);
  assert.deepEqual(await second.exited, { code: 2, signal: null });
  assert.match(second.stderr, /is in use by the master with process id/);
  await assertStops(master);
});

test('a file that has taken the place of a store is not marked as whole', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [dataFolder, outFolder] = [join(folder, 'data'), join(folder, 'out')];
  const options = { dataFolder, outFolder, diskReserveBytes: 0, compact: false };
  const opened = await OpenStore.open(options);
  const path = storeFile(join(dataFolder, 'store'));
  const value = Buffer.alloc(8 << 20, 'value');
  const rows = Array.from({ length: 10 }, (_, i) => ({
    table: 'robots' as const,
    key: Buffer.from(`${i}`),
    value,
  }));
  await opened.store.commit(rows);
  cpSync(path, `${path}.copy`);
  renameSync(`${path}.copy`, path);
  await opened.close();
  assert.equal(isMarkedWhole(path), false);
});

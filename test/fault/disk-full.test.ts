/** A disk that is full, on a real file system of its own: everything waits, nothing is lost. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { endingOf } from '../../master/refusals.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { generateSite } from '../../selftest/site.ts';
import { makeAuthkeyFile } from '../../shared/authkey.ts';
import { parseAddress } from '../../shared/client.ts';
import { ConfigError, StoreError } from '../../shared/errors.ts';
import { Cluster, Program, root } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { PythonPeer } from '../support/python-peer.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 90_000;
const reserve = ['--disk-reserve', '24'];

async function crawlOn(t: TestContext, seed: number) {
  const disk = SmallDisk.mount(t, 96);
  if (disk === undefined) return undefined;
  const site = await siteFor(t, generateSite(seed, 300), { delayMs: 15 });
  const cluster = new Cluster(t, disk.path);
  const args = [site.url, '--exit-when-done', '--per-host', '12', ...reserve];
  return { disk, site, cluster, args };
}

test('a disk that is full for a while costs time and nothing else', { timeout }, async (t) => {
  const crawl = await crawlOn(t, 501);
  if (crawl === undefined) return;
  const { disk, site, cluster, args } = crawl;
  // Short enough that a session that is not read from would end.
  const master = await cluster.master([...args, '--heartbeat', '0.3', '--silence', '1']);
  const slaves = [cluster.slave(), cluster.slave()];
  for (let round = 1; round <= 3; round++) {
    await site.requested(site.log.length + 30);
    disk.fill();
    await saidTimes(master, /the disk is full/g, round);
    await noneLeased(cluster);
    const asked = site.log.length;
    assert.equal((await cluster.status()).leased, 0, 'the master answers, and gives no task out');
    assert.equal(site.log.length, asked);
    assert.match(await cluster.ask('status'), /^the disk is full: \d+ MB are free under /m);
    disk.free();
    await saidTimes(master, /room on the disk again/g, round);
  }
  await assertLeaves(master, ...slaves);
  assert.equal(master.output.match(/the disk is full/g)?.length, 3, 'it says so once a time');
  assert.equal(master.output.match(/slave joined/g)?.length, 2, 'no session ended');
  assertExact(cluster, site.truth());
});

test('a command that a full disk keeps waiting says so once, and is carried out', {
  timeout,
}, async (t) => {
  const crawl = await crawlOn(t, 502);
  if (crawl === undefined) return;
  const { disk, cluster } = crawl;
  await cluster.master(reserve);
  assert.match(await cluster.ask('add', 'http://a.invalid/'), /^1 new/);
  disk.fill();
  const pause = cluster.command('pause', 'default');
  const exec = cluster.command('exec', '--wait', '--detach', '--', '/bin/true');
  const line =
    /^master: the disk is full: \d+ MB are free under \S+; this waits until there is room\n/;
  for (const command of [pause, exec]) await command.said(line);
  disk.free();
  for (const command of [pause, exec]) {
    assert.equal((await command.exited).code, 0, command.output);
    assert.equal(command.stderr.split('\n').length, 2, command.stderr);
  }
  assert.equal((await cluster.status()).state, 'paused');
});

test('a full disk of an output, another one, holds up that output alone', {
  timeout: 40_000,
}, async (t) => {
  const disk = SmallDisk.mount(t, 4);
  if (disk === undefined) return;
  const site = await siteFor(t, generateSite(506, 60));
  const cluster = new Cluster(t);
  const file = join(disk.path, 'pages.csv');
  const output = `csv:${file}#records=pages`;
  // So that it takes longer than a second, after which the output is tried again.
  const slowly = ['--delay', '50', '--exit-when-done', '--output', output];
  const master = await cluster.master([site.url, ...slowly]);
  disk.fill();
  const slave = cluster.slave();
  await master.said(/its results wait for csv \(cannot write \S+pages\.csv: ENOSPC/);
  await cluster.grown('pages.jsonl', site.truth().pages.length - 1);
  disk.free();
  await assertLeaves(master, slave);
  assert.doesNotMatch(master.output, /the disk is full/);
  assertExact(cluster, site.truth());
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  assert.equal(lines.length - 1, cluster.pages().length);
});

test('a stop on a full disk ends with one line, and the next start goes on', {
  timeout,
}, async (t) => {
  const crawl = await crawlOn(t, 502);
  if (crawl === undefined) return;
  const { disk, site, cluster, args } = crawl;
  const master = await cluster.master(args);
  const { address } = cluster;
  const slave = cluster.slave();
  await site.requested(60);
  disk.fill();
  await master.said(/the disk is full/);
  assert.deepEqual(await master.kill('SIGTERM'), { code: 2, signal: null });
  assert.match(master.stderr, /^master: stopped with the disk full: .*start again\n$/);

  const refused = cluster.run([
    'master.js',
    ...args,
    '--listen',
    address,
    '--data',
    cluster.data,
    '--out',
    cluster.out,
  ]);
  assert.deepEqual(await refused.exited, { code: 2, signal: null });
  assert.match(
    refused.stderr,
    /^master: only \d+ MB are free under .*free some space, or lower it\n$/,
  );

  disk.free();
  const second = await cluster.master(args, { listen: address });
  await assertLeaves(second, slave);
  assertExact(cluster, site.truth());
});

test('a put on a full disk is not answered, and what was answered is not lost', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 96);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  const first = await cluster.master(reserve);
  const { address, authkey } = cluster;
  const node = await cluster.connect();
  const target = { ...parseAddress(address), authkey };
  await PythonPeer.create(target, 'jobs');
  const python = await PythonPeer.attach(target);
  const puts = [
    (value: string) => python.call('jobs', 'put', `python ${value}`),
    (value: string) => node.queue('jobs').put(`node ${value}`),
  ];
  for (const put of puts) await put('before');

  let answered = 0;
  const putMeanwhile = (value: string) =>
    Promise.allSettled(puts.map((put) => put(value).then(() => answered++)));
  disk.fill();
  const meanwhile = putMeanwhile('meanwhile');
  await saidTimes(first, /the disk is full/g, 1);
  assert.equal(await node.queue('jobs').size(), 4, 'whoever asks is told');
  assert.equal(answered, 0);
  disk.free();
  await meanwhile;
  assert.equal(answered, 2);

  disk.fill();
  const never = putMeanwhile('never');
  await saidTimes(first, /the disk is full/g, 2);
  assert.deepEqual(await first.kill('SIGTERM'), { code: 2, signal: null });
  assert.deepEqual(
    (await never).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await node.close();
  disk.free();
  await cluster.master(reserve, { listen: address });
  const again = await cluster.connect();
  const kept: unknown[] = [];
  for (let item = await again.queue('jobs').get(); item; item = await again.queue('jobs').get()) {
    kept.push(item);
  }
  await again.close();
  assert.deepEqual(kept.sort(), [
    ...['node before', 'node meanwhile'],
    ...['python before', 'python meanwhile'],
  ]);
});

test('a store that finds no room refuses the commit, and what was committed stays', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 8);
  if (disk === undefined) return;
  const folder = join(disk.path, 'store');
  const store = await openLmdbStore(folder);
  const value = Buffer.alloc(100_000, 'x');
  const put = (n: number) =>
    store.commit([{ table: 'crawls', key: Buffer.from(String(n).padStart(4, '0')), value }]);
  let committed = 0;
  await assert.rejects(
    async () => {
      for (; committed < 1_000; committed++) await put(committed);
    },
    { code: 'E_STORE', message: /cannot write the store .*no space left on device/i },
  );
  assert.ok(committed > 10);
  await store.close();
  const again = await openLmdbStore(folder);
  t.after(() => again.close());
  const rows = again.range('crawls', { from: Buffer.from('0'), to: Buffer.from('9') });
  assert.equal(rows.length, committed);
});

test('a log on a full disk ends no crawl', { timeout }, async (t) => {
  if (!existsSync('/dev/full')) return t.skip('there is no /dev/full');
  const site = await siteFor(t, generateSite(503, 40));
  const cluster = new Cluster(t);
  const folders = ['--data', cluster.data, '--out', cluster.out, '--listen', '127.0.0.1:0'];
  const command = [process.execPath, join(root, 'master.js'), site.url, '--exit-when-done'];
  const words = [...command, ...folders].map((word) => `'${word}'`).join(' ');
  const listening = cluster.listening();
  const master = new Program(['-c', `exec ${words} >/dev/full 2>&1`], { program: '/bin/sh' });
  t.after(() => master.kill());
  await listening;
  await assertLeaves(cluster.slave(), master);
  assertExact(cluster, site.truth());
});

test('an authkey that finds no room leaves no empty file', { timeout }, async (t) => {
  const disk = SmallDisk.mount(t, 8);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  disk.fill();
  const key = join(cluster.folder, 'key');
  assert.throws(() => makeAuthkeyFile(key), { code: 'E_CONFIG' });
  assert.ok(!existsSync(key));
  disk.free();
  assert.ok(makeAuthkeyFile(key));
  assert.ok(readFileSync(key).length > 16);
});

async function saidTimes(
  program: { readonly output: string; said(pattern: RegExp): Promise<unknown> },
  pattern: RegExp,
  times: number,
): Promise<void> {
  await program.said(new RegExp(`(?:${pattern.source}[^]*){${times}}`));
}

/** Reports of the slaves' pages wait in the filter queue. */
async function noneLeased(cluster: Cluster): Promise<void> {
  while ((await cluster.status()).leased > 0);
}

test('a read-only disk is said so in one line at the start', { timeout }, async (t) => {
  const disk = SmallDisk.mount(t, 64);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  const first = await cluster.master(reserve);
  await first.kill('SIGTERM');
  disk.remount('ro');
  const folders = ['--data', cluster.data, '--out', cluster.out, '--listen', '127.0.0.1:0'];
  const second = cluster.run(['master.js', ...reserve, ...folders]);
  const exit = await second.exited;
  disk.remount('rw');
  assert.deepEqual(exit, { code: 2, signal: null });
  assert.match(second.stderr, /^master: cannot use the data folder .*EROFS.*\n$/);
});

test('a data folder that goes away ends the master with one line', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  rmSync(join(cluster.data, 'master.lock'));
  assert.deepEqual(await master.exited, { code: 2, signal: null });
  assert.match(
    master.stderr,
    /^master: the data folder .* can no longer be used: .*start again\n$/,
  );
});

test('a command on a full disk ends with one line that says what to do, and code 2', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 32);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  const folder = join(cluster.data, 'store');
  const store = await openLmdbStore(folder);
  await store.commit([{ table: 'items', key: Buffer.from('a'), value: Buffer.alloc(9_000) }]);
  disk.fill();
  const refused = store.commit([
    { table: 'items', key: Buffer.from('b'), value: Buffer.alloc(4 << 20) },
  ]);
  // A start that upgrades a store ends with this, and so does a master that others leave no room.
  const error = await refused.catch((error: unknown) => error);
  assert.ok(error instanceof StoreError && error.isFull);
  const ending = endingOf(error);
  assert.ok(ending instanceof ConfigError);
  assert.match(
    ending.message,
    /store\.mdb: no space left on device; free some space and start again$/,
  );
  await store.close().catch(() => {});

  const repair = ['master.js', 'repair', '--data', cluster.data, '--out', cluster.out];
  const full = cluster.run(repair);
  assert.deepEqual(await full.exited, { code: 2, signal: null });
  assert.match(
    full.stderr,
    /cannot use the data folder .*ENOSPC.*; free some space and start again\n$/,
  );
  disk.free();
  truncateSync(storeFile(folder), 20_480);
  const small = cluster.run(repair);
  assert.deepEqual(await small.exited, { code: 2, signal: null });
  assert.match(
    small.stderr,
    /the new store needs \d\d MB under \S+, and \d\d MB are free; free some/,
  );
});

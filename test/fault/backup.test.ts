/** Backups under load, and a master that starts from one. */
import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Backups } from '../../master/repair/backup.ts';
import type { NativeStore } from '../../master/store/lmdb.ts';
import { generateSite } from '../../selftest/site.ts';
import { parseAddress } from '../../shared/client.ts';
import { StoreError } from '../../shared/errors.ts';
import type { Replies } from '../../shared/replies.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { execSlave, jobLines, runJob } from '../support/exec.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { RawPeer } from '../support/raw-peer.ts';
import { nextTask, report } from '../support/raw-slave.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 90_000;

test('a master starts from a backup that was made under load', { timeout }, async (t) => {
  const site = await siteFor(t, generateSite(601, 300), { delayMs: 15 });
  const cluster = new Cluster(t);
  const args = [site.url, '--per-host', '12'];
  const master = await cluster.master(args);
  const slaves = [cluster.slave(), cluster.slave()];
  await site.requested(100);
  assert.match(await cluster.ask('backup', 'half'), /^backed up \d+\.\d MB to backups\/half/);
  await assert.rejects(cluster.ask('backup', 'half'), /exit code 2: .*a backup of that name/);
  await assert.rejects(cluster.ask('backup', '../half'), /exit code 2/);
  assert.ok(!existsSync(join(cluster.data, 'backups/half/data/authkey')));
  await master.said(/crawl default is done/);
  for (const program of [...slaves, master]) program.signal('SIGTERM');
  await assertLeaves(master, ...slaves);
  assertExact(cluster, site.truth());
  await assertGoesOn(t, cluster, 'half', [...args, '--exit-when-done'], site);
});

test('a backup that was made before the first page begins with both of its folders', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(604, 20));
  const cluster = new Cluster(t);
  await cluster.master([site.url]);
  await cluster.ask('backup', 'first');
  await assertGoesOn(t, cluster, 'first', [site.url, '--exit-when-done'], site);
});

test('a backup has the records of jobs, and a master that begins with it goes on there', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  await execSlave(cluster, '--allow-exec', '/bin/echo');
  await runJob(cluster, { program: '/bin/echo', args: ['kept'] });
  await cluster.ask('backup', 'jobs');
  const second = copyOf(t, cluster, 'jobs');
  const master = await second.master([]);
  await execSlave(second, '--allow-exec', '/bin/echo');
  await runJob(second, { program: '/bin/echo' });
  assert.deepEqual(
    jobLines(second).map(({ job }) => job),
    [1, 2],
  );
  assert.doesNotMatch(master.output, /moved away/);
});

test('a master that begins with a backup says which records its database goes on without', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(612, 60), { delayMs: 15 });
  const cluster = new Cluster(t);
  const args = [site.url, '--output', 'sqlite:p.db'];
  await cluster.master(args);
  cluster.slave();
  await site.requested(20);
  await cluster.ask('pause', 'default');
  const waiting = async () => {
    const answer = await cluster.ask('sinks', 'default', '--json');
    const { sinks } = JSON.parse(answer) as Replies['crawl.sinks'];
    return sinks.some(({ records }) => records > 0);
  };
  while ((await cluster.status()).leased > 0 || (await waiting())) await setTimeout(50);
  await cluster.ask('backup', 'half');
  const second = copyOf(t, cluster, 'half');
  const master = await second.master([...args, '--exit-when-done']);
  await assert.rejects(second.ask('resume', 'default'), /p\.db is gone, and rows were written/);
  assert.match(
    await second.ask('resume', 'default', '--new-files'),
    /^sqlite \(p\.db\) goes on after record [\d,]+: the database has none of those before$/m,
  );
  await assertLeaves(master, second.slave());
  assertExact(second, site.truth());
});

test('a report of before does not end another task of a master that begins with a backup', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const seed = 'http://127.0.0.1:9/';
  const flags = [seed, '--ignore-robots', '--delay', '0'];
  const master = await cluster.master(flags);
  const join = async ({ address, authkey }: Cluster) => {
    const { host, port } = parseAddress(address);
    const slave = await RawPeer.join({ host, port, authkey }, 'slave');
    await slave.must('task.credit', { count: 1, slots: 4 });
    return slave;
  };
  const before = await join(cluster);
  const first = await nextTask(before);
  await cluster.ask('backup', 'early');
  await report(before, first, { links: [`${seed}old`] });
  const lost = await nextTask(before);
  assert.equal(lost.url, `${seed}old`);
  await master.kill('SIGKILL');
  const second = copyOf(t, cluster, 'early');
  await second.master(flags);
  const now = await join(second);
  // The page has changed: its link is another one, whose task has the same place.
  await report(now, await nextTask(now), { links: [`${seed}new`] });
  const task = await nextTask(now);
  assert.equal(task.url, `${seed}new`);
  assert.equal((await report(now, { ...lost, lease: 0 }))['state'], 'stale');
  assert.equal((await report(now, task))['state'], 'done');
});

test('who can ask for backups cannot fill the disk with them', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const backups = join(cluster.data, 'backups');
  for (let i = 1; i < 16; i++) mkdirSync(join(backups, `b${i}`), { recursive: true });
  await cluster.ask('backup', 'b16');
  await assert.rejects(cluster.ask('backup', 'b17'), /exit code 2: .*16 backups already; remove/);
  rmSync(backups, { recursive: true });
  // Sparse: it takes no room, but a copy might.
  const { bavail, bsize } = statfsSync(cluster.data);
  mkdirSync(cluster.out, { recursive: true });
  writeFileSync(join(cluster.out, 'large'), '');
  truncateSync(join(cluster.out, 'large'), 2 * bavail * bsize);
  await assert.rejects(cluster.ask('backup', 'b1'), /exit code 2: .*no room for a backup of/);
  assert.ok(!existsSync(backups));
});

test('kill -9 in the middle of a backup leaves none, and the next one is whole', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(602, 300), { delayMs: 15 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done', '--per-host', '12'];
  let master = await cluster.master(args);
  const { address } = cluster;
  const slave = cluster.slave();
  for (const part of [40, 80, 120]) {
    await site.requested(part);
    const client = await cluster.connect();
    const answer = client.request('backup', { name: `b${part}` }).catch(() => 'cut off');
    await new Promise((resolve) => setImmediate(resolve));
    await master.kill('SIGKILL');
    await answer;
    await client.close();
    master = await cluster.master(args, { listen: address });
    await master.said(/slave joined/);
  }
  await cluster.ask('backup', 'last');
  await assertLeaves(master, slave);
  assertExact(cluster, site.truth());
  await assertGoesOn(t, cluster, 'last', args, site);
});

test('what a killed master left of a backup takes no room from the next start on', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 96);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  const backups = join(cluster.data, 'backups');
  const left = join(backups, '.unfinished/data/store');
  mkdirSync(left, { recursive: true });
  writeFileSync(join(left, 'store.mdb'), Buffer.alloc(70 << 20));
  await cluster.master(['--disk-reserve', '24']);
  assert.deepEqual(readdirSync(backups), []);
  await cluster.ask('backup', 'next');
});

test('a backup that fails says why in the log, and names no path to the client', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const master = await cluster.master([]);
  // Something else has the name of the folder.
  writeFileSync(join(cluster.data, 'backups'), '');
  await assert.rejects(cluster.ask('backup', 'b1'), /the backup failed: ENOTDIR; nothing of it/);
  await master.said(/error the backup b1 failed, and nothing of it is left: ENOTDIR: .*backups/);
});

test('a backup for which the disk gets full is not explained by a code of our own', async (t) => {
  const { data: dataFolder, out: outFolder } = new Cluster(t);
  const why = 'the store could not be copied: No space left on device';
  const store = { backup: () => Promise.reject(new StoreError(why)) } as unknown as NativeStore;
  mkdirSync(join(dataFolder, 'store'), { recursive: true });
  writeFileSync(join(dataFolder, 'store/store.mdb'), '');
  const failed: string[][] = [];
  const events = { backedUp() {}, backupFailed: (...said: string[]) => void failed.push(said) };
  const backups = new Backups({ store, dataFolder, outFolder, reserveBytes: 0, events });
  await assert.rejects(backups.make('b1'), /the backup failed: see the master's log; nothing of/);
  assert.deepEqual(failed, [['b1', why]]);
});

test('a master that is restarted again and again loses nothing, and slaves carry on', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(603, 400), { delayMs: 15 });
  const cluster = new Cluster(t);
  const args = [site.url, '--exit-when-done', '--per-host', '12'];
  let master = await cluster.master(args);
  const { address } = cluster;
  for (let i = 0; i < 2; i++) cluster.slave();
  for (let round = 1; round <= 4; round++) {
    await site.requested(round * 60);
    assert.deepEqual(await master.kill('SIGTERM'), { code: 0, signal: null }, master.output);
    assert.ok(!existsSync(join(cluster.data, 'master.lock')), 'left clean');
    master = await cluster.master(args, { listen: address });
    await master.said(/slave joined/);
  }
  // A slave that is late finds no master any more, and waits for one.
  await assertLeaves(master);
  assertExact(cluster, site.truth());
});

async function assertGoesOn(
  t: TestContext,
  from: Cluster,
  name: string,
  args: readonly string[],
  site: Awaited<ReturnType<typeof siteFor>>,
): Promise<void> {
  const second = copyOf(t, from, name);
  const master = await second.master(args);
  await assertLeaves(master, second.slave());
  assertExact(second, site.truth());
}

/** The folders of a backup, for a master of their own. */
function copyOf(t: TestContext, from: Cluster, name: string): Cluster {
  const second = new Cluster(t);
  cpSync(join(from.data, 'backups', name, 'data'), second.data, { recursive: true });
  cpSync(join(from.data, 'backups', name, 'out'), second.out, { recursive: true });
  return second;
}

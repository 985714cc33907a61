/** Jobs on a full disk, of the master and of a slave: each runs once, and has one record. */
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster } from '../support/cluster.ts';
import { asOther, jobLines, recorded, runJob, scripts } from '../support/exec.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 90_000;

/** A master whose disk can be filled; undefined: none can be mounted here. */
async function onSmallDisk(t: TestContext) {
  const disk = SmallDisk.mount(t, 64);
  if (disk === undefined) return undefined;
  const cluster = new Cluster(t, disk.path);
  const master = await cluster.master(['--disk-reserve', '1']);
  return { disk, cluster, master };
}

test('jobs: a job that ends while the disk of the master is full has one record later', {
  timeout,
}, async (t) => {
  const small = await onSmallDisk(t);
  if (small === undefined) return;
  const { disk, cluster, master } = small;
  // Elsewhere: a job needs no room of the master.
  const other = new Cluster(t);
  const ran = join(other.folder, 'ran');
  const go = join(other.folder, 'go');
  writeFileSync(ran, '');
  chmodSync(ran, 0o666);
  const script = `#!/bin/bash\necho x >> ${ran}\nwhile [ ! -e ${go} ]; do sleep 0.05; done\necho end\n`;
  const folder = scripts(other, { job: script });
  const slave = cluster.slave([...asOther, '--exec-folder', folder]);
  await slave.said(/joined/);
  await cluster.ask('run', '--detach', 'job');
  while (readFileSync(ran, 'utf8') === '') await sleep(20);
  disk.fill();
  await master.said(/the disk is full/);
  writeFileSync(go, '');
  await sleep(500);
  assert.equal(jobLines(cluster).length, 0);
  disk.free();
  await recorded(cluster, 1);
  const [line] = jobLines(cluster);
  assert.deepEqual([line?.outcome, line?.['code'], line?.['stdout']], ['exited', 0, 'end\n']);
  assert.equal(readFileSync(ran, 'utf8'), 'x\n');
  assert.equal((await runJob(cluster, { script: 'job' })).outcome, 'exited');
});

test('jobs: one that a full disk keeps from being added is cancelled when there is room', {
  timeout,
}, async (t) => {
  const small = await onSmallDisk(t);
  if (small === undefined) return;
  const { disk, cluster, master } = small;
  disk.fill();
  const added = cluster.ask('run', '--detach', '--wait', 'job');
  await master.said(/the disk is full/);
  const cancelled = cluster.ask('jobs', '--cancel', '1');
  await sleep(500);
  disk.free();
  await Promise.all([added, cancelled]);
  await recorded(cluster, 1);
  assert.equal(jobLines(cluster)[0]?.outcome, 'cancelled');
});

test('jobs: a full disk of the slave fails its jobs, and nothing else', { timeout }, async (t) => {
  const disk = SmallDisk.mount(t, 4);
  if (disk === undefined) return;
  chmodSync(disk.path, 0o777);
  const cluster = new Cluster(t);
  await cluster.master([]);
  const folder = scripts(cluster, { job: '#!/bin/bash\nhead -c 1000000 /dev/zero > own\n' });
  const slave = cluster.slave([...asOther, '--exec-folder', folder], undefined, {
    env: { ...process.env, TMPDIR: disk.path },
  });
  await slave.said(/joined/);
  const run = async () => {
    const count = jobLines(cluster).length;
    await cluster.ask('run', '--detach', 'job');
    await recorded(cluster, count + 1);
    return jobLines(cluster).at(-1);
  };
  assert.deepEqual([(await run())?.outcome, (await run())?.['code']], ['exited', 0]);
  disk.fill();
  const full = await run();
  assert.deepEqual([full?.outcome, full?.['code']], ['exited', 1]);
  assert.match(String(full?.['stderr']), /No space left on device/);
  disk.free();
  assert.equal((await run())?.['code'], 0);
  assert.equal(slave.isAlive, true);
});

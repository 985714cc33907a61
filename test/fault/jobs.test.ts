/** Jobs while master and slaves are killed, and files are taken away: one record each, and at most
 *  one run. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Replies } from '../../shared/replies.ts';
import { Cluster } from '../support/cluster.ts';
import { asOther, execSlave, jobLines, recorded, runJob, scripts, told } from '../support/exec.ts';

const timeout = 120_000;

/** A folder in which jobs leave marks. */
function marksOf(cluster: Cluster): string {
  const folder = join(cluster.folder, 'marks');
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  return folder;
}

/** Resolves when there are that many. */
async function marked(folder: string, count: number): Promise<string[]> {
  const watcher = watch(folder);
  try {
    while (readdirSync(folder).length < count) await once(watcher, 'change');
  } finally {
    watcher.close();
  }
  return readdirSync(folder);
}

/** Has it become the program that it is to be? */
function isSleep(pid: number): boolean {
  const path = `/proc/${pid}/cmdline`;
  return existsSync(path) && readFileSync(path, 'latin1').startsWith('sleep\0');
}

describe('jobs: faults', { concurrency: 1 }, () => {
  test('jobs: a killed slave ends its jobs, and they are lost, or tried again', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master(['--lease', '2']);
    const marks = marksOf(cluster);
    const folder = scripts(cluster, {
      // The mark is the process that would go on.
      job: `#!/bin/bash\nsetsid sleep 1000 & echo $! > ${marks}/$1.\${ORB_JOB##*.}\nsleep 1000\n`,
      quick: `#!/bin/bash\n[ -e ${marks}/again ] && exit 5\n: > ${marks}/again\nsleep 1000\n`,
    });
    const slave = await execSlave(cluster, '--exec-folder', folder);
    await cluster.ask('run', '--detach', 'job', 'a');
    const [mark = ''] = await marked(marks, 1);
    await slave.kill('SIGKILL');
    await recorded(cluster, 1);
    const [line] = jobLines(cluster);
    assert.equal(line?.outcome, 'lost');
    assert.match(String(line?.['reason']), /its slave was gone for 2 s/);
    assert.match(await cluster.ask('jobs', '--all'), /^1 +lost +\S+ +- +run job a /m);
    while (readFileSync(join(marks, mark), 'utf8') === '') await sleep(10);
    const pid = Number(readFileSync(join(marks, mark), 'utf8'));
    while (existsSync(`/proc/${pid}`)) await sleep(10);
    rmSync(join(marks, mark));
    const second = await execSlave(cluster, '--exec-folder', folder);
    await cluster.ask('run', '--detach', '--retry', '1', 'quick');
    await marked(marks, 1);
    await second.kill('SIGKILL');
    await execSlave(cluster, '--exec-folder', folder);
    await recorded(cluster, 2);
    const again = jobLines(cluster)[1];
    assert.deepEqual([again?.outcome, again?.['code'], again?.['attempts']], ['exited', 5, 2]);
  });

  test('jobs: a killed slave ends its jobs also where they have dropped their environment', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    const marks = marksOf(cluster);
    const sleeps = 'env -i sleep 1000';
    const folder = scripts(cluster, {
      // Its first process, one of its group, and one that has left it, whose parent is there.
      bare:
        `#!/bin/bash\necho begun\n${sleeps} & echo > ${marks}/$!\nsetsid ${sleeps} & echo > ${marks}/$!\n` +
        `echo > ${marks}/$$\nexec ${sleeps}\n`,
    });
    const slave = await execSlave(cluster, '--exec-folder', folder);
    // When the slave has passed on some output, its guard knows of the job.
    await cluster.command('run', 'bare').said(/begun/);
    const pids = (await marked(marks, 3)).map(Number);
    t.after(() => {
      for (const pid of pids.filter(isSleep)) process.kill(pid, 'SIGKILL');
    });
    while (!pids.every(isSleep)) await sleep(20);
    await slave.kill('SIGKILL');
    while (pids.some(isSleep)) await sleep(20);
  });

  test('jobs: a job outlives its master, and a slave that leaves gives it up', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    const master = await cluster.master([]);
    const marks = marksOf(cluster);
    const folder = scripts(cluster, {
      job: `#!/bin/bash\necho begun; : > ${marks}/begun; while [ ! -e ${marks}/go ]; do sleep 0.05; done; echo done; exit 4\n`,
      long: `#!/bin/bash\n: > ${marks}/long; sleep 1000\n`,
    });
    const slave = await execSlave(cluster, '--exec-folder', folder);
    const asked = told(cluster, 'run', 'job');
    await marked(marks, 1);
    const address = cluster.address;
    await master.kill('SIGKILL');
    writeFileSync(join(marks, 'go'), '');
    const next = await cluster.master([], { listen: address });
    const { code, stdout, stderr } = await asked;
    assert.deepEqual([code, stdout], [4, 'begun\ndone\n'], stderr);
    await recorded(cluster, 1);
    assert.deepEqual(
      jobLines(cluster).map(({ job, outcome }) => [job, outcome]),
      [[1, 'exited']],
    );
    await cluster.ask('run', '--detach', 'long');
    await marked(marks, 3);
    // The second signal ends it at once; its guard ends the job.
    slave.child.kill('SIGTERM');
    await slave.said(/leaving when the jobs have ended/);
    slave.child.kill('SIGTERM');
    await slave.exited;
    await next.kill('SIGTERM');
    const last = await cluster.master(['--lease', '1']);
    await recorded(cluster, 2);
    assert.equal(jobLines(cluster)[1]?.outcome, 'lost');
    assert.equal(last.isAlive, true);
  });

  test('jobs: kills of master and slave in the middle: at most one run, one record each', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    let master = await cluster.master(['--lease', '5']);
    const { address } = cluster;
    const marks = marksOf(cluster);
    const folder = scripts(cluster, {
      job: `#!/bin/bash\necho x >> ${marks}/$1; sleep 0.0$((RANDOM % 10)); echo $1\n`,
    });
    const slaveArgs = ['--exec-folder', folder, '--exec-slots', '4'];
    let slave = await execSlave(cluster, ...slaveArgs);
    const count = 120;
    const client = await cluster.connect();
    for (let n = 1; n <= count; n++) {
      await client.request('job.add', { script: 'job', args: [String(n)] });
    }
    await client.close();
    for (const [kills, least] of [15, 35, 55, 75, 95].entries()) {
      await marked(marks, least);
      if (kills % 2 === 0) {
        await master.kill('SIGKILL');
        master = await cluster.master(['--lease', '5'], { listen: address });
      } else {
        await slave.kill('SIGKILL');
        slave = cluster.slave([...asOther, ...slaveArgs]);
      }
    }
    await recorded(cluster, count);
    const lines = jobLines(cluster);
    assert.deepEqual(
      lines.map(({ job }) => job).sort((a, b) => a - b),
      Array.from({ length: count }, (_, i) => i + 1),
    );
    for (const line of lines) {
      const [name = ''] = line['args'] as string[];
      const runs = existsSync(join(marks, name)) ? readFileSync(join(marks, name), 'utf8') : '';
      assert.ok(runs === 'x\n' || (runs === '' && line.outcome === 'lost'), `${name}: ${runs}`);
      if (line.outcome === 'exited') assert.equal(line['stdout'], `${name}\n`);
      else assert.equal(line.outcome, 'lost');
    }
  });

  test('jobs: jobs.jsonl is cut after a crash, left alone if changed, begun anew if moved', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    mkdirSync(cluster.out);
    const path = join(cluster.out, 'jobs.jsonl');
    // Of another data folder.
    writeFileSync(path, '{"job":99}\n');
    let master = await cluster.master([]);
    await execSlave(cluster, '--allow-exec', '/bin/echo');
    const { address } = cluster;
    const echo = { program: '/bin/echo', args: ['x'] };
    await runJob(cluster, echo);
    assert.deepEqual(
      jobLines(cluster).map(({ job }) => job),
      [99, 1],
    );
    await master.kill('SIGKILL');
    appendFileSync(path, '{"half');
    master = await cluster.master([], { listen: address });
    await master.said(/slave joined/);
    while (JSON.parse(await cluster.ask('slaves', '--json')).length === 0);
    await runJob(cluster, echo);
    assert.deepEqual(
      jobLines(cluster).map(({ job }) => job),
      [99, 1, 2],
    );
    renameSync(path, `${path}.1`);
    await runJob(cluster, echo);
    assert.deepEqual(
      jobLines(cluster).map(({ job }) => job),
      [3],
    );
    await master.said(/jobs\.jsonl was moved away: a new one begins/);
    appendFileSync(path, 'mine\n');
    const held = cluster.connect().then(async (client) => {
      const { jobs } = await client.request('job.add', { ...echo });
      await client.request('job.add', { ...echo });
      await client.close();
      return jobs;
    });
    await held;
    await master.said(/no job begins: .*jobs\.jsonl has \d+ bytes, but \d+ were written/);
    const status = JSON.parse(await cluster.ask('status', '--json')) as Replies['crawl.list'];
    assert.match(status.jobs?.held ?? '', /put the file back, or move it away/);
    // It is looked at again, and still left alone.
    await sleep(2_500);
    assert.match(readFileSync(path, 'utf8'), /^\{"job":3.*\nmine\n$/);
    renameSync(path, `${path}.2`);
    await recorded(cluster, 2);
    assert.deepEqual(
      jobLines(cluster)
        .map(({ job }) => job)
        .sort(),
      [4, 5],
    );
  });
});

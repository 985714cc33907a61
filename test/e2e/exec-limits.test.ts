/** Jobs that go wrong, or mean harm: each ends as documented, and the slave lives. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { JobRow } from '../../shared/jobs.ts';
import { Cluster } from '../support/cluster.ts';
import {
  asOther,
  execSlave,
  isRoot,
  type JobLine,
  jobLines,
  runJob,
  scripts,
  told,
} from '../support/exec.ts';

const timeout = 90_000;

/** Processes that live, by a word of their command line. */
function processesWith(word: string): number[] {
  return readdirSync('/proc')
    .filter((name) => {
      if (!/^\d+$/.test(name)) return false;
      try {
        const isDead = /\) [ZX] /.test(readFileSync(`/proc/${name}/stat`, 'latin1'));
        return !isDead && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(word);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** A number for `sleep` by which its processes are found. */
const odd = () => `${100_000 + Math.floor(Math.random() * 900_000)}.${process.pid}`;

async function clusterWith(t: TestContext, texts: Record<string, string>, ...args: string[]) {
  const cluster = new Cluster(t);
  await cluster.master([]);
  const bodies = Object.entries(texts).map(([name, text]) => [name, `#!/bin/bash\n${text}\n`]);
  const folder = scripts(cluster, Object.fromEntries(bodies));
  const slave = await execSlave(cluster, '--exec-folder', folder, ...args);
  const run = (script: string, timeoutMs?: number): Promise<JobLine> =>
    runJob(cluster, { script, ...(timeoutMs !== undefined && { timeoutMs }) });
  return { cluster, slave, run };
}

/** Another job runs as if nothing had happened, and nothing is left on the disk. */
async function assertLives(run: (name: string) => Promise<JobLine>, base: string): Promise<void> {
  const line = await run('fine');
  assert.deepEqual([line.outcome, line['code'], line['stdout']], ['exited', 0, 'fine\n']);
  for (const name of readdirSync(base)) {
    if (name.startsWith('orb-jobs-')) assert.deepEqual(readdirSync(join(base, name)), []);
  }
}

/** A folder for temporary files of its own; used by the slaves that are started next. */
function ownTmp(t: { after(what: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'orb-exec-'));
  chmodSync(folder, 0o755);
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

describe('exec: hostile jobs', { concurrency: 1 }, () => {
  test('exec: time, CPU, memory, size of files and of the folder are limited', {
    timeout,
  }, async (t) => {
    const base = ownTmp(t);
    const { run } = await clusterWith(
      t,
      {
        fine: 'echo fine',
        long: 'sleep 1000',
        busy: 'while :; do :; done',
        large: 'exec python3 -c "x = bytearray(2 ** 30)"',
        file: 'head -c 20000000 /dev/zero > big; echo $?',
        folder: 'i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done',
        bytes: `mkdir $'caf\\xe9'; cd $'caf\\xe9'; for i in 1 2 3; do head -c 9000000 /dev/zero > $'\\xff'$i; done; sleep 1000`,
        locked: 'mkdir a; echo x > a/b; chmod 000 a',
        deep: `mkdir -p ${'d/'.repeat(1500)}; cd ${'d/'.repeat(1500)}; mkdir -p ${'d/'.repeat(1500)}; echo x > f`,
        link: 'ln -s / root; ln -s /etc/passwd p; echo fine',
      },
      ...['--exec-timeout', '5', '--exec-cpu', '1', '--exec-memory', '512'],
      ...['--exec-file-size', '10', '--exec-disk', '20'],
    );
    const long = await run('long');
    assert.equal(long.outcome, 'limit');
    assert.match(String(long['reason']), /ran for 5 s, which is its limit/);
    const asked = await run('long', 1_000);
    assert.match(String(asked['reason']), /ran for 1 s/);
    const busy = await run('busy', 60_000);
    assert.ok(busy.outcome === 'signal' || busy.outcome === 'limit');
    const large = await run('large');
    assert.match(String(large['stderr']), /MemoryError/);
    const file = await run('file');
    assert.match(String(file['stderr']) + String(file['stdout']), /File size limit|153|1\n/);
    const folder = await run('folder');
    assert.equal(folder.outcome, 'limit');
    assert.match(String(folder['reason']), /folder exceeds 20 MiB of --exec-disk|ran for 5 s/);
    // Names need not be UTF-8.
    assert.match(String((await run('bytes'))['reason']), /folder exceeds 20 MiB of --exec-disk/);
    for (const name of ['locked', 'deep', 'link']) assert.equal((await run(name))['code'], 0);
    assert.ok(existsSync('/etc/passwd'));
    await assertLives(run, base);
  });

  test('exec: 1 GB of output is read, counted, and kept in part', { timeout }, async (t) => {
    const base = ownTmp(t);
    const { cluster, run } = await clusterWith(
      t,
      {
        fine: 'echo fine',
        flood: 'head -c 1000000000 /dev/zero | tr "\\0" x; echo end >&2',
        bytes: 'printf "\\377\\376"',
        cut: 'for i in $(seq 30000); do printf ä; done',
      },
      ...['--exec-output', '50'],
    );
    const flood = await run('flood');
    assert.deepEqual([flood.outcome, flood['code']], ['exited', 0]);
    assert.equal(flood['stdoutBytes'], 1e9);
    assert.equal(String(flood['stdout']).length, 50 << 10);
    assert.equal(flood['stderr'], 'end\n');
    const shown = await told(cluster, 'run', 'flood');
    assert.equal(shown.stdout.length, 50 << 10);
    assert.match(shown.stderr, /wrote 1000000000 bytes to stdout; the first 51200 are kept/);
    const every = await told(cluster, 'run', '--on', 'every', 'fine');
    assert.equal(every.stdout, 'slave-1: fine\n');
    assert.equal((await run('bytes'))['stdoutBase64'], '//4=');
    const cut = await run('cut');
    assert.match(String(cut['stdout']), /^ä+$/);
    assert.equal(cut['stdoutBytes'], 60_000);
    await assertLives(run, base);
  });

  test('exec: SIGTERM ignored, sessions left, environments dropped: nothing survives', {
    timeout,
  }, async (t) => {
    const base = ownTmp(t);
    const [deaf, away, bare, group, polite] = [odd(), odd(), odd(), odd(), odd()];
    const { cluster, run } = await clusterWith(t, {
      fine: 'echo fine',
      deaf: `trap "" TERM; sleep ${deaf}; sleep ${deaf}; sleep ${deaf}; sleep ${deaf}`,
      away: `setsid sleep ${away} & echo gone`,
      bare: `env -i setsid sleep ${bare} & sleep 3; echo gone`,
      group: `(set -m; sleep ${group} &); echo gone`,
      polite: `trap "echo bye; exit 3" TERM; sleep ${polite} & while :; do sleep 0.1; done`,
    });
    for (const [name, mark] of Object.entries({ away, bare, group })) {
      const line = await run(name);
      assert.deepEqual([line['code'], line['stdout'], line['leftovers']], [0, 'gone\n', 1], name);
      assert.deepEqual(processesWith(mark), []);
    }
    const cancelled = async (name: string, mark: string): Promise<JobLine> => {
      const { stdout } = await told(cluster, 'run', '--detach', name);
      const job = stdout.replace(/\D/g, '');
      const state = async () => JSON.parse(await cluster.ask('jobs', job, '--json')) as JobRow;
      while (processesWith(mark).length === 0) await state();
      await cluster.ask('jobs', '--cancel', job);
      while ((await state()).state !== 'ended');
      const line = jobLines(cluster).find((line) => line.job === Number(job));
      assert.ok(line);
      return line;
    };
    const line = await cancelled('deaf', deaf);
    assert.deepEqual([line.outcome, processesWith(deaf)], ['cancelled', []]);
    assert.ok(Number(line['ms']) >= 4_900, 'SIGKILL came 5 s after SIGTERM');
    const bye = await cancelled('polite', polite);
    assert.deepEqual([bye.outcome, bye['code'], bye['stdout']], ['cancelled', 3, 'bye\n']);
    await assertLives(run, base);
  });

  test('exec: a fork bomb is bounded where commands have a user of their own', {
    timeout,
  }, async (t) => {
    const base = ownTmp(t);
    const { slave, run } = await clusterWith(
      t,
      { fine: 'echo fine', bomb: 'bomb() { bomb | bomb & }; bomb; sleep 1000' },
      ...['--exec-processes', '64', '--exec-timeout', '3'],
    );
    if (!isRoot) {
      // It would not be bounded.
      assert.match(slave.output, /a fork bomb is not bounded/);
      return;
    }
    assert.doesNotMatch(slave.output, /fork bomb/);
    const line = await run('bomb');
    assert.ok(['limit', 'exited', 'signal'].includes(line.outcome), line.outcome);
    assert.deepEqual(processesWith('/scripts/bomb'), []);
    await assertLives(run, base);
  });

  test('exec: folders that are taken away are made again, or the job is refused', {
    timeout,
  }, async (t) => {
    const base = ownTmp(t);
    const { run } = await clusterWith(t, { fine: 'echo fine' });
    const own = () => readdirSync(base).filter((name) => name.startsWith('orb-jobs-'));
    const remove = () => {
      for (const name of own()) rmSync(join(base, name), { recursive: true });
    };
    await assertLives(run, base);
    remove();
    await assertLives(run, base);
    // The file there now was made by somebody else.
    const [folder = ''] = own();
    remove();
    symlinkSync('/etc', join(base, folder));
    const line = await run('fine');
    assert.deepEqual([line.outcome, line['stdout']], ['refused', '']);
    assert.match(String(line['reason']), /is not the folder that this slave made/);
    rmSync(join(base, folder));
    await assertLives(run, base);
  });

  test('exec: a job gets no further rights', { timeout }, async (t) => {
    ownTmp(t);
    const { run } = await clusterWith(t, {
      rights: 'grep NoNewPrivs /proc/self/status; id -G; cat /proc/1/environ; ls /root',
    });
    const line = await run('rights');
    assert.match(String(line['stdout']), /NoNewPrivs:\s+1/);
    if (!isRoot) return;
    assert.match(String(line['stdout']), /^65534$/m);
    assert.match(String(line['stderr']), /Permission denied[\s\S]*Permission denied/);
    assert.ok(asOther.length > 0);
  });
});

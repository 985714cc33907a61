/** `exec` and `run`: programs on slaves that allow them, with real processes. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Said } from '../../shared/requests.ts';
import { Cluster } from '../support/cluster.ts';
import {
  asOther,
  execSlave,
  isRoot,
  jobLines,
  recorded,
  runJob,
  scripts,
  told,
} from '../support/exec.ts';

const timeout = 120_000;

describe('exec', { concurrency: 2 }, () => {
  test('exec: output, exit code, argv as given, environment, a line in jobs.jsonl', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    const folder = scripts(cluster, {
      show: '#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\necho err >&2\nenv | sort\npwd\nid -un\nexit 7\n',
    });
    await execSlave(cluster, '--allow-exec', '/bin/echo', '--exec-folder', folder);
    const args = ['$(touch /tmp/x); `id`', 'a b', '*', '', "it's", '-n', '🐇'];
    const echo = await told(cluster, 'exec', '--', '/bin/echo', ...args);
    assert.deepEqual(echo, { code: 0, stdout: `${args.join(' ')}\n`, stderr: '' });
    const run = await told(cluster, 'run', 'show', ...args.slice(0, 5));
    assert.equal(run.code, 7, run.stderr);
    assert.equal(run.stderr, 'err\n');
    const lines = run.stdout.trim().split('\n');
    assert.deepEqual(
      lines.slice(0, 5),
      args.slice(0, 5).map((arg) => `<${arg}>`),
    );
    const rest = lines.slice(5).filter((line) => !/^(PWD|SHLVL|_|OLDPWD)=/.test(line));
    assert.match(rest[0] ?? '', /^ORB_JOB=2\.[0-9a-f]{8}\.[0-9a-f]{32}$/);
    assert.equal(rest[1], 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin');
    assert.match(rest[2] ?? '', /\/orb-jobs-\w+\/2\./);
    if (isRoot) assert.equal(rest[3], 'nobody');
    assert.equal(rest.length, 4);
    const [first, second] = jobLines(cluster);
    assert.equal(jobLines(cluster).length, 2);
    assert.deepEqual(
      [first?.job, first?.outcome, first?.['code'], first?.['program'], first?.['stdout']],
      [1, 'exited', 0, '/bin/echo', `${args.join(' ')}\n`],
    );
    assert.deepEqual(
      [second?.['script'], second?.['code'], second?.['stderr'], second?.['slave']],
      ['show', 7, 'err\n', 'slave-1'],
    );
  });

  test('exec: what is not allowed is refused, and nothing runs', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    const none = /no slave that takes commands is connected: start one with --allow-exec/;
    const first = await told(cluster, 'exec', '--', '/bin/echo', 'x');
    assert.deepEqual([first.code, first.stdout], [2, '']);
    assert.match(first.stderr, none);
    const folder = scripts(cluster, { good: '#!/bin/sh\necho good\n', plain: 'echo plain\n' });
    symlinkSync('/bin/echo', join(folder, 'out'));
    symlinkSync('good', join(folder, 'alias'));
    await execSlave(cluster, '--allow-exec', '/bin/echo', '--exec-folder', folder);
    const master = await cluster.connect();
    t.after(() => master.close());
    const refused = async (
      message: RegExp,
      call: Omit<Said['job.add'], 'verb' | 'id' | 'args'>,
    ) => {
      const said = master.request('job.add', { args: ['x'], ...call });
      await assert.rejects(said, { code: 'E_BAD_REQUEST', message });
    };
    await refused(/does not allow \/bin\/ls; its programs: \/bin\/echo/, { program: '/bin/ls' });
    for (const program of ['/bin/../bin/echo', '/bin//echo', '/bin/./echo', 'echo', '/bin/']) {
      await refused(/without \. and \.\./, { program });
    }
    await refused(/does not allow \/bin\/echo x/, { program: '/bin/echo x' });
    await refused(/slave "far" that takes commands/, { program: '/bin/echo', on: 'far' });
    for (const script of ['../../bin/echo', '/bin/echo', '..', '.hidden', 'a b', 'good;id', '']) {
      await refused(/name of a script/, { script });
    }
    await refused(/does not allow script none; its scripts: alias, good, plain/, {
      script: 'none',
    });
    await refused(/does not allow script out/, { script: 'out' });
    assert.equal((await runJob(cluster, { script: 'alias' }))['stdout'], 'good\n');
    await execSlave(cluster, '--allow-exec', '/bin/ls');
    const every = { program: '/bin/echo', on: 'every' };
    await refused(/slave slave-2 does not allow \/bin\/echo/, every);
    assert.deepEqual(
      jobLines(cluster).map(({ job }) => job),
      [1],
    );
  });

  test('exec: a slave says what is wrong with its options', { timeout }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    const open = scripts(cluster, { x: '' });
    const wrong: [RegExp, string[]][] = [
      [/absolute path/, ['--allow-exec', 'echo']],
      [/absolute path/, ['--allow-exec', '/bin/../bin/echo']],
      [/ENOENT/, ['--allow-exec', '/bin/no-such-program']],
      [/is not a file/, ['--allow-exec', '/bin']],
      [/permission denied/, ['--allow-exec', '/etc/passwd']],
      [/is not a folder/, ['--exec-folder', '/bin/echo']],
      [/everybody may write/, ['--exec-folder', '/tmp']],
      [/no such user/, ['--allow-exec', '/bin/echo', '--exec-user', 'nobody-there']],
      [/must not be root/, ['--allow-exec', '/bin/echo', '--exec-user', 'root']],
      [/needs --allow-exec/, ['--exec-user', 'nobody']],
    ];
    if (isRoot) wrong.push([/runs no commands as root/, ['--exec-folder', open]]);
    for (const [pattern, args] of wrong) {
      const user = args.includes('--exec-user') || !isRoot || /as root/.test(String(pattern));
      const slave = cluster.slave([...(user ? [] : asOther), ...args]);
      const { code } = await slave.exited;
      assert.equal(code, 2, `${args.join(' ')}: ${slave.output}`);
      assert.match(slave.output, pattern);
      assert.equal(slave.output.trim().split('\n').length, 1);
    }
  });

  test('exec: any, a name, every; --processes take commands once; --detach and jobs', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    await execSlave(cluster, '--allow-exec', '/bin/echo', '--allow-exec', '/bin/sleep');
    await execSlave(
      cluster,
      ...['--allow-exec', '/bin/echo', '--allow-exec', '/bin/sleep', '--processes', '2'],
    );
    const named = await told(cluster, 'exec', '--on', 'slave-2', '--', '/bin/echo', 'here');
    assert.equal(named.stdout, 'here\n');
    assert.equal(jobLines(cluster)[0]?.['slave'], 'slave-2.1');
    const every = await told(cluster, 'exec', '--on', 'every', '--', '/bin/echo', 'all');
    assert.equal(every.code, 0, every.stderr);
    assert.deepEqual(every.stdout.trim().split('\n').sort(), ['slave-1: all', 'slave-2.1: all']);
    const detached = await told(cluster, 'exec', '--detach', '--', '/bin/sleep', '600');
    assert.equal(detached.stdout, 'job 4\n');
    // Its output follows its row, without an empty line at the end.
    assert.match(await cluster.ask('jobs', '1'), /\n1 +exited 0 .* \/bin\/echo here *\nhere\n$/);
    assert.match(await cluster.ask('jobs'), /^4 +running +slave-\S+ +.* \/bin\/sleep 600$/m);
    assert.match(await cluster.ask('status'), /^jobs: 1 running, 0 waiting$/m);
    assert.match(await cluster.ask('slaves'), /^ {2}commands 1 of 2: programs \/bin\/echo, /m);
    assert.match(await cluster.ask('jobs', '--cancel', '4'), /job 4 is being ended/);
    await recorded(cluster, 4);
    assert.equal(jobLines(cluster)[3]?.outcome, 'cancelled');
    assert.match(await cluster.ask('jobs', '4', '--json'), /"outcome":"cancelled"/);
    assert.equal(await cluster.ask('jobs', '--cancel', '4'), 'job 4 has ended\n');
    const waiting = await told(cluster, 'exec', '--wait', '--detach', '--', '/bin/true');
    assert.equal(waiting.code, 0, waiting.stderr);
    assert.match(
      await cluster.ask('status'),
      /^jobs: job 5: no connected slave allows \/bin\/true/m,
    );
    await execSlave(cluster, '--allow-exec', '/bin/true');
    await recorded(cluster, 5);
    assert.deepEqual(
      [jobLines(cluster)[4]?.outcome, jobLines(cluster)[4]?.['code']],
      ['exited', 0],
    );
  });

  test('exec: every: lines of several slaves are whole, each with its slave, in bytes', {
    timeout,
  }, async (t) => {
    const cluster = new Cluster(t);
    await cluster.master([]);
    // Each goes on when both have begun a line, in the middle of a letter.
    const folder = scripts(cluster, {
      halves:
        '#!/bin/sh\nprintf "caf\\303"; printf bad >&2; mkdir "$1/$ORB_JOB"\n' +
        'until [ "$(ls "$1" | wc -l)" = 2 ]; do sleep 0.05; done\n' +
        'printf "\\251\\n\\nlast"; echo " end" >&2\n',
    });
    const begun = join(cluster.folder, 'begun');
    mkdirSync(begun);
    chmodSync(begun, 0o777);
    await execSlave(cluster, '--exec-folder', folder);
    await execSlave(cluster, '--exec-folder', folder);
    const every = await told(cluster, 'run', '--on', 'every', 'halves', begun);
    assert.equal(every.code, 0, every.stderr);
    const lines = (text: string) => text.split('\n').sort();
    const each = (...said: readonly string[]) =>
      said.flatMap((text) => [`slave-1: ${text}`, `slave-2: ${text}`]);
    assert.deepEqual(lines(every.stdout), ['', ...each('café', '', 'last').sort()]);
    assert.deepEqual(lines(every.stderr), ['', ...each('bad end')]);
  });
});

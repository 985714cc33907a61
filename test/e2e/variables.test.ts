/** `ORB_` variables with a typing error are warned about, and no others. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { variableWarnings } from '../../shared/variables.ts';
import { Cluster, root } from '../support/cluster.ts';

const timeout = 60_000;

test('variables: every variable of the programs, and of compose, is known to both', () => {
  const help = (name: string) =>
    execFileSync(process.execPath, [join(root, name), '--help'], { encoding: 'utf8' });
  const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const texts = [help('master.js'), help('slave.js'), compose].join('\n');
  const names = [...new Set(texts.match(/\bORB_[A-Z0-9_]+[A-Z0-9]/g))];
  assert.ok(names.length > 60);
  const env = Object.fromEntries([...names, 'ORB_LEASE', 'PATH'].map((name) => [name, 'x']));
  assert.deepEqual(variableWarnings(env), []);
});

test('variables: the nearest name is told if it is close', () => {
  const near = (name: string) =>
    /did you mean (\w+)\?$/.exec(variableWarnings({ [name]: '' })[0] ?? '');
  for (const [name, meant] of [
    ['ORB_DELEY', 'ORB_DELAY'],
    ['ORB_MAXPAGES', 'ORB_MAX_PAGES'],
    ['ORB_MAX-DEPTH', 'ORB_MAX_DEPTH'],
    ['orb_slots', 'ORB_SLOTS'],
    ['ORB_AUTH_KEY', 'ORB_AUTHKEY'],
  ] as const) {
    assert.equal(near(name)?.[1], meant, name);
  }
  assert.match(variableWarnings({ ORB_SOMETHING_ELSE: '' })[0] ?? '', /unknown.*see --help/);
});

test('variables: master, slave and commands warn once', { timeout }, async (t) => {
  const cluster = new Cluster(t);
  const env = { ORB_DELEY: '5', ORB_SLOTS: '2' };
  const master = await cluster.master(['--slaves', '1'], { env });
  await master.said(/slave joined/);
  const line =
    /warn +the variable ORB_DELEY is unknown and has no effect; did you mean ORB_DELAY\?/g;
  assert.equal(master.output.match(line)?.length, 1, master.output);
  const slave = cluster.slave(['--json-logs'], cluster.address, { env });
  await slave.said(/joined/);
  const [entry] = slave.stdout.split('\n').map((text) => text && JSON.parse(text));
  assert.match(entry.msg, /ORB_DELEY is unknown/);
  const where = ['--master', cluster.address, '--authkey-file', join(cluster.data, 'authkey')];
  const ask = cluster.run(['master.js', 'status', '--json', ...where], { env });
  assert.equal((await ask.exited).code, 0);
  assert.match(ask.stderr, /^master: the variable ORB_DELEY is unknown .*\n$/);
  JSON.parse(ask.stdout);
});

test('variables: one that is empty is refused, and an empty list is none', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  const run = async (env: Record<string, string>, args: readonly string[] = []) => {
    const program = cluster.run(['master.js', ...args], { env });
    return { code: (await program.exited).code, said: program.stderr };
  };
  // Results would be written into the folder where the master runs.
  for (const name of ['ORB_OUT', 'ORB_DATA', 'ORB_CONFIG', 'ORB_TLS_CERT', 'ORB_AUTHKEY_FILE']) {
    const said = `master: ${name} is empty; give it a value, or leave it out\n`;
    assert.deepEqual(await run({ [name]: '' }), { code: 2, said });
  }
  // Every address of the machine would listen.
  const listen = await run({ ORB_LISTEN: '' });
  assert.match(listen.said, /^master: .*'ORB_LISTEN' is invalid\. It must not be empty\./);
  const flag = await run({}, ['status', '--authkey-file', '']);
  assert.match(flag.said, /^master: --authkey-file is empty; give it a value, or leave it out\n$/);
  writeFileSync(join(cluster.folder, 'c.yaml'), 'out: ""\n');
  const config = await run({}, ['--config', 'c.yaml']);
  assert.match(config.said, /^master: c\.yaml:1: "out" must not be empty\n$/);
  const list = await run({ ORB_INCLUDE: '', ORB_ONLY: '' }, ['check', 'none.yaml']);
  assert.match(list.said, /none\.yaml/);
});

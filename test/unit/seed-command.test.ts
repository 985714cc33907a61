/** Commands whose lines are seeds: real programs, their ends and their limits. */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { seedsIn } from '../../master/cli/seeds.ts';
import { runCommand } from '../../master/machine/seed-command.ts';
import { ConfigError } from '../../shared/errors.ts';

const options = { folder: tmpdir(), timeoutMs: 20_000, bytesMax: 1 << 20 };

function node(program: string, more: Partial<typeof options> = {}, signal?: AbortSignal) {
  return runCommand({ ...options, command: [process.execPath, '-e', program], ...more }, signal);
}

test('seed command: its output, and lines that are no URLs', async () => {
  const output = await node("console.log('http://a/\\n# no\\n\\nhttp://b/')");
  assert.deepEqual(seedsIn('it', output), ['http://a/', 'http://b/']);
  assert.deepEqual(seedsIn('it', await node('')), []);
  const bad = await node("console.log('not a url')");
  assert.throws(() => seedsIn('it', bad), /^ConfigError: it, line 1: "not a url" has white space/);
});

test('seed command: each way to fail is one line', async () => {
  const cases: [() => Promise<Buffer>, RegExp][] = [
    [() => runCommand({ ...options, command: ['./no-such'] }), /no-such cannot be run in .*ENOENT/],
    [() => node('', { folder: '/nowhere' }), /cannot be run in \/nowhere/],
    [
      () => node("console.error('no database'); process.exit(3)"),
      /failed with exit code 3: no database$/,
    ],
    [() => node("console.error('a\\u001b[2J'); process.exit(1)"), /code 1: a\\u001b\[2J$/],
    [() => node("process.kill(process.pid, 'SIGTERM')"), /was ended by SIGTERM$/],
    [() => node('setInterval(() => {}, 1e3)', { timeoutMs: 500 }), /took longer than 0.5 s$/],
    [
      () => node("for (;;) require('fs').writeSync(1, 'x'.repeat(65536))"),
      /wrote more than 1 MiB$/,
    ],
    [
      () => node('setInterval(() => {}, 1e3)', {}, AbortSignal.abort()),
      /was stopped with the master$/,
    ],
  ];
  for (const [ended, message] of cases) {
    await assert.rejects(
      ended(),
      (error) => error instanceof ConfigError && message.test(error.message),
    );
  }
});

test('seed command: what it started ends with it', async () => {
  const program = `
    const child = require('child_process').spawn('sleep', ['60'], { stdio: 'inherit' });
    process.stderr.write('pid ' + child.pid);
    setInterval(() => {}, 1000);`;
  let said = '';
  await assert.rejects(node(program, { timeoutMs: 2_000 }), (error: Error) => {
    said = error.message;
    return /took longer/.test(said);
  });
});

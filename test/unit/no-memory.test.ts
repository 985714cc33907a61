/** Programs that cannot be started, because the system has no memory for one more process: Node
 *  throws that, where other reasons are events. */
import assert from 'node:assert/strict';
import { ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runCommand } from '../../master/machine/seed-command.ts';
import type { Logger } from '../../shared/log.ts';
import { type SlaveEnd, SlaveProcesses } from '../../shared/slave-processes.ts';
import { launch } from '../../slave/browser/launch.ts';
import { failureOf } from '../../slave/fetch/outcome.ts';
import { Lacks } from '../../slave/lack.ts';
import { RuleProcess } from '../../slave/rules/rule-process.ts';

/** Until the result is called, no process can be started. */
function withoutMemory(t: TestContext): () => void {
  const { mock } = t.mock.method(ChildProcess.prototype, 'spawn' as never, () => {
    throw Object.assign(new Error('spawn ENOMEM'), { code: 'ENOMEM', syscall: 'spawn' });
  });
  return () => mock.restore();
}

test('no memory: a slave on this machine is started again later', async (t) => {
  const back = withoutMemory(t);
  const ends: SlaveEnd[] = [];
  await new Promise<void>((resolve) => {
    const slaves = new SlaveProcesses({
      program: '-e',
      argsOf: () => ['0'],
      output: 'keep',
      restartMs: 1,
      restartsMax: 1,
      onEnd: (end) => {
        back();
        if (ends.push(end) === 2) resolve();
      },
    });
    slaves.start('a');
    assert.equal(slaves.count, 1);
  });
  const said = ends.map(({ why, isRestarted }) => `${why}, ${isRestarted}`);
  assert.deepEqual(said, ['spawn ENOMEM, true', 'exit code 0, false']);
});

test('no memory: a command of seeds fails with one line', async (t) => {
  withoutMemory(t);
  const options = { command: ['ls'], folder: '/', timeoutMs: 5_000, bytesMax: 100 };
  await assert.rejects(runCommand(options), {
    name: 'ConfigError',
    message: 'the command ls cannot be run in /: spawn ENOMEM',
  });
});

test('no memory: pages wait for the child that evaluates their rules', async (t) => {
  const back = withoutMemory(t);
  const said: string[] = [];
  const warn = (text: string) => {
    said.push(text);
    back();
  };
  const rules = new RuleProcess({ lacks: new Lacks({ warn } as unknown as Logger) });
  t.after(() => rules.close());
  assert.equal(await rules.learn({ r: { fields: { title: { css: 'title' } } } }), 1);
  assert.deepEqual(said, ['some pages wait: the system has no memory left (ENOMEM)']);
});

test('no memory: a browser that does not start leaves nothing', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-memory-'));
  t.after(() => rmSync(folder, { recursive: true }));
  withoutMemory(t);
  const settings = { program: '/a', isSandboxed: true, path: '', env: { TMPDIR: folder } };
  const listeners = process.listenerCount('exit');
  const { signal } = new AbortController();
  const start = { proxy: 'http://127.0.0.1:1', userAgent: 'a' };
  const program = { executablePath: '/a', settings };
  await assert.rejects(
    launch(program, start, () => {}, signal),
    { message: 'spawn ENOMEM' },
  );
  assert.deepEqual(readdirSync(folder), []);
  assert.equal(process.listenerCount('exit'), listeners);
});

test('no memory: pages wait for a child that ends before it has heard of them', async (t) => {
  const { execPath } = process;
  t.after(() => {
    process.execPath = execPath;
  });
  const said: string[] = [];
  const warn = (text: string) => {
    said.push(text);
    process.execPath = execPath;
  };
  const rules = new RuleProcess({ lacks: new Lacks({ warn } as unknown as Logger) });
  t.after(() => rules.close());
  process.execPath = '/bin/false';
  assert.equal(await rules.learn({ r: { fields: { title: { css: 'title' } } } }), 1);
  assert.deepEqual(said, [
    'some pages wait: the child for rules does not start: its process ended (exit code 1)',
  ]);
});

test('no memory: an answer that undici has no addresses to read says so', () => {
  const text = 'WebAssembly.instantiate(): Out of memory: Cannot allocate Wasm memory';
  assert.deepEqual(failureOf(new RangeError(text), false), {
    error: { kind: 'connect', message: 'the slave has no addresses for it: raise `ulimit -v`' },
  });
});

/** Programs that cannot be started, because this process has no file descriptor left. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';

/** Runs a module, with `dist` as the folder of the build, after it has taken all descriptors. */
function starved(code: string): string {
  const all = `
    import { openSync } from 'node:fs';
    ${code.replaceAll('dist:', new URL('../../', import.meta.url).href)}
    try { for (;;) openSync('/dev/null'); } catch {}
    run();`;
  const node = ['--input-type=module', '-e', all];
  return execFileSync('sh', ['-c', 'ulimit -n 64 && exec "$0" "$@"', process.execPath, ...node], {
    encoding: 'utf8',
  }).trim();
}

test('no descriptors: a slave on this machine is started again later', () => {
  const said = starved(`
    import { SlaveProcesses } from 'dist:shared/slave-processes.js';
    const onEnd = ({ why, isRestarted }) => {
      console.log(why, isRestarted);
      process.exit(0);
    };
    const options = { argsOf: () => [], restartMs: 10_000, restartsMax: 1, onEnd };
    const run = () => new SlaveProcesses({ program: 'a', output: 'keep', ...options }).start('a');`);
  assert.match(said, /^spawn .* EMFILE true$/);
});

test('no descriptors: a command of seeds fails with one line', () => {
  const said = starved(`
    import { runCommand } from 'dist:master/machine/seed-command.js';
    const options = { command: ['ls'], folder: '/', timeoutMs: 5_000, bytesMax: 100 };
    const run = () => runCommand(options).catch((error) => console.log(String(error)));`);
  assert.match(said, /^ConfigError: the command ls cannot be run in \/: spawn ls EMFILE$/);
});

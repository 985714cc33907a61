/** Programs that cannot be started, because this process has no file descriptor left. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';

/** Runs a module, with `dist` as the folder of the build, after it has taken all descriptors. */
function starved(code: string): string {
  const all = `
    import { closeSync, openSync } from 'node:fs';
    ${code.replaceAll('dist:', new URL('../../', import.meta.url).href)}
    const taken = [];
    try { for (;;) taken.push(openSync('/dev/null')); } catch {}
    run();`;
  const node = ['--input-type=module', '-e', all];
  return execFileSync('sh', ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, ...node], {
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

test('no descriptors: a request that cannot be made is put off, and no host is at fault', () => {
  const said = starved(`
    import { once } from 'node:events';
    import { createServer } from 'node:http';
    import { fetchSpecSchema } from 'dist:shared/crawl.js';
    import { Fetcher } from 'dist:slave/fetch/fetcher.js';
    import { robots } from 'dist:slave/kinds/robots.js';
    import { Lacks } from 'dist:slave/lack.js';
    import { residentBytes } from 'dist:slave/resident-bytes.js';
    const server = createServer((_, answer) => answer.end('x')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    const log = { warn: (text) => console.log(text) };
    const lacks = new Lacks(log);
    let fetcher = new Fetcher({ connections: 1, lacks });
    const { signal } = new AbortController();
    const fetch = async (host) => {
      const spec = fetchSpecSchema.parse({ allowPrivate: ['127.0.0.0/8'] });
      const url = \`http://\${host}:\${port}/\`;
      const { kind, failure } = await fetcher.fetch(robots.plan, url, spec, signal);
      console.log(kind, failure?.error?.message ?? '');
    };
    await fetch('127.0.0.1');
    const run = async () => {
      await fetch('127.0.0.2');
      await fetch('nowhere.example');
      // A trial of one page waits for nothing.
      const slave = fetcher;
      fetcher = new Fetcher({ connections: 1 });
      await fetch('127.0.0.2');
      fetcher = slave;
      // The entry in the cache is no host's fault either.
      for (const one of taken.splice(0)) closeSync(one);
      await fetch('nowhere.example');
      console.log(residentBytes() > 1_000_000);
      process.exit(0);
    };`);
  const [first, why, ...rest] = said.split('\n').map((line) => line.trim());
  const lack = why?.replace('some pages wait: ', '');
  assert.equal(first, 'body');
  assert.match(why ?? '', /^some pages wait: no file descriptor is left \(EMFILE\): raise/);
  assert.deepEqual(rest, ['put-off', 'put-off', `failed ${lack}`, 'put-off', 'true']);
});

test('no descriptors: pages wait for the child that evaluates their rules', () => {
  const said = starved(`
    import { Lacks } from 'dist:slave/lack.js';
    import { RuleProcess } from 'dist:slave/rules/rule-process.js';
    const log = {
      warn: (text) => {
        console.log(text);
        for (const one of taken.splice(0)) closeSync(one);
      },
    };
    const run = async () => {
      // A trial of one page waits for nothing.
      const trial = new RuleProcess();
      console.log((await trial.learn({}))[0].message);
      const rules = new RuleProcess({ lacks: new Lacks(log) });
      console.log(await rules.learn({ r: { fields: { title: { css: 'title' } } } }));
      await rules.close();
    };`);
  const [failed, why, set] = said.split('\n');
  assert.match(failed ?? '', /^the child for rules does not start: spawn .* EMFILE$/);
  assert.match(why ?? '', /^some pages wait: no file descriptor is left/);
  assert.equal(set, '1');
});

test('no descriptors: a browser does not start, and says why', () => {
  const said = starved(`
    import { launch } from 'dist:slave/browser/launch.js';
    const settings = { program: '/bin/true', isSandboxed: true, path: '', env: {} };
    const program = { executablePath: '/bin/true', settings };
    const start = { proxy: 'http://127.0.0.1:1', userAgent: 'a' };
    const { signal } = new AbortController();
    const run = () => launch(program, start, () => {}, signal).catch((error) => {
      setImmediate(() => console.log(error.message));
    });`);
  assert.equal(said, 'spawn /bin/true EMFILE');
});

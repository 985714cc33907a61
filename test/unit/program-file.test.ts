/** A program as one file (scripts/program-file.mjs): the same with its cache, without, and with one
 *  that is damaged. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { root } from '../support/cluster.ts';

type Start = { flags?: string[]; flagsOf20?: string[]; startFlags?: string[]; modules?: string[] };
type ProgramFile = { programFile(name: string, code: string, start: Start): string };

/** A regular expression that ends like a comment, and all that the program is given. */
const code = `
  const answer = /a*/.exec('aab')[0] + require('node:path').basename(__url);
  import('node:os').then(({ EOL }) => process.stdout.write(answer + EOL.length));
`;

test('program file: it runs without a cache, with one, and with a damaged one', async (t) => {
  const scripts = pathToFileURL(join(root, 'scripts/program-file.mjs')).href;
  const { programFile } = (await import(scripts)) as ProgramFile;
  const folder = mkdtempSync(join(tmpdir(), 'orb-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const start = join(folder, 'dist/start');
  mkdirSync(start, { recursive: true });
  const path = join(folder, 'some.mjs');
  // One that other versions would complain about.
  const flagsOf20 = ['--ticks-before-optimization=20'];
  writeFileSync(path, programFile('some', code, { flags: ['--no-wasm-tier-up'], flagsOf20 }));
  const run = (how: NodeJS.ProcessEnv = {}) => {
    const env = { ...process.env, ...how };
    const { stdout, stderr } = spawnSync(process.execPath, [path], { env, encoding: 'utf8' });
    assert.deepEqual({ stdout, stderr }, { stdout: 'aasome.mjs1', stderr: '' });
  };
  run();
  assert.deepEqual(readdirSync(start), []);
  run({ ORBWEAVER_START_CACHE: 'write' });
  run();
  const [name = ''] = readdirSync(start);
  assert.match(name, /^some-[0-9a-f]{16}-v\d+\.\d+\.\d+-\w+\.bin$/);
  const whole = readFileSync(join(start, name));
  for (const at of [4, whole.length >> 1, whole.length - 1]) {
    const bytes = Buffer.from(whole);
    bytes[at] = (bytes[at] ?? 0) ^ 0x55;
    writeFileSync(join(start, name), bytes);
    run();
  }
  writeFileSync(join(start, name), whole.subarray(0, 2));
  run();
});

test('program file: an older Node is told which one to install', async (t) => {
  const scripts = pathToFileURL(join(root, 'scripts/program-file.mjs')).href;
  const { programFile } = (await import(scripts)) as ProgramFile;
  const folder = mkdtempSync(join(tmpdir(), 'orb-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'slave.mjs');
  writeFileSync(path, programFile('slave', code, {}));
  // What Node 18 does not have.
  const old = "data:text/javascript,import zlib from 'node:zlib'; delete zlib.crc32;";
  const { status, stderr } = spawnSync(process.execPath, ['--import', old, path], {
    encoding: 'utf8',
  });
  assert.equal(status, 2);
  assert.match(stderr, /^slave: Node \S+ will not do; install Node 20\.19, 22\.12, 24 or newer\n$/);
});

test("program file: modules of Node come from Node's own cache, in spite of all flags", async (t) => {
  const scripts = pathToFileURL(join(root, 'scripts/program-file.mjs')).href;
  const { programFile } = (await import(scripts)) as ProgramFile;
  const folder = mkdtempSync(join(tmpdir(), 'orb-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const modules = ['tls', 'dns/promises'];
  const tell = `const { internalBinding } = require('internal/test/binding');
    const { compiledWithoutCache: all } = internalBinding('builtins').getCacheUsage();
    process.stdout.write(JSON.stringify([...all]));`;
  const start = { flags: ['--no-wasm-tier-up'], startFlags: ['--min-semi-space-size=4'] };
  const compiled = (name: string, early: string[]) => {
    const path = join(folder, `${name}.mjs`);
    writeFileSync(path, programFile(name, `require('tls'); ${tell}`, { ...start, modules: early }));
    const args = ['--expose-internals', '--no-warnings', ...start.startFlags, path];
    return JSON.parse(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout) as string[];
  };
  assert.ok(compiled('late', []).includes('tls'));
  const early = compiled('early', modules);
  for (const name of [...modules, 'zlib', 'vm']) assert.ok(!early.includes(name), `${name}`);
});

test('program file: a build without room for its caches is a build', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orb-program-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const scripts = pathToFileURL(join(root, 'scripts/start-cache.mjs')).href;
  const build = `await (await import('${scripts}')).makeStartCaches(${JSON.stringify(folder)})`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', build], {
    env: { ...process.env, TMPDIR: join(folder, 'nowhere') },
    encoding: 'utf8',
  });
  assert.match(stderr, /^build: no start cache: ENOENT/);
  assert.equal(status, 0);
});

/** scripts/setup.mjs makes a clone ready without running a script of a package, and leaves a packed
 *  tree ready, from which all programs run. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { root } from '../support/cluster.ts';

const timeout = 120_000;

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-setup-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function run(folder: string, program: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: folder, encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
  return stdout + stderr;
}

test('setup: packages are installed without their scripts, and it builds itself', {
  timeout,
}, (t) => {
  const folder = folderFor(t);
  const write = (path: string, text: string) => writeFileSync(join(folder, path), text);
  for (const name of ['master', 'slave', 'shared', 'selftest', 'test', 'scripts', 'package']) {
    mkdirSync(join(folder, name));
  }
  cpSync(join(root, 'scripts/setup.mjs'), join(folder, 'scripts/setup.mjs'));
  const touch = `require('fs').writeFileSync(${JSON.stringify(join(folder, 'marker'))}, '')`;
  write('package/touch.js', touch);
  const scripts = {
    preinstall: 'node touch.js',
    install: 'node touch.js',
    postinstall: 'node touch.js',
  };
  write('package/package.json', JSON.stringify({ name: 'nosy', version: '1.0.0', scripts }));
  run(join(folder, 'package'), 'npm', 'pack', '--ignore-scripts', '--pack-destination', folder);
  write('tsconfig.json', '{}');
  write('marker-of-builds', '');
  write(
    'scripts/build.mjs',
    `import { appendFileSync, writeFileSync } from 'node:fs';
    for (const file of ['master.js', 'slave.js', 'selftest.js', 'dist']) writeFileSync(file, '');
    appendFileSync('marker-of-builds', 'x');`,
  );
  const own = { prepare: 'node scripts/build.mjs' };
  const dependencies = { nosy: 'file:nosy-1.0.0.tgz' };
  write(
    'package.json',
    JSON.stringify({ name: 'x', version: '1.0.0', scripts: own, dependencies }),
  );
  run(folder, 'npm', 'install', '--package-lock-only', '--ignore-scripts', '--offline');
  const setUp = () => run(folder, process.execPath, 'scripts/setup.mjs');
  const builds = () => readFileSync(join(folder, 'marker-of-builds'), 'utf8').length;

  assert.match(setUp(), /installing packages/);
  assert.ok(existsSync(join(folder, 'node_modules/nosy/package.json')));
  assert.equal(existsSync(join(folder, 'marker')), false, 'a script of the package has run');
  assert.equal(builds(), 1);
  assert.equal(setUp(), '');
  assert.equal(builds(), 1);
  // Other packages: what is bundled of them is old.
  const later = new Date(Date.now() + 5_000);
  utimesSync(join(folder, 'node_modules/.package-lock.json'), later, later);
  assert.match(setUp(), /building/);
  assert.equal(builds(), 2);
  // Those of another clone, which a lock file that is newer must not empty.
  renameSync(join(folder, 'node_modules'), join(folder, 'others'));
  symlinkSync(join(folder, 'others'), join(folder, 'node_modules'));
  utimesSync(join(folder, 'package-lock.json'), later, new Date(Date.now() + 60_000));
  assert.doesNotMatch(setUp(), /installing/);
  assert.ok(existsSync(join(folder, 'others/nosy/package.json')));
});

test('setup: a packed tree is ready, and its programs and the demo run', { timeout }, (t) => {
  const folder = folderFor(t);
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
  const file = execFileSync('npm', args, { cwd: root, encoding: 'utf8' }).trim();
  run(folder, 'tar', 'xzf', file);
  const tree = join(folder, 'package');
  assert.equal(existsSync(join(tree, 'master')), false);
  // As npm installs it: packages beside it.
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  assert.equal(run(tree, process.execPath, 'scripts/setup.mjs'), '');
  for (const program of ['master.js', 'slave.js']) {
    assert.match(run(tree, process.execPath, program, '--help'), /--authkey-file/);
  }
  assert.match(run(tree, process.execPath, 'scripts/start.mjs'), /\d+ pages and \d+ images/);
  assert.match(run(tree, process.execPath, 'master.js', 'selftest', '--help'), /selftest/);
});

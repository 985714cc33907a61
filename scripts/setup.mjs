// Makes a fresh clone ready: installs the packages when they are missing or the lock file is
// newer, builds when a source is newer than what was built. Uses Node alone, because it runs
// before anything is installed.
import { execSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19) || (major === 22 && minor < 12)) {
  console.error(
    `orbweaver: Node ${process.versions.node} is too old; install Node 20.19, 22.12, 24 or newer`,
  );
  process.exit(2);
}

const changedMs = (path) => (existsSync(join(root, path)) ? statSync(join(root, path)).mtimeMs : 0);
const newestMs = (folder) => {
  let newest = 0;
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    newest = Math.max(newest, entry.isDirectory() ? newestMs(path) : changedMs(path));
  }
  return newest;
};
const run = (command) => execSync(command, { cwd: root, stdio: ['ignore', 2, 2] });

if (changedMs('node_modules/.package-lock.json') < changedMs('package-lock.json')) {
  console.error('orbweaver: installing packages …');
  run('npm ci --loglevel=error'); // builds, too: `prepare`
}
const sourceMs = Math.max(
  ...['master', 'slave', 'shared', 'test'].map(newestMs),
  changedMs('tsconfig.json'),
  changedMs('scripts/build.mjs'),
);
const builtMs = Math.min(changedMs('master.js'), changedMs('slave.js'));
if (builtMs < sourceMs) {
  console.error('orbweaver: building …');
  run('node scripts/build.mjs');
}

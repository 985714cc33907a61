// Makes a fresh clone ready: installs the packages when they are missing or the lock file is
// newer, builds when a source is newer than what was built. Uses Node alone, because it runs
// before anything is installed.
import { execSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

function fail(line) {
  console.error(`orbweaver: ${line}`);
  process.exit(2);
}

const [major, minor] = process.versions.node.split('.').map(Number);
const isSupported = (major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major >= 24;
if (!isSupported) {
  fail(`Node ${process.versions.node} will not do; install Node 20.19, 22.12, 24 or newer`);
}

const changedMs = (path) => (existsSync(join(root, path)) ? statSync(join(root, path)).mtimeMs : 0);
/** Of everything in a folder, and of the folders themselves: a file that went away counts, too. */
const newestMs = (folder) => {
  let newest = changedMs(folder);
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    newest = Math.max(newest, entry.isDirectory() ? newestMs(path) : changedMs(path));
  }
  return newest;
};
// What they print goes to stderr: stdout belongs to the program that is started next.
const run = (command, advice) => {
  try {
    execSync(command, { cwd: root, stdio: ['ignore', 2, 2] });
  } catch {
    fail(`"${command}" failed, see above; ${advice}`);
  }
};

if (changedMs('node_modules/.package-lock.json') < changedMs('package-lock.json')) {
  console.error('orbweaver: installing packages …');
  // Builds, too: `prepare`.
  run('npm ci --loglevel=error', 'mend that (is the npm registry in reach?) and start again');
}
const sourceMs = Math.max(
  ...['master', 'slave', 'shared', 'selftest', 'test'].map(newestMs),
  changedMs('tsconfig.json'),
  changedMs('scripts/build.mjs'),
);
const builtMs = Math.min(...['master.js', 'slave.js', 'selftest.js', 'dist'].map(changedMs));
if (builtMs < sourceMs) {
  console.error('orbweaver: building …');
  run('node scripts/build.mjs', 'mend the sources and start again');
}

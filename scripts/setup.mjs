// Makes a fresh clone ready: installs the packages when they are missing or the lock file is
// newer, builds when a source or a package is newer than what was built. In a packed tree, which is
// built and has no lock file, it installs what the programs need. Uses Node alone, because it runs
// before anything is installed. `start` as its first argument: then it goes on as `npm start`, in
// this process, because npm takes 0.1 s for a script of its own. No script of a package is run: npm 10 does not know `allowScripts`.
import { execSync } from 'node:child_process';
import { existsSync, lstatSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
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
// Their output goes to stderr: stdout belongs to the program that is started next.
const run = (command, advice) => {
  try {
    execSync(command, { cwd: root, stdio: ['ignore', 2, 2] });
  } catch {
    fail(`"${command}" failed, see above; ${advice}`);
  }
};

const install = (command) => {
  console.error('orbweaver: installing packages …');
  run(
    `npm ${command} --ignore-scripts --loglevel=error`,
    'mend that (is the npm registry in reach?) and start again',
  );
};
/** The one package that is not in the programs themselves. */
const hasStore = () => {
  try {
    createRequire(join(root, 'master.js')).resolve('lmdb');
    return true;
  } catch {
    return false;
  }
};

const installed = 'node_modules/.package-lock.json';
const isClone = existsSync(join(root, 'master'));
/** Packages of another clone: `npm ci` would empty that folder. */
const isLinked = lstatSync(join(root, 'node_modules'), { throwIfNoEntry: false })?.isSymbolicLink();
const isOld = changedMs(installed) < changedMs('package-lock.json');
if (isClone && isOld && !isLinked) install('ci');
if (!isClone && !hasStore()) install('install --omit=dev --no-package-lock');
if (isClone) {
  const sourceMs = Math.max(
    ...['master', 'slave', 'shared', 'selftest', 'test'].map(newestMs),
    changedMs('tsconfig.json'),
    changedMs('scripts/build.mjs'),
    changedMs(installed),
  );
  const builtMs = Math.min(...['master.js', 'slave.js', 'selftest.js', 'dist'].map(changedMs));
  if (builtMs < sourceMs) {
    console.error('orbweaver: building …');
    run('node scripts/build.mjs', 'mend the sources and start again');
  }
}
if (process.argv[2] === 'start') {
  process.argv.splice(2, 1);
  await import('./start.mjs');
}

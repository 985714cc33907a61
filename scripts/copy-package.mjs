// `node scripts/copy-package.mjs NAME… FOLDER`: copies installed packages and all they need, in
// the versions of the lock file, into another node_modules. The image is made with it: the native
// store is not bundled, nor is what is optional.
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../node_modules', import.meta.url));

/** The folder that Node would find `name` in, asked from the package in `folder`. */
function find(name, folder) {
  for (let at = folder; at !== dirname(source); at = dirname(at)) {
    const path = join(at, 'node_modules', name);
    if (existsSync(path)) return path;
  }
  const path = join(source, name);
  return existsSync(path) ? path : undefined;
}

function needsOf(name, folder, found = new Set()) {
  const path = find(name, folder);
  // Optional packages are there for this platform alone.
  if (path === undefined || found.has(path)) return found;
  found.add(path);
  const { dependencies, optionalDependencies } = JSON.parse(
    readFileSync(join(path, 'package.json'), 'utf8'),
  );
  const needs = { ...dependencies, ...optionalDependencies };
  for (const need of Object.keys(needs)) needsOf(need, path, found);
  return found;
}

const names = process.argv.slice(2, -1);
const target = process.argv.at(-1) ?? '';
const missing = names.find((name) => find(name, source) === undefined);
if (names.length === 0 || missing !== undefined) {
  console.error('usage: node scripts/copy-package.mjs INSTALLED_PACKAGE… FOLDER');
  if (missing !== undefined) console.error(`${missing} is not installed`);
  process.exit(2);
}
const found = new Set();
for (const name of names) needsOf(name, source, found);
for (const path of found) {
  const copy = join(target, relative(source, path));
  rmSync(copy, { recursive: true, force: true });
  cpSync(path, copy, { recursive: true });
}

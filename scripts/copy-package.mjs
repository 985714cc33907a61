// `node scripts/copy-package.mjs NAME FOLDER`: copies an installed package and all it needs, in
// the versions of the lock file, into another node_modules. The image is made with it: of all
// packages only the native store is not bundled.
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

const [name, target] = process.argv.slice(2);
if (name === undefined || target === undefined || find(name, source) === undefined) {
  console.error('usage: node scripts/copy-package.mjs INSTALLED_PACKAGE FOLDER');
  process.exit(2);
}
for (const path of needsOf(name, source)) {
  const copy = join(target, relative(source, path));
  rmSync(copy, { recursive: true, force: true });
  cpSync(path, copy, { recursive: true });
}

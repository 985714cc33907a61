// Runs the compiled tests: `npm test`, or `npm test -- unit e2e '!e2e/image'` for the files whose
// path contains one of the words, and none of those behind a `!`. Node 20 and newer disagree on
// globs and folders, so the files are listed here.
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import report from './reporter.mjs';

const folder = fileURLToPath(new URL('../dist/test', import.meta.url));
const given = process.argv.slice(2);
const words = given.filter((word) => !word.startsWith('!'));
const others = given.filter((word) => word.startsWith('!')).map((word) => word.slice(1));
const files = readdirSync(folder, { recursive: true })
  .filter((file) => file.endsWith('.test.js'))
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  .filter((file) => !others.some((word) => file.includes(word)))
  // By name, not by folder: those of one folder wait, those of another compute.
  .sort((a, b) => (basename(a) < basename(b) ? -1 : 1))
  .map((file) => join(folder, file));
if (files.length === 0) {
  console.error(`no test file matches ${words.join(' ')}`);
  process.exit(2);
}
// Most of a test's time goes to waiting, for a lease that ends or a server that starts again.
const concurrency = Math.max(3, availableParallelism());
process.execArgv.push('--enable-source-maps');
// `node --test` would take the files folder by folder.
run({ files, concurrency, timeout: 300_000 })
  .on('test:fail', () => {
    process.exitCode = 1;
  })
  .compose(process.stdout.isTTY ? new spec() : report)
  .pipe(process.stdout);

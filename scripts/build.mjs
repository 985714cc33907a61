// Builds everything: `dist/` (compiled modules, types, tests) by tsc, and in the root by
// esbuild the programs `master.js` and `slave.js`, and `selftest.js`, which the master's subcommand
// loads. `npm install` runs it through `prepare`.
// slave.js carries all it needs; master.js leaves only the native store (lmdb) outside.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace(/package\.json$/, 'bin/tsc');

rmSync(`${root}/dist`, { recursive: true, force: true });
const compiled = spawnSync(process.execPath, [tsc, '-p', root], { stdio: 'inherit', cwd: root });
// The compiler has said what is wrong; master.js and slave.js stay old, so the next start builds.
if (compiled.status !== 0) process.exit(1);

const program = (name, external) =>
  build({
    absWorkingDir: root,
    entryPoints: [`${name}/main.ts`],
    outfile: `${name}.js`,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.19',
    external,
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    logLevel: 'warning',
    // CommonJS packages in an ESM bundle still call require().
    banner: {
      js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);",
    },
  });

await Promise.all([program('master', ['lmdb']), program('slave', []), program('selftest', [])]);

// Builds everything: `dist/` (compiled modules, types, tests) by tsc, and in the root by
// esbuild the programs `master.js` and `slave.js`, and `selftest.js`, which the master's subcommand
// loads; and the library for programs in CommonJS. `npm install` runs it through `prepare`.
// slave.js carries all it needs but a browser; master.js leaves the native store (lmdb) and drivers of
// databases outside.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';
import { growthFlag, idleFlag, longIdleMs, programBuild, programFile } from './program-file.mjs';
import { makeStartCaches } from './start-cache.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace(/package\.json$/, 'bin/tsc');

const packageJson = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));

rmSync(`${root}/dist`, { recursive: true, force: true });
const compiled = spawnSync(process.execPath, [tsc, '-p', root], { stdio: 'inherit', cwd: root });
// The compiler has said what is wrong; master.js and slave.js stay old, so the next start builds.
if (compiled.status !== 0) process.exit(1);

// The published types must be read by TypeScript 5.6, too, in which these have no parameter.
// A second copy is for programs in CommonJS: a package.json says what the files of a folder are.
for (const folder of ['shared', 'library']) {
  mkdirSync(`${root}/dist/cjs/${folder}`, { recursive: true });
  for (const file of readdirSync(`${root}/dist/${folder}`)) {
    if (!file.endsWith('.d.ts')) continue;
    const path = `${root}/dist/${folder}/${file}`;
    const text = readFileSync(path, 'utf8');
    const types = text.replace(/\b(Uint8Array|Buffer)<ArrayBuffer(?:Like)?>/g, '$1');
    writeFileSync(path, types);
    writeFileSync(`${root}/dist/cjs/${folder}/${file}`, types);
  }
}
writeFileSync(`${root}/dist/cjs/package.json`, '{"type":"commonjs"}\n');

// An assertion that fails without a message gets one by parsing the source around it. In a bundle
// that is one very long line: a slave stood still for seconds when a host answered with the status
// `000`, which undici asserts. Packages are given assertions that fail with a fixed message.
const briefAssert = `const assert = require('node:assert');
const { AssertionError } = assert;
function brief(value, message = 'an assertion of a package failed') {
  if (value) return;
  throw message instanceof Error ? message : new AssertionError({ message, stackStartFn: brief });
}
module.exports = Object.assign(brief, assert, { ok: brief });`;
const briefAsserts = {
  name: 'brief-asserts',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:node:)?assert$/ }, ({ importer, namespace }) =>
      namespace === 'file' && importer.includes('/node_modules/')
        ? { path: 'assert', namespace: 'brief' }
        : { path: 'node:assert', external: true },
    );
    onLoad({ filter: /^assert$/, namespace: 'brief' }, () => ({ contents: briefAssert }));
  },
};

// Few crawls ask for a public suffix, and to read them all takes each start 8 ms, most of them V8's, which
// optimizes that one loop: the package is read when it is first called. Also for tough-cookie, of which a slave
// calls what reads dates.
const lateSuffixes = {
  name: 'late-suffixes',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^tldts$/ }, ({ namespace }) =>
      namespace === 'file' ? { path: 'tldts', namespace: 'late' } : undefined,
    );
    const names = ['getDomain', 'getPublicSuffix'];
    const wrap = (name) => `export const ${name}=(...asked)=>require('tldts').${name}(...asked);`;
    const contents = names.map(wrap).join('');
    onLoad({ filter: /^tldts$/, namespace: 'late' }, () => ({ contents, resolveDir: root }));
  },
};

// Undici takes a slave 20 ms to load, and reads only the answers that are not plain (slave/fetch/plain-head.ts).
const lateUndici = {
  name: 'late-undici',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^undici\/lib\// }, ({ path, importer, namespace }) =>
      namespace === 'file' && !importer.includes('/node_modules/')
        ? { path, namespace: 'late-undici' }
        : undefined,
    );
    // Classes that are made with `new`, and a function that is called with its `this`.
    const wrap = (path) => `module.exports = function (...given) {
      const real = require('${path}');
      return new.target ? new real(...given) : real.apply(this, given);
    };`;
    onLoad({ filter: /./, namespace: 'late-undici' }, ({ path }) => ({
      contents: wrap(path),
      resolveDir: root,
    }));
  },
};

// HTTP/2 takes a slave 3 ms to load, and few crawls ask for it.
const lateHttp2 = {
  name: 'late-http2',
  setup({ onLoad }) {
    onLoad(
      { filter: /[\\/]undici[\\/]lib[\\/]dispatcher[\\/]client-h2\.js$/ },
      ({ path, suffix }) => {
        if (suffix === late) return undefined;
        const contents = `module.exports = (...given) => require('./client-h2.js${late}')(...given);`;
        return { contents, resolveDir: dirname(path) };
      },
    );
  },
};
const late = '?late';

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'warning',
  // CommonJS packages in an ESM bundle still call require().
  banner: {
    js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);",
  },
};

// The child for rules is a bundle of its own, packed into slave.js: it starts faster without the
// rest of the slave, and a slave without rules need not load it.
const rulePrograms = {
  name: 'rule-program',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]slave[\\/]rules[\\/]rule-program\.ts$/ }, async () => {
      const { outputFiles } = await build({
        ...common,
        entryPoints: ['slave/rules/rule-child.ts'],
        write: false,
      });
      const packed = brotliCompressSync(outputFiles[0].contents).toString('base64');
      // As a function it is not in the cache that slave.js starts from.
      const contents = `export const ruleProgram = { get packed() { return '${packed}'; } };`;
      return { contents, loader: 'js' };
    });
  },
};

const bundle = (name, external) => ({
  ...common,
  entryPoints: [`${name}/main.ts`],
  outfile: `${name}.js`,
  external,
  plugins: [briefAsserts, lateSuffixes, lateUndici, lateHttp2, rulePrograms],
});
/** Modules of Node that a program needs at each start. Node has V8's cache of them, which V8 takes only before
 *  any flag is set: without it they cost 10 to 20 ms. */
const commonModules = [
  'assert/strict',
  'child_process',
  'crypto',
  'diagnostics_channel',
  'dns/promises',
  'fs/promises',
  'net',
  'os',
  'perf_hooks',
  'readline',
  'stream/promises',
  'timers/promises',
  'tls',
  'worker_threads',
];
const program = async (name, external, { own, ownOf20 = [], young, modules }) => {
  const { outputFiles } = await build({ ...bundle(name, external), banner: {}, ...programBuild });
  const [{ text }] = outputFiles;
  const flags = [...idleFlags, ...own];
  const all = [...commonModules, ...modules];
  const of20 = [...flagsOf20, ...ownOf20];
  const how = { flags, flagsOf20: of20, startFlags, ...young, modules: all };
  writeFileSync(`${root}/${name}.js`, programFile(name, text, how));
};
const idleFlags = [idleFlag(longIdleMs)];
/** Node 20 optimizes small functions at the first tick, before their types are known: many twice. And it waits
 *  longer while a crawl is small (see shared/warm-up.ts). After each burst of work it would collect the whole
 *  heap up to three times, 25 ms of CPU each, of which only the first frees much: in a crawl of 300 pages with
 *  a delay, these took a tenth of the CPU. */
const flagsOf20 = [
  '--max-bytecode-size-for-early-opt=0',
  '--ticks-before-optimization=20',
  '--memory-reducer-single-gc',
];
/** WebAssembly is not optimized, unless it asks for that, as what reads the text of pages does. Undici's,
 *  which reads heads of answers, takes 0.13 CPU s to optimize, which come back after some 76,000 answers
 *  (1.7 us each). No --wasm-tiering-budget is large enough to put that off for more than 300 answers: its one
 *  function has 100 KB, and each of its jumps counts their length. */
const wasmFlags = ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'];
/** TurboFan takes a third of the CPU time of a crawl of 3,800 pages, much of it to inline what is seldom called
 *  and for passes that gain a slave little. In a master they gain more than they cost: without them it takes 9 %
 *  fewer new links a second, for at most 5 % less CPU time of such a crawl. */
const compilerFlags = [
  '--max-inlined-bytecode-size-cumulative=300',
  '--no-turbo-escape',
  '--no-turbo-loop-peeling',
];
/** V8 lets the heap of a master grow to four times what it needs before it collects, as long as that pays: the
 *  links of seconds ago, which stand in no queue any more. To half as much again costs 7 % of its new links a second
 *  at most, and gives back half of its memory. */
const masterFlags = ['--heap-growing-percent=50'];
/** The young part would grow to 16 MiB a half while the links of a commit survive, for no more links a second.
 *  The start lets it grow to 4, and then no more (see master/machine/young-heap.ts). Others than Node 20 have no
 *  such limit. */
const masterFlagsOf20 = [growthFlag(1)];
/** Those that a slave is started with, if somebody starts it without them: then they only say that the cache fits. */
const startFlags = ['--initial-old-space-size=48', '--min-semi-space-size=4'];
const slaveFlags = [...wasmFlags, ...compilerFlags, ...startFlags];
// Drivers of databases, which a crawl may write to, are looked for where master.js is.
const drivers = Object.keys(packageJson.peerDependencies).filter(
  (name) => !name.startsWith('@types/'),
);
// The library for programs in CommonJS. It looks for master.js from the place of the other one.
const library = build({
  ...common,
  entryPoints: ['library/main.ts'],
  outfile: 'dist/cjs/library/main.js',
  format: 'cjs',
  define: { 'import.meta.url': '__url' },
  banner: {
    js: "const __url=require('node:url').pathToFileURL(require('node:path').join(__dirname,'../../library/main.js')).href;",
  },
});
await Promise.all([
  ...[
    // lmdb loads `cluster`.
    program('master', ['lmdb', ...drivers], {
      own: masterFlags,
      ownOf20: masterFlagsOf20,
      young: { youngMb: 2, youngGrowth: 4 },
      modules: ['cluster', 'dns'],
    }),
    program('slave', ['sharp'], { own: slaveFlags, young: { youngMb: 4.5 }, modules: ['http'] }),
    build(bundle('selftest', [])),
  ],
  library,
]);
await makeStartCaches(root);

/**
 * The house style, as far as a program can check it: who imports what, where a process is touched,
 * and how long things are. Source: ARCHITECTURE.md, "Modules".
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const fileLinesMax = 480;
/** Tests are tables of cases, which do not get clearer by being cut. */
const testLinesMax = 600;
const columnsMax = 100;

type Locked = { integrity?: string };
type Source = { readonly path: string; readonly lines: readonly string[]; readonly code: string };

function sourcesIn(folder: string): Source[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /(?<!\.d)\.ts$/.test(file))
    .map((file) => {
      const path = join(folder, file);
      const text = readFileSync(join(root, path), 'utf8');
      return { path, lines: text.replace(/\n$/, '').split('\n'), code: withoutComments(text) };
    });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');
}

const programs = ['shared', 'master', 'slave', 'selftest', 'library'].flatMap(sourcesIn);
const all = [...programs, ...sourcesIn('test')];

/** The imports of a source, static and dynamic: paths from the root, or names of packages. */
function importsOf({ path, code }: Source): string[] {
  const pattern = /(?:\bfrom\s+|\bimport\s+|\bimport\()'([^']+)'/g;
  return [...code.matchAll(pattern)].map(([, name = '']) =>
    name.startsWith('.') ? relative(root, join(root, dirname(path), name)) : name,
  );
}

function sourceAt(path: string): Source {
  const found = all.find((source) => source.path === path);
  assert.ok(found, path);
  return found;
}

function packageOf(name: string): string {
  return name.split('/', name.startsWith('@') ? 2 : 1).join('/');
}

/** Says which sources break a rule. */
function nobody(rule: (source: Source) => boolean, sources: readonly Source[] = programs): void {
  assert.deepEqual(
    sources.filter(rule).map(({ path }) => path),
    [],
  );
}

test('tidy: there is something to check', () => {
  assert.ok(programs.length > 50);
  assert.ok(programs.some((source) => importsOf(source).includes('msgpackr')));
});

test('tidy: master and slave never import each other, shared imports neither', () => {
  const allowed: Record<string, string[]> = {
    shared: ['shared'],
    master: ['shared', 'master'],
    slave: ['shared', 'slave'],
    selftest: ['shared', 'selftest'],
    library: ['shared', 'library'],
  };
  nobody((source) => {
    const [folder = ''] = source.path.split('/');
    const targets = importsOf(source).filter((name) => name.endsWith('.ts'));
    return targets.some((target) => !allowed[folder]?.includes(target.split('/')[0] ?? ''));
  });
});

test('tidy: one dependency, one file', () => {
  const homes: Record<string, string[]> = {
    // Decoding of pages; encoding of the queries of their links.
    '@exodus/bytes': ['slave/extract/encodings.ts', 'slave/extract/resolve.ts'],
    // One command line each, and what both share.
    commander: [
      'master/cli/ask-options.ts',
      'master/cli/asks/asking.ts',
      'master/cli/config-file.ts',
      'master/cli/cookies.ts',
      'master/cli/crawl-file.ts',
      'master/cli/crawl-options.ts',
      'master/cli/options.ts',
      'master/cli/serve-options.ts',
      'master/cli/try.ts',
      'selftest/options.ts',
      'shared/cli.ts',
      'shared/help.ts',
      'slave/options.ts',
    ],
    'html-encoding-sniffer': ['slave/fetch/charset.ts'],
    entities: ['slave/extract/entities.ts'],
    // The tree of a page, and what reads it.
    'css-select': ['slave/rules/css.ts'],
    'css-what': ['slave/rules/css.ts'],
    // Sitemaps; the tokenizer alone for pages.
    htmlparser2: ['slave/extract/sitemap.ts', 'slave/rules/html-tree.ts'],
    'ipaddr.js': ['shared/address.ts'],
    '@redis/client': ['master/sinks/outputs/redis.ts'],
    'hyparquet-writer': ['master/sinks/outputs/parquet.ts'],
    mongodb: ['master/sinks/outputs/mongodb.ts'],
    mysql2: ['master/sinks/outputs/mysql.ts'],
    libsql: ['master/sinks/outputs/sqlite.ts'],
    lmdb: ['master/store/lmdb.ts'],
    postgres: ['master/sinks/outputs/postgres.ts'],
    msgpackr: ['shared/frame.ts'],
    pino: ['shared/log.ts'],
    'json-p3': ['slave/rules/json-path.ts'],
    'libxml2-wasm': ['slave/rules/xpath.ts'],
    // URLs in the master; pages in the child for rules.
    re2js: ['master/frontier/crawl/automaton.ts', 'slave/rules/pattern.ts'],
    tldts: [
      'master/frontier/crawl/scope.ts',
      'slave/fetch/cookies.ts',
      'slave/kinds/rendered-page.ts',
    ],
    // An optional one: looked for beside slave.js.
    sharp: ['slave/images/pixels.ts'],
    // Requests, connections, pools: each wraps a part of it.
    'tough-cookie': ['slave/fetch/cookies.ts'],
    undici: [
      'slave/fetch/clients.ts',
      'slave/fetch/connection.ts',
      'slave/fetch/connector.ts',
      'slave/fetch/library-connection.ts',
      'slave/fetch/origins.ts',
      'slave/fetch/proxy-client.ts',
      'slave/fetch/silence.ts',
    ],
    yaml: ['master/cli/yaml-file.ts'],
    // The schemas of the wire, of a crawl, and of the command lines, and what makes flags of them.
    zod: [
      'library/options.ts',
      'library/records.ts',
      'master/cli/crawl-file.ts',
      'master/cli/serve-options.ts',
      'shared/cli.ts',
      'shared/crawl.ts',
      'shared/flags.ts',
      'shared/follow.ts',
      'shared/archive.ts',
      'shared/archive-requests.ts',
      'shared/image-requests.ts',
      'shared/slave-requests.ts',
      'shared/images.ts',
      'shared/items.ts',
      'shared/outputs.ts',
      'shared/job-requests.ts',
      'shared/log.ts',
      'shared/protocol.ts',
      'shared/queue-requests.ts',
      'shared/login.ts',
      'shared/quick-check.ts',
      'shared/render.ts',
      'shared/requests.ts',
      'shared/result-fields.ts',
      'slave/options.ts',
    ],
  };
  const found: Record<string, string[]> = {};
  for (const source of programs) {
    for (const name of new Set(importsOf(source).map(packageOf))) {
      if (source.path.startsWith(name) || name.startsWith('node:')) continue;
      if (/^(shared|master|slave|selftest|library)$/.test(name)) continue;
      found[name] = [...(found[name] ?? []), source.path].sort();
    }
  }
  for (const [name, files] of Object.entries(found)) {
    const strangers = files.filter((file) => !homes[name]?.includes(file));
    assert.deepEqual(strangers, [], `${name} belongs into ${homes[name] ?? 'no file yet'}`);
  }
});

test('tidy: a process is touched by its options and its main alone', () => {
  const exceptions = [
    'selftest/program.ts', // a child inherits the environment
    'shared/calls.ts', // what called it, for the texts of all modules
    'shared/cli.ts', // runMain: exit codes of both programs
    'master/machine/local-slaves.ts', // gives its environment to slaves
    'master/machine/seed-command.ts', // the same, to a command of the operator
    'slave/supervisor.ts', // starts its own program again, once a process
    'library/run.ts', // gives its environment to a master, without the variables of options
  ];
  nobody((source) => {
    if (/^(options|main)\.ts$/.test(basename(source.path))) return false;
    if (exceptions.includes(source.path)) return false;
    return /process\.(env|argv|exit|exitCode)\b/.test(source.code);
  });
});

/** The rooms of the master, the lowest first. Source: ARCHITECTURE.md, "Modules". */
const rooms = [
  ...['machine', 'store', 'sinks', 'archive', 'images', 'frontier', 'queues', 'jobs'],
  ...['repair', 'inspect'],
  ...['extract', 'python', 'wire', 'cli'],
];

test('tidy: nothing below the wire knows a socket', () => {
  nobody((source) => {
    const isBelow = /^master\/(frontier|store|sinks|queues)\//.test(source.path);
    return isBelow && importsOf(source).some((name) => /^node:(net|tls|http)/.test(name));
  });
});

test('tidy: only the master and its parts, repair and inspect name a store', () => {
  nobody((source) => {
    const stores = importsOf(source).filter((name) => /store\/(lmdb|memory)\.ts$/.test(name));
    const mayName = /^master\/(main|master|parts|(repair|inspect)\/[\w-]+)\.ts$/;
    return stores.length > 0 && !mayName.test(source.path);
  });
});

test('tidy: the ways through the rooms of the master go down', () => {
  const roomOf = (path: string) => (path.split('/').length > 2 ? (path.split('/')[1] ?? '') : '');
  const inMaster = programs.filter(({ path }) => path.startsWith('master/'));
  const known = new Set(['', ...rooms]);
  nobody(({ path }) => !known.has(roomOf(path)), inMaster);
  nobody((source) => {
    const own = rooms.indexOf(roomOf(source.path));
    if (own < 0) return false;
    const targets = importsOf(source).filter((name) => name.startsWith('master/'));
    return targets.some((name) => roomOf(name) === '' || rooms.indexOf(roomOf(name)) > own);
  }, inMaster);
});

/** The face of the frontier for the rest of the master, and types of it without any code. */
const face = [
  ...['frontier', 'frontier-events', 'crawl/crawl-view', 'crawl/seed-hosts'],
  ...['commit/results', 'dispatch/leases', 'host-list', 'look/url-look', 'trace'],
].map((name) => `master/frontier/${name}.ts`);
/** Other imports that are allowed, each with its reason. */
const besidesTheFace: readonly (readonly [importer: RegExp, rooms: RegExp, why: string])[] = [
  [/^master\/parts\.ts$/, /\/rooms\.ts$/, 'makes the frontier, and ends it'],
  [/^master\/(cli\/\w+-?\w+|refusals)\.ts$/, /\/patterns\.ts$/, 'checks flags before a start'],
  [/^master\/cli\/serve-options\.ts$/, /\/grouping\.ts$/, 'the values of a flag'],
  [/^master\/cli\/trial\.ts$/, /\/robots\//, 'asks for one page, as politely as a crawl'],
  [/^master\/wire\/slave-abilities\.ts$/, /\/needs\.ts$/, 'slaves say what crawls need'],
  [/^master\/extract\//, /\/seen-names\.ts$/, 'the names of pages, as a crawl has them'],
  [/^master\/repair\//, /\/(kinds|filter)\//, 'works on a store without a frontier'],
];

test('tidy: outside, nothing of the frontier is imported but its face', () => {
  const used = new Set<string>();
  nobody((source) => {
    if (!/^master\/(?!frontier\/)/.test(source.path)) return false;
    const rooms = importsOf(source).filter((name) => name.startsWith('master/frontier/'));
    const others = rooms.filter((name) => !face.includes(name));
    return others.some((name) => {
      const exception = besidesTheFace.find(([who, of]) => who.test(source.path) && of.test(name));
      if (exception !== undefined) used.add(exception[2]);
      return exception === undefined;
    });
  });
  assert.equal(used.size, besidesTheFace.length, 'an exception that nobody needs');
});

test('tidy: the face of the frontier stays small', () => {
  const { code } = sourceAt('master/frontier/frontier.ts');
  const [, body = ''] = /^export class Frontier \{\n([\s\S]*?)^\}/m.exec(code) ?? [];
  const member = /^ {2}(?:(?:readonly|get|async) )*(?!readonly|get |async|constructor)([a-z]\w*)/gm;
  const members = [...body.matchAll(member)].map(([, name = '']) => name);
  assert.ok(members.includes('report') && members.includes('crawls'), `${members}`);
  assert.ok(members.length <= 24, `${members.length}: ${members}`);
});

test('tidy: only a crawl changes its state and its numbers', () => {
  nobody(({ path, code }) => {
    if (path.startsWith('master/frontier/crawl/')) return false;
    return /\bcounters(\.\w+)+\s*(\+\+|--|[+-]?=[^=])|\bcrawl\.state\s*=[^=]/.test(code);
  });
});

test('tidy: the kinds of tasks alone compare the kinds of tasks', () => {
  const home = 'master/frontier/kinds/';
  const names = programs
    .filter(({ path }) => path.startsWith(home))
    .map(({ path }) => basename(path, '.ts'))
    .filter((name) => !/^kinds?$/.test(name))
    .join('|');
  assert.match(names, /page/);
  const kind = '(?:\\b(?:task|record)\\.kind\\b|\\bkindOf\\([^()]*\\)(?:\\.(?:name|number))?)';
  const named = `(?:'(?:${names})'|\\b(?:page|robots)Kind\\b)`;
  const patterns = [
    ...[`${kind}\\s*[!=]==`, `[!=]==\\s*${kind}(?!\\.)`, `switch \\(.*${kind}\\)`],
    ...[`${named}\\s*[!=]==`, `[!=]==\\s*${named}`, '\\bkind\\s*[!=]==\\s*\\d'],
  ];
  const compared = new RegExp(patterns.join('|'));
  for (const one of ["task.kind !== 'page'", 'kindOf(task).name === x', 'record.kind === 0']) {
    assert.match(one, compared);
  }
  for (const one of ["kindOf(task).owner === 'host'", "error.kind === 'dns'"]) {
    assert.doesNotMatch(one, compared);
  }
  nobody(({ path, code }) => {
    return path.startsWith('master/') && !path.startsWith(home) && compared.test(code);
  });
});

test('tidy: on a slave, too, the kinds of tasks alone compare or import one', () => {
  const home = 'slave/kinds/';
  const listed = importsOf(sourceAt(`${home}kinds.ts`)).filter((name) => name.startsWith(home));
  const kinds = listed.filter((name) => name !== `${home}kind.ts`);
  assert.ok(kinds.length >= 3, `${kinds}`);
  const name = `'(?:${kinds.map((path) => basename(path, '.ts')).join('|')})'`;
  const compared = new RegExp(String.raw`\bkind\b\)?\s*(?:[!=]==?|\?\?)\s*${name}`);
  const turned = new RegExp(String.raw`${name}\s*[!=]==?\s*[\w.]*\bkind\b`);
  const switched = new RegExp(String.raw`\bswitch \([\w.]*\bkind\)[^}]*\bcase ${name}:`);
  const isOf = (code: string) => [compared, turned, switched].some((way) => way.test(code));
  for (const one of ["task.kind === 'robots'", "switch (kind) {\n case 'sitemap':"]) {
    assert.ok(isOf(one), one);
  }
  const others = programs.filter(({ path }) => /^slave\/(?!kinds\/)/.test(path));
  // There, an image is an element.
  nobody(({ path, code }) => !path.startsWith('slave/extract/') && isOf(code), others);
  nobody((source) => importsOf(source).some((path) => kinds.includes(path)), others);
});

/** `path name` of each export that a source imports, under its own name or that of its module. */
function namesUsedBy({ path, code }: Source): string[] {
  const target = (file: string) => relative(root, join(root, dirname(path), file));
  const named = [...code.matchAll(/\{([^{}]*)\} from '(\.[^']+)'/g)].flatMap(
    ([, names = '', file = '']) =>
      names
        .split(',')
        .map((name) => `${target(file)} ${name.replace(/\btype | as .*/g, '').trim()}`),
  );
  const whole = [...code.matchAll(/\* as (\w+) from '(\.[^']+)'/g)].flatMap(
    ([, module = '', file = '']) =>
      [...code.matchAll(new RegExp(`\\b${module}\\.(\\w+)`, 'g'))].map(
        ([, name = '']) => `${target(file)} ${name}`,
      ),
  );
  return [...named, ...whole];
}

test('tidy: what is exported is imported somewhere', () => {
  const used = new Set(all.flatMap(namesUsedBy));
  // The package's entry: its users are elsewhere.
  const sources = all.filter(({ path }) => !/^library\/|^shared\/client\.ts$/.test(path));
  const pattern = /^export (?:abstract |async )?(?:const|function\*?|class|type|interface) (\w+)/gm;
  const exported = sources.flatMap(({ path, code }) =>
    [...code.matchAll(pattern)].map(([, name = '']) => `${path} ${name}`),
  );
  assert.deepEqual(
    exported.filter((name) => !used.has(name)),
    [],
  );
});

test('tidy: ARCHITECTURE.md names every module, and none that is not there', () => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
  const [, map = ''] = /^## Modules[\s\S]*?```\n([\s\S]*?)```/m.exec(text) ?? [];
  const words = new Set(map.match(/[a-z][a-z-]*[a-z*]/g));
  const nameOf = (path: string) => basename(path, '.ts');
  nobody(({ path }) => !words.has(nameOf(path)));
  // An arrow points to a module, or a folder of them.
  const modules = new Set(programs.map(({ path }) => nameOf(path)));
  const used = [...map.matchAll(/→ ([a-z][a-z-]*)(?!\/)\b/g)].map(([, name = '']) => name);
  const folders = programs.map(({ path }) => basename(dirname(path)));
  assert.deepEqual(
    used.filter((name) => !modules.has(name) && !folders.includes(name)),
    [],
  );
});

test('tidy: files and lines are short', () => {
  nobody(({ lines }) => lines.length > fileLinesMax);
  nobody(({ lines }) => lines.length > testLinesMax, all);
  const long = all.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) => (isLong(line) ? [`${path}:${i + 1}`] : [])),
  );
  assert.deepEqual(long, []);
});

test('tidy: no default exports, no any, no assertions that something is there', () => {
  nobody(({ code }) => /\bexport default\b|\bas default\b/.test(code), all);
  nobody(({ code }) => /(:|<|\bas|\|)\s*any\b(?!\w)/.test(stringless(code)), all);
  nobody(({ code }) => /@ts-(ignore|nocheck|expect-error)/.test(stringless(code)), all);
  nobody(({ code }) => /\b(enum|namespace)\s+\w+\s*\{/.test(stringless(code)));
});

test('tidy: files are kebab-case nouns, never a drawer', () => {
  nobody(({ path }) => !/^[a-z0-9]+(-[a-z0-9]+)*(\.test)?\.ts$/.test(basename(path)), all);
  nobody(({ path }) => /^(utils?|helpers?|common|types|index|misc)\.ts$/.test(basename(path)), all);
});

test('tidy: every program file says at its head what it is for', () => {
  nobody(({ lines }) => !lines[0]?.startsWith('/**'));
});

test('tidy: the actor comes first in comments, no clause such as "what was read"', () => {
  const clause = /^\s*(?:\/\/|\/?\*+)\s(?:.*[.:;]\s)?(?:What|Who|Whoever|Whatever) [a-z][^?]*$/;
  const found = all.flatMap(({ path, lines }) =>
    lines.flatMap((line, i) => (clause.test(line) ? [`${path}:${i + 1}`] : [])),
  );
  assert.deepEqual(found, []);
});

test('tidy: what the lock file names is checked when it is installed', () => {
  const text = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(text) as { packages: Record<string, Locked> };
  const unchecked = Object.entries(packages).filter(([path, { integrity = '' }]) => {
    return path !== '' && !integrity.startsWith('sha512-');
  });
  assert.deepEqual(
    unchecked.map(([path]) => path),
    [],
  );
});

test('tidy: native code and scripts of packages stay out', () => {
  const text = readFileSync(join(root, 'package.json'), 'utf8');
  const { dependencies } = JSON.parse(text) as { dependencies: Record<string, string> };
  for (const version of Object.values(dependencies)) assert.match(version, /^\d+\.\d+\.\d+$/);
});

/** A literal or a drawing cannot be broken, so biome leaves them alone, too. */
function isLong(line: string): boolean {
  if ([...line].length <= columnsMax) return false;
  return !/<loc>|'.{30,}'|".{30,}"|`.{30,}|\/.{30,}\/i?[;,]|[─▶└┘]/.test(line);
}

function stringless(code: string): string {
  return code.replace(/'[^'\n]*'|`[^`]*`/g, "''");
}

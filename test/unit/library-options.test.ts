/** The options of the library are those of a crawl, and say it in the words of the program. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { flagOf, ownWords, startOf } from '../../library/options.ts';
import { specFlags } from '../../master/cli/crawl-options.ts';

const source = fileURLToPath(new URL('../../../library/options.ts', import.meta.url));

test('library options: every option of a crawl has a type', () => {
  const typed = new Set(
    [...readFileSync(source, 'utf8').matchAll(/^ {2}(\w+)\?: /gm)].map(([, n]) => n),
  );
  // A loop ends with its crawl, and a series of crawls never does.
  const ofSeries = ['--every', '--keep'];
  const missing = specFlags().filter(
    (option) => !typed.has(option.attributeName()) && !ofSeries.includes(option.long ?? ''),
  );
  assert.deepEqual(
    missing.map(({ long }) => long),
    [],
  );
  for (const option of specFlags())
    assert.equal(`--${flagOf(option.attributeName())}`, option.long);
});

test('library options: a message names the option as the program gives it', () => {
  const said = (text: string) => ownWords(`/tmp/x.json${text}`, '/tmp/x.json');
  assert.equal(said(':3: max-depth: must be'), 'maxDepth: must be');
  assert.equal(
    said(':3: maxDepht: there is no such key; did you mean max-depth?'),
    'maxDepht: there is no such key; did you mean maxDepth?',
  );
  assert.equal(
    said(':3: fooBar: there is no such key; see docs/crawl-files.md'),
    'fooBar: there is no such option; see docs/library.md',
  );
  assert.equal(
    said(':3: exit-when-done: is an option of the master, not of a crawl: start the master with …'),
    'exitWhenDone: is an option of the command line: crawl has no such option',
  );
  assert.equal(said(' is not YAML'), 'the crawl is not YAML');
});

test('library options: link is no kind that a loop gets', () => {
  const said = /^kinds: there is no kind "link"; .*, item, rejected$/;
  assert.throws(() => startOf('http://a/', { kinds: ['link'] }), { message: said });
});

test('library options: a page function is a file, which slaves get by a variable', () => {
  assert.throws(
    () => startOf('http://a/', { page: 'none.mjs' }),
    /page: there is no file \/.*none/,
  );
  assert.throws(() => startOf('http://a/', { page: '.' }), /page: there is no file/);
  assert.throws(() => startOf('http://a/', { page: 5 as never }), /page must be the path of a/);
  const { env, file, flags } = startOf('http://a/', { page: source });
  assert.deepEqual(env, { ORB_PAGE: source });
  assert.ok(!file.includes('page') && !flags.some((flag) => flag.includes('page')));
});

test('library options: a log and a signal that could not be used are refused', () => {
  assert.throws(() => startOf('http://a/', { log: 5 as never }), /^\w+: log must be a function/);
  const signal = new AbortController() as never;
  assert.throws(() => startOf('http://a/', { signal }), /signal must be an AbortSignal/);
});

test('library options: what JSON would drop is refused', () => {
  const items = { a: { fields: { t: () => 1 } } } as never;
  assert.throws(() => startOf('http://a/', { items }), /items\.t must be text, a number/);
  assert.throws(() => startOf('http://a/', { include: /x/ as never }), /include must be text/);
  assert.throws(() => startOf([], {}), /crawl takes a URL/);
  assert.deepEqual(JSON.parse(startOf('http://a/', { maxDepth: 2, slaves: 3 }).file), {
    seeds: ['http://a/'],
    'max-depth': 2,
  });
});

test('library options: kinds are a list', () => {
  const kinds = 'item' as unknown as readonly ['item'];
  assert.throws(() => startOf('http://a/', { kinds }), /^ConfigError: kinds must be a list/);
});

test('library options: an option that is undefined has its default', () => {
  const { flags } = startOf('http://a/', { slaves: undefined } as never);
  assert.deepEqual(flags, ['--slaves=1', '--log-level=warn']);
});

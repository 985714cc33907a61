/** Crawl files: what they say, and the line, the key and the fix of what is wrong with them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { mastersKeys, readCrawlFile } from '../../master/cli/crawl-file.ts';
import { specFlags } from '../../master/cli/crawl-options.ts';
import { explained, plainSeeds } from '../../master/cli/explain.ts';
import { allServeFlags } from '../../master/cli/serve-options.ts';
import { ConfigError } from '../../shared/errors.ts';

/** Reads a crawl file with this text. */
function read(t: TestContext, text: string | Buffer, name = 'f.yaml') {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  writeFileSync(path, text);
  return readCrawlFile(path);
}

test('crawl file: options by the names of their flags, seeds with ranges, and items', (t) => {
  const file = read(
    t,
    `crawl: books
max-depth: 3
header: ["X-A: 1", "X-B: 2"]
canonical: true
seeds: ["http://a/{1..3}", "http://a/x-{08..10}?p={0..60..30}", "http://b/{3..1}"]
items: { p: { fields: { t: title } } }
`,
  );
  assert.equal(file.crawl, 'books');
  assert.equal(file.spec.maxDepth, 3);
  assert.equal(file.spec.canonical, true);
  assert.deepEqual(file.spec.fetch.headers, [
    ['X-A', '1'],
    ['X-B', '2'],
  ]);
  assert.deepEqual(plainSeeds(file.list), [
    ...['http://a/1', 'http://a/2', 'http://a/3'],
    ...['http://a/x-08?p=0', 'http://a/x-08?p=30', 'http://a/x-08?p=60'],
    ...['http://a/x-09?p=0', 'http://a/x-09?p=30', 'http://a/x-09?p=60'],
    ...['http://a/x-10?p=0', 'http://a/x-10?p=30', 'http://a/x-10?p=60'],
    ...['http://b/3', 'http://b/2', 'http://b/1'],
  ]);
  assert.deepEqual(file.items, { p: { fields: { t: 'title' } } });
});

test('crawl file: JSON is read, too', (t) => {
  const text = JSON.stringify({ crawl: 'j', seeds: ['http://a/'], 'max-pages': 5 });
  const { crawl, list, spec } = read(t, text, 'f.json');
  assert.deepEqual(
    { crawl, seeds: plainSeeds(list), pages: spec.maxPages },
    { crawl: 'j', seeds: ['http://a/'], pages: 5 },
  );
});

test('crawl file: output and outputs at once are refused', (t) => {
  assert.throws(
    () => read(t, 'output: ["csv:a.csv"]\noutputs: ["csv:b.csv"]\n'),
    /:1: output: outputs is there, too: write all of them in outputs/,
  );
});

test('crawl file: outputs name its rules beside a download, and none of its folders', (t) => {
  const rules = 'items: {p: {fields: {t: h1}}}\ndownload: images\n';
  const file = read(
    t,
    `${rules}outputs:\n  - {csv: a.csv, rule: p}\n  - {sqlite: a.db, key: [t]}\n`,
  );
  assert.deepEqual(
    file.outputs.map(({ name, records }) => [name, records]),
    [
      ['csv', 'items'],
      ['sqlite', 'items'],
    ],
  );
  const said = explained(file).filter((line) => line.startsWith('  download'));
  assert.deepEqual(said, ['  download: "images"']);
  assert.throws(() => read(t, `${rules}outputs:\n  - csv: images/a.csv\n`), /:4: outputs\.0: /);
});

test('crawl file: all options of the master are known to be its own', () => {
  const names = (options: readonly { long?: string | undefined }[]) =>
    options.map(({ long }) => long?.slice(2) ?? '');
  const visible = allServeFlags().filter(({ hidden }) => !hidden);
  const ofCrawls = [...names(specFlags()), 'crawl', 'seeds'];
  const own = names(visible).filter((name) => !ofCrawls.includes(name));
  assert.deepEqual([...mastersKeys].sort(), own.sort());
});

test('crawl file: what is wrong is named with its line, its key and the fix', (t) => {
  const cases: [string, RegExp][] = [
    ['maxdepth: 2\n', /\.yaml:1: maxdepth: there is no such key; did you mean max-depth\?/],
    ['slaves: 2\n', /:1: slaves: is an option of the master, .* start the master with --slaves/],
    ['exit-when-done: true\n', /:1: exit-when-done: is an option of the master, not of a crawl/],
    [
      'seeds:\n  - {fetch: "http://a/", pattern: "(", make: "http://a/$1"}\n',
      /:2: seeds\.0\.pattern: "\(" is not a regular expression/,
    ],
    [
      'every: 24h\nseeds:\n  - {file: a, every: 5m}\n',
      /:3: seeds\.0\.every: the whole crawl is repeated, .*leave this out/,
    ],
    ['max-depth: many\n', /\.yaml:1: max-depth: It must be a whole number from 0 to 65535/],
    ['include: ["(?=x)"]\n', /\.yaml:\d: include: .*\(\?=/],
    ['crawl: a b\n', /\.yaml:1: crawl: must be 1 to 64 letters/],
    ['seeds: http://a/\n', /\.yaml:1: seeds: must be a list of URLs/],
    [
      'seeds:\n  - http://a/\n  - a.example\n',
      /\.yaml:3: seeds\.1: .*write it in full: https:\/\/a/,
    ],
    ['seeds: ["http://a/{1..2000000}"]\n', /\.yaml:1: seeds\.0: makes more than 1000000 seeds/],
    ['seeds: ["http://a/{1..x}"]\n', /seeds\.0: has a range that is not \{FIRST\.\.LAST\}/],
    ['seeds: [{a: b}]\n', /seeds\.0: must be a URL, .* or one of \{url: …\}/],
    ['seeds: [{file: a, sitemap: b}]\n', /seeds\.0: must be a URL/],
    ['seeds:\n  - {file: a, evry: 1m}\n', /:2: seeds\.0\.evry: .*it has file, every/],
    ['seeds: [{file: 3}]\n', /seeds\.0\.file: must be text/],
    ['seeds: [{file: a, every: 15}]\n', /seeds\.0\.every: must be a time such as 30s/],
    ['seeds: [{file: a, every: 0s}]\n', /seeds\.0\.every: must be a time/],
    ['seeds: [{sitemap: a.example}]\n', /seeds\.0\.sitemap: .*write it in full/],
    ['seeds: [{fetch: "http://a/", pattern: x}]\n', /seeds\.0\.make: must be a URL with \$1/],
    [
      'seeds: [{fetch: "http://a/", pattern: x, make: "http://a/$2$1"}]\n',
      /seeds\.0\.make: may have \$1 alone/,
    ],
    [
      'seeds: [{fetch: "http://a/", pattern: x, make: "http://a/{1..$1*2}"}]\n',
      /seeds\.0\.make: has a range that is not/,
    ],
    ['seeds: [{command: "ls -l"}]\n', /seeds\.0\.command: must be a list .* no shell/],
    ['seeds: [{command: [ls, 3]}]\n', /seeds\.0\.command: must be a list of texts/],
    ['seeds: [{command: [ls], timeout: 2h}]\n', /seeds\.0\.timeout: must be at most 1h/],
    ['seeds: [{url: "http://a/"}]\n', /seeds\.0: must have either json or form/],
    ['seeds: [{url: "http://a/", method: PUT, json: 1}]\n', /seeds\.0\.method: must be POST/],
    ['seeds: [{url: "http://a/", form: [1]}]\n', /seeds\.0\.form: must be names and values/],
    [
      'seeds: [{url: "http://a/", json: 1, headers: {Host: b}}]\n',
      /seeds\.0\.headers\.Host: is set by the slave itself/,
    ],
    [
      `seeds: [{url: "http://a/", json: ${'x'.repeat(65_536)}}]\n`,
      /seeds\.0: has a body of 65538 bytes; at most 65536/,
    ],
    [
      'render: auto\nproxy: "http://127.0.0.1:1"\n',
      /:1: render: cannot be used with --proxy: the browser would not go through it/,
    ],
    [
      'every: 1h\noutputs: [csv:/tmp/a.csv]\n',
      /:2: outputs: must not name \/tmp\/a\.csv with every/,
    ],
    ['seeds: [{file: a, every: {toString: 1}}]\n', /:1: seeds\.0\.every: must be a time/],
    ['seeds: [{url: "http://a/", json: 1, headers: {A: {toString: 1}}}]\n', /headers\.A: must be/],
    ['items: {p: {match: [/a/], fields: {a: b}}}\n', /items\.p\.match: must be a pattern of URLs/],
    [
      'items: {p: {match: ^/a, fields: {a: b}}}\n',
      /:1: items\.p\.match: "\^\/a" matches no URL, as each begins with http; write "\^https/,
    ],
    [
      'items: {p: {match: {url: /über/}, fields: {a: b}}}\n',
      /items\.p\.match\.url: "\/über\/" matches no URL, as they are ASCII; write %C3%BC for ü/,
    ],
    ['items: {p: {fields: {a: [h1]}}}\n', /items\.p\.fields\.a: must be a selector/],
    ['items: {p: {each: [li], fields: {a: b}}}\n', /items\.p\.each: must be a selector/],
    ['items: {p: {fields: {a: {header: [b]}}}}\n', /fields\.a\.header: must be the name/],
    ['shard: 4/3\n', /:1: shard: must be such as 2\/3/],
    ['shard: {toString: h1}\n', /shard: must be such as 2\/3/],
    ['render: !!binary aGk=\n', /:1: render: must be text, not !!binary/],
    ['follow: [a.next]\n', /:1: follow\.0: must be a map, such as \{css: a\.next\}/],
    ['items: {p: h1}\n', /:1: items\.p: must be a map, such as \{fields: \{title: h1\}\}/],
    ['shard: 0.5\n', /shard: must be such as 2\/3/],
    ['shard: 1/2\nseeds: [{file: a, every: 1m}]\n', /:1: shard: goes by the position in a list/],
    [
      'items:\n  p:\n    feilds: {a: b}\n',
      /\.yaml:2: items\.p: has neither fields|feilds: .*fields/,
    ],
    [
      'items:\n  p:\n    fields:\n      a: {css: a, typ: number}\n',
      /\.yaml:4: items\.p\.fields\.a\.typ: .*type/,
    ],
    [
      'items:\n  p:\n    fields:\n      a: 3\n',
      /\.yaml:4: items\.p\.fields\.a: must be a selector/,
    ],
    ['crawl: 2026\n', /:1: crawl: must be 1 to 64 letters.*put it into quotes/],
    ['crawl:\n', /:1: crawl: must be 1 to 64 letters.*put it into quotes/],
    ['items:\n', /:1: items: must be rules by their names; leave it out for none/],
    ['items: [a]\n', /:1: items: must be rules by their names/],
    [
      'items:\n  my book: {fields: {a: b}}\n',
      /:2: items\.my book: is not a name: write at most 64 letters \(a to z\)/,
    ],
    ['items: {p: {fields: {größe: b}}}\n', /items\.p\.fields\.größe: is not a name/],
    ['items: {p: {fields: [a]}}\n', /items\.p\.fields: must be names and selectors/],
    ['__proto__: 1\n', /:1: __proto__: there is no such key/],
    ['crawl: a\ncrawl: b\n', /is not YAML: Map keys must be unique/],
    ['crawl: a\n---\ncrawl: b\n', /\.yaml:2: must be one document, without ---/],
    ['\tcrawl: a\n', /is not YAML/],
    ['seeds:\n  - http://a/\n  - *b\n', /is not YAML: Unresolved alias .*: b at line 3$/],
    ['items:\n  a:\n    <<: text\n', /is not YAML: Merge sources must be maps.* at line 3$/],
    ['crawl: !name a\n', /is not YAML: Unresolved tag: !name at line 1, column 8$/],
    [
      'outputs:\n  - csv: a.csv\n  - {sqlite: a.csv}\n',
      /:3: outputs\.1: must not name the file a\.csv, which a csv output has/,
    ],
    [
      'items: {p: {fields: {_seq: b}}}\noutputs: [sqlite:a.db]\n',
      /:2: outputs\.0: must not have the field _seq/,
    ],
    ['outputs: [{csv: }]\n', /:1: outputs\.0: must name a file/],
    [
      'follow: [{css: a}]\nitems:\n  follow: {fields: {t: h1}}\n',
      /:3: items\.follow: the rules of follow are counted under this name; take another one/,
    ],
    ['items: [\n', /\.yaml is not YAML/],
    ['- a\n', /f\.yaml must hold keys/],
  ];
  for (const [text, message] of cases) {
    assert.throws(
      () => read(t, text),
      (error) => error instanceof ConfigError && message.test(error.message),
      `${text} ${message}`,
    );
  }
});

test('crawl file: a body of null is one', (t) => {
  const { list } = read(t, 'seeds: [{url: "http://a/", json: null}]\n');
  const [part] = list.parts;
  assert.ok(part !== undefined && 'requests' in part);
  assert.equal(String(part.requests[0]?.body), 'null');
});

test('crawl file: << takes over the keys of another map, and an alias may stand often', (t) => {
  const fields = Array.from({ length: 40 }, (_, n) => `      f${n}: *price`);
  const { items } = read(
    t,
    `items:
  book: &book
    each: article
    fields:
      price: &price {css: .price, type: number}
${fields.join('\n')}
  offer:
    <<: *book
    each: .offer
`,
  );
  const { book, offer } = items;
  assert.deepEqual([book?.each, offer?.each], ['article', '.offer']);
  assert.deepEqual(Object.keys(offer?.fields ?? {}).length, 41);
  assert.deepEqual(offer?.fields, book?.fields);
});

test('crawl file: aliases that grow are refused', (t) => {
  const bomb = ['a: &a [x,x,x,x,x,x,x,x]'];
  for (const [from, to] of ['ab', 'bc', 'cd', 'de', 'ef']) {
    bomb.push(`${to}: &${to} [${Array(8).fill(`*${from}`).join(',')}]`);
  }
  assert.throws(() => read(t, `${bomb.join('\n')}\n`), ConfigError);
});

test('crawl file: what holds itself, is deep, or has a key that would be lost is refused', (t) => {
  const fields = 'items:\n  a: {each: div, fields: {x: &f {each: div, fields: {y: *f}}}}\n';
  assert.throws(
    () => read(t, fields),
    /\.yaml:2: items\.a\.fields\.x.*: is more than 50 levels deep/,
  );
  const deep = `{"seeds": ${'['.repeat(400)}${']'.repeat(400)}}`;
  assert.throws(() => read(t, deep, 'f.json'), /\.json:1: seeds\.0\..*: is more than 50 levels/);
  const lost = 'items:\n  a:\n    fields: {t: h1, __proto__: h2}\n';
  assert.throws(() => read(t, lost), /\.yaml:3: items\.a\.fields\.__proto__: cannot be a key/);
});

test('crawl file: a file that is not UTF-8, and one that is none, are refused', (t) => {
  const latin = Buffer.from('crawl: a\nitems: {a: {fields: {t: "caf\xe9"}}}\n', 'latin1');
  assert.throws(() => read(t, latin), /\.yaml:2: is not UTF-8$/);
  assert.throws(() => readCrawlFile('/dev/zero'), /^ConfigError: \/dev\/zero is not a file$/);
});

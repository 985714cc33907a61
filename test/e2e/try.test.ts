/** `check` and `try`: a crawl file, and its rules on one page of a real server. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { TrialPage } from '../../shared/rule-results.ts';
import { Cluster } from '../support/cluster.ts';
import { httpServer } from '../support/http-server.ts';

const timeout = 60_000;

const books = `crawl: books
max-depth: 2
delay: 0
seeds: ["http://127.0.0.1/cat/page-{1..3}.html", "http://127.0.0.1/x-{01..10..3}"]
items:
  book:
    match: /cat/
    each: article
    fields:
      title: h3 a::attr(title)
      price: { css: .price, regex: "[\\\\d.]+|free", type: number, required: true }
      link: { css: "a::attr(href)", type: url }
  cells:
    each: //table/tbody/tr
    fields: { first: "./td[1]" }
`;
const page = `<article><h3><a title=One href=1.html>a</a></h3><p class=price>£12.50</article>
<article><h3><a title=Two href=2.html>b</a></h3><p class=price>free</article>
<table><tr><td>1</table>`;

async function site(t: TestContext): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const port = await httpServer(t, ({ url = '' }, response) => {
    asked.push(url);
    const html = { 'content-type': 'text/html; charset=utf-8' };
    if (url === '/robots.txt') response.end('User-agent: *\nDisallow: /cat/private\n');
    else if (url === '/cat/away') response.writeHead(302, { location: '/cat/private' }).end();
    else if (url === '/cat/image')
      response.writeHead(200, { 'content-type': 'image/png' }).end('x');
    else if (url === '/cat/json') {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"list":[{"n":1},{"n":2}]}');
    } else if (url.startsWith('/cat/')) response.writeHead(200, html).end(page);
    else response.writeHead(404, html).end('no');
  });
  return { url: `http://127.0.0.1:${port}`, asked };
}

/** Runs a command in a folder with these files. */
async function run(
  t: TestContext,
  args: readonly string[],
  files: Record<string, string>,
  env?: NodeJS.ProcessEnv,
) {
  const cluster = new Cluster(t);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cluster.folder, name), text);
  const program = cluster.run(['master.js', ...args], env && { env: { ...process.env, ...env } });
  const { code } = await program.exited;
  return { code, output: program.output, stdout: program.stdout };
}

describe('check and try', { concurrency: 2 }, () => {
  test('try: says that it shows a page that would be rendered as it came', {
    timeout,
  }, async (t) => {
    const { url } = await site(t);
    const file = books.replace('delay: 0', 'delay: 0\nrender: auto');
    const always = file.replace('auto', 'true');
    const files = { 'b.yaml': file, 'c.yaml': always };
    const env = { ORB_BROWSER_PROGRAM: '/nowhere', ORB_NO_SANDBOX: 'true' };
    // `auto` needs no browser where something is found without.
    const plain = await run(t, ['try', 'b.yaml', `${url}/cat/1`], files, env);
    assert.doesNotMatch(plain.output, /no browser/);
    const { output } = await run(t, ['try', 'c.yaml', `${url}/cat/1`], files, env);
    assert.match(
      output,
      /c\.yaml: try has no browser: .* before its scripts \(\/nowhere is no program; see/,
    );
    assert.match(output, /book: 1 row/);
  });

  test('check: explains a crawl file, and warns about paths of a browser', {
    timeout,
  }, async (t) => {
    const files = {
      'books.yaml': `${books}outputs:
  - csv: books.csv
  - {sqlite: b.db, rule: book, key: [link], on-conflict: update, table: old}
`,
    };
    const { code, output } = await run(t, ['check', 'books.yaml'], files);
    assert.equal(code, 0, output);
    assert.match(output, /^ {2}output csv \(csv:books\.csv\): items$/m);
    const rows = 'items of rule book; table old; key link: the last row stays';
    assert.ok(output.includes(`  output sqlite (sqlite:b.db): ${rows}\n`), output);
    assert.match(output, /^books\.yaml is valid: crawl books, 7 seeds$/m);
    assert.match(output, /^book: pages whose URL has \/cat\/; a row for each CSS article$/m);
    assert.match(
      output,
      /^ {2}price {2}CSS \.price, pattern \[\\d\.\]\+\|free, number, required$/m,
    );
    assert.match(
      output,
      /^warning: books\.yaml:14: items\.cells\.each: has tbody: browsers add it/m,
    );
  });

  test('check: warns about keys that do nothing', { timeout }, async (t) => {
    const idle = `seeds: ["http://a/"]
follow: [{css: a.next, priority: 10}]
download: {images: {store: none}}
`;
    const { code, output } = await run(t, ['check', 'c.yaml'], { 'c.yaml': idle });
    assert.equal(code, 0, output);
    assert.match(output, /^warning: c\.yaml:2: follow\.0\.priority: .* without order: priority$/m);
    assert.match(output, /^warning: c\.yaml:3: download\.images\.store: .* archive: warc;/m);
    const used = `order: priority\narchive: warc\n${idle}`;
    assert.doesNotMatch((await run(t, ['check', 'c.yaml'], { 'c.yaml': used })).output, /warning/);
  });

  test('check: warns about columns that no rule has', { timeout }, async (t) => {
    const file = (output: string) => `seeds: ["http://a/"]
items:
  book: { fields: { title: h1 } }
  row: { zip: { price: .price } }
outputs:
  - ${output}
`;
    const text = file('{csv: a.csv, rule: book, columns: [title, price, item, at]}');
    const { code, output } = await run(t, ['check', 'c.yaml'], { 'c.yaml': text });
    assert.equal(code, 0, output);
    const says =
      /^warning: c\.yaml:6: outputs\.0\.columns: no rule has the field price, at: .*value/m;
    assert.match(output, says);
    // Those of a page function, too, which no rule has.
    for (const fine of ['columns: [title, price, item]', 'rule: page, columns: [any]']) {
      const well = file(`{csv: a.csv, ${fine}}`);
      const { output: said } = await run(t, ['check', 'c.yaml'], { 'c.yaml': well });
      assert.doesNotMatch(said, /warning/);
    }
  });

  test('check: names line, key and fix of what is wrong', { timeout }, async (t) => {
    const cases: [string, RegExp][] = [
      ['maxdepth: 2\n', /f\.yaml:1: maxdepth: there is no such key; did you mean max-depth\?/],
      [
        'items:\n  p:\n    fields:\n      a: "a["\n      b: "//a["\n',
        /f\.yaml:4: items\.p\.fields\.a: is not a CSS.*; f\.yaml:5: items\.p\.fields\.b: is not valid/,
      ],
    ];
    const cluster = new Cluster(t);
    for (const [text, message] of cases) {
      writeFileSync(join(cluster.folder, 'f.yaml'), text);
      const program = cluster.run(['master.js', 'check', 'f.yaml']);
      const { code } = await program.exited;
      assert.equal(code, 2, `${text}: ${program.output}`);
      assert.match(program.output, message);
    }
  });

  test('try: shows what each rule finds on a page', { timeout }, async (t) => {
    const { url, asked } = await site(t);
    const files = { 'books.yaml': books };
    const { code, output } = await run(t, ['try', 'books.yaml', `${url}/cat/1`], files);
    assert.equal(code, 0, output);
    assert.deepEqual(asked, ['/robots.txt', '/cat/1']);
    assert.match(output, /^book: 1 row, 1 rejected$/m);
    assert.match(output, /^ {2}price {2}1 of 2 {2}12\.5; some are not of the type$/m);
    assert.match(output, /rejected: price: "free" is not a number: /);
    assert.match(output, /^cells: 0 rows$/m);
    assert.match(output, /^the page has no tbody at all$/m);
    const json = await run(t, ['try', 'books.yaml', `${url}/cat/1`, '--json'], files);
    const { status, charset, rules } = JSON.parse(json.stdout) as TrialPage;
    assert.deepEqual({ status, charset }, { status: 200, charset: 'utf-8' });
    assert.ok(rules !== undefined && 'result' in rules);
    assert.deepEqual(rules.result.rows, [
      { rule: 'book', values: { title: 'One', price: 12.5, link: `${url}/cat/1.html` } },
    ]);
  });

  test('try: asks for nothing that robots.txt disallows, nor for another host', {
    timeout,
  }, async (t) => {
    const { url, asked } = await site(t);
    const files = { 'books.yaml': books, 'own.yaml': `ignore-robots: true\n${books}` };
    const { code, output } = await run(t, ['try', 'books.yaml', `${url}/cat/private`], files);
    assert.equal(code, 2, output);
    assert.match(output, /robots\.txt of .* disallows .*ignore-robots: true/);
    const away = await run(t, ['try', 'books.yaml', `${url}/cat/away`], files);
    assert.equal(away.code, 1, away.output);
    assert.match(away.output, /redirects to .*\/cat\/private; try that URL/);
    assert.ok(!asked.includes('/cat/private'), asked.join());
    const own = await run(t, ['try', 'own.yaml', `${url}/cat/private`], files);
    assert.equal(own.code, 0, own.output);
  });

  test('try: says why there is nothing to evaluate', { timeout }, async (t) => {
    const { url } = await site(t);
    const json = 'items: {n: {each: "$.list[*]", fields: {n: $.n}}}\n';
    const files = {
      'books.yaml': books,
      'json.json': JSON.stringify({ items: {} }),
      'j.yaml': json,
    };
    const cases: [string, string, number, RegExp][] = [
      ['books.yaml', '/none', 1, /no rule was evaluated: status: 404 Not Found/],
      ['books.yaml', '/cat/image', 1, /no rule was evaluated: .*HTML, JSON and XML/],
      ['json.json', '/cat/1', 2, /has no items/],
      ['j.yaml', '/cat/json', 0, /^n: 2 rows$/m],
    ];
    for (const [file, path, expected, message] of cases) {
      const { code, output } = await run(t, ['try', file, `${url}${path}`], files);
      assert.equal(code, expected, output);
      assert.match(output, message);
    }
    const dead = await run(t, ['try', 'books.yaml', 'http://127.0.0.1:1/'], files);
    assert.equal(dead.code, 2, dead.output);
    assert.match(dead.output, /robots\.txt of .* cannot be read \(connect: connection refused\)/);
    const metadata = await run(t, ['try', 'books.yaml', 'http://metadata.google.internal/'], files);
    assert.notEqual(metadata.code, 0, metadata.output);
  });
});

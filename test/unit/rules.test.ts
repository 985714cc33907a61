/** The rules of a crawl file on a page: places, rows, values, counts, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ItemRules, itemsSchema, oddities } from '../../shared/items.ts';
import type { PageInput, RuleResult } from '../../shared/rule-results.ts';
import { Css } from '../../slave/rules/css.ts';
import { treeOf } from '../../slave/rules/html-tree.ts';
import { RuleSet } from '../../slave/rules/rule-set.ts';
import { strictXml, xmlName } from '../../slave/rules/strict-xml.ts';
import { isWrong, typed } from '../../slave/rules/value.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const shop = `<!DOCTYPE html><title>Shop</title><base href="/shop/"><div @click="go" :x=1>
<article class=pod><h3><a title="One" href="1.html">a <b>b</b></a></h3><p class=price>£1,012.50
<ul><li>red<li>blue</ul></article>
<article class=pod><h3><a title="Two" href="2.html">c</a></h3><p class=price>free<ul></ul></article>
</div><script id=data type="application/json">{"people":[{"age":1,"name":"A"},{"age":2,"name":"B"}]}</script>
<script>var state = {"page": {"n": 7}};</script>`;

function pageOf(text: string, more: Partial<PageInput> = {}): PageInput {
  const url = 'http://site/shop/list.html';
  const base = { url, finalUrl: url, depth: 3, status: 200, type: 'text/html', headers: {} };
  return { ...base, headers: { 'last-modified': 'Mon' }, text, ...more };
}

function evaluated(items: ItemRules, page: PageInput, jsonBytesMax = 1 << 24): RuleResult {
  const set = RuleSet.compile(itemsSchema.parse(items));
  assert.ok(set instanceof RuleSet, JSON.stringify(set));
  try {
    return set.evaluate(page, jsonBytesMax);
  } finally {
    set.close();
  }
}

const valuesOf = ({ rows }: RuleResult) => rows.map(({ values }) => values);

test('rules: rows by CSS, with fields by every kind of place', () => {
  const result = evaluated(
    {
      item: {
        match: '/shop/',
        each: 'article.pod',
        fields: {
          title: 'h3 a::attr(title)',
          whole: 'h3 a',
          own: 'h3 a::text',
          html: 'h3 a::html',
          xpath: './/a/@title',
          count: 'count(.//li)',
          regex: { regex: 'href="(\\d)' },
          link: { css: 'a::attr(href)', type: 'url' },
          colours: { css: 'li', all: true },
          depth: { value: 'depth' },
          date: { header: 'Last-Modified' },
          missing: { css: 'h6', default: '-' },
          nothing: 'h6',
        },
      },
    },
    pageOf(shop),
  );
  assert.deepEqual(valuesOf(result), [
    {
      title: 'One',
      whole: 'a b',
      own: 'a',
      xpath: 'One',
      count: 2,
      regex: '1',
      depth: 3,
      html: '<a title="One" href="1.html">a <b>b</b></a>',
      link: 'http://site/shop/1.html',
      colours: ['red', 'blue'],
      date: 'Mon',
      missing: '-',
      nothing: null,
    },
    {
      title: 'Two',
      whole: 'c',
      own: 'c',
      xpath: 'Two',
      count: 0,
      regex: '2',
      depth: 3,
      html: '<a title="Two" href="2.html">c</a>',
      link: 'http://site/shop/2.html',
      colours: [],
      date: 'Mon',
      missing: '-',
      nothing: null,
    },
  ]);
  assert.deepEqual(result.failures, []);
});

test('rules: rows by XPath may have fields by CSS, and nested rows', () => {
  const each = '//article';
  const nested = { each: 'li', fields: { colour: '.' } };
  const { rows } = evaluated(
    { item: { each, fields: { title: 'h3 a::attr(title)', list: nested } } },
    pageOf(shop),
  );
  assert.deepEqual(
    rows.map(({ values }) => values),
    [
      { title: 'One', list: [{ colour: 'red' }, { colour: 'blue' }] },
      { title: 'Two', list: [] },
    ],
  );
});

test('rules: a row without something required, or of a wrong type, is rejected with the reason', () => {
  const price = { css: '.price', regex: '[\\d.,]+|free', type: 'number', required: true } as const;
  const { rows, rejected, counts } = evaluated(
    { item: { each: 'article', fields: { price } } },
    pageOf(shop),
  );
  assert.deepEqual(rows, [{ rule: 'item', values: { price: 1012.5 } }]);
  assert.deepEqual(rejected, [
    { rule: 'item', values: { price: null }, why: 'price: "free" is not a number' },
  ]);
  const { rows: count, rejected: bad, matched, wrong } = counts['item'] ?? {};
  assert.deepEqual({ count, bad, matched, wrong }, { count: 1, bad: 1, matched: 1, wrong: 1 });
  assert.equal(counts['item.price']?.wrong, 1);
});

test('rules: one script that is not JSON does not take the others along, and counts', () => {
  const ld = (...texts: string[]) =>
    texts.map((text) => `<script type="application/ld+json">${text}</script>`).join('');
  const script = 'script[type="application/ld+json"]';
  const rule = { p: { script, fields: { name: '$.name' } } };
  const some = evaluated(rule, pageOf(ld('{broken', '{"name":"A"}', '')));
  assert.deepEqual(some.rows, [{ rule: 'p', values: { name: 'A' } }]);
  assert.deepEqual([some.counts['p']?.wrong, some.counts['p']?.failed], [1, 0]);
  assert.deepEqual(some.failures, []);
  const none = evaluated(rule, pageOf(ld('{broken', '')));
  assert.deepEqual([none.counts['p']?.wrong, none.counts['p']?.failed], [0, 1]);
  assert.match(none.failures[0]?.message ?? '', /^is not JSON/);
});

test('rules: JSON of a page, of a script, and of a pattern in a script; columns are joined', () => {
  const zip = { age: '$..age', name: '$..name' };
  const fields = { url: { value: 'url' } } as const;
  const joined = evaluated({ p: { script: '#data', zip, fields } }, pageOf(shop));
  const url = 'http://site/shop/list.html';
  assert.deepEqual(valuesOf(joined), [
    { age: 1, name: 'A', url },
    { age: 2, name: 'B', url },
  ]);
  const script = { css: 'script', regex: 'state = (\\{.*?\\});' };
  const state = evaluated({ p: { script, fields: { n: '$.page.n' } } }, pageOf(shop));
  assert.deepEqual(valuesOf(state), [{ n: 7 }]);
  const json = pageOf('{"list": [{"a": 1}, {"a": null}]}', { type: 'application/json' });
  const rows = evaluated({ p: { each: '$.list[*]', fields: { a: '$.a' } } }, json);
  assert.deepEqual(valuesOf(rows), [{ a: 1 }, { a: null }]);
});

test('rules: an integer of JSON beyond 2^53 keeps its digits, as a text', () => {
  const fields = {
    id: '$.id',
    as: { json: '$.id', type: 'text' },
    whole: { json: '$.id', type: 'integer' },
    near: '$.near',
    real: '$.real',
    text: '$.text',
  } as const;
  const text =
    '{"id": -1445078208190291973, "near": 9007199254740991, "real": 0.1234567890123456, ' +
    '"text": "\\"1445078208190291973"}';
  const id = '-1445078208190291973';
  const rest = { near: 9007199254740991, real: 0.1234567890123456, text: '"1445078208190291973' };
  const expected = { id, as: id, whole: null, ...rest };
  const json = pageOf(text, { type: 'application/json' });
  assert.deepEqual(valuesOf(evaluated({ p: { fields } }, json)), [expected]);
  // A comment may have a quote; then the numbers are those of JavaScript.
  const script = 'script';
  const said = pageOf(`<script>/* 5" */ ${text}</script>`);
  assert.equal(valuesOf(evaluated({ p: { script, fields } }, said))[0]?.['near'], rest.near);
});

test('rules: columns of unequal lengths are a failure that names the lengths', () => {
  const zip = { age: '$..age', name: '$..n' };
  const { rows, failures, counts } = evaluated({ p: { script: '#data', zip } }, pageOf(shop));
  assert.deepEqual(rows, []);
  assert.deepEqual(failures, [
    { rule: 'p', message: 'the columns of zip have unequal lengths: age 2, name 0' },
  ]);
  assert.equal(counts['p']?.failed, 1);
});

test('rules: only pages whose URL or content matches are evaluated', () => {
  const fields = { title: 'title' };
  const { counts } = evaluated(
    {
      url: { match: 'list\\.html$', fields },
      other: { match: '/blog/', fields },
      content: { match: { content: 'class=pod' }, fields },
      both: { match: { url: 'list', content: 'nowhere' }, fields },
    },
    pageOf(shop),
  );
  assert.deepEqual(Object.keys(counts), ['url', 'url.title', 'content', 'content.title']);
});

test('rules: a page without anything of a rule is empty, and a fault fails its rule alone', () => {
  const { rows, counts, failures } = evaluated(
    {
      none: { fields: { x: 'h6', url: { value: 'url' } } },
      json: { fields: { x: '$.a' } },
      fine: { fields: { x: 'title' } },
    },
    pageOf(shop),
  );
  assert.deepEqual(rows, [{ rule: 'fine', values: { x: 'Shop' } }]);
  assert.equal(counts['none']?.empty, 1);
  assert.deepEqual(
    failures.map(({ rule }) => rule),
    ['json'],
  );
  assert.match(failures[0]?.message ?? '', /text\/html, not JSON/);
});

test('rules: long JSON is refused before it is parsed', () => {
  const page = pageOf(`[${'1,'.repeat(1_000)}1]`, { type: 'application/json' });
  const { failures } = evaluated({ p: { fields: { a: '$[0]' } } }, page, 1_000);
  assert.match(failures[0]?.message ?? '', /2003 bytes of JSON are more than rules read \(1000\)/);
});

test('rules: all that is wrong with expressions is found at once', () => {
  const fields = {
    a: 'a[',
    b: '//a[',
    c: 'id("x")',
    d: '$[',
    e: { regex: '(?=x)' },
    f: '//a[matches(@x, "y")]',
    g: 'a::foo',
    h: '//svg:a/x:b',
    i: '//a/namespace::*',
    j: '//a[$x]',
    k: 'count()',
    l: 'concat(//a)',
    m: 'a::text, b::text',
    n: '  ',
    o: 'a@href',
    p: 'li:not(.x=y)',
  };
  const problems = RuleSet.compile(itemsSchema.parse({ p: { fields } }));
  assert.ok(!(problems instanceof RuleSet));
  const said = Object.fromEntries(problems.map(({ path, message }) => [path.at(-1), message]));
  assert.deepEqual(Object.keys(said), Object.keys(fields));
  assert.match(said['c'] ?? '', /write \/\/\*\[@id="…"\]/);
  assert.match(said['f'] ?? '', /calls matches\(\), which XPath 1\.0 does not have/);
  assert.match(said['g'] ?? '', /write ::text, ::attr\(name\) or ::html/);
  assert.match(said['h'] ?? '', /prefix x:/);
  assert.match(said['a'] ?? '', /found the end$/);
  assert.match(said['e'] ?? '', /it has no lookaround/);
  assert.match(said['l'] ?? '', /Invalid number of arguments/);
  assert.match(said['m'] ?? '', /one ::text or ::attr\(name\) counts for all of a list/);
  assert.equal(said['n'], 'must not be empty');
  assert.match(said['o'] ?? '', /@href is no name of an element; an attribute is ::attr\(name\)$/);
  assert.match(said['p'] ?? '', /=y is no name of an element$/);
  assert.ok(new Css('a[title="x::y"]::text'));
});

test('rules: paths that a browser made, and paths that leave the row, are told', () => {
  const items = itemsSchema.parse({
    p: { each: '/html/body/table/tbody/tr', fields: { a: '//td', b: './/td', c: 'tbody td' } },
  });
  const told = oddities(items).map(({ path, message }) => [path.at(-1), message.split(':')[0]]);
  assert.equal(told.length, 4);
  assert.deepEqual(
    told.map(([name]) => name),
    ['each', 'each', 'a', 'c'],
  );
});

test('rules: elements are not found in rows of JSON and of texts', () => {
  const inner = { each: 'li', fields: { e: './/a', f: '::text' } };
  for (const [each, expected] of [
    ['$.a', ['a', 'b', 'each']],
    ['a::text', ['a', 'b', 'each']],
    ['.//a/@href', ['a', 'b', 'each']],
    [{ css: 'a', regex: 'b' }, ['a', 'b', 'each']],
    ['a', []],
  ] as const) {
    const fields = {
      a: 'b',
      b: './/c',
      c: '$.d',
      d: { regex: 'e' },
      g: { value: 'url' },
      h: inner,
    };
    const told = oddities(itemsSchema.parse({ p: { each, fields } }));
    const rows = told.filter(({ message }) => / but the rows are /.test(message));
    assert.deepEqual(
      rows.map(({ path }) => path.at(-1)),
      expected,
    );
  }
});

test('rules: types', () => {
  const cases: [string, Parameters<typeof typed>[1], unknown][] = [
    ['1,234.50', 'number', 1234.5],
    ['1,23', 'number', undefined],
    ['-3', 'integer', -3],
    ['3.5', 'integer', undefined],
    ['0x10', 'number', undefined],
    ['', 'number', undefined],
    ['Yes', 'boolean', true],
    ['14 marraskuu 2020', 'date', undefined],
    ['Marketing 5, 2020', 'date', undefined],
    ['Sept. 5, 2020', 'date', '2020-09-05'],
    ['maybe', 'boolean', undefined],
    ['2026-11-22', 'date', '2026-11-22'],
    ['2026-02-30', 'date', undefined],
    ['22 Nov 2026', 'date', '2026-11-22'],
    ['November 2, 2026', 'date', '2026-11-02'],
    ['Sun, 22 Nov 2026 10:00:00 GMT', 'date', '2026-11-22T10:00:00.000Z'],
    ['2026-11-22T10:00:00+02:00', 'date', '2026-11-22T08:00:00.000Z'],
    ['2026-11-22 10:00', 'date', '2026-11-22T10:00:00.000Z'],
    ['2026-11-22 10:00:00.5-05', 'date', '2026-11-22T15:00:00.500Z'],
    ['../a?b#c', 'url', 'http://h/a?b#c'],
    ['http://[', 'url', undefined],
    ['{"a":1}', 'json', { a: 1 }],
    ['{', 'json', undefined],
  ];
  for (const [text, type, expected] of cases) {
    const value = typed(text, type, 'http://h/x/y');
    if (expected === undefined) assert.ok(isWrong(value), `${type} ${text}`);
    else assert.deepEqual(value, expected, `${type} ${text}`);
  }
  // An object of a page is a value, whatever its keys are.
  assert.ok(!isWrong(typed({ wrong: 1 }, 'json', '')));
});

test('strict XML: names stay different, and text stays as it is', () => {
  const cases = [
    ['@click', '_x0040_click'],
    [':x', '_x003A_x'],
    ['o:p', 'o_x003A_p'],
    ['xmlns', '_x0078_mlns'],
    ['xmlns:a', 'xmlns_x003A_a'],
    ['xlink:href', 'xlink:href'],
    ['xml:lang', 'xml:lang'],
    ['svg:a:b', 'svg_x003A_a_x003A_b'],
    ['_x0040_click', '_x005F_x0040_click'],
    ['1a', '_x0031_a'],
    ['déjà', 'déjà'],
    ['😀', '😀'],
    ['data-x.y', 'data-x.y'],
  ];
  for (const [name = '', written] of cases) assert.equal(xmlName(name), written, name);
  const { xml } = strictXml(treeOf('<p t="a\n\t&quot;b">x\r\n\u0001&nbsp;&lt;<!--a--b---></p>'));
  assert.match(
    xml.toString(),
    /<p t="a&#10;&#9;&quot;b">x&#13;\n\ufffd\u00a0&lt;<!--a- -b- --><\/p>/,
  );
});

test('rules: a crawl file of a stranger is refused with the key and what to write', () => {
  const wrong: [unknown, RegExp][] = [
    [{ p: { fields: {} } }, /at least one field/],
    [{ p: {} }, /neither fields nor zip/],
    [{ p: { fields: { a: 'b' }, zip: { c: 'd' }, each: 'e' } }, /each and zip/],
    [{ p: { each: { css: 'a', xpath: 'b' }, fields: { a: 'b' } } }, /Invalid|css and xpath/],
    [{ 'p q': { fields: { a: 'b' } } }, /letters \(a to z\), digits/],
    [{ __proto__x: { fields: { ['__proto__']: 'b' } } }, /./],
  ];
  for (const [items, message] of wrong) {
    const parsed = itemsSchema.safeParse(items);
    assert.ok(!parsed.success, JSON.stringify(items));
    assert.match(JSON.stringify(parsed.error.issues), message);
  }
});

test('rules: XML keeps its capitals and the content of each element', () => {
  const item = '<item><link>http://a/</link><pubDate>d</pubDate></item>';
  const fields = { date: 'pubDate', link: { regex: '<link>(.*?)</link>' } };
  const feed = pageOf(`<rss>${item}</rss>`, { type: 'application/rss+xml' });
  const result = evaluated({ p: { match: 'list', each: 'item', fields } }, feed);
  assert.deepEqual(valuesOf(result), [{ date: 'd', link: 'http://a/' }]);
});

test('rules: rows by XPath with fields by CSS take linear time', () => {
  const page = pageOf(`<table>${'<tr><td class=a>1<td class=b>2'.repeat(10_000)}</table>`);
  const began = process.cpuUsage();
  const { rows, failures } = evaluated(
    { p: { each: '//tr', fields: { a: 'td.a', b: 'td.b' } } },
    page,
  );
  assert.deepEqual(failures, []);
  assert.equal(rows.length, 10_000);
  assert.ok(cpuMsSince(began) < 3_000);
});

test('rules: JSON is searched as deep as pages are, and in long lists', () => {
  let thread: object = { body: 'last' };
  for (let i = 0; i < 300; i++) thread = { replies: { data: [thread] } };
  const json = { type: 'application/json' };
  const deep = evaluated(
    { p: { fields: { body: '$..body' } } },
    pageOf(JSON.stringify(thread), json),
  );
  assert.deepEqual([valuesOf(deep), deep.failures], [[{ body: 'last' }], []]);
  const list = JSON.stringify({ list: Array.from({ length: 200_000 }, (_, id) => ({ id })) });
  const long = evaluated({ p: { fields: { id: '$.list[*].id' } } }, pageOf(list, json));
  assert.deepEqual([valuesOf(long), long.failures], [[{ id: 0 }], []]);
});

test('rules: a moment of a day that is none is no date', () => {
  for (const text of [
    '2026-02-30T10:00:00Z',
    '2026-02-29 10:00',
    'Mon, 31 Feb 2026 10:00:00 GMT',
    '31 Apr 2026 10:00 GMT',
  ]) {
    assert.ok(isWrong(typed(text, 'date', '')), text);
  }
  assert.equal(typed('Sun, 1 Feb 2026 10:00:00 GMT', 'date', ''), '2026-02-01T10:00:00.000Z');
});

test('rules: addresses start from the base that a browser takes', () => {
  const fields = { to: { css: 'a::attr(href)', type: 'url' } } as const;
  const to = (head: string) => valuesOf(evaluated({ p: { fields } }, pageOf(`${head}<a href=x>`)));
  assert.deepEqual(to('<template><base href=/t/></template><base href=/b/>'), [
    { to: 'http://site/b/x' },
  ]);
  assert.deepEqual(to('<svg><base href=/t/></svg><base href=/b/>'), [{ to: 'http://site/b/x' }]);
  assert.deepEqual(to('<base href=""><base href=/b/>'), [{ to: 'http://site/shop/x' }]);
});

test('rules: the way round a prefix finds what it says', () => {
  const set = RuleSet.compile(itemsSchema.parse({ p: { fields: { by: '//dc:creator' } } }));
  assert.ok(!(set instanceof RuleSet));
  assert.match(set[0]?.message ?? '', /write dc_x003A_…$/);
  const feed = pageOf('<rss><dc:creator>me</dc:creator></rss>', { type: 'text/xml' });
  const result = evaluated({ p: { fields: { by: '//dc_x003A_creator' } } }, feed);
  assert.deepEqual(valuesOf(result), [{ by: 'me' }]);
});

/** Articles of pages, and the Markdown of their main text. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { articlePackages } from '../../shared/article.ts';
import { fieldsOfRule, type ItemRules, itemsSchema } from '../../shared/items.ts';
import { misfitOf } from '../../shared/output-fit.ts';
import { outputFrom } from '../../shared/outputs.ts';
import { findArticlePackages } from '../../slave/rules/article-packages.ts';
import { treeOf } from '../../slave/rules/html-tree.ts';
import { markdownOf, plainTextOf } from '../../slave/rules/markdown.ts';
import { RuleSet } from '../../slave/rules/rule-set.ts';
import { rulesFor } from '../../slave/rules/targets.ts';
import { storyPage } from '../support/articles.ts';
import { root } from '../support/cluster.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const packages = findArticlePackages();
const base = 'https://site.example/news/1.html';

function found(text: string, items: ItemRules = { story: { article: true } }, headers = {}) {
  const set = RuleSet.compile(itemsSchema.parse(items), undefined, packages);
  assert.ok(set instanceof RuleSet, JSON.stringify(set));
  const page = { url: base, finalUrl: base, depth: 0, status: 200, type: 'text/html' };
  try {
    return set.evaluate({ ...page, headers, text }, 1 << 20);
  } finally {
    set.close();
  }
}

const markdown = (html: string) => markdownOf(treeOf(html), base);
const plain = (html: string) => plainTextOf(treeOf(html));

test('article: the packages are those of package.json', () => {
  const { peerDependencies, peerDependenciesMeta, devDependencies } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  ) as Record<string, Record<string, unknown>>;
  for (const [name, version] of Object.entries(articlePackages)) {
    assert.equal(peerDependencies?.[name], version);
    assert.equal(devDependencies?.[name], version);
    assert.deepEqual(peerDependenciesMeta?.[name], { optional: true });
  }
});

test('article: its fields, and those of the rule, which come before them', () => {
  const items: ItemRules = {
    story: { article: true, fields: { title: 'h1', page: { value: 'url' } } },
  };
  const { rows, counts } = found(storyPage('One'), items);
  const values = rows[0]?.values ?? {};
  const names = ['author', 'date', 'language', 'text', 'markdown', 'title', 'page'];
  assert.deepEqual(Object.keys(values).sort(), names.sort());
  assert.equal(values['title'], 'One');
  assert.equal(values['author'], 'Ann Author');
  assert.equal(counts['story']?.matched, 1);
  assert.equal(counts['story.date']?.matched, 1);
  const order = Object.keys(fieldsOfRule(itemsSchema.parse(items)['story'] ?? {}));
  assert.deepEqual(order, ['title', 'author', 'date', 'language', 'text', 'markdown', 'page']);
  const outputs = [outputFrom({ postgres: '$URL', key: ['title', 'date'] })];
  assert.equal(misfitOf(outputs, itemsSchema.parse(items)), undefined);
});

test('article: the title without the name of the site', () => {
  const titled = (title: string) => {
    const page = storyPage('Bridge opens').replace(/<title>[^<]*/, `<title>${title}`);
    return found(page).rows[0]?.values['title'];
  };
  assert.equal(titled('Bridge opens | The Paper'), 'Bridge opens');
  assert.equal(titled('The Paper: Bridge opens'), 'Bridge opens');
  assert.equal(titled('Bridge opens again'), 'Bridge opens again');
  assert.equal(titled(''), 'Bridge opens');
});

test('article: date and language where pages have them', () => {
  const story = storyPage('One')
    .replace(/<meta[^>]*>/g, '')
    .replace(' lang="en-GB"', '');
  const of = (head: string, headers = {}) =>
    found(`${head}${story}`, undefined, headers).rows[0]?.values;
  assert.equal(of('')?.['date'], null);
  assert.equal(of('')?.['language'], null);
  assert.equal(of('')?.['author'], null);
  assert.equal(of('', { 'content-language': 'de-AT, en' })?.['language'], 'de-AT');
  assert.equal(of('<meta property="og:locale" content=pt_BR>')?.['language'], 'pt-BR');
  assert.equal(of('<meta name=DC.date content=2026-11-20>')?.['date'], '2026-11-20');
  assert.equal(of('<meta name=date content="20 November 2026">')?.['date'], '2026-11-20');
  const ld = { '@context': 'https://schema.org', '@type': 'NewsArticle', headline: 'A headline' };
  const script = JSON.stringify({ ...ld, datePublished: '2026-11-20', author: { name: 'By Ben' } });
  const linked = of(`<script type="application/ld+json">${script}</script>`);
  assert.deepEqual(
    [linked?.['title'], linked?.['date'], linked?.['author']],
    ['A headline', '2026-11-20', 'Ben'],
  );
  const odd = found(`<meta name=date content="last week">${story}`);
  assert.equal(odd.rows[0]?.values['date'], null);
  assert.equal(odd.counts['story.date']?.wrong, 1);
});

test('article: pages without html, head and body, and with main text in an odd place', () => {
  const text = 'A sentence, with commas, of some length. '.repeat(10);
  for (const page of [
    `<p>${text}<p>${text}`,
    `<title>T</title><nav><a href=/>x</a></nav><main><p>${text}</main>`,
    `<html><article><p>${text}</article></html>after`,
    `<body><div><div><p>${text}</div></div>`,
    text,
  ]) {
    assert.match(String(found(page).rows[0]?.values['text']), /^A sentence, with commas/, page);
  }
});

test('article: a page without main text has no row', () => {
  for (const page of [
    '',
    '<html></html>',
    '<title>Only a title, of some length, which is not a text of the page</title>',
    '<a href=/x>a link and its text</a> '.repeat(200),
    '<ul>'.concat('<li><a href=/x>a link and its text</a>, new'.repeat(200)),
    `<script>${'var a = 1; '.repeat(100)}</script>`,
  ]) {
    const { rows, counts } = found(page);
    assert.deepEqual(rows, [], page.slice(0, 60));
    assert.equal(counts['story']?.empty, 1);
  }
});

test('article: what does not fit is refused, with the fix', () => {
  const faultOf = (rule: object) => itemsSchema.safeParse({ r: rule }).error?.issues[0]?.message;
  assert.match(faultOf({ article: false }) ?? '', /must be true; leave it out/);
  assert.match(faultOf({ article: true, each: 'p' }) ?? '', /has article and each/);
  assert.match(faultOf({ article: true, zip: { a: 'p' } }) ?? '', /has article and zip/);
  assert.match(faultOf({ match: 'x' }) ?? '', /neither fields nor zip/);
  assert.equal(faultOf({ article: true }), undefined);
  // JSON and XML are no articles.
  const spec = { items: itemsSchema.parse({ r: { article: true, fields: { a: '$.a' } } }) };
  const rules = (type: string) => rulesFor(spec as never, base, type);
  assert.deepEqual(rules('text/html'), ['r']);
  assert.deepEqual(rules('application/json'), []);
  assert.deepEqual(rules('application/xml'), []);
});

test('article: packages that are missing, or odd, are a problem of the rule', () => {
  const items = itemsSchema.parse({ story: { article: true }, other: { fields: { t: 'h1' } } });
  for (const given of [
    undefined,
    { missing: 'needs this' },
    { readability: join(root, 'package.json'), linkedom: join(root, 'package.json') },
    { readability: '/nowhere/a.js', linkedom: '/nowhere/b.js' },
  ]) {
    const problems = RuleSet.compile(items, undefined, given);
    assert.ok(Array.isArray(problems));
    const [problem] = problems;
    assert.equal(problems.length, 1);
    assert.deepEqual(problem?.path, ['story', 'article']);
    assert.equal(problem?.isMissing, true);
    assert.match(problem?.message ?? '', /npm install @moz|needs this/);
  }
});

test('markdown: text is escaped, so that it stays text', () => {
  assert.equal(markdown('<p># no heading'), '\\# no heading');
  assert.equal(markdown('<p>1. no list'), '1\\. no list');
  assert.equal(
    markdown('<p>- nor this<p>+ this<p>&gt; this<p>---<p>==='),
    [...['\\- nor this', '\\+ this', '\\> this', '\\---', '\\===']].join('\n\n'),
  );
  assert.equal(
    markdown('<p>a_b *c* `d` [e] ~f~ g\\h'),
    'a\\_b \\*c\\* \\`d\\` \\[e\\] \\~f\\~ g\\\\h',
  );
  assert.equal(markdown('<p>&lt;b&gt; 1 &lt; 2 &amp;amp; a &amp; b'), '\\<b> 1 < 2 \\&amp; a & b');
  assert.equal(plain('<p># a_b *c* &lt;b&gt;'), '# a_b *c* <b>');
});

test('markdown: marks, links and images', () => {
  assert.equal(markdown('<p>a<b> b </b>c <i>d</i> <del>e</del> <em></em>'), 'a **b** c *d* ~~e~~');
  assert.equal(
    markdown('<a href="../x (1)">l <b>m</b></a>'),
    '[l **m**](https://site.example/x%20%281%29)',
  );
  assert.equal(markdown('<a href="javascript:alert(1)">x</a><a>y</a>'), 'xy');
  assert.equal(
    markdown('<p>a <img src=i.png alt="an\n[i]"> b'),
    'a ![an \\[i\\]](https://site.example/news/i.png) b',
  );
  assert.equal(markdown('<p>a <img src="data:image/png;base64,AAAA"> b'), 'a b');
  assert.equal(markdown('<p>a<br>b<br><br>c'), 'a  \nb  \nc');
  assert.equal(markdown('<p><code>a`b</code> <code>`</code>'), '``a`b`` `` ` ``');
  assert.equal(plain('<p>a <a href=/x>l</a> <img alt=i src=i.png><br><code>c</code>'), 'a l\nc');
});

test('markdown: pieces that meet are read as they were meant', () => {
  const cases = [
    ['<kbd>Ctrl</kbd><kbd>C</kbd>', '`Ctrl`<!-- -->`C`'],
    ['<b>a</b><b>b</b> <i>c</i><i>d</i>', '**a**<!-- -->**b** *c*<!-- -->*d*'],
    ['<b>「重要」</b>です', '**「重要」**<!-- -->です'],
    ['これは<b>「重要」</b>', 'これは<!-- -->**「重要」**'],
    ['a<i>(b)</i>, <i>(c)</i> d', 'a<!-- -->*(b)*, *(c)* d'],
    ['\u{20bb7}<b>\u{1f600}</b>\u{20bb7}', '\u{20bb7}<!-- -->**\u{1f600}**<!-- -->\u{20bb7}'],
    ['<b>a</b>b, c<b>d</b>', '**a**b, c**d**'],
    ['Look!<a href=x>here</a>', 'Look\\![here](https://site.example/news/x)'],
    ['a\\*<b>b</b>', 'a\\\\\\***b**'],
    ['<b>a <strong>b</strong></b> <i><em>c</em></i>', '**a b** *c*'],
    ['<a href=x>a <span><a href=y>b</a></span></a>', '[a b](https://site.example/news/x)'],
  ] as const;
  for (const [html, expected] of cases) assert.equal(markdown(html), expected);
  assert.equal(markdown('<ul><li>a<ol><li>b</ol></ul>'), '- a\n  1. b');
  assert.equal(markdown('<ul><li>a<ol start=3><li>b</ol></ul>'), '- a\n\n  3. b');
  assert.equal(plain('<b>a</b><b>b</b>!<a href=x>c</a>'), 'ab!c');
});

test('markdown: blocks', () => {
  const lists = '<ul><li>a<ul><li>b</ul><li><p>c<p>d</ul><ol start=9><li>e<li>f<ol><li>g</ol></ol>';
  assert.equal(markdown(lists), '- a\n  - b\n\n- c\n\n  d\n\n9. e\n10. f\n    1. g');
  assert.equal(
    markdown('<blockquote><p>a<p>b<ul><li>c</ul></blockquote>'),
    '> a\n>\n> b\n>\n> - c',
  );
  assert.equal(markdown('<pre>\na ```\n  b\n\n</pre>'), '````\na ```\n  b\n````');
  assert.equal(markdown('<h2>A <br> b #</h2><hr><h3></h3>'), '## A b \\#\n\n---');
  const table = '<table><tr><th>a<th>b|c<tr><td>1<td><p>2<p>3</table>';
  assert.equal(markdown(table), '| a | b\\|c |\n| --- | --- |\n| 1 | 2 3 |');
  assert.equal(plain(table), 'a\tb|c\n1\t2 3');
  const layout = '<table><tr><td><table><tr><td>x<td>y</table><td><p>z</table>';
  assert.equal(markdown(layout), '|  |  |\n| --- | --- |\n| x | y |\n\nz');
  assert.equal(plain('<ul><li>a<li>b</ul><dl><dt>c<dd>d</dl>'), 'a\nb\n\nc\n\nd');
  assert.equal(markdown('<a href=/x><div>a</div></a><span>b<div>c</div></span>'), 'a\n\nb\n\nc');
});

test('markdown: white space of any length takes linear time', () => {
  const wide = ' \n\t\u00a0'.repeat(500_000);
  const startedAt = process.cpuUsage();
  assert.equal(markdown(`<p>a${wide}b${wide}<b>${wide}c${wide}</b>`), 'a b **c**');
  assert.match(markdown(`<pre>a${wide}b</pre>`), /^```\na/);
  assert.ok(cpuMsSince(startedAt) < 10_000);
});

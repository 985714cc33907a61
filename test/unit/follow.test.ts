/** Follow rules: which links of a page they pick. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { type FollowRule, followSchema } from '../../shared/follow.ts';
import type { PageInput } from '../../shared/rule-results.ts';
import { RuleSet } from '../../slave/rules/rule-set.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const html = `<base href="/b/"><nav><a class=next href="p2.html">2</a><a href="#top">top</a></nav>
<ul><li><a href="thread-1-a.html?x=1&amp;y=2">1</a><li><a HREF='/b/thread-2.html'>2</a>
<li><a href="http://other.example/thread-3.html">3</a><li><a href="javascript:go()">4</a></ul>
<script>var more = 'href="thread-9.html"';</script><a href="thread-1-a.html?x=1&amp;y=2">again</a>`;

const page = (text: string, finalUrl = 'http://a.example/x/'): PageInput => ({
  url: finalUrl,
  finalUrl,
  depth: 0,
  status: 200,
  type: 'text/html',
  headers: {},
  text,
});

function evaluate(rules: readonly Partial<FollowRule>[], input = page(html)) {
  const set = RuleSet.compile({}, followSchema.parse(rules));
  assert.ok(set instanceof RuleSet, JSON.stringify(set));
  const result = set.evaluate(input, 1 << 20);
  set.close();
  return result;
}

function picked(rule: Partial<FollowRule>, input = page(html)): string[] {
  const urls = evaluate([rule], input).follow?.[0]?.urls ?? [];
  return urls.map((url) => url.replace('http://a.example/b/', ''));
}

test('follow: CSS and XPath, of links, of what holds links, of attributes', () => {
  assert.deepEqual(picked({ css: 'a.next' }), ['p2.html']);
  assert.deepEqual(picked({ css: 'a.next::attr(href)' }), ['p2.html']);
  assert.deepEqual(picked({ css: 'nav' }), ['p2.html', '']);
  assert.deepEqual(picked({ xpath: '//a[@class="next"]' }), ['p2.html']);
  assert.deepEqual(picked({ xpath: '//nav/a/@href' }), ['p2.html', '']);
  const threads = [
    ...['thread-1-a.html?x=1&y=2', 'thread-2.html', 'http://other.example/thread-3.html'],
  ];
  assert.deepEqual(picked({ xpath: '//ul' }), threads);
  assert.deepEqual(picked({ css: 'li a' }), threads);
});

test('follow: patterns of addresses, as written and absolute, and of the source', () => {
  assert.deepEqual(picked({ href: '^thread-' }), ['thread-1-a.html?x=1&y=2']);
  assert.deepEqual(picked({ href: 'example/b/thread' }), [
    ...['thread-1-a.html?x=1&y=2', 'thread-2.html'],
  ]);
  assert.deepEqual(picked({ href: '(thread-.+?html)' }), [
    ...['thread-1-a.html', 'thread-2.html', 'thread-3.html'],
  ]);
  const found = ['thread-1-a.html', 'thread-9.html'];
  assert.deepEqual(picked({ href: 'href="(thread-.+?html)' }), found);
  assert.deepEqual(picked({ regex: 'href="(thread-.+?html)' }), found);
  assert.deepEqual(picked({ regex: 'href="([^"]+y=2)"' }), ['thread-1-a.html?x=1&y=2']);
});

test('follow: all, the first, or some by chance, the same for a page and a seed', () => {
  const links = Array.from({ length: 40 }, (_, i) => `<a href="l${i}">x</a>`);
  const text = `<base href="/b/">${links.join('')}`;
  const input = page(text);
  assert.equal(picked({ css: 'a' }, input).length, 40);
  assert.deepEqual(picked({ css: 'a', count: 2 }, input), ['l0', 'l1']);
  assert.deepEqual(picked({ css: 'a', pick: 'first' }, input), ['l0']);
  assert.deepEqual(picked({ css: 'a', pick: 'first', count: 3 }, input), ['l0', 'l1', 'l2']);
  const random = { css: 'a', pick: 'random', count: 5 } as const;
  const one = picked(random, input);
  assert.equal(new Set(one).size, 5);
  assert.deepEqual(picked(random, input), one);
  assert.deepEqual(picked(random, page(`<base href="/b/">${links.reverse().join('')}`)), one);
  assert.notDeepEqual(picked({ ...random, seed: 1 }, input), one);
  assert.notDeepEqual(picked(random, page(text, 'http://a.example/y/')), one);
});

test('follow: each link once, by the first rule that picks it; counts and failures', () => {
  const { follow, counts } = evaluate([{ css: 'a.next', priority: 5 }, { css: 'nav a' }]);
  assert.deepEqual(follow, [
    { priority: 5, urls: ['http://a.example/b/p2.html'] },
    { priority: undefined, urls: ['http://a.example/b/'] },
  ]);
  assert.deepEqual([counts['follow']?.pages, counts['follow']?.matched], [1, 1]);
  assert.equal(evaluate([{ css: 'h6 a' }]).counts['follow']?.empty, 1);
  const deep = evaluate([{ xpath: '//a' }], page('<b>'.repeat(3_000)));
  assert.equal(deep.counts['follow']?.failed, 1);
  assert.equal(deep.failures[0]?.rule, 'follow');
  assert.deepEqual(deep.follow, []);
});

test('follow: what is wrong with the rules', () => {
  for (const rule of [{}, { css: 'a', href: 'b' }, { css: 'a', pick: 'some' }, { css: '' }]) {
    assert.equal(followSchema.safeParse([rule]).success, false, JSON.stringify(rule));
  }
  const problems = RuleSet.compile({}, followSchema.parse([{ css: 'a' }, { href: '(' }]));
  assert.ok(!(problems instanceof RuleSet));
  assert.deepEqual(problems[0]?.path, ['follow', '1']);
});

test('follow: very many links by XPath take linear time', () => {
  const links = Array.from({ length: 10_000 }, (_, i) => `<li><a href="p${i}.html">x</a></li>`);
  const began = process.cpuUsage();
  assert.equal(picked({ xpath: '//a' }, page(links.join(''))).length, 10_000);
  assert.ok(cpuMsSince(began) < 2_000);
});

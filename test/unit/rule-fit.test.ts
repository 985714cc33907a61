/** The rows of a page have to fit into its report; and which answers rules read at all. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { encodeValue } from '../../shared/frame.ts';
import type { ItemRules } from '../../shared/items.ts';
import { isPageItems } from '../../shared/page-items.ts';
import { limits } from '../../shared/protocol.ts';
import type { Json, RuleResult } from '../../shared/rule-results.ts';
import { failedItems, fitted } from '../../slave/rules/fit.ts';
import { rulesFor } from '../../slave/rules/targets.ts';

const counts = { pages: 1, matched: 1, empty: 0, wrong: 0, failed: 0, rows: 1, rejected: 0 };

function resultOf(rows: Readonly<Record<string, readonly Json[]>>): RuleResult {
  const all = Object.entries(rows);
  return {
    rows: all.flatMap(([rule, values]) => values.map((a) => ({ rule, values: { a } }))),
    rejected: [],
    failures: [],
    counts: Object.fromEntries(all.map(([rule]) => [rule, { ...counts }])),
  };
}

function nested(levels: number): Json {
  let value: Json = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

test('rule fit: what fits is sent, and what does not is a failure of its rule alone', () => {
  const many = new Array<Json>(limits.itemRowsMax + 1).fill(1);
  const wide = new Array<Json>(limits.messageValuesMax).fill(1);
  const wrong: readonly (readonly [string, readonly Json[], RegExp])[] = [
    ['many', many, /finds 50001 rows; 50000 are allowed/],
    ['long', ['x'.repeat(limits.itemsBytesMax)], /its rows take \d+ bytes; \d+ are allowed/],
    ['wide', [wide], /its rows take/],
    ['deep', [nested(41)], /more than 40 levels deep/],
  ];
  for (const [rule, values, why] of wrong) {
    const items = fitted(resultOf({ [rule]: values, fine: ['a', nested(30)] }));
    assert.deepEqual(
      items.rows.map(([name]) => name),
      ['fine', 'fine'],
    );
    assert.match(items.failures[0]?.[1] ?? '', why);
    assert.deepEqual(items.counts[rule], [1, 0, 0, 0, 1, 0, 0]);
    assert.deepEqual(items.counts['fine'], [1, 1, 0, 0, 0, 1, 0]);
    assert.ok(isPageItems(items));
    assert.ok(encodeValue(items).length <= limits.itemsBytesMax);
  }
});

test('rule fit: the most that fits is within the limits of a report', () => {
  const most = fitted(resultOf({ book: new Array<Json>(limits.itemRowsMax).fill('x'.repeat(90)) }));
  assert.equal(most.rows.length, limits.itemRowsMax);
  assert.ok(encodeValue(most).length <= limits.itemsBytesMax);
  assert.ok(isPageItems(failedItems(['a', 'b'], 'x'.repeat(9_000))));
});

test('rule targets: rules read what they select, JSON and XML only where they ask for it', () => {
  const items: ItemRules = {
    any: { fields: { t: 'title' } },
    books: { match: '/book', fields: { t: 'title' } },
    api: { fields: { t: '$.t' } },
    script: { script: 'script', fields: { t: '$.t' } },
    path: { match: { url: 'feed' }, fields: { rows: { each: '//item', fields: { t: 'b' } } } },
    content: { match: { content: 'x' }, fields: { t: { regex: 'x' } } },
  };
  const spec = fetchSpecSchema.parse({ items });
  const of = (url: string, type?: string) => rulesFor(spec, url, type).join(' ');
  assert.equal(of('http://a/book', 'text/html'), 'any books api script content');
  assert.equal(of('http://a/book'), 'any books api script content');
  assert.equal(of('http://a/x', 'application/json'), 'api');
  assert.equal(of('http://a/x', 'application/ld+json'), 'api');
  assert.equal(of('http://a/feed', 'application/rss+xml'), 'path');
  assert.equal(of('http://a/book', 'text/xml'), 'books');
  assert.equal(of('http://a/x', 'text/xml'), '');
});

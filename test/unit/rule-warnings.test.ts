/** The warnings about rules at the end of a crawl. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followWarnings, ruleLines, ruleWarnings } from '../../master/cli/rule-lines.ts';
import { itemsSchema } from '../../shared/items.ts';
import { linkRule } from '../../shared/link-rule.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

const counts = { pages: 2, matched: 2, empty: 0, wrong: 0, failed: 0, rows: 4, rejected: 0 };
const book = { fields: { title: 'h1' } };

test('rule warnings: a rule that nobody wrote may have fields without a value', () => {
  assert.deepEqual(ruleWarnings({ links: linkRule() }, { links: counts }), []);
  const own = itemsSchema.parse({ links: book });
  assert.match(ruleWarnings(own, { links: counts }).join(), /the field title .* never had a value/);
});

test('rule warnings: a recrawl that found every page unchanged has not tried its rules', () => {
  const items = itemsSchema.parse({ book });
  assert.match(ruleWarnings(items).join(), /the rule book never matched/);
  assert.deepEqual(ruleWarnings(items, {}, 3), []);
});

test('rule warnings: follow rules that failed left links out', () => {
  const failed = { ...counts, matched: 0, rows: 0, failed: 2 };
  assert.deepEqual(followWarnings([{ css: 'a[' }], { follow: failed }), [
    'the follow rules failed on 2 pages: their links were not followed; rejected.jsonl says why',
  ]);
  assert.deepEqual(followWarnings([{ css: 'a' }], { follow: counts }), []);
  // The page function may name its rows as it likes.
  assert.deepEqual(followWarnings([], { follow: failed }), []);
});

test('rule lines: rows under 10,000 names take a hundred lines, and no time', () => {
  const names = Array.from({ length: 10_050 }, (_, i) => [`r${i}`, counts] as const);
  const rules = { ...Object.fromEntries(names), 'r1.price': { ...counts, matched: 1 } };
  const began = process.cpuUsage();
  const lines = ruleLines({ rules });
  assert.ok(cpuMsSince(began) < 1_000, `${cpuMsSince(began)} ms`);
  assert.equal(lines.length, 101);
  assert.match(lines[1] ?? '', /^rule r1: .*; price missing on 1$/);
  assert.equal(lines.at(-1), '9,950 more names of rows: 39,800 rows');
});

/** The warnings about rules at the end of a crawl. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ruleWarnings } from '../../master/cli/rule-lines.ts';
import { itemsSchema } from '../../shared/items.ts';
import { linkRule } from '../../shared/link-rule.ts';

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

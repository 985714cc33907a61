/** A page function that gives what its types refuse: nobody has checked a module of JavaScript. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PageContext } from '../../shared/page-function.ts';
import type { RuleResult } from '../../shared/rule-results.ts';
import { callWith } from '../../slave/rules/page-call.ts';

/** What `call` makes of a page. */
async function madeBy(call: (page: PageContext) => void): Promise<RuleResult> {
  const result: RuleResult = { rows: [], rejected: [], failures: [], counts: {} };
  const url = 'http://site/';
  const text = '<title>x</title>';
  const page = { url, finalUrl: url, depth: 0, status: 200, type: 'text/html', headers: {}, text };
  await callWith((given) => call(given as PageContext), page, 1 << 20, result);
  return result;
}

test('page function: the name of a rule is a text', async () => {
  // Each is a name once it is made a text, and the master refused the whole page for it.
  for (const rule of [null, true, ['books']]) {
    const result = await madeBy(({ emit }) => emit({ a: 1 }, rule as unknown as string));
    const message = `emit: ${JSON.stringify(rule)} is no name`;
    assert.deepEqual([result.rows, result.failures], [[], [{ rule: 'page', message }]]);
  }
});

test('page function: a selector is a text', async () => {
  for (const selector of [undefined, 5]) {
    const { failures } = await madeBy(({ $ }) => void $(selector as unknown as string));
    const message = `a selector is a text; this one is of type ${typeof selector}`;
    assert.deepEqual(failures, [{ rule: 'page', message }]);
  }
});

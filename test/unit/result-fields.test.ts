/** The table of result fields, and what follows from it. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { carriedFields, fieldsOf, resultFields, resultSchema } from '../../shared/result-fields.ts';
import { readDocument } from '../support/documents.ts';

test('result fields: PROTOCOL.md has every one that slaves report', () => {
  const text = readDocument('PROTOCOL.md');
  const [, table = ''] = /\| field of `result` \|[^\n]*\n([\s\S]*?)\n\n/.exec(text) ?? [];
  const written = [...table.matchAll(/^\|((?: `\w+`,?)+) \|/gm)].flatMap(([, names = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => name),
  );
  assert.deepEqual(written.sort(), Object.keys(resultSchema.shape).sort());
});

test('result fields: a line begins with the URL and ends with the time', () => {
  for (const kind of ['page', 'other', 'redirect', 'failed', 'excluded', 'sitemap'] as const) {
    const names = fieldsOf(kind);
    assert.deepEqual([names[0], names[1], names.at(-1)], ['url', 'finalUrl', 'at'], kind);
  }
  assert.deepEqual(fieldsOf('skipped'), ['url', 'skipped', 'depth', 'from', 'at']);
});

test('result fields: what a recrawl carries over stands on the line of a page', () => {
  const ofPage: readonly string[] = fieldsOf('page');
  assert.ok(carriedFields.length > 10);
  for (const name of carriedFields) assert.ok(ofPage.includes(name), name);
});

test('result fields: each says what it means', () => {
  for (const [name, { meaning, of }] of Object.entries(resultFields)) {
    assert.ok(meaning.length > 5 && !meaning.includes('|') && of.length > 0, name);
  }
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { contentTypeOf } from '../../slave/fetch/content.ts';

test('content type: the last well-formed one counts', () => {
  const cases: [fields: string[], essence: string | undefined, charset?: string][] = [
    [[], undefined],
    [['text/html'], 'text/html'],
    [['text/plain', 'text/html'], 'text/html'],
    [['text/html', 'text/plain'], 'text/plain'],
    [['text/html', 'nonsense', '', '*/*'], 'text/html'],
    [['text/plain, text/html; charset=gbk'], 'text/html', 'gbk'],
    [['text/html; charset=gbk', 'TEXT/HTML'], 'text/html', 'gbk'],
    [['text/html; charset=gbk', 'text/html; charset=big5'], 'text/html', 'big5'],
    [['text/html; charset=gbk', 'text/plain', 'text/html'], 'text/html'],
    [['text/html;charset="a,text/plain"'], 'text/html', 'a,text/plain'],
    [['text/html, charset=utf-8'], 'text/html'],
    [['text/html; a="\\",text/plain'], 'text/html'],
  ];
  for (const [fields, essence, charset] of cases) {
    const headers = { 'content-type': fields };
    assert.deepEqual(contentTypeOf(headers), { essence, charset }, fields.join(' | '));
  }
  assert.equal(contentTypeOf({ 'content-type': 'text/html' }).essence, 'text/html');
  const hostile = { 'content-type': `"${'\\"'.repeat(1 << 14)}${','.repeat(1 << 14)}` };
  assert.equal(contentTypeOf(hostile).essence, undefined);
});

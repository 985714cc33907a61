import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { parseRefresh } from '../../slave/extract/refresh.ts';

/** By the steps of the standard: what is no refresh, what reloads the page, and what leads on. */
const none = [
  ...['', ' ', 'page', ';page', ', page', 'url=page', '; url=page', '"0; url=page"'],
  ...['+5; url=page', '-5; url=page', '+0', '-1', '-.5; url=page'],
  ...['5s; url=page', '5url=page', '1e3; url=page', '0x1; url=page', '5"page"', '5=page'],
  ...['5\u00a0url=page', '\u00a05; url=page', '5\v; url=page', '٣; url=page'],
];
const reloads = [
  '0',
  '5',
  '007',
  '5 ',
  '\t5\n',
  '5.',
  '.5',
  '.',
  '5.5.5',
  '5;',
  '5,',
  '5 ; ',
  '5\f',
];
const leads: readonly (readonly [value: string, target: string])[] = [
  // Separators of time and target.
  ['0;url=page', 'page'],
  ['0,url=page', 'page'],
  ['0 url=page', 'page'],
  ['0\turl=page', 'page'],
  ['0\nurl=page', 'page'],
  ['0\furl=page', 'page'],
  ['0\rurl=page', 'page'],
  [' 0 ; url=page', 'page'],
  ['\n0\t,\furl=page', 'page'],
  ['0;;url=page', ';url=page'],
  ['0,;url=page', ';url=page'],
  ['0; ;url=page', ';url=page'],
  // The time: digits, then digits and dots that do not count.
  ['12345678901234567890; page', 'page'],
  ['5.75; page', 'page'],
  ['5..; page', 'page'],
  ['.75; page', 'page'],
  ['...; page', 'page'],
  // The keyword, in any case, which may be missing.
  ['0; page', 'page'],
  ['0;page', 'page'],
  ['0 page', 'page'],
  ['0; URL=page', 'page'],
  ['0; uRl =\t page', 'page'],
  ['0; url\n=page', 'page'],
  ['0; url page', 'url page'],
  ['0; urlpage', 'urlpage'],
  ['0; urls=page', 'urls=page'],
  ['0; ur=page', 'ur=page'],
  ['0; u', 'u'],
  ['0; upage', 'upage'],
  ['0; url', 'url'],
  ['0; x url=page', 'x url=page'],
  // Quotes: what follows the second one is dropped, the second may be missing.
  ['0; url="page"', 'page'],
  ["0; url='page'", 'page'],
  ['0; url="page"more', 'page'],
  ["0; url='page' more", 'page'],
  ['0; url="page', 'page'],
  ["0; url='page", 'page'],
  ['0; url="it\'s"', "it's"],
  ["0; url='a\"b'c", 'a"b'],
  ['0; "page"more', 'page'],
  ["0; 'page", 'page'],
  ['0; url=""', ''],
  ['0; url="', ''],
  ['0; url=pa"ge"', 'pa"ge"'],
  ['0; url= "page" ', 'page'],
  // The rest is for the URL parser.
  ['0; url=page ', 'page '],
  ['0; url=pa\nge', 'pa\nge'],
  ['0; url=', ''],
  ['0; url=a;b,c', 'a;b,c'],
  ['0; url=url=page', 'url=page'],
];

test('refresh: what has no time, or something else behind it, is none', () => {
  for (const value of none) assert.equal(parseRefresh(value), undefined, JSON.stringify(value));
});

test('refresh: a time alone is the page itself', () => {
  for (const value of reloads) assert.equal(parseRefresh(value), '', JSON.stringify(value));
});

test('refresh: the target is what the standard leaves of the value', () => {
  for (const [value, target] of leads) assert.equal(parseRefresh(value), target, value);
});

test('refresh: any text gives nothing or a part of itself, in linear time', () => {
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom(...'01.;, \t\n"\'urlURL=x') }),
  );
  fc.assert(
    fc.property(text, (value) => {
      const target = parseRefresh(value);
      assert.ok(target === undefined || value.includes(target));
    }),
  );
  for (const part of ['0', '.', ' ', ';', '0;url', '"']) parseRefresh(`0; ${part.repeat(300_000)}`);
  parseRefresh(`${' '.repeat(500_000)}x`);
});

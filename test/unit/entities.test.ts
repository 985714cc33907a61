/** Character references in attributes, as a parser of its own reads them. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Parser } from 'htmlparser2';
import { decodeAttribute } from '../../slave/extract/entities.ts';

function expected(value: string): string {
  let found = '';
  const parser = new Parser({ onattribute: (_, text) => (found = text) }, { decodeEntities: true });
  parser.end(`<a b="${value}">`);
  return found;
}

const pieces = (
  '& amp ; &amp; &#38; &#038; &#0038; &#x26; &AMP; &ampx= &amp= &lt &lt; &ltx &lt= a=1 = &= b &copy &copy; ' +
  '&notit; &notin; &# # &; x . / ? é &nbsp; &quot'
).split(' ');

test('entities: an attribute is decoded as by the parser', () => {
  const value = fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((p) => p.join(''));
  fc.assert(
    fc.property(value, (text) => assert.equal(decodeAttribute(text), expected(text))),
    { numRuns: 20_000 },
  );
});

test('entities: the ampersands of addresses', () => {
  for (const [raw, text] of [
    ['?a=1&amp;b=2', '?a=1&b=2'],
    ['?a=1&b=2', '?a=1&b=2'],
    ['?a=1&#038;b=2&#38;c=3', '?a=1&b=2&c=3'],
    ['?a=1&amp;amp;b', '?a=1&amp;b'],
    ['?a=1&copy=2', '?a=1&copy=2'],
    ['?a=1&copy', '?a=1©'],
    ['?a=1&lt;', '?a=1<'],
    ['?&', '?&'],
  ] as const)
    assert.equal(decodeAttribute(raw), text, raw);
});

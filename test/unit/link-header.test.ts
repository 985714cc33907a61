import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { parseLinkHeader } from '../../slave/extract/link-header.ts';

/** Targets and relations, `target rel+rel`, with `!` when it speaks of another resource. */
function links(field: string): string[] {
  return parseLinkHeader(field).map(
    ({ target, rels, isAnchored }) => `${target} ${rels.join('+')}${isAnchored ? '!' : ''}`,
  );
}

const cases: readonly (readonly [field: string, ...links: string[]])[] = [
  ['<a>; rel="canonical"', 'a canonical'],
  ['<a>;rel=canonical', 'a canonical'],
  ['<a> ; REL = Canonical', 'a canonical'],
  ['\t <a>\t;\trel\t=\t"canonical"', 'a canonical'],
  ['<a>; rel="canonical next"', 'a canonical+next'],
  ['<a>; rel=next; rel=canonical', 'a next'],
  ['<a>; rel="next"; title="x"', 'a next'],
  ['<a>; title="a, b; <c>"; rel=next', 'a next'],
  ['<a>; title="say \\"hi\\", now"; rel=next', 'a next'],
  ['<a>; rel="ne\\xt"', 'a next'],
  ['<a>; anchor="/other"; rel=canonical', 'a canonical!'],
  ['<a>; anchor; rel=canonical', 'a canonical!'],
  ['<a>; crossorigin; rel=preload', 'a preload'],
  ['<a>; rel', 'a '],
  ['<a>; rel=', 'a '],
  ['<a>;', 'a '],
  ['<a>;;rel=next', 'a next'],
  ['<a>', 'a '],
  ['<>; rel=self', ' self'],
  ['<a,b;c>; rel=next', 'a,b;c next'],
  ['<a>; rel=next, <b>; rel=prev', 'a next', 'b prev'],
  ['<a>;rel=next,<b>;rel=prev', 'a next', 'b prev'],
  [', ,<a>; rel=next,, <b>; rel=prev,', 'a next', 'b prev'],
  ['<a>; rel="next', 'a next'],
  ['<a>; rel="next\\', 'a next'],
  // From the first thing that is no link on nothing is known.
  ['<a>; rel=next, b; rel=prev, <c>; rel=up', 'a next'],
  ['<a>; rel=next <b>; rel=prev', 'a next+<b>'],
  ['<a> x; rel=next', 'a '],
  ['a; rel=next'],
  ['<a'],
  [''],
];

test('link header: links and relations as RFC 8288 reads them', () => {
  for (const [field, ...expected] of cases) assert.deepEqual(links(field), expected, field);
});

test('link header: any text gives targets that stand in it', () => {
  const text = fc.string({ unit: fc.constantFrom(...'<>;,= \t"\\relacnonical') });
  fc.assert(
    fc.property(fc.oneof(fc.string(), text), (field) => {
      for (const { target } of parseLinkHeader(field)) assert.ok(field.includes(`<${target}>`));
    }),
  );
  for (const part of ['<', '<>', '<>;', '<>,', '<>;a="', ';', '\\', ' '])
    parseLinkHeader(`<a>; ${part.repeat(20_000)}`);
});

test('link header: what is written is read again', () => {
  const name = fc.string({ unit: fc.constantFrom(...'abcxyz'), minLength: 1 });
  const value = fc.string({ unit: fc.constantFrom(...'ab ,;<>="\\') });
  const link = fc.record({ target: name, rel: name, title: value, quote: fc.boolean() });
  fc.assert(
    fc.property(fc.array(link), (written) => {
      const field = written
        .map(({ target, rel, title, quote }) => {
          const text = title.replace(/["\\]/g, '\\$&');
          return `<${target}>; title="${text}"; rel=${quote ? `"${rel}"` : rel}`;
        })
        .join(', ');
      assert.deepEqual(
        links(field),
        written.map(({ target, rel }) => `${target} ${rel}`),
      );
    }),
  );
});

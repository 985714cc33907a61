/** Items off the wire: their rows are checked without being built, as strictly as if they were. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { itemLinesOf } from '../../master/sinks/result-lines.ts';
import {
  contentOf,
  itemsOf,
  packedRows,
  ResultRow,
  sectionsOf,
} from '../../master/store/result-rows.ts';
import { readItems } from '../../master/wire/items-reader.ts';
import { decodeMessage, packValue, unpackValue } from '../../shared/frame.ts';
import { isPageItems, type PageItems } from '../../shared/page-items.ts';

const counts = { book: [1, 1, 0, 0, 0, 1, 0] };
const name = fc.constantFrom('book', 'b-1', '_x', '1x', '', '__proto__', 'é', 'x'.repeat(65));
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constant(Buffer.from('bytes')),
  fc.constant({ 'a b': [1, -2, 3.5, 'x'.repeat(70_000)] }),
);
const row = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(name, fc.dictionary(fc.string(), value, { maxKeys: 3 })) },
  { weight: 1, arbitrary: fc.array(fc.anything({ maxDepth: 1 }), { maxLength: 3 }) },
);
const said = fc.record({
  rows: fc.oneof(fc.array(row, { maxLength: 4 }), fc.constant({}), fc.constant('x')),
  rejected: fc.array(fc.tuple(name, fc.dictionary(fc.string(), value), fc.string()), {
    maxLength: 1,
  }),
  failures: fc.array(fc.tuple(name, fc.string()), { maxLength: 1 }),
  counts: fc.constantFrom<unknown>(counts, {}, { book: [1] }, []),
});

test('items: what is read quickly is what a whole check takes, and nothing else', () => {
  fc.assert(
    fc.property(said, fc.nat(400), (items, cut) => {
      let packed: Buffer;
      try {
        packed = packValue(items);
      } catch {
        return;
      }
      for (const bytes of [packed, packed.subarray(0, cut), Buffer.concat([packed, packed])]) {
        let whole: unknown;
        try {
          whole = decodeMessage(bytes);
        } catch {}
        if (!isPageItems(whole)) assert.throws(() => readItems(bytes), { code: 'E_BAD_REQUEST' });
        else {
          const { rows, ...others } = readItems(bytes);
          assert.deepEqual({ ...others, rows: unpackValue(rows.bytes) }, whole);
          assert.equal(rows.count, whole.rows.length);
        }
      }
    }),
    { numRuns: 2_000 },
  );
});

test('items: a list too deep, with bytes or with keys of another kind is refused', () => {
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const of = (values: unknown) =>
    packValue({ rows: [['book', values]], rejected: [], failures: [], counts: {} });
  assert.equal(readItems(of({ a: deep(47) })).rows.count, 1);
  for (const wrong of [{ a: deep(48) }, { a: Buffer.from('x') }, [1], 'text', null]) {
    assert.throws(() => readItems(of(wrong)), { code: 'E_BAD_REQUEST' });
  }
  // A map with a key of bytes: 81 c4 01 41 01.
  const odd = Buffer.concat([of({}).subarray(0, 12), Buffer.from('81c4014101', 'hex')]);
  assert.throws(() => readItems(odd), { code: 'E_BAD_REQUEST' });
});

const page = { url: 'http://a.example/\u202e', depth: 1, at: 1_700_000_000_123, task: 4 };
const rowsOf = (count: number, text = 'x'): PageItems['rows'] =>
  Array.from({ length: count }, (_, n) => [n % 2 === 0 ? 'book' : 'author', { n, text }]);

test('items: the rows of a page are a section, with a number and a line each', () => {
  const row = new ResultRow();
  row.add('page', page, {});
  row.addItems(page, packedRows(rowsOf(3)));
  row.addItems(page, packedRows([]));
  const { bytes, sections } = row.seal(10);
  for (const all of [sections, sectionsOf(bytes)]) {
    const [, items, ...others] = all;
    assert.ok(items);
    assert.deepEqual([items.kind, items.seq, items.count, others], ['item', 11, 3, []]);
    assert.deepEqual(itemsOf(items), rowsOf(3));
    const lines = itemLinesOf(items).split('\n');
    assert.equal(
      lines[1],
      '{"url":"http://a.example/\\u202e","rule":"author","item":{"n":1,"text":"x"},' +
        '"at":"2023-11-14T22:13:20.123Z"}',
    );
    assert.equal(itemLinesOf(items, 2), `${lines[2]}\n`);
  }
});

test('items: many rows, or long ones, are several sections', () => {
  for (const [count, text] of [
    [2_500, 'x'],
    [100, 'x'.repeat(10_000)],
  ] as const) {
    const row = new ResultRow();
    row.addItems(page, packedRows(rowsOf(count, text)));
    const sections = sectionsOf(row.seal(1).bytes);
    assert.ok(sections.length >= 3);
    assert.deepEqual(sections.flatMap(itemsOf), rowsOf(count, text));
    assert.equal(sections.at(-1)?.seq, 1 + count - (sections.at(-1)?.count ?? 0));
  }
});

test('items: a row of an earlier version is read as before', () => {
  const row = new ResultRow();
  row.add('item', { ...page, rule: 'book', item: { a: 1 } });
  const [section] = sectionsOf(row.seal(5).bytes);
  assert.ok(section);
  assert.deepEqual(itemsOf(section), [['book', { a: 1 }]]);
  assert.equal(contentOf(section).record.url, page.url);
  assert.match(itemLinesOf(section), /"rule":"book","item":\{"a":1\}/);
});

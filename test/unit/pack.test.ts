/** Values as msgpack (shared/pack.ts): the bytes of msgpackr, and what is left to it. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Packr } from 'msgpackr';
import { pack } from '../../shared/pack.ts';

const packr = new Packr({ useRecords: false, skipValues: [undefined] } as object);

const numbers = [0, 31, 127, 128, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53, 0.1];
const lengths = [0, 1, 15, 16, 31, 32, 47, 48, 49, 255, 256, 65_535, 65_536, 100_000];

test('pack: numbers, texts, bytes and lists at the edges of their forms', () => {
  const values: unknown[] = [null, true, false, -0, Number.NaN, Number.NEGATIVE_INFINITY];
  for (const number of numbers) values.push(number, -number, -number - 1);
  for (const length of lengths) {
    values.push('a'.repeat(length), 'é'.repeat(length), new Uint8Array(length).fill(7));
    values.push(Array.from({ length }, (_, i) => i));
  }
  for (const value of values) assert.deepEqual(pack(value), Buffer.from(packr.pack(value)));
});

test('pack: any plain value has the bytes that msgpackr gives it', () => {
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: 'grapheme', maxLength: 80 }),
      fc.oneof(fc.integer(), fc.double(), fc.maxSafeInteger(), fc.boolean(), fc.constant(null)),
      fc.uint8Array({ maxLength: 300 }),
      fc.array(tie('value'), { maxLength: 20 }),
      fc.dictionary(fc.string(), fc.oneof(tie('value'), fc.constant(undefined)), {
        maxKeys: 15,
        noNullPrototype: true,
      }),
    ),
  }));
  fc.assert(
    fc.property(value, (one) => {
      const packed = Buffer.from(packr.pack(one));
      assert.deepEqual(pack(one), packed);
      assert.deepEqual(pack(one, 4)?.subarray(4), packed);
    }),
  );
});

test('pack: what is not plain, or has many fields, is left to msgpackr', () => {
  const many = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`field${i}`, i]));
  for (const value of [undefined, [undefined], 1n, new Date(0), new Map(), () => 1, many, [many]]) {
    assert.equal(pack(value), undefined);
  }
  assert.deepEqual(pack({ a: 'still right', b: undefined }), packr.pack({ a: 'still right' }));
});

/** A quick check says yes only where the schema says yes, and changes nothing. */
import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import { quickCheck } from '../../shared/quick-check.ts';
import { packedSchemas, requestSchemas, type Verb } from '../../shared/requests.ts';
import { requests } from '../support/requests.ts';

/** @throws AssertionError the quick check accepts what the schema refuses, or changes */
function agree(schema: z.ZodType, value: unknown): boolean {
  const isRight = quickCheck(schema)(value);
  if (isRight) assert.deepEqual(schema.safeParse(value), { success: true, data: value });
  return isRight;
}

const schemas: readonly z.ZodType[] = [
  ...Object.values(requestSchemas),
  ...Object.values(packedSchemas),
  z.string().min(2).max(3),
  z.number().min(-1).max(1.5),
  z.number().gt(1),
  z.int(),
  z.int32(),
  z.boolean().optional(),
  z.enum(['a', 'b']),
  z.enum({ one: 1, two: 2 }),
  z.literal(['x', 1, true]),
  z.array(z.int().max(3)).max(2),
  z.array(z.int()).default([1]),
  z.object({ a: z.string() }),
  z.looseObject({ a: z.string() }),
  z.strictObject({ a: z.string().optional(), b: z.int().default(1) }),
  z.strictObject({ a: z.string().optional(), b: z.int().optional() }),
  z.record(z.string(), z.int()),
  z.union([z.string(), z.int()]),
  z.string().trim(),
  z.string().regex(/^a+$/),
  z.email(),
  z.coerce.number(),
  z.string().transform((text) => text.length),
  z.string().nullable(),
  z.bigint(),
  z.custom<Date>((value) => value instanceof Date),
];

const wire = requests.map(({ verb, good }) => ({ verb, schema: schemaOf(verb), good }));
const odd = fc.oneof(
  fc.anything({ withNullPrototype: true, withTypedArray: true, withDate: true }),
  fc.constantFrom<unknown>(
    Number.NaN,
    -0,
    2 ** 53,
    1.5,
    '',
    'a',
    'aa',
    'x',
    [],
    {},
    null,
    undefined,
  ),
  fc.record({ a: fc.anything(), b: fc.anything() }, { requiredKeys: [] }),
);

function schemaOf(verb: string): z.ZodType {
  return requestSchemas[verb as Verb];
}

test('quick checks say yes only to what the schemas accept unchanged', () => {
  fc.assert(
    fc.property(fc.constantFrom(...schemas), odd, (schema, value) => {
      agree(schema, value);
    }),
    { numRuns: 20_000 },
  );
});

test('quick checks agree on requests with a field that is changed, added or missing', () => {
  const changes = fc.tuple(fc.constantFrom(...wire), fc.nat(20), odd, fc.boolean());
  fc.assert(
    fc.property(changes, ([{ verb, schema, good }, n, value, isGone]) => {
      const message: Record<string, unknown> = { verb, id: 1, ...good };
      const names = [...Object.keys(message), 'more', '__proto__', 'constructor'];
      const name = names[n % names.length] ?? '';
      if (isGone) delete message[name];
      else Object.defineProperty(message, name, { value, enumerable: true, configurable: true });
      agree(schema, message);
    }),
    { numRuns: 20_000 },
  );
});

test('quick checks know what slaves say most often', () => {
  const lease = { id: 1, task: Buffer.alloc(30), lease: 7 };
  const packed = { result: Buffer.alloc(1), images: Buffer.alloc(1), links: Buffer.alloc(0) };
  const result = { finalUrl: 'http://a.invalid/', status: 200, bytes: 1, ms: 1.5, title: 'A' };
  const image = { src: 'http://a.invalid/i.png', via: 'img', alt: '', width: 1 };
  const { result: resultSchema, images: imagesSchema } = packedSchemas;
  assert.ok(agree(requestSchemas['task.report'], { verb: 'task.report', ...lease, ...packed }));
  assert.ok(agree(requestSchemas['task.credit'], { verb: 'task.credit', count: 8, slots: 4 }));
  assert.ok(agree(requestSchemas['task.extend'], { verb: 'task.extend', id: 1, leases: [1, 2] }));
  assert.ok(agree(resultSchema, result));
  assert.ok(agree(resultSchema, { ...result, error: { kind: 'status', message: '404' } }));
  assert.ok(agree(imagesSchema, [image, image]));
});

/**
 * A quick yes for values off the wire. Most messages are right, and zod spends most of its time on
 * what it could say of the others: of a report's result it makes 3 KB of garbage in 6 µs. A quick
 * check is made of the schema itself, once, as a tree of closures. It is sure of its yes, not of
 * its no: then zod is asked, and names the field that is wrong.
 */
import * as z from 'zod';

type Check = (value: unknown) => boolean;

/** The definition of a check in a schema. Source: zod 4, `core/checks`. */
type CheckDef = {
  readonly check?: string;
  readonly value?: unknown;
  readonly inclusive?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: RegExp;
  readonly fn?: unknown;
};

const never: Check = () => false;

/** Returns a predicate: true only if the schema accepts the value and would return one equal to
 *  it. Of what it does not know (defaults, unions, transforms) it says false. */
export function quickCheck(schema: z.ZodType): Check {
  const base = baseOf(schema);
  const checks = (schema.def.checks ?? []).map(({ _zod }) => checkOf(_zod.def as CheckDef));
  if (base === never || checks.includes(never)) return never;
  const [first, second] = checks;
  if (first === undefined) return base;
  if (second === undefined) return (value) => base(value) && first(value);
  return (value) => base(value) && checks.every((check) => check(value));
}

function baseOf(schema: z.ZodType): Check {
  if (schema instanceof z.ZodOptional) {
    const inner = quickCheck(schema.unwrap() as z.ZodType);
    return (value) => value === undefined || inner(value);
  }
  if (schema instanceof z.ZodString) return (value) => typeof value === 'string';
  if (schema instanceof z.ZodBoolean) return (value) => typeof value === 'boolean';
  if (schema instanceof z.ZodNumberFormat) {
    return schema.format === 'safeint' ? Number.isSafeInteger : never;
  }
  if (schema instanceof z.ZodNumber) return Number.isFinite;
  if (schema instanceof z.ZodEnum) return memberOf(schema.options);
  if (schema instanceof z.ZodLiteral) return memberOf(schema.values);
  if (schema instanceof z.ZodCustom) return checkOf(schema.def as CheckDef);
  if (schema instanceof z.ZodArray) {
    const inner = quickCheck(schema.element as z.ZodType);
    return (value) => Array.isArray(value) && value.every(inner);
  }
  if (schema instanceof z.ZodObject) return objectCheck(schema);
  return never;
}

/** Of an object without other keys than those of its shape. */
function objectCheck({ def }: z.ZodObject): Check {
  if (!(def.catchall instanceof z.ZodNever)) return never;
  const names = Object.keys(def.shape);
  const checks = names.map((name) => quickCheck(def.shape[name] as z.ZodType));
  return (value) => {
    if (typeof value !== 'object' || value === null) return false;
    if (Object.getPrototypeOf(value) !== Object.prototype) return false;
    let known = 0;
    for (let i = 0; i < names.length; i++) {
      const field = (value as Record<string, unknown>)[names[i] ?? ''];
      if (checks[i]?.(field) !== true) return false;
      if (field !== undefined) known++;
    }
    for (const _ in value) known--;
    return known === 0;
  };
}

function checkOf({ check, value, inclusive, minimum, maximum, pattern, fn }: CheckDef): Check {
  switch (check) {
    case 'custom':
      return typeof fn === 'function' ? (given) => fn(given) === true : never;
    case 'greater_than':
      if (typeof value !== 'number' || !inclusive) return never;
      return (given) => (given as number) >= value;
    case 'less_than':
      if (typeof value !== 'number' || !inclusive) return never;
      return (given) => (given as number) <= value;
    case 'min_length':
      return (given) => (given as string).length >= (minimum ?? Number.POSITIVE_INFINITY);
    case 'max_length':
      return (given) => (given as string).length <= (maximum ?? -1);
    case 'string_format':
      if (pattern === undefined || pattern.global || pattern.sticky) return never;
      return (given) => pattern.test(given as string);
    default:
      return never;
  }
}

function memberOf(values: Iterable<unknown>): Check {
  const members = new Set(values);
  return (value) => members.has(value);
}

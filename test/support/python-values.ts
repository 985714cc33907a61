/**
 * Random Python values for fast-check, and their description with all types: the same text that
 * `describe` of pickle_peer.py makes, so that a value can be compared across the two languages.
 */
import fc from 'fast-check';
import {
  PyByteArray,
  PyComplex,
  PyDict,
  PyFloat,
  PyRange,
  PySet,
  PyTuple,
  type PyValue,
  pyFloat,
} from '../../master/python/pickle/values.ts';
import { partsOf } from '../../master/python/pickle/weight.ts';

/** Types that Python 2 does not have or cannot distinguish are left out or described alike. */
interface DescribeOptions {
  readonly python2?: boolean;
}

export function describe(value: PyValue, options: DescribeOptions = {}): string {
  const seen = new Map<object, number>();
  const many = (values: Iterable<PyValue>): string[] => Array.from(values, one);

  function one(part: PyValue): string {
    if (part === null) return 'None';
    if (typeof part === 'boolean') return part ? 'True' : 'False';
    if (typeof part === 'number') {
      return Number.isSafeInteger(part) ? `i${part.toString(16)}` : `f${floated(part)}`;
    }
    if (typeof part === 'bigint') return `i${part.toString(16)}`;
    if (typeof part === 'string') return texted(part);
    if (part instanceof PyFloat) return `f${floated(part.value)}`;
    if (part instanceof PyComplex) return `c${floated(part.real)},${floated(part.imag)}`;
    if (part instanceof Uint8Array) return bytesOf(part);
    if (part instanceof PyTuple) return `(${many(part.items).join()})`;
    if (part instanceof PySet && part.frozen) return `Z{${many(part).sort().join()}}`;
    if (part instanceof PyRange) {
      return `r${[part.start, part.stop, part.step].map((bound) => bound.toString(16)).join()}`;
    }
    if (part instanceof PyByteArray) return `B${Buffer.from(part.bytes).toString('hex')}`;
    const known = seen.get(part);
    if (known !== undefined) return `@${known}`;
    seen.set(part, seen.size);
    if (Array.isArray(part)) return `[${many(part).join()}]`;
    if (part instanceof PySet) return `S{${many(part).sort().join()}}`;
    if (part instanceof PyDict) return `{${pairsOf(part).join()}}`;
    return '?';
  }

  function bytesOf(bytes: Uint8Array): string {
    const buffer = Buffer.from(bytes);
    const isText = options.python2 === true && bytes.every((byte) => byte < 0x80);
    return isText ? texted(buffer.toString('latin1')) : `b${buffer.toString('hex')}`;
  }

  function pairsOf(dict: PyDict): string[] {
    const pairs = Array.from(dict, ([key, item]): [string, PyValue] => [one(key), item]);
    if (options.python2 === true) pairs.sort(([a], [b]) => (a < b ? -1 : 1));
    return pairs.map(([key, item]) => `${key}:${one(item)}`);
  }

  return one(value);
}

function floated(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes.toString('hex');
}

function texted(text: string): string {
  return `s${Buffer.from(text, 'utf16le').swap16().toString('hex')}`;
}

/** Any text, with lone surrogates, and characters that the protocols escape. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)), maxLength: 6 }),
  fc.string({ unit: fc.constantFrom('\\', 'u', '0', '\n', '\r', '\0', '\x1a', "'", 'é') }),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', 'a'.repeat(300), '\ufffd', '\ufeff'),
);
const bytes = fc.oneof(fc.uint8Array({ maxLength: 12 }), fc.uint8Array({ size: 'medium' }));
const integer = fc.oneof(
  fc.integer(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).map(narrow),
  fc
    .nat({ max: 2100 })
    .chain((bits) => fc.constantFrom(0n, 1n, -1n).map((near) => narrow(2n ** BigInt(bits) + near))),
  fc.nat({ max: 2100 }).map((bits) => narrow(-(2n ** BigInt(bits)))),
);
const float = fc.double().map(pyFloat);

function narrow(value: bigint): number | bigint {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

const scalar: fc.Arbitrary<PyValue> = fc.oneof(
  fc.constantFrom(null, true, false),
  integer,
  float,
  text,
);

/** Random values; with shared and cyclic references. */
export function pyValues(options: DescribeOptions = {}): fc.Arbitrary<PyValue> {
  const forPython3 = options.python2 !== true;
  // In Python 2 the bytes 'a' and the text u'a' are one key, and several NaN come in no order.
  const atom = forPython3
    ? fc.oneof(
        { weight: 8, arbitrary: scalar },
        { weight: 1, arbitrary: bytes },
        { weight: 1, arbitrary: fc.tuple(fc.double(), fc.double()).map(complexOf) },
      )
    : scalar.filter((value) => !Number.isNaN(value));
  const { key } = fc.letrec<{ key: PyValue }>((tie) => ({
    key: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      atom,
      fc.array(tie('key'), { maxLength: 3 }).map((items) => new PyTuple(items)),
      fc.array(tie('key'), { maxLength: 3 }).map((items) => new PySet(true, items)),
    ),
  }));
  const ranges = forPython3
    ? [fc.tuple(integer, integer, fc.integer({ min: 1 })).map((parts) => new PyRange(...parts))]
    : [];
  const { value } = fc.letrec<{ value: PyValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      atom,
      bytes,
      bytes.map((content) => new PyByteArray(content)),
      key,
      ...ranges,
      fc.array(tie('value'), { maxLength: 6 }),
      fc.array(tie('value'), { maxLength: 6 }).map((items) => new PyTuple(items)),
      fc.array(fc.tuple(key, tie('value')), { maxLength: 6 }).map((pairs) => PyDict.of(pairs)),
      fc.array(key, { maxLength: 6 }).map((items) => new PySet(false, items)),
    ),
  }));
  const edges = fc.array(fc.tuple(fc.nat(), fc.nat()), { maxLength: 4 });
  return fc.tuple(value, edges).map(([root, pairs]) => tangle(cloneOf(root), pairs));
}

const complexOf = ([real, imag]: [number, number]): PyComplex => new PyComplex(real, imag);

/** fast-check keeps what it generated, to shrink it: a copy may be changed. */
function cloneOf(value: PyValue): PyValue {
  if (Array.isArray(value)) return value.map(cloneOf);
  if (value instanceof PyTuple) return new PyTuple(value.items.map(cloneOf));
  if (value instanceof PyDict) {
    return PyDict.of(Array.from(value, ([key, item]) => [key, cloneOf(item)]));
  }
  return value;
}

/** Append some of the containers inside `root` to some of its lists. */
function tangle(root: PyValue, pairs: readonly (readonly [number, number])[]): PyValue {
  const containers: PyValue[] = [];
  const collect = (value: PyValue): void => {
    if (typeof value !== 'object' || value === null) return;
    containers.push(value);
    for (const part of partsOf(value) ?? []) collect(part);
  };
  collect(root);
  const lists = containers.filter((value): value is PyValue[] => Array.isArray(value));
  for (const [from, to] of pairs) {
    lists[from % lists.length]?.push(containers[to % containers.length] ?? null);
  }
  return root;
}

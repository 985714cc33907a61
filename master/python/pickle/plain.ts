/**
 * Between Python's values and the plain ones that Node programs put into msgpack.
 *
 * | Python                      | plain                         | and back                        |
 * |-----------------------------|-------------------------------|---------------------------------|
 * | None, bool, str             | the same                      | the same                        |
 * | int                         | number, beyond 2^53 bigint,   | int (the string stays a str)    |
 * |-----------------------------|-------------------------------|---------------------------------|
 * | float                       | number                        | int if integral: 1.0 comes as 1 |
 * | bytes, bytearray            | Uint8Array                    | bytes                           |
 * | list, tuple, set, frozenset | array                         | list                            |
 * | dict, all keys str          | object, or Map if a key is a  | dict                            |
 * |-----------------------------|-------------------------------|---------------------------------|
 * | dict, all keys scalars      | Map                           | dict                            |
 * | other dict                  | array of [key, value] arrays  | list                            |
 * | complex                     | { real, imag }                | dict                            |
 * | range                       | { start, stop, step }         | dict                            |
 *
 * msgpack cannot hold a lone surrogate (it becomes U+FFFD) nor a reference: shared parts are
 * written out, within `weightMax`; a value that contains itself is refused.
 */
import {
  containerWeight,
  intDigitsMax,
  type PickleLimits,
  pickleLimits,
  scalarWeight,
} from './limits.ts';
import {
  PickleError,
  PyByteArray,
  PyComplex,
  PyDict,
  PyFloat,
  PyPickled,
  PyRange,
  PySet,
  PyTuple,
  type PyValue,
  pyFloat,
  typeName,
} from './values.ts';

type PlainValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PlainValue[]
  | { [key: string]: PlainValue }
  | Map<PlainValue, PlainValue>;

/** `value` for msgpack. Errors: PickleError if it contains itself, or beyond the limits. */
export function toPlain(value: PyValue, limits: PickleLimits = pickleLimits): PlainValue {
  return new PlainMaker(limits).plain(value);
}

class PlainMaker {
  readonly #limits: PickleLimits;
  /** The containers that are being converted: the path from the root. */
  readonly #open = new Set<object>();
  #weight = 0;

  constructor(limits: PickleLimits) {
    this.#limits = limits;
  }

  plain(value: PyValue): PlainValue {
    if (value === null || typeof value === 'boolean' || typeof value === 'number') {
      this.#charge(scalarWeight);
      return value;
    }
    if (typeof value === 'string') {
      this.#charge(scalarWeight + value.length);
      return value;
    }
    if (typeof value === 'bigint') return this.#bigint(value);
    if (value instanceof Uint8Array) {
      this.#charge(scalarWeight + value.length);
      return value;
    }
    if (value instanceof PyFloat) return this.plain(value.value);
    if (value instanceof PyByteArray) return this.plain(value.bytes);
    if (value instanceof PyPickled) throw new PickleError('the value is too large');
    return this.#container(value);
  }

  #container(value: Exclude<Extract<PyValue, object>, Uint8Array | PyFloat | PyByteArray>) {
    this.#charge(containerWeight);
    if (this.#open.has(value)) throw new PickleError('the value contains itself');
    if (this.#open.size >= this.#limits.depthMax) {
      throw new PickleError('the value is nested too deep');
    }
    this.#open.add(value);
    const plain = this.#parts(value);
    this.#open.delete(value);
    return plain;
  }

  #parts(value: Exclude<Extract<PyValue, object>, Uint8Array | PyFloat | PyByteArray>): PlainValue {
    if (Array.isArray(value)) return value.map((item) => this.plain(item));
    if (value instanceof PyTuple) return value.items.map((item) => this.plain(item));
    if (value instanceof PySet) return Array.from(value, (item) => this.plain(item));
    if (value instanceof PyDict) return this.#dict(value);
    if (value instanceof PyComplex) return { real: value.real, imag: value.imag };
    if (value instanceof PyRange) {
      const { start, stop, step } = value;
      return { start: this.plain(start), stop: this.plain(stop), step: this.plain(step) };
    }
    throw new PickleError(`a ${typeName(value)} has no plain form`);
  }

  #dict(dict: PyDict): PlainValue {
    const entries = Array.from(dict, ([key, value]): [PlainValue, PlainValue] => [
      this.plain(key),
      this.plain(value),
    ]);
    if (entries.every(([key]) => isPropertyName(key))) return Object.fromEntries(entries);
    if (entries.every(([key]) => typeof key !== 'object' || key === null)) return new Map(entries);
    return entries;
  }

  #bigint(value: bigint): bigint | number | string {
    this.#charge(scalarWeight);
    const small = Number(value);
    if (Number.isSafeInteger(small)) return small;
    if (BigInt.asIntN(64, value) === value || BigInt.asUintN(64, value) === value) return value;
    // Checked first: the time of a conversion grows faster than its digits.
    if (BigInt.asIntN(intDigitsMax * 3, value) !== value) {
      throw new PickleError('an int is too large for a plain value');
    }
    const text = value.toString();
    this.#charge(text.length);
    return text;
  }

  #charge(weight: number): void {
    this.#weight += weight;
    if (this.#weight > this.#limits.weightMax) {
      throw new PickleError('the value is too large, with its shared parts written out');
    }
  }
}

/** Is it a name that msgpackr looks up on an object, or that has a meaning on every object? */
function isPropertyName(key: PlainValue): key is string {
  return typeof key === 'string' && key !== 'toJSON' && !(key in Object.prototype);
}

/**
 * Returns the Python value for a value from a Node program. `limits.depthMax` bounds it; a value
 * from msgpack cannot contain itself. Errors: PickleError for a value without a Python type
 * (functions, symbols, objects of a class).
 */
export function fromPlain(plain: unknown, limits: PickleLimits = pickleLimits): PyValue {
  return fromPlainAt(plain, limits.depthMax);
}

function fromPlainAt(plain: unknown, depthLeft: number): PyValue {
  if (plain === null || plain === undefined) return null;
  if (typeof plain === 'string' || typeof plain === 'boolean') return plain;
  if (typeof plain === 'number') return Object.is(plain, -0) ? pyFloat(plain) : plain;
  if (typeof plain === 'bigint') {
    const small = Number(plain);
    return Number.isSafeInteger(small) ? small : plain;
  }
  if (typeof plain !== 'object') throw new PickleError(`a ${typeof plain} has no Python type`);
  if (plain instanceof Uint8Array) return plain;
  if (depthLeft <= 0) throw new PickleError('the value is nested too deep');
  const inner = (part: unknown): PyValue => fromPlainAt(part, depthLeft - 1);
  if (Array.isArray(plain)) return plain.map(inner);
  if (plain instanceof Set) return new PySet(false, Array.from(plain, inner));
  if (plain instanceof Map) {
    return PyDict.of(Array.from(plain, ([key, value]) => [keyOf(inner(key)), inner(value)]));
  }
  const prototype: unknown = Object.getPrototypeOf(plain);
  if (prototype !== null && prototype !== Object.prototype) {
    throw new PickleError('an object of a class has no Python type');
  }
  return PyDict.of(Object.entries(plain).map(([key, value]) => [key, inner(value)]));
}

/** A list cannot be a key in Python, so it becomes a tuple. */
function keyOf(key: PyValue): PyValue {
  return Array.isArray(key) ? new PyTuple(key.map(keyOf)) : key;
}

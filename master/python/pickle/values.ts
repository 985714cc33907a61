/**
 * Python values in JavaScript, so that a value read from a pickle is written back with the same
 * types. Common values are plain JavaScript; there is a class only where Python distinguishes types
 * that JavaScript does not.
 *
 * | Python        | here                                                                         |
 * |---------------|------------------------------------------------------------------------------|
 * | None, bool    | null, boolean                                                                |
 * | int           | number if |n| < 2^53, otherwise bigint (a small bigint is written as int too)|
 * | float         | number, but PyFloat where the number would read as an int: 1.0, -0.0         |
 * | str           | string; a lone surrogate stays one (a high and a low one in sequence become  |
 * |               | the character they spell, as in any JavaScript string)                       |
 * | bytes         | Uint8Array (any subclass when written)                                       |
 * | bytearray     | PyByteArray                                                                  |
 * | list, tuple   | array, PyTuple                                                               |
 * | dict          | PyDict: any hashable keys, in order; 1, 1.0 and True are one key             |
 * | set, frozenset| PySet, `frozen` tells which                                                  |
 * | complex, range| PyComplex, PyRange                                                           |
 * | Token         | PyToken, in requests only: it is never written                               |
 * | a heavy value | PyPickled, an argument that was not built: see `heavy-requests.ts`
 * | | an exception  | PyException, in replies only: it is never read
 * |
 *
 * One Python object is one JavaScript object: shared and cyclic references keep their identity.
 */
import { CommandError } from '../../../shared/errors.ts';

export type PyValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PyFloat
  | PyByteArray
  | PyTuple
  | PyValue[]
  | PyDict
  | PySet
  | PyComplex
  | PyRange
  | PyToken
  | PyPickled
  | PyException;

/** The pickle is broken, hostile or too large: this request fails and has changed nothing. */
export class PickleError extends CommandError {
  constructor(message: string) {
    super('E_BAD_REQUEST', message);
  }
}

/** The value weighs more than the limits allow. */
export class WeightError extends PickleError {
  constructor() {
    super('the value is too large');
  }
}

/** A float whose value is an integer: 1.0 is not 1. */
export class PyFloat {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** Returns the float `value` in this model: a plain number unless that would read as an int. */
export function pyFloat(value: number): number | PyFloat {
  return Number.isSafeInteger(value) ? new PyFloat(value) : value;
}

export class PyByteArray {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export class PyTuple {
  readonly items: readonly PyValue[];

  constructor(items: readonly PyValue[]) {
    this.items = items;
  }
}

export class PyComplex {
  readonly real: number;
  readonly imag: number;

  constructor(real: number, imag: number) {
    this.real = real;
    this.imag = imag;
  }
}

export class PyRange {
  readonly start: number | bigint;
  readonly stop: number | bigint;
  readonly step: number | bigint;

  constructor(start: number | bigint, stop: number | bigint, step: number | bigint) {
    this.start = start;
    this.stop = stop;
    this.step = step;
  }
}

/** `multiprocessing.managers.Token`: the argument of `get_methods`. Filled after it is made. */
export class PyToken {
  typeid: PyValue = null;
  address: PyValue = null;
  id: PyValue = null;
}

/** A value as a pickle of its own, because it would take `heapBytes` of memory when built. */
export class PyPickled {
  readonly bytes: Buffer;
  readonly heapBytes: number;

  constructor(bytes: Buffer, heapBytes: number) {
    this.bytes = bytes;
    this.heapBytes = heapBytes;
  }
}

/** An exception for the client to raise, e.g. `new PyException('queue', 'Empty')`. */
export class PyException {
  readonly module: string;
  readonly className: string;
  readonly args: readonly PyValue[];

  constructor(module: string, className: string, args: readonly PyValue[] = []) {
    this.module = module;
    this.className = className;
    this.args = args;
  }
}

// The two hashed containers, and which Python keys are one key. `keyToken` maps a hashable value to
// a token that a JavaScript Map compares as Python compares the value: strings and small ints are
// their own tokens, 1, 1.0 and True share a token, tuples and frozensets have one made of their
// items' tokens. Tokens that are not the value itself are strings that begin with NUL; a str that
// begins with NUL gets a prefix, so that it cannot pass for one of them.
//
// Other numbers are strings, too, because V8 hashes strings with a secret and numbers without one:
// 20,000 numbers made to collide would take seconds. **Source:** Python Language Reference, 3.3.1
// `object.__hash__`; Library Reference, "Hashing of numeric types".

export type KeyToken = string | number | null;

/** A tuple as a key may be nested this deep, and its token may have this many characters. */
const keyDepthMax = 100;
const keyCharsMax = 1 << 20;
/** Ints below it are their own tokens: too few of them share a bucket of a Map. */
const smallIntMax = 1 << 20;

let nanCount = 0;

/**
 * A dict. Names such as `__proto__` are keys like any other, because a Map holds them. As in
 * Python, a repeated key changes the value and keeps the position and type of the first key. Throws
 * PickleError for a key that Python cannot hash (list, dict, set, bytearray).
 */
export class PyDict {
  // Most dicts of a pickle are empty keyword arguments, which need no Map.
  #values: Map<KeyToken, PyValue> | null = null;
  /** Keys that are not their own token: tuples, bytes, True, 1.0. */
  #keys: Map<KeyToken, PyValue> | null = null;

  static of(entries: Iterable<readonly [PyValue, PyValue]>): PyDict {
    const dict = new PyDict();
    for (const [key, value] of entries) dict.set(key, value);
    return dict;
  }

  get size(): number {
    return this.#values === null ? 0 : this.#values.size;
  }

  has(key: PyValue): boolean {
    return this.#values?.has(keyToken(key)) ?? false;
  }

  get(key: PyValue): PyValue | undefined {
    return this.#values?.get(keyToken(key));
  }

  set(key: PyValue, value: PyValue): void {
    this.setByToken(keyToken(key), key, value);
  }

  /** For a caller that has computed `keyToken(key)` already. */
  setByToken(token: KeyToken, key: PyValue, value: PyValue): void {
    this.#values ??= new Map();
    if (token !== key && !this.#values.has(token)) {
      this.#keys ??= new Map();
      this.#keys.set(token, key);
    }
    this.#values.set(token, value);
  }

  *[Symbol.iterator](): IterableIterator<[PyValue, PyValue]> {
    if (this.#values === null) return;
    for (const [token, value] of this.#values) yield [this.#keyOf(token), value];
  }

  /** As `for (const [key, value] of dict)`, without the cost of a generator. */
  forEach(visit: (key: PyValue, value: PyValue) => void): void {
    this.#values?.forEach((value, token) => {
      visit(this.#keyOf(token), value);
    });
  }

  /** Keys and values in turn. */
  parts(): PyValue[] {
    const parts: PyValue[] = [];
    this.forEach((key, value) => {
      parts.push(key, value);
    });
    return parts;
  }

  #keyOf(token: KeyToken): PyValue {
    const key = this.#keys?.get(token);
    return key === undefined ? token : key;
  }
}

/** A set or frozenset, in the order of insertion. Throws PickleError like PyDict. */
export class PySet {
  readonly frozen: boolean;
  #items: Map<KeyToken, PyValue> | null = null;

  constructor(frozen: boolean, items: Iterable<PyValue> = []) {
    this.frozen = frozen;
    for (const item of items) this.add(item);
  }

  get size(): number {
    return this.#items === null ? 0 : this.#items.size;
  }

  has(item: PyValue): boolean {
    return this.#items?.has(keyToken(item)) ?? false;
  }

  add(item: PyValue): void {
    this.addByToken(keyToken(item), item);
  }

  /** For a caller that has computed `keyToken(item)` already. */
  addByToken(token: KeyToken, item: PyValue): void {
    this.#items ??= new Map();
    if (!this.#items.has(token)) this.#items.set(token, item);
  }

  [Symbol.iterator](): Iterator<PyValue> {
    return (this.#items ?? noItems).values();
  }
}

const noItems: ReadonlyMap<KeyToken, PyValue> = new Map();

/** Returns Python's name for the type of `value`, for messages. */
export function typeName(value: PyValue): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'int' : 'float';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'string') return 'str';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Uint8Array) return 'bytes';
  if (value instanceof PyFloat) return 'float';
  if (value instanceof PyByteArray) return 'bytearray';
  if (value instanceof PyTuple) return 'tuple';
  if (value instanceof PyDict) return 'dict';
  if (value instanceof PySet) return value.frozen ? 'frozenset' : 'set';
  if (value instanceof PyComplex) return 'complex';
  if (value instanceof PyRange) return 'range';
  if (value instanceof PyPickled) return 'value that is too large';
  return value instanceof PyToken ? 'Token' : value.className;
}

/** Returns the token of `key`. Throws PickleError if Python could not hash it, or it is too
 *  large. */
export function keyToken(key: PyValue): KeyToken {
  if (typeof key === 'string') return key.charCodeAt(0) === 0 ? `\0s${key}` : key;
  return tokenOf(key, 0);
}

function tokenOf(key: PyValue, depth: number): KeyToken {
  if (key === null || typeof key === 'string') return key;
  if (typeof key === 'boolean') return key ? 1 : 0;
  if (typeof key === 'number') return numberToken(key);
  if (typeof key === 'bigint') return bigintToken(key);
  if (key instanceof PyFloat) return numberToken(key.value);
  if (key instanceof PyTuple) return `\0t${joinTokens(key.items, depth + 1).join('')}`;
  if (key instanceof PySet && key.frozen)
    return `\0f${joinTokens(key, depth + 1)
      .sort()
      .join('')}`;
  if (key instanceof Uint8Array) return `\0b${latin1Of(key)}`;
  if (key instanceof PyComplex) return complexToken(key);
  if (Array.isArray(key) || [PyDict, PySet, PyByteArray].some((kind) => key instanceof kind)) {
    throw new PickleError(`unhashable type: '${typeName(key)}'`);
  }
  throw new PickleError(`a ${typeName(key)} cannot be a key`);
}

/** Every NaN of a pickle is its own object, and NaN equals nothing, so it is a new key. */
function numberToken(key: number): KeyToken {
  if (Number.isInteger(key) && Math.abs(key) < smallIntMax) return key;
  if (!Number.isNaN(key)) return `\0d${key}`;
  nanCount += 1;
  return `\0n${nanCount}`;
}

/** An int beyond 2^53 that a float can hold is the same key as that float. */
function bigintToken(key: bigint): KeyToken {
  const rounded = Number(key);
  const isFloat = Number.isFinite(rounded) && BigInt(rounded) === key;
  return isFloat ? numberToken(rounded) : `\0i${key.toString(16)}`;
}

function complexToken(key: PyComplex): KeyToken {
  if (key.imag === 0) return numberToken(key.real);
  return `\0c${numberToken(key.real)},${numberToken(key.imag)}`;
}

/** Each item's token with its type and length in front, so that no two lists join to one text. */
function joinTokens(items: Iterable<PyValue>, depth: number): string[] {
  if (depth > keyDepthMax) throw new PickleError('a key is nested too deep');
  const parts: string[] = [];
  let chars = 0;
  for (const item of items) {
    const token = tokenOf(item, depth);
    // -0 and 0 are one key and one text.
    const text = String(token);
    // The letter distinguishes a str from another kind's token (which begins with NUL).
    const kind = typeof item === 'string' ? 's' : typeof token === 'string' ? 'x' : typeof token;
    const part = `${kind}${text.length}:${text}`;
    chars += part.length;
    if (chars > keyCharsMax) throw new PickleError('a key is too large');
    parts.push(part);
  }
  return parts;
}

function latin1Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/**
 * What Python values are in JavaScript, so that a value read from a pickle is written back as the
 * same types. Common values are plain JavaScript; only where Python tells apart what JavaScript
 * does not is there a class.
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
 * | a heavy value | PyPickled, an argument that was not built: see `heavy-requests.ts`             |
 * | an exception  | PyException, in replies only: it is never read                               |
 *
 * One Python object is one JavaScript object: shared and cyclic references keep their identity.
 */
import { CommandError } from '../../../shared/errors.ts';
import type { PyDict, PySet } from './containers.ts';

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

/** The pickle is broken, hostile or too large: this request fails, nothing was changed by it. */
export class PickleError extends CommandError {
  constructor(message: string) {
    super('E_BAD_REQUEST', message);
  }
}

/** It weighs more than its limits allow. */
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

/** The float `value` in this model: a plain number unless that would read as an int. */
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

/** A value as a pickle of its own, because it would take `heapBytes` of memory if it were built. */
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

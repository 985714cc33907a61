/**
 * Writes pickles that Python reads back with the same types. Every Python 3 reads protocol 3;
 * Python 2.7 also reads protocol 2 (with str as unicode, and bytes as str). References are kept: an
 * object that occurs twice, or inside itself, is one object in Python. Only such objects get a memo
 * entry, so the usual reply has none.
 *
 * There are two passes: `Survey` finds the parts that occur twice and checks the depth; the writer
 * then uses a memo only if there are any. **Source:** CPython `Lib/pickle.py` (`save_*`),
 * `Lib/_compat_pickle.py` for the old names.
 */
import { type PickleLimits, pickleLimits } from './limits.ts';
import { opcodes } from './opcodes.ts';
import { PickleOutput } from './output.ts';
import { Survey } from './survey.ts';
import {
  PickleError,
  PyByteArray,
  PyComplex,
  PyDict,
  PyException,
  PyFloat,
  PyRange,
  PySet,
  PyTuple,
  type PyValue,
  typeName,
} from './values.ts';

interface PickleOptions {
  /** 3 for every Python 3 (the default), 2 to be read by Python 2.7 as well. */
  readonly protocol?: 2 | 3;
  readonly limits?: PickleLimits;
}

/** Returns the whole pickle of `value`. Errors: PickleError for a Token, and beyond the limits. */
export function writePickle(value: PyValue, options: PickleOptions = {}): Buffer {
  const limits = options.limits ?? pickleLimits;
  const protocol = options.protocol ?? 3;
  const output = new PickleOutput(limits.bytesMax);
  const survey = new Survey(limits.depthMax);
  survey.visit(value, 0);
  output.byte(opcodes.PROTO);
  output.byte(protocol);
  new PickleWriter(output, protocol, survey.shared).value(value);
  output.byte(opcodes.STOP);
  return output.finish();
}

class PickleWriter {
  readonly #output: PickleOutput;
  readonly #protocol: 2 | 3;
  readonly #shared: ReadonlySet<unknown> | null;
  /** Index of each shared value that is written already. */
  readonly #memo = new Map<unknown, number>();
  /** Number of open tuples that occur elsewhere too, perhaps inside. */
  #openShared = 0;

  constructor(output: PickleOutput, protocol: 2 | 3, shared: ReadonlySet<unknown> | null) {
    this.#output = output;
    this.#protocol = protocol;
    this.#shared = shared;
  }

  value(value: PyValue): void {
    const output = this.#output;
    switch (typeof value) {
      case 'string':
        if (this.#recall(value)) return;
        output.text(value);
        this.#remember(value);
        return;
      case 'number':
        if (Number.isSafeInteger(value)) output.int(value);
        else output.float(value);
        return;
      case 'boolean':
        output.byte(value ? opcodes.NEWTRUE : opcodes.NEWFALSE);
        return;
      case 'bigint':
        this.#bigint(value);
        return;
      default:
        if (value === null) output.byte(opcodes.NONE);
        else if (value instanceof PyFloat) output.float(value.value);
        else if (!this.#recall(value)) this.#object(value);
    }
  }

  #bigint(value: bigint): void {
    const small = Number(value);
    if (Number.isSafeInteger(small)) this.#output.int(small);
    else this.#output.long(value);
  }

  #object(value: Exclude<Extract<PyValue, object>, PyFloat>): void {
    if (value instanceof PyTuple) this.#tuple(value);
    else if (Array.isArray(value)) this.#list(value);
    else if (value instanceof PyDict) this.#dict(value);
    else if (value instanceof Uint8Array) this.#bytes(value);
    else if (value instanceof PySet) this.#set(value);
    else if (value instanceof PyByteArray) this.#bytearray(value);
    else if (value instanceof PyException) this.#exception(value);
    else if (value instanceof PyComplex) this.#complex(value);
    else if (value instanceof PyRange) this.#range(value);
    else throw new PickleError(`a value of type ${typeName(value)} cannot be written`);
  }

  // --- memo ---

  /** Writes a reference to `value` if it is written already; returns whether it was. */
  #recall(value: unknown): boolean {
    if (this.#shared === null) return false;
    const index = this.#memo.get(value);
    if (index === undefined) return false;
    this.#output.indexed(opcodes.BINGET, opcodes.LONG_BINGET, index);
    return true;
  }

  #remember(value: unknown): void {
    if (this.#shared === null || !(this.#openShared > 0 || this.#shared.has(value))) return;
    const index = this.#memo.size;
    this.#memo.set(value, index);
    this.#output.indexed(opcodes.BINPUT, opcodes.LONG_BINPUT, index);
  }

  // --- containers ---

  /**
   * A tuple gets its memo entry only after its items. So a tuple that contains itself, in a list,
   * is written a second time inside, and everything around it must have an entry by then.
   */
  #tuple(tuple: PyTuple): void {
    const { items } = tuple;
    const isShared = this.#shared?.has(tuple) ?? false;
    if (isShared) this.#openShared += 1;
    if (items.length > 3) this.#output.byte(opcodes.MARK);
    for (const item of items) this.value(item);
    if (isShared) this.#openShared -= 1;
    if (this.#shared !== null && this.#memo.has(tuple)) {
      // The inner one is written by now: refer to it.
      if (items.length > 3) this.#output.byte(opcodes.POP_MARK);
      else for (const _ of items) this.#output.byte(opcodes.POP);
      this.#recall(tuple);
      return;
    }
    this.#output.byte(tupleOpcodes[items.length] ?? opcodes.TUPLE);
    this.#remember(tuple);
  }

  #list(list: readonly PyValue[]): void {
    this.#output.byte(opcodes.EMPTY_LIST);
    this.#remember(list);
    if (list.length === 0) return;
    this.#output.byte(opcodes.MARK);
    for (const item of list) this.value(item);
    this.#output.byte(opcodes.APPENDS);
  }

  #dict(dict: PyDict): void {
    this.#output.byte(opcodes.EMPTY_DICT);
    this.#remember(dict);
    if (dict.size === 0) return;
    this.#output.byte(opcodes.MARK);
    dict.forEach((key, value) => {
      this.value(key);
      this.value(value);
    });
    this.#output.byte(opcodes.SETITEMS);
  }

  // --- what protocols 2 and 3 write as a call ---

  #set(set: PySet): void {
    this.#builtin(set.frozen ? 'frozenset' : 'set');
    this.#list([...set]);
    this.#call(1, set);
  }

  #bytes(bytes: Uint8Array): void {
    if (this.#protocol === 3) {
      this.#output.bytes(bytes);
      this.#remember(bytes);
      return;
    }
    this.#global('_codecs', 'encode');
    this.#output.text(latin1Text(bytes));
    this.#output.text('latin1');
    this.#call(2, bytes);
  }

  #bytearray(bytearray: PyByteArray): void {
    this.#builtin('bytearray');
    if (this.#protocol === 3) {
      this.#output.bytes(bytearray.bytes);
      this.#call(1, bytearray);
      return;
    }
    this.#output.text(latin1Text(bytearray.bytes));
    this.#output.text('latin-1');
    this.#call(2, bytearray);
  }

  #complex(complex: PyComplex): void {
    this.#builtin('complex');
    this.#output.float(complex.real);
    this.#output.float(complex.imag);
    this.#call(2, complex);
  }

  #range(range: PyRange): void {
    this.#builtin(this.#protocol === 3 ? 'range' : 'xrange');
    this.value(range.start);
    this.value(range.stop);
    this.value(range.step);
    this.#call(3, range);
  }

  /** Python 3 knows the old names of protocol 2, Python 2.7 no others. */
  #exception(exception: PyException): void {
    const { module, className, args } = exception;
    const old = this.#protocol === 2 ? oldModules.get(module) : undefined;
    this.#global(old ?? module, className);
    this.#tuple(new PyTuple(args));
    this.#output.byte(opcodes.REDUCE);
    this.#remember(exception);
  }

  #builtin(name: string): void {
    this.#global(this.#protocol === 2 ? '__builtin__' : 'builtins', name);
  }

  #global(module: string, name: string): void {
    if (!dotted.test(module) || !dotted.test(name)) {
      throw new PickleError('the name of a class is not an identifier');
    }
    this.#output.byte(opcodes.GLOBAL);
    this.#output.raw(Buffer.from(`${module}\n${name}\n`, 'latin1'));
  }

  /** The call of the class below the last `argCount` values makes `value`. */
  #call(argCount: 1 | 2 | 3, value: object): void {
    this.#output.byte(tupleOpcodes[argCount]);
    this.#output.byte(opcodes.REDUCE);
    this.#remember(value);
  }
}

const tupleOpcodes = [opcodes.EMPTY_TUPLE, opcodes.TUPLE1, opcodes.TUPLE2, opcodes.TUPLE3] as const;

const oldModules = new Map([
  ['builtins', 'exceptions'],
  ['queue', 'Queue'],
]);

const dotted = /^[A-Za-z_][A-Za-z0-9_.]*$/;

function latin1Text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

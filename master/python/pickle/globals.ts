/**
 * The closed list of classes that a pickle may name, and how each is read as plain data. No name is
 * looked up anywhere else, and no part of the pickle is called: a name is a key of the table below,
 * or it is refused.
 *
 * Left out on purpose: `copyreg`, `copy_reg` and `functools` (they call their arguments),
 * exceptions, `datetime`, `decimal`, `collections`, numpy and every class of a program. **Source:**
 * `object.__reduce_ex__` of the classes named, as CPython 2.7 and 3.6 to 3.13 write them; lxml
 * `src/lxml/extensions.pxi`.
 */
import { containerWeight, hashedWeight, scalarWeight } from './limits.ts';
import { printable } from './text.ts';
import {
  PickleError,
  PyByteArray,
  PyComplex,
  PyFloat,
  PyRange,
  PySet,
  PyToken,
  PyTuple,
  type PyValue,
} from './values.ts';

/** The part of the machine that a class uses: it charges for copies. */
interface Charged {
  charge(weight: number): void;
  addItem(set: PySet, item: PyValue): void;
}

/** Makes the value, without calling anything, and charges `machine` for copies. */
type Construct = (args: readonly PyValue[], machine: Charged) => PyValue;

/** A class of the list. `reduce` stands for calling it, `create` for its `__new__`. */
export class PyGlobal {
  readonly name: string;
  readonly reduce: Construct | null;
  readonly create: Construct | null;

  constructor(name: string, how: { reduce?: Construct; create?: Construct }) {
    this.name = name;
    this.reduce = how.reduce ?? null;
    this.create = how.create ?? null;
  }
}

/** Returns the class of this name. Throws PickleError "os.system is not allowed". */
export function findGlobal(module: string, name: string): PyGlobal {
  const global = globals.get(`${module} ${name}`);
  if (global !== undefined) return global;
  throw new PickleError(`${printable(module)}.${printable(name)} is not allowed`);
}

const badArguments = (name: string): PickleError =>
  new PickleError(`${name} has arguments that are not allowed`);

/** Returns the items of the one list or tuple that a container is made of. */
function itemsOf(name: string, args: readonly PyValue[], machine: Charged): readonly PyValue[] {
  if (args.length === 0) return [];
  const source = args[0] instanceof PyTuple ? args[0].items : args[0];
  if (args.length !== 1 || !Array.isArray(source)) throw badArguments(name);
  machine.charge(containerWeight + source.length * scalarWeight);
  return source;
}

const list: Construct = (args, machine) => [...itemsOf('list', args, machine)];

const setOf =
  (frozen: boolean): Construct =>
  (args, machine) => {
    machine.charge(hashedWeight);
    const set = new PySet(frozen);
    for (const item of itemsOf('set', args, machine)) machine.addItem(set, item);
    return set;
  };

/** `_codecs.encode(str, 'latin1')`: how protocols 0 to 2 write bytes. */
const encode: Construct = (args, machine) => {
  const [text, encoding] = args;
  if (args.length !== 2 || encoding !== 'latin1') throw badArguments('_codecs.encode');
  return latin1Bytes('_codecs.encode', text, machine);
};

function latin1Bytes(name: string, text: PyValue | undefined, machine: Charged): Uint8Array {
  if (typeof text !== 'string') throw badArguments(name);
  machine.charge(text.length);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit > 0xff) throw badArguments(name);
    bytes[index] = unit;
  }
  return bytes;
}

const bytearray: Construct = (args, machine) => {
  const [source, encoding] = args;
  if (args.length === 0) return new PyByteArray(new Uint8Array(0));
  if (args.length === 2 && encoding === 'latin-1') {
    return new PyByteArray(latin1Bytes('bytearray', source, machine));
  }
  if (args.length !== 1 || !(source instanceof Uint8Array)) throw badArguments('bytearray');
  machine.charge(source.length);
  return new PyByteArray(new Uint8Array(source));
};

/** Protocols 0 to 2 write empty bytes as a call without arguments. */
const bytes: Construct = (args) => {
  if (args.length !== 0) throw badArguments('bytes');
  return new Uint8Array(0);
};

const complex: Construct = (args) => {
  const [real, imag] = args.map((part) => (part instanceof PyFloat ? part.value : part));
  if (args.length !== 2 || typeof real !== 'number' || typeof imag !== 'number') {
    throw badArguments('complex');
  }
  return new PyComplex(real, imag);
};

const isInt = (value: PyValue | undefined): value is number | bigint =>
  typeof value === 'bigint' || Number.isSafeInteger(value);

const range: Construct = (args) => {
  const [start, stop, step] = args;
  if (args.length !== 3 || !isInt(start) || !isInt(stop) || !isInt(step) || Number(step) === 0) {
    throw badArguments('range');
  }
  return new PyRange(start, stop, step);
};

/** An XPath result of lxml is a str that also knows its element; only the str is kept. */
const lxmlText: Construct = (args) => {
  const [text] = args;
  if (args.length !== 1 || typeof text !== 'string') throw badArguments('_ElementUnicodeResult');
  return text;
};

const token: Construct = (args) => {
  if (args.length !== 0) throw badArguments('Token');
  return new PyToken();
};

const globals = new Map<string, PyGlobal>();

function allow(
  modules: readonly string[],
  name: string,
  how: { reduce?: Construct; create?: Construct },
): void {
  for (const module of modules) {
    globals.set(`${module} ${name}`, new PyGlobal(`${module}.${name}`, how));
  }
}

// Protocols 0 to 2 use the names of Python 2, also when Python 3 writes them.
const builtins = ['builtins', '__builtin__'] as const;
allow(builtins, 'list', { reduce: list });
allow(builtins, 'set', { reduce: setOf(false) });
allow(builtins, 'frozenset', { reduce: setOf(true) });
allow(builtins, 'bytearray', { reduce: bytearray });
allow(builtins, 'bytes', { reduce: bytes });
allow(builtins, 'complex', { reduce: complex });
allow(['builtins'], 'range', { reduce: range });
allow(['__builtin__'], 'xrange', { reduce: range });
allow(['_codecs'], 'encode', { reduce: encode });
allow(['lxml.etree'], '_ElementUnicodeResult', { create: lxmlText });
allow(['lxml.etree'], '_PyElementUnicodeResult', { create: lxmlText });
allow(['multiprocessing.managers'], 'Token', { create: token });

/**
 * Reads a pickle of protocol 0 to 5 as plain data. The codec is closed: one table has the effect of
 * each opcode on the machine, another one the classes that may be named, and there is nothing else.
 * Nothing is executed, imported or looked up on an object. Called by the manager's sessions for
 * each request, and for items of user queues.
 *
 * Refused by name: any other class, persistent ids, extension codes, out-of-band buffers. Refused
 * too: pickles that are truncated, malformed or beyond `pickleLimits`. Always with a PickleError.
 * **Source:** CPython `Lib/pickletools.py`, PEP 307, PEP 3154, PEP 574.
 */
import { findGlobal, PyGlobal } from './globals.ts';
import { hashedWeight, type PickleLimits, pickleLimits } from './limits.ts';
import { PickleMachine } from './machine.ts';
import { opcodes } from './opcodes.ts';
import { decodeRawUnicodeEscape, decodeRepr, parseFloatText, parseInteger } from './text.ts';
import {
  PickleError,
  PyByteArray,
  PyDict,
  PySet,
  PyToken,
  PyTuple,
  type PyValue,
  pyFloat,
  typeName,
} from './values.ts';
import { checkDepth, checkWeight } from './weight.ts';

/** Returns the value of a whole pickle. Errors: only PickleError (E_BAD_REQUEST), for any bytes. */
export function readPickle(bytes: Uint8Array, limits: PickleLimits = pickleLimits): PyValue {
  if (bytes.length > limits.bytesMax) {
    throw new PickleError(`the pickle has more than ${limits.bytesMax} bytes`);
  }
  const input = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const machine = new PickleMachine(input, limits);
  const value = run(machine);
  if (machine.at !== input.length) throw new PickleError('there are bytes after the pickle');
  // The machine has counted every container, which bounds weight and depth of a value without
  // shared containers. So few values need a walk, and fewer the one that tracks shared parts.
  if (machine.sharesContainers) checkWeight(value, limits);
  else if (machine.containerCount > limits.depthMax) checkDepth(value, limits.depthMax);
  return value;
}

type Handler = (machine: PickleMachine) => void;

function run(machine: PickleMachine): PyValue {
  for (let left = machine.limits.opcodesMax; left > 0; left -= 1) {
    const opcode = machine.byte();
    if (opcode === opcodes.STOP) return machine.popData();
    const handler = handlers[opcode];
    if (handler === undefined) {
      throw new PickleError(`unknown opcode 0x${opcode.toString(16).padStart(2, '0')}`);
    }
    handler(machine);
  }
  throw new PickleError('the pickle has too many instructions');
}

const handlers: (Handler | undefined)[] = new Array(256).fill(undefined);
const on = (opcode: number, handler: Handler): void => {
  handlers[opcode] = handler;
};
const refuse = (opcode: number, what: string): void =>
  on(opcode, () => {
    throw new PickleError(`${what} not allowed`);
  });

// --- the frame of a pickle ---

on(opcodes.PROTO, (machine) => {
  const protocol = machine.byte();
  if (protocol > 5) throw new PickleError(`pickle protocol ${protocol} is unknown`);
});
on(opcodes.FRAME, (machine) => {
  const length = machine.uint64();
  if (length > machine.input.length - machine.at) throw new PickleError('a frame is truncated');
});

// --- scalars ---

on(opcodes.NONE, (machine) => machine.push(null));
on(opcodes.NEWTRUE, (machine) => machine.push(true));
on(opcodes.NEWFALSE, (machine) => machine.push(false));
on(opcodes.BININT, (machine) => machine.push(machine.int32()));
on(opcodes.BININT1, (machine) => machine.push(machine.byte()));
on(opcodes.BININT2, (machine) => machine.push(machine.uint16()));
on(opcodes.LONG1, (machine) => machine.push(readLong(machine, machine.byte())));
on(opcodes.LONG4, (machine) => {
  const byteCount = machine.int32();
  if (byteCount < 0) throw new PickleError('an int has a negative length');
  machine.push(readLong(machine, byteCount));
});
on(opcodes.BINFLOAT, (machine) => {
  machine.push(pyFloat(machine.input.readDoubleBE(machine.take(8))));
});
on(opcodes.INT, (machine) => {
  const line = machine.line();
  // Python 2.3's way to write a bool that older versions read as an int.
  if (line === '00') machine.push(false);
  else if (line === '01') machine.push(true);
  else machine.push(parseInteger(line));
});
on(opcodes.LONG, (machine) => machine.push(parseInteger(machine.line())));
on(opcodes.FLOAT, (machine) => machine.push(pyFloat(parseFloatText(machine.line()))));

/** A little-endian two's complement of `byteCount` bytes. */
function readLong(machine: PickleMachine, byteCount: number): number | bigint {
  if (byteCount > machine.limits.intBytesMax) throw new PickleError('an int is too large');
  const start = machine.take(byteCount);
  if (byteCount === 0) return 0;
  if (byteCount <= 6) return machine.input.readIntLE(start, byteCount);
  const value =
    byteCount === 8 ? machine.input.readBigInt64LE(start) : twosComplement(machine, start);
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

function twosComplement(machine: PickleMachine, start: number): bigint {
  const bytes = Buffer.from(machine.input.subarray(start, machine.at)).reverse();
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex')}`));
}

// --- text and bytes ---

on(opcodes.SHORT_BINUNICODE, (machine) => machine.push(machine.text(machine.byte())));
on(opcodes.BINUNICODE, (machine) => machine.push(machine.text(machine.uint32())));
on(opcodes.BINUNICODE8, (machine) => machine.push(machine.text(machine.uint64())));
on(opcodes.UNICODE, (machine) => machine.push(decodeRawUnicodeEscape(machine.line())));
on(opcodes.SHORT_BINBYTES, (machine) => machine.push(machine.bytes(machine.byte())));
on(opcodes.BINBYTES, (machine) => machine.push(machine.bytes(machine.uint32())));
on(opcodes.BINBYTES8, (machine) => machine.push(machine.bytes(machine.uint64())));
on(opcodes.BYTEARRAY8, (machine) => {
  machine.pushContainer(new PyByteArray(machine.bytes(machine.uint64())));
});
on(opcodes.SHORT_BINSTRING, (machine) => {
  machine.push(python2Text(machine.bytes(machine.byte())));
});
on(opcodes.BINSTRING, (machine) => {
  const byteCount = machine.int32();
  if (byteCount < 0) throw new PickleError('a str has a negative length');
  machine.push(python2Text(machine.bytes(byteCount)));
});
on(opcodes.STRING, (machine) => {
  machine.push(python2Text(Buffer.from(decodeRepr(machine.line()), 'latin1')));
});

/** Python 2's str is text if it is ASCII, else bytes: no encoding is guessed. */
function python2Text(bytes: Uint8Array): string | Uint8Array {
  if (bytes.some((byte) => byte > 0x7f)) return new Uint8Array(bytes);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

// --- containers ---

const pushTuple = (machine: PickleMachine, items: PyValue[]): void =>
  machine.pushContainer(new PyTuple(items));

on(opcodes.MARK, (machine) => machine.mark());
on(opcodes.EMPTY_TUPLE, (machine) => pushTuple(machine, []));
on(opcodes.TUPLE, (machine) => pushTuple(machine, machine.popMark()));
on(opcodes.TUPLE1, (machine) => pushTuple(machine, [machine.popData()]));
on(opcodes.TUPLE2, (machine) => {
  const second = machine.popData();
  pushTuple(machine, [machine.popData(), second]);
});
on(opcodes.TUPLE3, (machine) => {
  const third = machine.popData();
  const second = machine.popData();
  pushTuple(machine, [machine.popData(), second, third]);
});

on(opcodes.EMPTY_LIST, (machine) => machine.pushContainer([]));
on(opcodes.LIST, (machine) => machine.pushContainer(machine.popMark()));
on(opcodes.APPEND, (machine) => {
  const item = machine.popData();
  topList(machine).push(item);
});
on(opcodes.APPENDS, (machine) => {
  const items = machine.popMark();
  const list = topList(machine);
  for (const item of items) list.push(item);
});

on(opcodes.EMPTY_DICT, (machine) => machine.pushContainer(new PyDict(), hashedWeight));
on(opcodes.DICT, (machine) => {
  const items = machine.popMark();
  const dict = new PyDict();
  machine.pushContainer(dict, hashedWeight);
  setItems(machine, dict, items);
});
on(opcodes.SETITEM, (machine) => {
  const value = machine.popData();
  const key = machine.popData();
  machine.setItem(topDict(machine), key, value);
});
on(opcodes.SETITEMS, (machine) => {
  const items = machine.popMark();
  setItems(machine, topDict(machine), items);
});

on(opcodes.EMPTY_SET, (machine) => machine.pushContainer(new PySet(false), hashedWeight));
on(opcodes.ADDITEMS, (machine) => {
  const items = machine.popMark();
  const set = machine.top();
  if (!(set instanceof PySet) || set.frozen) throw new PickleError('ADDITEMS needs a set');
  for (const item of items) machine.addItem(set, item);
});
on(opcodes.FROZENSET, (machine) => {
  const set = new PySet(true);
  for (const item of machine.popMark()) machine.addItem(set, item);
  machine.pushContainer(set, hashedWeight);
});

function topList(machine: PickleMachine): PyValue[] {
  const list = machine.top();
  if (!Array.isArray(list)) throw new PickleError('APPEND needs a list');
  return list;
}

function topDict(machine: PickleMachine): PyDict {
  const dict = machine.top();
  if (!(dict instanceof PyDict)) throw new PickleError('SETITEM needs a dict');
  return dict;
}

function setItems(machine: PickleMachine, dict: PyDict, items: readonly PyValue[]): void {
  if (items.length % 2 !== 0) throw new PickleError('a dict has a key without a value');
  for (let index = 0; index < items.length; index += 2) {
    machine.setItem(dict, items[index] ?? null, items[index + 1] ?? null);
  }
}

// --- stack and memo ---

on(opcodes.POP, (machine) => machine.drop());
on(opcodes.POP_MARK, (machine) => {
  machine.popMark();
});
on(opcodes.DUP, (machine) => {
  const operand = machine.top();
  machine.push(operand);
  machine.repeated(operand);
});
on(opcodes.MEMOIZE, (machine) => machine.remember(machine.memoCount));
on(opcodes.BINPUT, (machine) => machine.remember(machine.byte()));
on(opcodes.LONG_BINPUT, (machine) => machine.remember(machine.uint32()));
on(opcodes.PUT, (machine) => machine.remember(memoIndex(machine)));
on(opcodes.BINGET, (machine) => machine.recall(machine.byte()));
on(opcodes.LONG_BINGET, (machine) => machine.recall(machine.uint32()));
on(opcodes.GET, (machine) => machine.recall(memoIndex(machine)));

function memoIndex(machine: PickleMachine): number {
  const line = machine.line();
  if (!/^[0-9]{1,10}$/.test(line)) throw new PickleError('a memo index is not a number');
  return Number(line);
}

// --- the few classes ---

on(opcodes.GLOBAL, (machine) => {
  const module = machine.line();
  machine.pushGlobal(findGlobal(module, machine.line()));
});
on(opcodes.STACK_GLOBAL, (machine) => {
  const name = machine.pop();
  const module = machine.pop();
  if (typeof name !== 'string' || typeof module !== 'string') {
    throw new PickleError('STACK_GLOBAL needs two strings');
  }
  machine.pushGlobal(findGlobal(module, name));
});
on(opcodes.REDUCE, (machine) => construct(machine, 'reduce'));
on(opcodes.NEWOBJ, (machine) => construct(machine, 'create'));

function construct(machine: PickleMachine, how: 'reduce' | 'create'): void {
  const args = machine.pop();
  const global = machine.pop();
  if (!(global instanceof PyGlobal)) throw new PickleError('only a class can be called');
  if (!(args instanceof PyTuple)) throw new PickleError('arguments must be a tuple');
  const make = global[how];
  if (make === null) throw new PickleError(`${global.name} is not allowed in this way`);
  const value = make(args.items, machine);
  if (typeof value === 'object') machine.pushContainer(value);
  else machine.push(value);
}

on(opcodes.BUILD, (machine) => {
  const state = machine.popData();
  const value = machine.data(machine.top());
  if (!(value instanceof PyToken) || !(state instanceof PyTuple) || state.items.length !== 3) {
    throw new PickleError(`the state of a ${typeName(value)} is not allowed`);
  }
  [value.typeid = null, value.address = null, value.id = null] = state.items;
});

/** Classes of Python 1 and 2 by name: none of the list is written so. */
on(opcodes.INST, (machine) => {
  const module = machine.line();
  const global = findGlobal(module, machine.line());
  throw new PickleError(`${global.name} is not allowed in this way`);
});
refuse(opcodes.OBJ, 'OBJ is');
refuse(opcodes.NEWOBJ_EX, 'NEWOBJ_EX is');
refuse(opcodes.EXT1, 'extension codes of copyreg are');
refuse(opcodes.EXT2, 'extension codes of copyreg are');
refuse(opcodes.EXT4, 'extension codes of copyreg are');
refuse(opcodes.PERSID, 'persistent ids are');
refuse(opcodes.BINPERSID, 'persistent ids are');
refuse(opcodes.NEXT_BUFFER, 'out-of-band buffers are');
refuse(opcodes.READONLY_BUFFER, 'out-of-band buffers are');

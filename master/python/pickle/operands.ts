/** Finds the operands of an instruction of a pickle, without interpreting them. */
import { opcodes } from './opcodes.ts';
import { PickleError } from './values.ts';

const o = opcodes;
const fixed = new Int8Array(256).fill(-1);
const set = (bytes: number, ...codes: readonly number[]) => {
  for (const code of codes) fixed[code] = bytes;
};
set(0, o.MARK, o.EMPTY_TUPLE, o.STOP, o.POP, o.POP_MARK, o.DUP, o.NONE, o.BINPERSID, o.REDUCE);
set(0, o.EMPTY_LIST, o.APPEND, o.BUILD, o.DICT, o.APPENDS, o.LIST, o.OBJ, o.SETITEM, o.TUPLE);
set(0, o.SETITEMS, o.EMPTY_DICT, o.NEWOBJ, o.TUPLE1, o.TUPLE2, o.TUPLE3, o.NEWTRUE, o.NEWFALSE);
set(0, o.EMPTY_SET, o.ADDITEMS, o.FROZENSET, o.NEWOBJ_EX, o.STACK_GLOBAL, o.MEMOIZE);
set(0, o.NEXT_BUFFER, o.READONLY_BUFFER);
set(1, o.BININT1, o.BINGET, o.BINPUT, o.PROTO, o.EXT1);
set(2, o.BININT2, o.EXT2);
set(4, o.BININT, o.LONG_BINGET, o.LONG_BINPUT, o.EXT4);
set(8, o.BINFLOAT, o.FRAME);
/** Bytes of the length before the operand. */
const counted = new Int8Array(256);
for (const code of [o.SHORT_BINUNICODE, o.SHORT_BINBYTES, o.SHORT_BINSTRING, o.LONG1]) {
  counted[code] = 1;
}
for (const code of [o.BINUNICODE, o.BINBYTES, o.BINSTRING, o.LONG4]) counted[code] = 4;
for (const code of [o.BINUNICODE8, o.BINBYTES8, o.BYTEARRAY8]) counted[code] = 8;
const lines = new Int8Array(256);
for (const code of [o.FLOAT, o.INT, o.LONG, o.PERSID, o.STRING, o.UNICODE, o.GET, o.PUT]) {
  lines[code] = 1;
}
lines[o.GLOBAL] = lines[o.INST] = 2;

/** `from` and `end` of the operand of the instruction at `at`, without its length; `end` may be
 *  beyond the input: then the instruction is cut. Errors: PickleError for an unknown
 *  instruction. */
export function operandsAt(input: Buffer, at: number): { from: number; end: number } {
  const opcode = input[at];
  if (opcode === undefined) return { from: at, end: input.length + 1 };
  const bytes = fixed[opcode] ?? -1;
  if (bytes >= 0) return { from: at + 1, end: at + 1 + bytes };
  const lengthBytes = counted[opcode] ?? 0;
  if (lengthBytes > 0) {
    const from = at + 1 + lengthBytes;
    if (from > input.length) return { from, end: input.length + 1 };
    return { from, end: from + lengthAt(input, at + 1, lengthBytes) };
  }
  let end = at + 1;
  for (let left = lines[opcode] ?? 0; left > 0; left--) {
    const feed = input.indexOf(0x0a, end);
    end = feed < 0 ? input.length + 1 : feed + 1;
  }
  if (end > at + 1) return { from: at + 1, end };
  throw new PickleError(`unknown opcode 0x${opcode.toString(16).padStart(2, '0')}`);
}

function lengthAt(input: Buffer, at: number, bytes: number): number {
  if (bytes === 1) return input[at] ?? 0;
  const low = input.readUInt32LE(at);
  return bytes === 4 ? low : low + input.readUInt32LE(at + 4) * 2 ** 32;
}

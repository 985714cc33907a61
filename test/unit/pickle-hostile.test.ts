/** Effects that a pickle must not have. The output of real picklers is in pickle-python.test. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { pickleLimits } from '../../master/python/pickle/limits.ts';
import { opcodes } from '../../master/python/pickle/opcodes.ts';
import { readPickle } from '../../master/python/pickle/reader.ts';
import {
  PickleError,
  PyDict,
  PyFloat,
  PyTuple,
  type PyValue,
} from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { cpuMsSince } from '../support/cpu-time.ts';
import { bytesOf, uint32 } from '../support/pickle-bytes.ts';

type Parts = (string | number | Uint8Array)[];

/** Refused with this message, and soon: every one of these is a denial of service if it is slow. */
function refused(name: string, message: RegExp, ...parts: Parts): void {
  test(name, () => {
    const pickle = bytesOf(...parts);
    const start = process.cpuUsage();
    assert.throws(
      () => readPickle(pickle),
      (error) => error instanceof PickleError && message.test(error.message),
    );
    assert(cpuMsSince(start) < 3000, 'it takes too long');
  });
}

const max64 = Buffer.from('ffffffffffffffff', 'hex');
const half64 = Buffer.from('0000000000000080', 'hex');
const minus1 = uint32(0xffffffff);

suite('pickle: what would run code', () => {
  const call = "(S'exit 1'\ntR.";
  refused('os.system', /^os\.system is not allowed$/, 'cos\nsystem\n', call);
  refused('posix.system', /^posix\.system is not allowed$/, 'cposix\nsystem\n', call);
  refused('eval', /^builtins\.eval is not allowed$/, 'cbuiltins\neval\n', call);
  refused('getattr', /^__builtin__\.getattr is not allowed$/, 'c__builtin__\ngetattr\n', call);
  refused('copyreg', /^copyreg\._reconstructor is/, 'ccopyreg\n_reconstructor\n', call);
  refused('copy_reg', /^copy_reg\.__newobj__ is/, 'ccopy_reg\n__newobj__\n', call);
  refused(
    'STACK_GLOBAL',
    /^os\.system is not allowed$/,
    ...[0x80, 4, 0x8c, 2, 'os', 0x8c, 6, 'system', 0x93, 0x8c, 1, 'x', 0x85, 'R.'],
  );
  refused('a name with a dot', /^builtins\.list\.append is/, 'cbuiltins\nlist.append\n', call);
  refused('a name of an object', /^__proto__\.constructor is/, 'c__proto__\nconstructor\n', call);
  refused('a key of two names', /^builtins list\. is not/, 'cbuiltins list\n\n', call);
  refused('a module with control codes', /^os\?\[31m\.x is not/, 'cos\x1b[31m\nx\n', call);
  refused('STACK_GLOBAL without text', /needs two strings/, 'NN', 0x93, '.');
  refused('INST', /^os\.system is not allowed$/, "(S'exit 1'\nios\nsystem\n.");
  refused('INST of a known class', /not allowed in this way/, '(ibuiltins\nlist\n.');
  refused('OBJ', /OBJ is not allowed/, '(cbuiltins\nlist\no.');
  refused('NEWOBJ of a builtin', /not allowed in this way/, 'cbuiltins\nlist\n)', 0x81, '.');
  refused('NEWOBJ_EX', /NEWOBJ_EX is not/, 'cbuiltins\nlist\n)}', 0x92, '.');
  refused('REDUCE of lxml', /not allowed in this way/, 'clxml.etree\n_ElementUnicodeResult\n)R.');
  refused('REDUCE of a str', /only a class can be called/, 'X', uint32(2), 'os)R.');
  refused('arguments that are no tuple', /must be a tuple/, 'cbuiltins\nlist\n]R.');
  refused('BUILD of a list', /state of a list is not allowed/, ']}b.');
  refused('BUILD of a class', /only its values/, 'cbuiltins\nlist\n}b.');
  refused(
    'BUILD of a Token',
    /state of a Token/,
    'cmultiprocessing.managers\nToken\n)',
    0x81,
    '}b.',
  );
  refused('a class as the value', /builtins\.list is a class/, 'cbuiltins\nlist\n.');
  refused('a class in a tuple', /is a class/, 'cbuiltins\nlist\n', 0x85, '.');
  refused('a class in a list', /is a class/, '](cbuiltins\nlist\ne.');
  refused('a class as a key', /is a class/, '}cbuiltins\nlist\nNs.');
  refused('a class by its memo', /is a class/, 'cbuiltins\nlist\nq', 0, '0](h', 0, 'e.');
  refused('a class twice', /is a class/, '](cbuiltins\nset\n2)Re.');
  for (const code of [opcodes.EXT1, opcodes.EXT2, opcodes.EXT4]) {
    refused(`extension code ${code}`, /extension codes/, code, uint32(1), '.');
  }
  refused('PERSID', /persistent ids/, 'Px\n.');
  refused('BINPERSID', /persistent ids/, 'X', uint32(1), 'xQ.');
  refused('NEXT_BUFFER', /out-of-band buffers/, 0x80, 5, 0x97, '.');
  refused('READONLY_BUFFER', /out-of-band buffers/, 0x80, 5, 'C', 0, 0x98, '.');
});

suite('pickle: arguments of the few classes', () => {
  const call = (name: string, ...args: Parts): Parts => [`cbuiltins\n${name}\n(`, ...args, 'tR.'];
  refused('bytearray of an int', /arguments/, ...call('bytearray', 'J', uint32(1 << 30)));
  refused('bytes of an int', /arguments/, ...call('bytes', 'J', uint32(1 << 30)));
  refused('list of a dict', /arguments/, ...call('list', '}'));
  refused('list of itself, often', /too large/, ...listBomb());
  refused('set of a list of lists', /unhashable type: 'list'/, ...call('set', '(]l'));
  refused('range without a step', /arguments/, ...call('range', 'NNN'));
  refused('a step of 0', /arguments/, ...call('range', 'K\0K\0K\0'));
  refused('complex of a str', /arguments/, ...call('complex', 'X', uint32(0)));
  refused(
    'Token with arguments',
    /arguments/,
    'cmultiprocessing.managers\nToken\nN',
    0x85,
    0x81,
    '.',
  );
  const encode = (text: string, name: string): Parts => ['c_codecs\nencode\n(', text, name, 'tR.'];
  refused('another codec', /arguments/, ...encode("S'a'\n", "S'rot13'\n"));
  refused('beyond Latin-1', /arguments/, ...encode('V\\u0100\n', "S'latin1'\n"));
});

/** 60 bytes: a list of a million made of a list of a million, and again. */
function listBomb(): Parts {
  const list = ['](', Buffer.alloc(100_000, 'N'), 'eq', 0, '0'];
  const copies = new Array(2000).fill(['cbuiltins\nlist\n(h', 0, 'tR']).flat();
  return [...list, ']', '(', ...copies, 'e.'];
}

suite('pickle: broken', () => {
  refused('nothing', /truncated/);
  refused('no STOP', /truncated/, 0x80, 3, 'N');
  refused('STOP alone', /stack is empty/, '.');
  refused('two pickles', /bytes after/, 'N.N.');
  refused('an unknown opcode', /unknown opcode 0xff/, 0xff);
  refused('protocol 6', /protocol 6/, 0x80, 6, 'N.');
  refused('POP of nothing', /no MARK is open/, '0.');
  refused('POP below a MARK', /stack is empty/, 'N(', 0x85, '.');
  refused('TUPLE without MARK', /no MARK/, 'Nt.');
  refused('STOP below a MARK', /stack is empty/, 'N(.');
  refused('APPEND to a tuple', /needs a list/, ')Na.');
  refused('APPENDS to nothing', /stack is empty/, '(Ne.');
  refused('SETITEM of a list', /needs a dict/, ']NNs.');
  refused('SETITEMS of odd length', /key without a value/, '}(Nu.');
  refused('ADDITEMS of a frozenset', /needs a set/, '(', 0x91, '(N', 0x90, '.');
  refused('a list as a key', /unhashable type: 'list'/, '}]Ns.');
  refused('GET of nothing', /memo index 7 is empty/, 'h', 7, '.');
  refused('LONG_BINPUT ffffffff', /out of range/, 'Nr', minus1, '.');
  refused('LONG_BINGET ffffffff', /is empty/, 'j', minus1, '.');
  refused('PUT of a huge index', /out of range/, 'Np4294967295\n.');
  refused('PUT of a negative index', /not a number/, 'Np-1\n.');
  refused('DUP of nothing', /stack is empty/, '2.');
  refused('an INT that is none', /not a decimal/, 'I0x10\n.');
  refused('a LONG of 5000 digits', /too many digits/, `L${'9'.repeat(5000)}L\n.`);
  refused('a FLOAT that is none', /not a decimal/, `F${'1'.repeat(4000)}x\n.`);
  refused('a STRING without quotes', /quoted/, 'Sabc\n.');
  refused('a broken escape', /broken escape/, "S'\\x4'\n.");
  refused('an escape beyond Unicode', /beyond Unicode/, 'V\\U00110000\n.');
  refused('negative LONG4', /negative/, 0x8b, minus1, '.');
  refused('LONG4 of 2^31 - 1', /too large/, 0x8b, uint32(0x7fffffff), '.');
  refused('negative BINSTRING', /negative/, 'T', minus1, '.');
  for (const code of [opcodes.BINUNICODE8, opcodes.BINBYTES8, opcodes.BYTEARRAY8, opcodes.FRAME]) {
    refused(`a length of 2^64 - 1, opcode ${code}`, /truncated/, 0x80, 5, code, max64, '.');
    refused(`a length of 2^63, opcode ${code}`, /truncated/, 0x80, 5, code, half64, '.');
  }
  refused('BINBYTES of 4 GiB', /truncated/, 'B', minus1, '.');
  refused('BINUNICODE of 4 GiB', /truncated/, 'X', minus1, '.');
});

suite('pickle: bombs', () => {
  const million = (opcode: string): Buffer => Buffer.alloc(1_000_000, opcode);
  refused('a million MARKs', /stack is empty/, million('('), '.');
  refused('lists in lists', /too deep/, million(']'), million('a').subarray(1), '.');
  refused('tuples in tuples', /too deep/, 'N', Buffer.alloc(1_000_000, 0x85), '.');
  refused('a tuple as a key, deep', /nested too deep/, '}N', Buffer.alloc(5000, 0x85), 'Ns.');
  refused('ten references, 31 times', /too large/, ...memoBomb());
  refused('the same by DUP', /too large/, ']', ...new Array(40).fill([0x32, 0x86]).flat(), '.');
  refused('a tuple as a key, wide', /key is too large/, '})', ...doubled(40), 'Ns.');
  refused('a long str, often', /too large/, ...textBomb());
  refused('a large int, often', /too large/, ...intBomb());
  refused('six million empty lists', /too large/, '](', Buffer.alloc(6_000_000, ']'), 'e.');
  refused('nine million instructions', /instructions/, '](', Buffer.alloc(9_000_000, 'N'), 'e.');
  refused('more than the limit', /more than \d+ bytes/, Buffer.alloc(pickleLimits.bytesMax + 1));

  function memoBomb(): Parts {
    const parts: Parts = [0x80, 3, ']q', 0, 'K', 1, 'a0'];
    for (let level = 1; level <= 31; level += 1) {
      parts.push(']q', level, '(', ...new Array(10).fill(['h', level - 1]).flat(), 'e0');
    }
    return [...parts, 'h', 31, '.'];
  }

  function doubled(times: number): Parts {
    return new Array(times).fill([0x32, 0x86]).flat();
  }

  function textBomb(): Parts {
    const text = ['X', uint32(1_000_000), Buffer.alloc(1_000_000, 'x'), 'q', 0, '0'];
    return [...text, '](', ...new Array(1000).fill(['h', 0]).flat(), 'e.'];
  }

  function intBomb(): Parts {
    const int = [0x8b, uint32(60_000), Buffer.alloc(60_000, 0x7f), 'q', 0, '0'];
    return [...int, '](', ...new Array(5000).fill(['h', 0]).flat(), 'e.'];
  }

  test('a cycle is a value, of bounded weight', () => {
    const list = readPickle(bytesOf(']q', 0, 'h', 0, 'a.'));
    assert(Array.isArray(list));
    assert.equal(list[0], list);
  });

  test('the depth of what a pickler of Python can write is read', () => {
    const depth = 999;
    const pickle = bytesOf(Buffer.alloc(depth, ']'), Buffer.alloc(depth - 1, 'a'), '.');
    assert.doesNotThrow(() => writePickle(readPickle(pickle)));
  });

  test('what is too deep or too large is not written', () => {
    let deep: PyValue = null;
    for (let level = 0; level < 1_000_000; level += 1) deep = [deep];
    assert.throws(() => writePickle(deep), /too deep/);
    const limits = { ...pickleLimits, bytesMax: 1000 };
    assert.throws(() => writePickle('x'.repeat(1000), { limits }), /more than 1000 bytes/);
    assert.doesNotThrow(() => writePickle('x'.repeat(992), { limits }));
    const large = new Uint8Array(pickleLimits.bytesMax);
    assert.throws(() => writePickle([large]), /more than \d+ bytes/);
  });

  test('numbers that are made to collide are keys like others', () => {
    // Without a secret V8 hashes a bigint by its lowest 64 bits, and these have the same.
    const entries: Buffer[] = [];
    for (let high = 1; high <= 60_000; high += 1) {
      const int = Buffer.alloc(12);
      int.writeUInt8(1);
      int.writeUInt32LE(high, 8);
      entries.push(bytesOf(0x8a, 12, int, 'N'));
    }
    const start = process.cpuUsage();
    const dict = readPickle(bytesOf('}(', Buffer.concat(entries), 'u.'));
    assert(dict instanceof PyDict);
    assert.equal(dict.size, 60_000);
    assert(dict.has((60_000n << 64n) + 1n));
    assert(cpuMsSince(start) < 10_000, 'it takes too long');
  });

  test('equal numbers are one key, of whatever type and size they are', () => {
    const dict = PyDict.of([
      [2 ** 53, 'int'],
      [1.5, 'float'],
      [2 ** 30, 'int'],
      [new PyTuple([2 ** 30, 1.5]), 'tuple'],
    ]);
    for (const key of [2n ** 53n, new PyFloat(2 ** 53), 1.5, new PyFloat(2 ** 30), 2n ** 30n]) {
      assert(dict.has(key), String(key));
    }
    assert(dict.has(new PyTuple([new PyFloat(2 ** 30), 1.5])));
    for (const key of [2n ** 53n + 1n, '\0d1.5', '1.5', 2 ** 30 + 1, -(2 ** 30)]) {
      assert(!dict.has(key), String(key));
    }
  });

  test('memo indexes may have gaps, and hold None', () => {
    const gaps = bytesOf('](K', 7, 'q', 3, 'Nq', 0, 'K', 1, 0x94, 'h', 3, 'h', 0, 'h', 2, 'e.');
    assert.deepEqual(readPickle(gaps), [7, null, 1, 7, null, 1]);
  });

  test('a key that comes twice has its last value and its first place', () => {
    const dict = readPickle(bytesOf('}(K', 1, 'NK', 2, 'N', 0x88, 'K', 9, 'u.'));
    assert(dict instanceof PyDict);
    assert.deepEqual(
      [...dict],
      [
        [1, 9],
        [2, null],
      ],
    );
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  decodeItem,
  encodeItem,
  isItemPickle,
  returnOfItem,
} from '../../master/python/pickle/item.ts';
import { fromPlain, toPlain } from '../../master/python/pickle/plain.ts';
import { readPickle } from '../../master/python/pickle/reader.ts';
import {
  PickleError,
  PyByteArray,
  PyComplex,
  PyDict,
  PyException,
  PyFloat,
  PyRange,
  PySet,
  PyToken,
  PyTuple,
  type PyValue,
} from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { bytesOf, recorded, uint32 } from '../support/pickle-bytes.ts';
import { describe, pyValues } from '../support/python-values.ts';

const tuple = (...items: PyValue[]): PyTuple => new PyTuple(items);
const readHex = (hex: string): PyValue => readPickle(Buffer.from(hex, 'hex'));
const hexOf = (value: PyValue, protocol: 2 | 3 = 3): string =>
  writePickle(value, { protocol }).toString('hex');

function same(actual: PyValue, expected: PyValue): void {
  assert.equal(describe(actual), describe(expected));
}

suite('pickle: requests as CPython writes them', () => {
  const put = (item: PyValue): PyTuple => tuple('7f', 'put', tuple(item), new PyDict());

  for (const protocol of [3, 4] as const) {
    test(`protocol ${protocol}`, () => {
      const request = tuple('7f3c5a1b2c30', 'put', tuple('put'), new PyDict());
      same(readHex(recorded[`put${protocol}`]), request);
      const timeout = PyDict.of([['timeout', 30]]);
      same(readHex(recorded[`get${protocol}`]), tuple('7f3c', 'get', tuple(), timeout));
      same(readHex(recorded[`list${protocol}`]), put(['http://a/', 'http://a/']));
      same(readHex(recorded[`keys${protocol}`]), put(['a']));
      same(readHex(recorded[`range${protocol}`]), put(new PyRange(0, 3, 1)));
    });

    test(`a Token, protocol ${protocol}`, () => {
      const request = readHex(recorded[`token${protocol}`]);
      assert(request instanceof PyTuple && request.items[2] instanceof PyTuple);
      const [token] = request.items[2].items;
      assert(token instanceof PyToken);
      assert.equal(token.typeid, 'q');
      same(token.address, tuple('127.0.0.1', 6666));
      assert.equal(token.id, '7f');
      assert.throws(() => writePickle(token), /a value of type Token cannot be written/);
    });
  }

  test("lxml's str is a str, whatever writes it", () => {
    for (const name of ['_ElementUnicodeResult', '_PyElementUnicodeResult']) {
      const old = bytesOf(0x80, 3, `clxml.etree\n${name}\n`, 'X', uint32(2), '/a', 0x85, 0x81, '.');
      assert.equal(readPickle(old), '/a');
      const named = [0x8c, 10, 'lxml.etree', 0x94, 0x8c, name.length, name, 0x94, 0x93];
      const recent = bytesOf(0x80, 4, ...named, 0x8c, 2, '/a', 0x85, 0x81, '.');
      assert.equal(readPickle(recent), '/a');
    }
  });

  test('the str of Python 2 is text if ASCII, else bytes', () => {
    assert.equal(readPickle(bytesOf(0x80, 2, 'U', 2, 'ab', '.')), 'ab');
    assert.equal(readPickle(bytesOf("S'a\\n\\x41\\\\'\n", '.')), 'a\nA\\');
    assert.deepEqual(readPickle(bytesOf('T', uint32(1), 0xff, '.')), new Uint8Array([0xff]));
  });
});

suite('pickle: replies, byte by byte', () => {
  const returned = '80035807000000' + '2352455455524e';
  const failed = '80035806000000' + '234552524f52';

  test('as the manager sends them', () => {
    assert.equal(hexOf(tuple('#RETURN', null)), `${returned}4e862e`);
    assert.equal(hexOf(tuple('#RETURN', true)), `${returned}88862e`);
    assert.equal(
      hexOf(tuple('#ERROR', new PyException('queue', 'Empty'))),
      `${failed}63${Buffer.from('queue\nEmpty\n').toString('hex')}2952862e`,
    );
    assert.equal(
      hexOf(tuple('#ERROR', new PyException('builtins', 'TypeError', ['m']))),
      `${failed}63${Buffer.from('builtins\nTypeError\n').toString('hex')}58010000006d8552862e`,
    );
    assert.equal(
      hexOf(tuple('#TRACEBACK', 't\n')),
      '8003580a000000' + '2354524143454241434b' + '5802000000' + '740a' + '862e',
    );
  });

  test('Python 2.7 gets the old names', () => {
    const text = writePickle(new PyException('queue', 'Empty'), { protocol: 2 }).toString('latin1');
    assert.equal(text, '\x80\x02cQueue\nEmpty\n)R.');
    const set = writePickle(new PySet(false, [1]), { protocol: 2 }).toString('latin1');
    assert.equal(set, '\x80\x02c__builtin__\nset\n](K\x01e\x85R.');
  });

  test('each int has its shortest form', () => {
    const cases: [number | bigint, string][] = [
      [0, '4b00'],
      [255, '4bff'],
      [256, '4d0001'],
      [65536, '4a00000100'],
      [-1, '4affffffff'],
      [-(2 ** 31), '4a00000080'],
      [2 ** 31, '8a050000008000'],
      [-(2 ** 31) - 1, '8a05ffffff7fff'],
      [2n ** 53n, '8a0700000000000020'],
      [-(2n ** 63n), '8a080000000000000080'],
      [2n ** 63n, `8a09${'00'.repeat(7)}8000`],
      [5n, '4b05'],
    ];
    for (const [value, hex] of cases) assert.equal(hexOf(value), `8003${hex}2e`, String(value));
    assert.equal(hexOf(2n ** 2048n), `80038b01010000${'00'.repeat(256)}012e`);
  });

  test('a name that is no identifier is not written', () => {
    assert.throws(() => writePickle(new PyException('queue\nx', 'Empty')), PickleError);
  });
});

suite('pickle: values', () => {
  test('what is written is read back with its types and references', () => {
    fc.assert(
      fc.property(pyValues(), fc.constantFrom(2 as const, 3 as const), (value, protocol) => {
        same(readPickle(writePickle(value, { protocol })), value);
      }),
      { numRuns: 300, includeErrorInReport: true },
    );
  });

  test('1, 1.0 and True stay three things, and are one key', () => {
    const list = readPickle(writePickle([1, new PyFloat(1), true, new PyFloat(-0), 1.5]));
    same(list, [1, new PyFloat(1), true, new PyFloat(-0), 1.5]);
    const dict = PyDict.of([
      [1, 'a'],
      [new PyFloat(1), 'b'],
      [true, 'c'],
    ]);
    same(dict, PyDict.of([[1, 'c']]));
    assert.equal(dict.get(true), 'c');
    assert.equal(new PySet(false, [2n ** 60n, 2 ** 60]).size, 1);
    assert.equal(new PySet(false, [tuple(1, '1'), tuple(new PyFloat(1), '1')]).size, 1);
    assert.equal(new PySet(false, [tuple(1, 2), tuple('1', 2), tuple(12), '\0t']).size, 4);
    assert.equal(new PySet(false, ['\0b', new Uint8Array(0), '\0s\0b']).size, 3);
    assert.equal(new PySet(true, [Number.NaN, Number.NaN]).size, 2);
    assert.equal(new PySet(true, [new PySet(true, [1, 2]), new PySet(true, [2, 1])]).size, 1);
    assert.equal(new PySet(true, [null, 'null', tuple(null), tuple('null')]).size, 4);
    assert.equal(new PySet(true, [new PyComplex(1, 0), 1, new PyComplex(0, 1)]).size, 2);
  });

  test('what Python cannot hash is no key', () => {
    for (const key of [[], new PyDict(), new PySet(false), new PyByteArray(new Uint8Array(1))]) {
      assert.throws(
        () => new PyDict().set(tuple(key), 1),
        /unhashable type: '(list|dict|set|byte)/,
      );
    }
  });

  test('names of Object.prototype are keys like any other', () => {
    const dict = PyDict.of([
      ['__proto__', 1],
      ['constructor', 2],
    ]);
    const read = readPickle(writePickle(dict));
    assert(read instanceof PyDict);
    same(read, dict);
    assert.equal(read.get('toString'), undefined);
    assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
  });

  test('shared parts are one object again, and cycles close', () => {
    const shared = [1];
    const bytes = new Uint8Array(300);
    const list: PyValue[] = [shared, shared, bytes, bytes];
    list.push(list);
    const inner: PyValue[] = [];
    const cyclic = tuple(inner, 1, 2, 3);
    inner.push(cyclic);
    list.push(cyclic);
    const read = readPickle(writePickle(list));
    assert(Array.isArray(read));
    assert.equal(read[0], read[1]);
    assert.equal(read[2], read[3]);
    assert.equal(read[4], read);
    assert(read[5] instanceof PyTuple && Array.isArray(read[5].items[0]));
    assert.equal(read[5].items[0][0], read[5]);
  });

  test('a long str that occurs often is written once', () => {
    const long = 'x'.repeat(1000);
    assert(writePickle(new Array(100).fill(long)).length < 1500);
  });

  test('a value does not see later changes of the input', () => {
    const input = bytesOf(0x80, 3, 'C', 2, 'ab', '.');
    const value = readPickle(input);
    input.fill(0);
    assert.deepEqual(value, new Uint8Array([0x61, 0x62]));
  });

  test('lone surrogates pass, malformed UTF-8 does not', () => {
    const utf8 = (...bytes: number[]): Buffer => bytesOf('X', uint32(bytes.length), ...bytes, '.');
    assert.equal(readPickle(utf8(0xed, 0xa0, 0x80)), '\ud800');
    assert.equal(readPickle(utf8(0xef, 0xbf, 0xbd, 0x41, 0xed, 0xbf, 0xbf)), '\ufffdA\udfff');
    assert.equal(readPickle(utf8(0xef, 0xbb, 0xbf, 0xed, 0xa0, 0x80)), '\ufeff\ud800');
    const broken = [[0xff], [0x80], [0xc0, 0x80], [0xe0, 0x80, 0x80], [0xf0, 0x80, 0x80, 0x80]];
    const more = [[0xf4, 0x90, 0x80, 0x80], [0xc3], [0x41, 0x41, 0x41, 0x41, 0xe2, 0x82]];
    for (const bytes of [...broken, ...more]) {
      assert.throws(() => readPickle(utf8(...bytes)), /not valid UTF-8/);
    }
  });
});

suite('pickle: items of a queue', () => {
  const item = tuple('http://a/', new PyFloat(1), [null]);

  test('an item is a pickle of its own', () => {
    const request = Buffer.from(recorded.put4, 'hex');
    const read = readPickle(request);
    assert(read instanceof PyTuple && read.items[2] instanceof PyTuple);
    const kept = encodeItem(read.items[2].items[0] ?? null);
    assert.equal(decodeItem(kept), 'put');
    same(decodeItem(encodeItem(item)), item);
  });

  test('a reply is made of kept bytes without decoding them', () => {
    const shared: PyValue[] = [item, item];
    for (const value of [item, shared, null, 'x'.repeat(1000)]) {
      const reply = returnOfItem(encodeItem(value));
      assert.equal(reply.readInt32BE(0), reply.length - 4);
      assert.equal(reply.toString('hex', 4), hexOf(tuple('#RETURN', value)));
    }
    assert.throws(() => returnOfItem(new Uint8Array([0x80])), PickleError);
  });

  test('pickles are told from msgpack', () => {
    assert(isItemPickle(encodeItem(null)));
    assert(!isItemPickle(new Uint8Array([0x80])));
    assert(!isItemPickle(new Uint8Array([0x81, 0xa1, 0x61, 1])));
  });
});

suite('pickle: plain values for Node programs', () => {
  test('Python to plain', () => {
    const bytes = new Uint8Array([1]);
    const cases: [PyValue, unknown][] = [
      [tuple(1, [new PyFloat(2)], new PySet(false, ['a'])), [1, [2], ['a']]],
      [PyDict.of([['a', tuple()]]), { a: [] }],
      [PyDict.of([[1, 'x']]), new Map([[1, 'x']])],
      [PyDict.of([[tuple(1), 'x']]), [[[1], 'x']]],
      [PyDict.of([['__proto__', 1]]), new Map([['__proto__', 1]])],
      [PyDict.of([['toJSON', 1]]), new Map([['toJSON', 1]])],
      [new PyByteArray(bytes), bytes],
      [2n ** 63n, 2n ** 63n],
      [2n ** 64n, '18446744073709551616'],
      [new PyComplex(1, 2), { real: 1, imag: 2 }],
      [new PyRange(0, 9, 1), { start: 0, stop: 9, step: 1 }],
    ];
    for (const [value, plain] of cases) assert.deepEqual(toPlain(value), plain);
  });

  test('plain to Python', () => {
    same(fromPlain({ a: [1, undefined, 1.5, 5n] }), PyDict.of([['a', [1, null, 1.5, 5]]]));
    same(fromPlain(JSON.parse('{"__proto__": 1}')), PyDict.of([['__proto__', 1]]));
    same(fromPlain(new Map([[[1, [2]], 3]])), PyDict.of([[tuple(1, tuple(2)), 3]]));
    same(fromPlain(new Set([1])), new PySet(false, [1]));
    same(fromPlain(-0), new PyFloat(-0));
    for (const odd of [new Date(), () => 1, Symbol('s')]) {
      assert.throws(() => fromPlain(odd), /has no Python type/);
    }
  });

  test('what has no end has no plain form, and a bomb is refused', () => {
    const list: PyValue[] = [];
    list.push(tuple(list));
    assert.throws(() => toPlain(list), /contains itself/);
    let bomb: PyValue = ['x'];
    for (let level = 0; level < 30; level += 1) bomb = new Array(10).fill(bomb);
    assert.throws(() => toPlain(bomb), /too large/);
    assert(writePickle(bomb).length < 1000);
    assert.throws(() => toPlain(2n ** 20_000n), /too large/);
  });
});

import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { ProtocolError } from '../../shared/errors.ts';
import {
  decodeExactValue,
  decodeValue,
  encodeFrame,
  encodeMessage,
  encodeValue,
  FrameDecoder,
  overlong,
} from '../../shared/frame.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

/** All payloads of a stream that arrives in these chunks, copied. */
function decodeAll(chunks: readonly Uint8Array[], bytesMax = 1 << 20): Buffer[] {
  const decoder = new FrameDecoder(bytesMax);
  const payloads: Buffer[] = [];
  for (const chunk of chunks) {
    decoder.push(Buffer.from(chunk));
    for (let next = decoder.next(); next !== undefined; next = decoder.next()) {
      payloads.push(Buffer.from(next));
    }
  }
  return payloads;
}

function longFrame(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(12, 0xff);
  head.writeBigUInt64BE(BigInt(payload.length), 4);
  return Buffer.concat([head, payload]);
}

function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...ends, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : ends[i - 1], end));
}

const isProtocolError = (error: unknown) =>
  error instanceof ProtocolError && error.code === 'E_BAD_FRAME';

test('frame: one stream cut at every byte gives the same payloads', () => {
  const payloads = ['', 'a', 'hello', 'x'.repeat(300), '', 'end'].map((text) => Buffer.from(text));
  const stream = Buffer.concat(
    payloads.map((payload, i) => (i % 2 === 0 ? encodeFrame(payload) : longFrame(payload))),
  );
  for (let cut = 0; cut <= stream.length; cut++) {
    assert.deepEqual(decodeAll([stream.subarray(0, cut), stream.subarray(cut)]), payloads);
  }
  const bytes = [...stream].map((byte) => Buffer.from([byte]));
  assert.deepEqual(decodeAll(bytes), payloads);
});

test('frame: any payloads in any segmentation come out as they went in', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ payload: fc.uint8Array({ maxLength: 400 }), long: fc.boolean() })),
      fc.array(fc.nat(5000), { maxLength: 40 }),
      (frames, cuts) => {
        const stream = Buffer.concat(
          frames.map(({ payload, long }) => (long ? longFrame(payload) : encodeFrame(payload))),
        );
        const payloads = frames.map(({ payload }) => Buffer.from(payload));
        assert.deepEqual(decodeAll(cutAt(stream, cuts)), payloads);
      },
    ),
  );
});

test('frame: large ones come out as they went in, wherever they are cut', () => {
  const mebi = 1 << 20;
  const bytes = Buffer.alloc(3 * mebi + 100);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeInt32BE(at, at);
  // Sizes about whole MiB with and without the header, the long one, too.
  const size = fc
    .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: -20, max: 20 }))
    .map(([count, more]) => count * mebi + more);
  const sizes = fc.array(size, { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(sizes, fc.array(fc.nat(9 * mebi), { maxLength: 12 }), (lengths, cuts) => {
      const payloads = lengths.map((length) => bytes.subarray(0, length));
      const frames = payloads.map((one, i) => (i % 2 === 0 ? encodeFrame(one) : longFrame(one)));
      const all = decodeAll(cutAt(Buffer.concat(frames), cuts), 4 * mebi);
      assert.deepEqual(
        all.map(({ length }) => length),
        lengths,
      );
      assert.ok(all.every((one, i) => payloads[i]?.equals(one)));
    }),
    { numRuns: 40 },
  );
});

test('frame: an unfinished one holds little more than came of it, and says when it has grown', () => {
  const decoder = new FrameDecoder(1 << 25);
  const frame = encodeFrame(Buffer.alloc(5_000_000, 1));
  let grown = 0;
  for (let at = 0; at < frame.length - 1; at += 10_007) {
    decoder.push(frame.subarray(at, Math.min(at + 10_007, frame.length - 1)));
    assert.equal(decoder.next(), undefined);
    assert.ok(decoder.heldBytes <= Math.min(2 * at, at + (1 << 20)) + 2 * 10_007);
    if (decoder.hasGrown) grown++;
    decoder.hasGrown = false;
  }
  assert.equal(grown, 5);
  decoder.push(frame.subarray(-1));
  assert.equal(decoder.next()?.length, 5_000_000);
  assert.equal(decoder.heldBytes, 0);
});

test('frame: a payload stays as it was while later chunks come in', () => {
  const decoder = new FrameDecoder(1000);
  const first = encodeFrame(Buffer.from('first payload'));
  decoder.push(first.subarray(0, 6));
  assert.equal(decoder.next(), undefined);
  decoder.push(first.subarray(6));
  const kept = decoder.next();
  for (let i = 0; i < 20; i++) {
    const other = encodeFrame(Buffer.alloc(40, i));
    decoder.push(other.subarray(0, 11));
    assert.equal(decoder.next(), undefined);
    decoder.push(other.subarray(11));
    assert.equal(decoder.next()?.length, 40);
  }
  assert.equal(kept?.toString(), 'first payload');
});

test('frame: chunks that were pushed before anybody asked are not lost', () => {
  const decoder = new FrameDecoder(1000);
  const stream = Buffer.concat([encodeFrame(Buffer.from('a')), encodeFrame(Buffer.from('b'))]);
  for (const byte of stream) decoder.push(Buffer.from([byte]));
  assert.equal(decoder.next()?.toString(), 'a');
  assert.equal(decoder.next()?.toString(), 'b');
  assert.equal(decoder.next(), undefined);
});

test('frame: negative lengths are refused, also byte by byte', () => {
  for (const length of [-2, -3, -0x8000_0000]) {
    const head = Buffer.alloc(4);
    head.writeInt32BE(length);
    assert.throws(() => decodeAll([head]), isProtocolError);
    assert.throws(() => decodeAll([...head].map((byte) => Buffer.from([byte]))), isProtocolError);
  }
});

test('frame: a length over the limit is refused before a byte is allocated for it', () => {
  const before = process.memoryUsage().arrayBuffers;
  const heads = ['7fffffff', '00000101', 'ffffffff0000000000000101', `ffffffff${'ff'.repeat(8)}`];
  for (const head of heads) {
    const bytes = Buffer.from(head, 'hex');
    assert.throws(() => decodeAll([bytes], 256), isProtocolError);
    assert.throws(() => decodeAll([bytes.subarray(0, 3), bytes.subarray(3)], 256), isProtocolError);
  }
  assert.equal(decodeAll([encodeFrame(Buffer.alloc(256))], 256)[0]?.length, 256);
  // A frame that is announced but not sent costs what was sent of it.
  const decoder = new FrameDecoder(1 << 30);
  decoder.push(Buffer.from('3fffffff00', 'hex'));
  assert.equal(decoder.next(), undefined);
  assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20);
});

test('frame: the limit may be raised between two frames of one chunk', () => {
  const decoder = new FrameDecoder(4);
  decoder.push(Buffer.concat([encodeFrame(Buffer.alloc(4)), encodeFrame(Buffer.alloc(400))]));
  assert.equal(decoder.next()?.length, 4);
  decoder.bytesMax = 1000;
  assert.equal(decoder.next()?.length, 400);
});

test('frame: a stream of tiny chunks is copied a few times at most', () => {
  const size = 1 << 20;
  const stream = encodeFrame(Buffer.alloc(size, 7));
  const decoder = new FrameDecoder(size);
  let peak = 0;
  const base = process.memoryUsage().arrayBuffers;
  const startedAt = process.cpuUsage();
  let payload: Buffer | undefined;
  for (let at = 0; at < stream.length; at += 7) {
    decoder.push(stream.subarray(at, at + 7));
    payload = decoder.next();
    if (at % 70_000 === 0) peak = Math.max(peak, process.memoryUsage().arrayBuffers - base);
  }
  assert.equal(payload?.length, size);
  // Copying all of it with every chunk would be 75 GB: a minute, not a second.
  assert.ok(cpuMsSince(startedAt) < 5_000);
  assert.ok(peak < size * 8, `${peak} bytes`);
});

const plain = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.maxSafeInteger(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 20 }),
    fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      tie('value'),
      { noNullPrototype: true },
    ),
  ),
})).value;

test('value: plain values come back as they were', () => {
  fc.assert(
    fc.property(plain, (value) => {
      assert.deepEqual(decodeValue(encodeValue(value)), value);
    }),
  );
  const bytes = Buffer.from([1, 2, 3]);
  assert.deepEqual(Buffer.from(decodeValue(encodeValue(bytes)) as Uint8Array), bytes);
});

test('value: a message is a frame of its value', () => {
  const message = { verb: 'ping', id: 7 };
  const [payload] = decodeAll([encodeMessage(message)]);
  assert.deepEqual(payload && decodeValue(payload), message);
});

const hostile: readonly [name: string, hex: string][] = [
  ['nothing', ''],
  ['a byte that means nothing', 'c1'],
  ['trailing bytes', '0101'],
  ['an array of 16 M', `dd01000000`],
  ['arrays of 16 M in each other', 'dd01000000'.repeat(8)],
  ['an array of 4 G', 'ddffffffff'],
  ['a map of 4 G', 'dfffffffff'],
  ['a map whose last value is missing', '82a16101a162'],
  ['a text of 4 G', 'dbffffffff'],
  ['bytes of 4 G', 'c6ffffffff'],
  ['an extension of 4 G', 'c9ffffffff01'],
  ['a cut number', 'cf00000000'],
  ['a cut text', 'a561'],
  ['arrays in arrays', `${'91'.repeat(100_000)}c0`],
  ['maps in maps', `${'81a161'.repeat(50_000)}c0`],
  ['an array as a key', '8191010102'],
  ['a map as a key', '8180c0'],
  ['a timestamp', 'd6ff00000000'],
  ['msgpackr: undefined', 'd40000'],
  ['msgpackr: a record', 'd4724091a16101'],
  ['msgpackr: a set', 'd4730093010203'],
  ['msgpackr: a big integer', 'c7024200ff'],
  ['msgpackr: a typed array', 'c702740000'],
  ['msgpackr: an identity', 'd66900000001c0'],
  ['msgpackr: a pointer', 'd67000000001'],
  ['msgpackr: a regular expression', 'd4780092a16100'],
  ['msgpackr: an error', 'd4650093a16100c0'],
  ['msgpackr: bundled texts', 'd66200000000c0'],
  ['an unknown extension', 'd40500'],
  ['an extension inside', '81a161d4730090'],
];

for (const [name, hex] of hostile) {
  test(`value: ${name} is refused`, () => {
    const before = process.memoryUsage().arrayBuffers;
    assert.throws(() => decodeValue(Buffer.from(hex, 'hex')), isProtocolError);
    assert.ok(process.memoryUsage().arrayBuffers - before < 1 << 20);
    assert.equal(decodeValue(Buffer.from([0x40])), 64, 'and leaves nothing behind');
  });
}

test('value: __proto__ and its like change no prototype', () => {
  for (const key of ['__proto__', 'constructor', 'prototype', 'toString']) {
    const inner = Buffer.from('81a8706f6c6c75746564c3', 'hex'); // { polluted: true }
    const head = Buffer.from([0x81, 0xa0 + key.length]);
    const value = decodeValue(Buffer.concat([head, Buffer.from(key), inner]));
    assert.equal(Object.getPrototypeOf(value), Object.prototype, key);
    assert.equal(({} as Record<string, unknown>)['polluted'], undefined, key);
    assert.equal((value as Record<string, unknown>)['polluted'], undefined, key);
  }
});

test('value: random bytes give a value or a ProtocolError, never another error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        decodeValue(bytes);
      } catch (error) {
        assert.ok(isProtocolError(error), String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

test('value: what has no plain form is refused where it is written', () => {
  for (const value of [new Date(), new Error('x'), 1n << 70n, [undefined]]) {
    assert.throws(() => encodeValue({ value }), TypeError);
  }
  assert.throws(() => encodeValue(undefined), TypeError);
});

test('value: an object whose content would be lost is refused, wherever it stands', () => {
  const lossy = [
    Promise.resolve(1),
    new Float64Array([1.5]),
    new Uint16Array([300]),
    new DataView(new ArrayBuffer(1)),
    /x/,
    Object('a'),
    new URL('http://a/'),
  ];
  for (const value of lossy) {
    for (const put of [value, [value], { value }, new Map([['a', [value]]]), new Set([value])]) {
      assert.throws(() => encodeValue(put), TypeError, Object.prototype.toString.call(value));
    }
  }
  const bytes = Uint8Array.of(1, 2);
  const whole = [new Map([['a', bytes]]), new Set([bytes]), bytes.buffer, Object.create(null)];
  for (const value of whole) assert.doesNotThrow(() => encodeValue(value));
});

test('value: an integer of 64 bits is whole where programs read it', () => {
  const values = [2n ** 53n + 1n, 2n ** 64n - 1n, -(2n ** 63n), { id: [2n ** 60n + 1n] }];
  for (const value of values) assert.deepEqual(decodeExactValue(encodeValue(value)), value);
  const numbers = [10n, BigInt(Number.MAX_SAFE_INTEGER), BigInt(Number.MIN_SAFE_INTEGER)];
  for (const n of numbers) assert.equal(decodeExactValue(encodeValue(n)), Number(n));
  assert.equal(decodeExactValue(encodeValue(2 ** 60)), 2 ** 60);
});

test('frame: one that is too long is read over, wherever it is cut', () => {
  const before = Buffer.from('before');
  const after = Buffer.from('after');
  for (const head of [encodeFrame, longFrame]) {
    const stream = Buffer.concat([before, Buffer.alloc(50, 7), after].map(head));
    for (let cut = 0; cut <= stream.length; cut++) {
      const decoder = new FrameDecoder(20);
      decoder.passesOverlong = true;
      const payloads: Buffer[] = [];
      for (const chunk of cutAt(stream, [cut, cut + 3])) {
        decoder.push(chunk);
        for (let next = decoder.next(); next !== undefined; next = decoder.next()) {
          payloads.push(next);
        }
        assert.ok(decoder.heldBytes < 80);
      }
      assert.deepEqual(payloads, [before, overlong, after]);
      assert.equal(payloads[1], overlong);
      assert.ok(decoder.isEmpty);
    }
  }
});

test('value: a field that is undefined is left out', () => {
  const [payload] = decodeAll([encodeMessage({ a: undefined, b: { c: undefined, d: 1 } })]);
  assert.deepEqual(payload && decodeValue(payload), { b: { d: 1 } });
});

import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Fingerprinter } from '../../master/frontier/filter/fingerprint.ts';
import { siphashWasm } from '../../master/frontier/filter/siphash-wasm.ts';
import { assembled } from '../support/assembled.ts';

const mask = (1n << 64n) - 1n;
const rotl = (x: bigint, by: bigint) => ((x << by) | (x >> (64n - by))) & mask;

/** SipHash-c-d with 128 bits of output, word by word as the paper has it. */
function siphash128(c: number, d: number, key: Uint8Array, message: Uint8Array): Buffer {
  const keyBytes = Buffer.from(key);
  const k0 = keyBytes.readBigUInt64LE(0);
  const k1 = keyBytes.readBigUInt64LE(8);
  let v0 = k0 ^ 0x736f6d6570736575n;
  let v1 = k1 ^ 0x646f72616e646f6dn ^ 0xeen;
  let v2 = k0 ^ 0x6c7967656e657261n;
  let v3 = k1 ^ 0x7465646279746573n;
  const rounds = (count: number) => {
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) & mask;
      v1 = rotl(v1, 13n) ^ v0;
      v0 = rotl(v0, 32n);
      v2 = (v2 + v3) & mask;
      v3 = rotl(v3, 16n) ^ v2;
      v0 = (v0 + v3) & mask;
      v3 = rotl(v3, 21n) ^ v0;
      v2 = (v2 + v1) & mask;
      v1 = rotl(v1, 17n) ^ v2;
      v2 = rotl(v2, 32n);
    }
  };
  const padded = Buffer.alloc(Math.floor(message.length / 8) * 8 + 8);
  padded.set(message);
  padded[padded.length - 1] = message.length & 0xff;
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at);
    v3 ^= word;
    rounds(c);
    v0 ^= word;
  }
  const out = Buffer.alloc(16);
  v2 ^= 0xeen;
  rounds(d);
  out.writeBigUInt64LE(v0 ^ v1 ^ v2 ^ v3, 0);
  v1 ^= 0xddn;
  rounds(d);
  out.writeBigUInt64LE(v0 ^ v1 ^ v2 ^ v3, 8);
  return out;
}

const countingKey = Buffer.from(Array.from({ length: 16 }, (_, i) => i));
const fingerprinter = new Fingerprinter();

type Line = { readonly hash: string; readonly start: number; readonly end: number };

function linesOf(key: Uint8Array, text: Uint8Array, batches: number[] = []): Line[] {
  const lines: Line[] = [];
  fingerprinter.hash(key, text, ({ count, words, start, end }) => {
    batches.push(count);
    for (let i = 0; i < count; i++) {
      const bytes = Buffer.from(words.slice(i * 4, i * 4 + 4).buffer);
      lines.push({ hash: bytes.toString('hex'), start: start(i), end: end(i) });
    }
  });
  return lines;
}

/** What `linesOf` should give, by splitting. */
function model(key: Uint8Array, text: Buffer, lineBytesMax = Number.POSITIVE_INFINITY): Line[] {
  const lines: Line[] = [];
  let start = 0;
  for (const line of text.toString('latin1').split('\n')) {
    const end = start + line.length;
    if (line.length > 0 && line.length <= lineBytesMax) {
      const hash = siphash128(1, 3, key, Buffer.from(line, 'latin1')).toString('hex');
      lines.push({ hash, start, end });
    }
    start = end + 1;
  }
  return lines;
}

test('fingerprint: the model gives the vectors of the reference implementation', () => {
  // vectors_sip128 of the authors' reference (SipHash-2-4, 128 bits), messages 0, 1 and 2 bytes.
  const vectors = [
    'a3817f04ba25a8e66df67214c7550293',
    'da87c1d86b99af44347659119b22fc45',
    '8177228da4a45dc7fca38bdef60affe4',
  ];
  for (const [length, vector] of vectors.entries()) {
    const message = countingKey.subarray(0, length);
    assert.equal(siphash128(2, 4, countingKey, message).toString('hex'), vector);
  }
});

test('fingerprint: hashes as SipHash-1-3-128 for all keys and lengths', () => {
  const texts = Array.from({ length: 301 }, (_, i) => 'x'.repeat(i) + (i % 7));
  const text = Buffer.from(texts.join('\n'), 'latin1');
  assert.deepEqual(linesOf(countingKey, text), model(countingKey, text));
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 16, maxLength: 16 }),
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      (key, bytes) => {
        const line = Buffer.from(bytes).map((byte) => (byte === 10 ? 11 : byte));
        const words = fingerprinter.one(key, Buffer.from(line).toString('latin1'));
        const hash = Buffer.from(words.buffer).toString('hex');
        assert.equal(hash, siphash128(1, 3, key, line).toString('hex'));
      },
    ),
  );
});

test('fingerprint: lines are parted at line feeds, empty ones left out, offsets right', () => {
  for (const text of [
    '',
    '\n',
    '\n\n\n',
    'a',
    'a\n',
    '\na',
    'a\nb',
    'a\n\n\nb\n\n',
    '\n\nab\ncde',
  ]) {
    const bytes = Buffer.from(text);
    assert.deepEqual(linesOf(countingKey, bytes), model(countingKey, bytes), JSON.stringify(text));
  }
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('', 'a', 'bc', 'http://host/path'), { maxLength: 50 }),
      (lines) => {
        const bytes = Buffer.from(lines.join('\n'));
        assert.deepEqual(linesOf(countingKey, bytes), model(countingKey, bytes));
      },
    ),
  );
});

test('fingerprint: a view into a larger buffer is hashed from where it begins', () => {
  const bytes = Buffer.from('junk\njunkhttp://a/\nhttp://b/\nrest').subarray(9, 28);
  assert.deepEqual(linesOf(countingKey, bytes), model(countingKey, Buffer.from(bytes)));
});

const windowBytes = 256 << 10;

test('fingerprint: a text over the window is cut between lines', () => {
  const lines = Array.from({ length: 12_000 }, (_, i) => `http://host-${i % 31}/page/${i}`);
  const text = Buffer.from(lines.join('\n'));
  assert.ok(text.length > windowBytes);
  assert.deepEqual(linesOf(countingKey, text), model(countingKey, text));
});

test('fingerprint: more short lines than a batch holds come in several', () => {
  const text = Buffer.from('a\nb\n'.repeat(10_000));
  const batches: number[] = [];
  assert.equal(linesOf(countingKey, text, batches).length, 20_000);
  assert.deepEqual(batches, [8192, 8192, 20_000 - 2 * 8192]);
});

test('fingerprint: a line over the window is left out, its neighbours are not', () => {
  const long = 'x'.repeat(windowBytes + 1);
  const texts = [
    `a\n${long}\nb`,
    `${long}\nb\n`,
    `a\n${long}`,
    long,
    `${long}\n${long}\n\n${long}${long}\nlast`,
    `${'http://host/path\n'.repeat(20_000)}${long}\nlast`,
    `${'y'.repeat(windowBytes - 1)}\nb`,
  ];
  for (const text of texts) {
    const bytes = Buffer.from(text);
    assert.deepEqual(linesOf(countingKey, bytes), model(countingKey, bytes, windowBytes - 1));
  }
});

test('fingerprint: a hasher is not to be used by its own visitor', () => {
  const hasher = new Fingerprinter();
  assert.throws(() => {
    hasher.hash(countingKey, Buffer.from('a'), () => hasher.one(countingKey, 'b'));
  }, /visitor/);
  // And it can be used again after that.
  assert.equal(hasher.one(countingKey, 'b').length, 4);
});

test('fingerprint: the key matters', () => {
  const other = Buffer.alloc(16, 1);
  const [a, b] = [countingKey, other].map((key) => fingerprinter.one(key, 'http://a/').join());
  assert.notEqual(a, b);
});

test('fingerprint: siphash.wat assembles to siphash-wasm.ts', async () => {
  assert.equal(await assembled('master/frontier/filter/siphash.wat'), siphashWasm);
});

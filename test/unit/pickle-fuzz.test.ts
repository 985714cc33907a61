/**
 * Mutated pickles give a value or a PickleError, soon. The seed is printed; `FUZZ_SEED` repeats a
 * run and `FUZZ_MS` makes it longer (3000 by default).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeItem } from '../../master/python/pickle/item.ts';
import { opcodes } from '../../master/python/pickle/opcodes.ts';
import { toPlain } from '../../master/python/pickle/plain.ts';
import { readPickle } from '../../master/python/pickle/reader.ts';
import { PickleError } from '../../master/python/pickle/values.ts';
import { writePickle } from '../../master/python/pickle/writer.ts';
import { bytesOf, recorded } from '../support/pickle-bytes.ts';
import { pyValues } from '../support/python-values.ts';

const {
  FUZZ_MS: durationText = '3000',
  FUZZ_SEED: seedText = String(Math.trunc(Math.random() * 2 ** 31)),
} = process.env;

/** Mulberry32: small, and the same everywhere. */
function randomOf(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const protocol0 = [
  "(lp0\nI1\naL22222222222L\naF1.5\naV\\u20ac\np1\nag1\naS'a\\x41'\naI01\na(dp2\nVa\nI1\ns.",
  '(c__builtin__\nset\np0\n((lp1\nI1\natp2\nRp3\nt.',
  'c_codecs\nencode\np0\n(V\xff\np1\nVlatin1\np2\ntp3\nRp4\n.',
];

test('pickle: whatever the bytes are, a value or a PickleError comes soon', (context) => {
  const seed = Number(seedText);
  const random = randomOf(seed);
  const corpus = [
    ...Object.values(recorded).map((hex) => Buffer.from(hex, 'hex')),
    ...protocol0.map((text) => bytesOf(text)),
    ...fc.sample(pyValues(), { numRuns: 100, seed }).map((value) => writePickle(value)),
  ];
  const codes = Object.values(opcodes);
  const end = performance.now() + Number(durationText);
  let count = 0;
  let values = 0;
  while (performance.now() < end) {
    const pickle = mutate(corpus, codes, random);
    const start = performance.now();
    try {
      const value = readPickle(pickle);
      values += 1;
      // Most mutants that are values are worth keeping: they are new shapes.
      if (pickle.length < 2000 && corpus.length < 5000) corpus.push(pickle);
      toPlain(value);
      const item = encodeItem(value);
      assert.deepEqual(encodeItem(readPickle(item)), item);
    } catch (error) {
      if (!(error instanceof PickleError)) {
        context.diagnostic(`FUZZ_SEED=${seed}, run ${count}: ${pickle.toString('hex')}`);
        throw error;
      }
    }
    count += 1;
    const took = performance.now() - start;
    assert(took < 1000, `FUZZ_SEED=${seed}: ${took} ms for ${pickle.toString('hex')}`);
  }
  context.diagnostic(`FUZZ_SEED=${seed}: ${count} pickles, ${values} of them values`);
});

function mutate(
  corpus: readonly Buffer[],
  codes: readonly number[],
  random: (below: number) => number,
): Buffer {
  const pick = (): Buffer => corpus[random(corpus.length)] ?? Buffer.alloc(0);
  let bytes: Buffer = Buffer.from(pick());
  for (let left = 1 + random(4); left > 0; left -= 1) {
    const at = random(bytes.length + 1);
    const before = bytes.subarray(0, at);
    const after = bytes.subarray(at);
    switch (random(7)) {
      case 0:
        bytes[at] = random(256);
        break;
      case 1:
        bytes[at] = codes[random(codes.length)] ?? 0;
        break;
      case 2:
        bytes = bytesOf(before, codes[random(codes.length)] ?? 0, after);
        break;
      case 3:
        bytes = bytesOf(before, after.subarray(1 + random(4)));
        break;
      case 4:
        bytes = bytesOf(before, Buffer.alloc(4, random(2) === 0 ? 0xff : 0), after);
        break;
      case 5: {
        const other = pick();
        const start = random(other.length + 1);
        bytes = bytesOf(before, other.subarray(start, start + random(40)), after);
        break;
      }
      default:
        bytes = bytesOf(before, bytes.subarray(random(at + 1), at), after);
    }
  }
  return bytes;
}

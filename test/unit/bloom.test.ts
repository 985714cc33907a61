import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Bloom } from '../../master/frontier/filter/bloom.ts';
import { randomWords } from '../support/random.ts';

/** Share of foreign keys that the filter takes for its own. */
function falseRate(bloom: Bloom, probes: number, seed: number): number {
  const words = randomWords(probes, seed);
  let hits = 0;
  for (let at = 0; at < words.length; at += 4) if (bloom.find(words, at) >= 0) hits++;
  return hits / probes;
}

function fill(bloom: Bloom, count: number, seed: number): Uint32Array {
  const words = randomWords(count, seed);
  for (let at = 0; at < words.length; at += 4) bloom.add(words, at);
  return words;
}

function bytesOf(bloom: Bloom): Uint8Array {
  return new Uint8Array(Buffer.concat([...bloom.save()]));
}

/** The keys that a filter is sized for, by its head. */
function capacityOf(head: Uint8Array): number {
  return new Float64Array(head.buffer)[2] ?? 0;
}

/** Restores from bytes as from a file. */
function restore(bloom: Bloom, saved: Uint8Array): void {
  let at = 0;
  bloom.restore(saved.length, (into) => {
    if (at + into.length > saved.length) throw new RangeError('cut');
    into.set(saved.subarray(at, at + into.length));
    at += into.length;
  });
}

test('bloom: what was added is never missed', () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 1, max: 9_000 }), (seed, count) => {
      const bloom = new Bloom(1024);
      const words = fill(bloom, count, seed);
      for (let at = 0; at < words.length; at += 4) assert.ok(bloom.find(words, at) >= 0);
      assert.equal(bloom.count, count);
    }),
    { numRuns: 20 },
  );
});

test('bloom: an empty filter knows nothing', () => {
  assert.equal(falseRate(new Bloom(1024), 1000, 1), 0);
});

test('bloom: filled to capacity it errs as often as it was designed to', () => {
  const bloom = new Bloom(100_000, { rate: 0.01 });
  fill(bloom, 100_000, 1);
  // 2 M probes: a standard error of 0.7 %.
  const rate = falseRate(bloom, 2_000_000, 2);
  assert.ok(Math.abs(rate / 0.01 - 1) < 0.05, `${rate}`);
});

test('bloom: grown by four filters each of them still keeps to the rate', () => {
  const bloom = new Bloom(4096, { rate: 0.01 });
  fill(bloom, 4096 * 16, 3); // 1 + 1 + 2 + 4 + 8
  assert.equal([...bloom.save()].length, 10, 'five filters');
  const rate = falseRate(bloom, 400_000, 4);
  const designed = 1 - (1 - 0.01) ** 5;
  assert.ok(Math.abs(rate / designed - 1) < 0.05, `${rate}`);
});

test('bloom: a large row grows by half', () => {
  const million = 1_000_000;
  const bloom = new Bloom(million);
  fill(bloom, 6 * million + 1, 8);
  const heads = [...bloom.save()].filter((_, i) => i % 2 === 0);
  assert.deepEqual(
    heads.map((head) => capacityOf(head) / million),
    [1, 1, 2, 2, 3],
  );
  assert.ok(bloom.bytes < 9 * million * 1.2);
});

test('bloom: regular keys err as rarely as random ones', () => {
  const bloom = new Bloom(50_000, { rate: 0.02 });
  const words = new Uint32Array(4);
  for (let i = 0; i < 50_000; i++) {
    words.set([0, i * 85_899, (i * 2_654_435_761) >>> 0, 0]);
    bloom.add(words, 0);
  }
  assert.ok(falseRate(bloom, 200_000, 5) < 0.025);
});

test('bloom: comes back from its bytes as it was, and grows on', () => {
  const bloom = new Bloom(1024);
  const words = fill(bloom, 5_000, 6);
  const restored = new Bloom(1024);
  restore(restored, bytesOf(bloom));
  assert.equal(restored.count, bloom.count);
  assert.equal(restored.bytes, bloom.bytes);
  assert.deepEqual(bytesOf(restored), bytesOf(bloom));
  fill(bloom, 10_000, 7);
  fill(restored, 10_000, 7);
  assert.deepEqual(bytesOf(restored), bytesOf(bloom));
  for (let at = 0; at < words.length; at += 4) assert.ok(restored.find(words, at) >= 0);
});

test('bloom: without room it says maybe more often, and forgets nothing', () => {
  const budget = 32 << 10;
  const bloom: Bloom = new Bloom(1024, { bytesLeft: () => Math.max(0, budget - bloom.bytes) });
  const words = fill(bloom, 200_000, 11);
  // 200,000 keys want 240 KB. A filter of 8 KiB is made even where nothing is left: one a doubling.
  assert.ok(bloom.bytes <= budget + 8 * (8 << 10), `${bloom.bytes} bytes`);
  for (let at = 0; at < words.length; at += 4) assert.ok(bloom.find(words, at) >= 0);
  assert.ok(falseRate(bloom, 10_000, 12) > bloom.rate, 'the price of it');
});

test('bloom: restoring nothing gives an empty filter', () => {
  const bloom = new Bloom(1024);
  fill(bloom, 10, 1);
  restore(bloom, new Uint8Array(0));
  assert.equal(bloom.count, 0);
  fill(bloom, 10, 1);
  assert.equal(bloom.count, 10);
});

test('bloom: damaged bytes are refused and change nothing', () => {
  const bloom = new Bloom(1024);
  fill(bloom, 3_000, 9);
  const saved = bytesOf(bloom);
  const head = (at: number, value: number) => {
    const bytes = Buffer.from(saved);
    bytes.writeDoubleLE(value, at);
    return bytes;
  };
  const damaged = [
    saved.subarray(0, 5),
    saved.subarray(0, 31),
    saved.subarray(0, 32),
    saved.subarray(0, -1),
    saved.subarray(0, -4),
    Buffer.concat([saved, Buffer.alloc(8)]),
    Buffer.concat([saved, Buffer.alloc(32)]),
    ...[0, -4, 3, 1e300, Number.NaN, Number.POSITIVE_INFINITY].map((size) => head(0, size)),
    ...[0, -1, 1.5, 1e9, Number.NaN, Number.POSITIVE_INFINITY].map((hashes) => head(8, hashes)),
    ...[0, -1, Number.NaN, Number.POSITIVE_INFINITY].map((capacity) => head(16, capacity)),
    ...[-1, 0.5, Number.NaN].map((count) => head(24, count)),
  ];
  for (const [i, bytes] of damaged.entries()) {
    assert.throws(() => restore(bloom, bytes), RangeError, `damage ${i}`);
    assert.equal(bloom.count, 3_000, `damage ${i}`);
  }
});

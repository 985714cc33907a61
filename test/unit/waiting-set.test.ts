import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { WaitingSet } from '../../master/frontier/filter/waiting-set.ts';
import { firstOf } from '../../master/store/runs.ts';
import { randomWords } from '../support/random.ts';

/** Fingerprints that share most of their words, so that they meet in the same places. */
const close = fc
  .tuple(fc.nat(3), fc.nat(1), fc.nat(1), fc.nat(3))
  .map(([a, b, c, d]) => new Uint32Array([a, b, c, d * 0x4000_0000]));
const last = fc.nat(2_000).map((n) => new Uint32Array([0xffff_ffff, n, 0, 0]));
const fingerprint = fc.oneof(close, last);

test('waiting: is exact, however many share a place', () => {
  fc.assert(
    fc.property(fc.array(fingerprint, { maxLength: 600 }), (all) => {
      const set = new WaitingSet();
      const model = new Set<string>();
      for (const words of all) {
        assert.equal(set.has(words, 0), model.has(words.join()));
        assert.equal(set.add(words, 0), !model.has(words.join()));
        model.add(words.join());
        assert.equal(set.count, model.size);
      }
      for (const words of all) assert.ok(set.has(words, 0));
    }),
  );
});

test('waiting: is exact while it doubles, bit by bit', () => {
  const set = new WaitingSet();
  const words = randomWords(24_000, 11);
  for (let at = 0; at < words.length; at += 4) {
    assert.ok(set.add(words, at));
    // Those that moved, those that have not, and itself.
    for (const known of [0, 4 * Math.floor(at / 8), at]) {
      assert.ok(set.has(words, known));
      assert.ok(!set.add(words, known));
    }
    assert.ok(at + 4 === words.length || !set.has(words, at + 4));
  }
  assert.equal(set.count, 24_000);
  const whole = new WaitingSet(set.count);
  assert.equal(set.bytes, whole.bytes, 'the old places are given back');
});

test('waiting: gives its keys in order, each in one range', () => {
  const set = new WaitingSet();
  const words = randomWords(50_000, 4);
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < words.length; at += 4) assert.ok(set.add(words, at));
    const found: number[] = [];
    for (let part = 0; part < 997; part++) {
      const [from, to] = [part, part + 1].map((n) => Math.floor((n * 2 ** 32) / 997));
      set.between(from ?? 0, to ?? 0, (all, at) => found.push(firstOf(all[at] ?? 0)));
    }
    assert.equal(found.length, 50_000);
    assert.deepEqual(
      found,
      found.toSorted((a, b) => a - b),
    );
    set.clear();
    assert.equal(set.count, 0);
    assert.ok(!set.has(words, 0));
  }
});

test('waiting: a set that is full, and one commit more, takes no more memory than a full one', () => {
  const full = 1 << 14;
  const words = randomWords(full + 1_000, 7);
  const set = new WaitingSet();
  for (let at = 0; at < full * 4; at += 4) set.add(words, at);
  const { bytes } = set;
  assert.ok(bytes < full * 36 + 20_000);
  for (let at = full * 4; at < words.length; at += 4) set.add(words, at);
  assert.equal(set.bytes, bytes);
  assert.equal(new WaitingSet(set.count).bytes, bytes, 'nor does the next one');
  for (let at = 0; at < words.length; at += 4) assert.ok(set.has(words, at));
});

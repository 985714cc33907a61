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

test('waiting: is exact while it grows, bit by bit', () => {
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
  assert.ok(set.bytes < 2 ** 15 * 17 + 20_000, 'the old places are given back');
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

test('waiting: a set that is full, and one commit more, takes no more memory than it may', () => {
  const [full, most] = [1 << 14, (1 << 14) + 1_000];
  const words = randomWords(most, 7);
  const set = new WaitingSet(0, most);
  for (let at = 0; at < full * 4; at += 4) set.add(words, at);
  const { bytes } = set;
  assert.ok(bytes < most * 21 + 20_000, `${bytes}`);
  for (let at = full * 4; at < words.length; at += 4) set.add(words, at);
  assert.equal(set.bytes, bytes);
  assert.equal(new WaitingSet(set.count, most).bytes, bytes, 'nor does the next one');
  for (let at = 0; at < words.length; at += 4) assert.ok(set.has(words, at));
});

test('waiting: more keys than were expected have room, too', () => {
  const words = randomWords(20_000, 8);
  const set = new WaitingSet(0, 3_000);
  for (let at = 0; at < words.length; at += 4) {
    assert.ok(set.add(words, at));
    assert.ok(set.has(words, 4 * Math.floor(at / 8)));
  }
  assert.equal(set.count, 20_000);
  assert.equal(
    set.between(0, 2 ** 32, () => {}),
    20_000,
  );
});

test('waiting: gets the memory of a larger set bit by bit, which gets its own', () => {
  const words = randomWords(3_000, 12);
  const others = randomWords(20_000, 13);
  const [large, small] = [new WaitingSet(20_000), new WaitingSet()];
  for (let at = 0; at < others.length; at += 4) large.add(others, at);
  for (let at = 0; at < 2_000 * 4; at += 4) small.add(words, at);
  for (const set of [large, small]) set.settle();
  const [largeBytes, smallBytes] = [large.bytes, small.bytes];
  assert.equal(large.exchange(small), false);
  assert.equal(small.exchange(large), true);
  for (let at = 2_000 * 4; at < words.length; at += 4) {
    for (const known of [0, 4 * Math.floor(at / 8), at - 4]) assert.ok(small.has(words, known));
    assert.ok(!small.has(words, at));
    assert.ok(!small.has(others, at));
    assert.ok(small.add(words, at));
  }
  assert.equal(small.count, 3_000);
  assert.deepEqual([small.bytes, large.bytes], [largeBytes, smallBytes]);
  assert.equal(large.count, 0);
  for (const all of [words, others]) {
    for (let at = 0; at < all.length; at += 4) assert.ok(!large.has(all, at));
  }
  for (let at = 0; at < others.length; at += 4) assert.ok(large.add(others, at));
  assert.equal(large.count, 20_000);
});

test('waiting: gets more memory before its keys have moved', () => {
  const words = randomWords(2_000, 14);
  const [some, more, most] = [new WaitingSet(), new WaitingSet(4_000), new WaitingSet(9_000)];
  for (let at = 0; at < words.length; at += 4) some.add(words, at);
  const { bytes } = more;
  assert.ok(some.exchange(more));
  assert.ok(some.exchange(most));
  some.settle();
  for (let at = 0; at < words.length; at += 4) assert.ok(some.has(words, at));
  assert.equal(most.bytes, bytes);
});

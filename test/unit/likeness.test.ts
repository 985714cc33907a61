/** Images that look the same, by their hashes: against a plain model. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Likeness } from '../../master/images/likeness.ts';
import { nearestWasm } from '../../master/images/nearest-wasm.ts';
import { assembled } from '../support/assembled.ts';
import { randomUint32s } from '../support/random.ts';

const differing = (a: Uint8Array, b: Uint8Array) =>
  a.reduce((sum, byte, i) => {
    const rest = (byte ^ (b[i] ?? 0)).toString(2);
    return sum + rest.replaceAll('0', '').length;
  }, 0);

/** Random hashes, many of them near an earlier one. */
function hashes(count: number, seed: number): Uint8Array[] {
  const next = randomUint32s(seed);
  const all: Uint8Array[] = [];
  for (let n = 0; n < count; n++) {
    const before = n > 0 && next() % 3 > 0 ? all[next() % n] : undefined;
    const hash = before ? Uint8Array.from(before) : Uint8Array.from({ length: 8 }, () => next());
    if (before) {
      for (let k = next() % 12; k > 0; k--) hash[next() % 8] = (hash[0] ?? 0) ^ (1 << (next() % 8));
      const at = next() % 8;
      hash[at] = (before[at] ?? 0) ^ (1 << (next() % 8));
    }
    all.push(hash);
  }
  return all;
}

/** A name of 32 bytes. */
function nameOf(n: number): Buffer {
  const name = Buffer.alloc(32);
  name.writeUInt32BE(n, 20);
  return name;
}

test('likeness: the group of the first of the nearest hashes, as in a plain model', () => {
  for (const indexFrom of [undefined, 0, 200]) compareWithModel(new Likeness(indexFrom));
});

function compareWithModel(likeness: Likeness): void {
  const seed = Math.floor(Math.random() * 1e6);
  const known: { hash: Uint8Array; group: number }[] = [];
  let joined = 0;
  for (const [n, hash] of hashes(700, seed).entries()) {
    const set = differing(hash, new Uint8Array(8));
    let expected: number | undefined;
    if (Math.min(set, 64 - set) >= 8) {
      let best = 9;
      expected = n;
      for (const one of known) {
        const bits = differing(hash, one.hash);
        if (bits >= best) continue;
        best = bits;
        expected = one.group;
      }
      if (expected !== n) joined++;
      known.push({ hash, group: expected });
    }
    const found = likeness.add(hash, nameOf(n));
    const named = expected === undefined ? undefined : nameOf(expected);
    assert.deepEqual(found && Buffer.from(found), named, `seed ${seed}, hash ${n}`);
  }
  assert.ok(joined > 50, `${joined}`);
  assert.equal(likeness.count, known.length);
}

test('likeness: a start that restores the hashes goes on with their groups', () => {
  const all = hashes(20_000, 5);
  const before = new Likeness();
  const after = new Likeness(15_000);
  for (const [n, hash] of all.slice(0, -500).entries()) {
    const group = before.add(hash, nameOf(n));
    if (group !== undefined) after.restore(hash, group);
  }
  assert.equal(after.count, before.count);
  for (const [n, hash] of all.slice(-500).entries()) {
    const name = nameOf(100_000 + n);
    assert.deepEqual(after.add(hash, name), before.add(hash, name));
  }
});

test('likeness: nearest.wat assembles to nearest-wasm.ts', async () => {
  assert.equal(await assembled('master/images/nearest.wat'), nearestWasm);
});

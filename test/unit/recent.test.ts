import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { RecentTable } from '../../master/frontier/filter/recent.ts';
import { randomWords } from '../support/random.ts';

/** Fingerprints that share most of their words, so that they meet in the same places. */
const close = fc
  .tuple(fc.nat(3), fc.nat(1), fc.nat(1), fc.nat(3))
  .map(([a, b, c, d]) => new Uint32Array([a, b, c, d * 0x4000_0000]));
const fingerprint = fc.oneof(
  close,
  fc.tuple(fc.nat(), fc.nat(), fc.nat(), fc.nat()).map((words) => new Uint32Array(words)),
);

test('recent: never has what was not added', () => {
  fc.assert(
    fc.property(
      fc.array(fingerprint, { maxLength: 100 }),
      fc.array(fingerprint),
      (added, asked) => {
        const table = new RecentTable(16);
        const known = new Set<string>();
        for (const words of added) {
          table.add(words, 0);
          known.add(words.join());
          assert.ok(table.has(words, 0), 'the last one is there');
        }
        for (const words of [...asked, ...added]) {
          if (table.has(words, 0)) assert.ok(known.has(words.join()));
        }
      },
    ),
  );
});

test('recent: an empty table has nothing', () => {
  const table = new RecentTable(64);
  assert.ok(!table.has(new Uint32Array(4), 0));
});

test('recent: holds most of what fits, and never more than its bound', () => {
  const table = new RecentTable(4096);
  const words = randomWords(20_000, 1);
  for (let at = 0; at < words.length; at += 4) table.add(words, at);
  let kept = 0;
  for (let at = 0; at < words.length; at += 4) if (table.has(words, at)) kept++;
  assert.ok(kept <= 4096 && kept > 2000, `${kept}`);
});

test('recent: reads and adds at an offset', () => {
  const table = new RecentTable(64);
  const words = randomWords(3, 2);
  table.add(words, 4);
  assert.deepEqual(
    [0, 4, 8].map((at) => table.has(words, at)),
    [false, true, false],
  );
});

test('recent: a table that was cleared has nothing', () => {
  const table = new RecentTable(64);
  const words = randomWords(20, 3);
  for (let at = 0; at < words.length; at += 4) table.add(words, at);
  table.clear();
  for (let at = 0; at < words.length; at += 4) assert.ok(!table.has(words, at));
});

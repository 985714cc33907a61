/** Changes as bytes: each comes out as it went in, with the checksum that readers expect. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { ChunkPool, PackedChanges } from '../../master/store/packed-changes.ts';
import { type Change, tables } from '../../master/store/store.ts';
import { hasSum, isSound, sumBytes, sumOf } from '../../master/store/sums.ts';

const chunkBytes = 128 << 10;
/** Small ones, and around the sizes at which something else begins. */
const sizes = fc.oneof(
  fc.nat(600),
  fc.constantFrom(511, 512, 513, 40_000, chunkBytes - 50, chunkBytes, chunkBytes + 1),
);
const change = fc.record({
  table: fc.constantFrom(...tables),
  key: fc.uint8Array({ minLength: 1, maxLength: 64 }),
  size: fc.option(sizes, { nil: undefined }),
});

test('packed changes: come out as they went in, from memory that others had before', () => {
  const pool = new ChunkPool();
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40 }), (wanted) => {
      const changes = wanted.map(({ table, key, size }, i): Change => {
        const value = size === undefined ? undefined : Buffer.alloc(size, i + 1);
        return { table, key, value };
      });
      const packed = new PackedChanges(pool, changes);
      const found: Change[] = [];
      packed.each((table, key, chunk) => {
        const value = chunk && Buffer.from(chunk.subarray(chunk.start, chunk.end));
        found.push({ table, key: Buffer.from(key), value: value && plain(table, key, value) });
      });
      packed.free();
      assert.deepEqual(found.map(text), changes.map(text));
    }),
  );
});

/** The value alone; its checksum is right. */
function plain(table: Change['table'], key: Buffer, value: Buffer): Buffer {
  if (!hasSum(table)) return value;
  assert.ok(isSound(key, 0, key.length, value, 0, value.length), 'the checksum is right');
  const wrong = Buffer.from(value);
  wrong[0] = (wrong[0] ?? 0) ^ 1;
  assert.ok(!isSound(key, 0, key.length, wrong, 0, wrong.length), 'a flipped bit is noticed');
  return value.subarray(0, value.length - sumBytes);
}

function text({ table, key, value }: Change): string {
  const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex');
  return `${table} ${hex(key)} ${hex(value)}`;
}

test('packed changes: checksums are those of zlib', () => {
  const row = Buffer.from(Array.from({ length: 700 }, (_, i) => (i * 167 + 13) & 0xff));
  for (let to = 0; to <= row.length; to++) {
    const from = to % 5;
    if (from <= to) assert.equal(sumOf(row, from, to), crc32(row.subarray(from, to)));
  }
});

/**
 * The changes of a commit as bytes, one behind the other, in memory that is used again. As objects
 * they would wait for the commit before theirs, and outlive some collections of garbage: three or
 * four objects a row, and lmdb-js keeps each value that it is given until the next large one.
 *
 *     table u8 | bytes of the key u16 | bytes of the value u32 | key | value | checksum
 *
 * A row that is deleted has `deleted` instead of the bytes of its value, and nothing behind its key.
 */
import { type Change, type Table, tables } from './store.ts';
import { hasSum, sumBytes, sumOf } from './sums.ts';

/** From `start` to `end` is the value that lmdb-js is to read. It reads both in the call, so that one
 *  object serves for all values. */
export type Chunk = Buffer & { start: number; end: number };

const headBytes = 7;
const deleted = 0xffffffff;
/** Of which the last one of a commit is half empty. */
const chunkBytes = 128 << 10;
/** Free chunks that are kept: those of a commit or two. */
const freeMax = 32;
const numberOf = new Map(tables.map((table, number) => [table, number]));

/** Chunks that no commit has. */
export class ChunkPool {
  readonly #free: Chunk[] = [];

  /** Returns one of at least so many bytes. */
  take(bytes: number): Chunk {
    const free = bytes > chunkBytes ? undefined : this.#free.pop();
    if (free !== undefined) return free;
    const made = Buffer.allocUnsafeSlow(Math.max(bytes, chunkBytes));
    return Object.assign(made, { start: 0, end: 0, address: 0 });
  }

  give(chunk: Chunk): void {
    const isKept = chunk.length === chunkBytes && this.#free.length < freeMax;
    if (isKept) this.#free.push(chunk);
  }
}

export class PackedChanges {
  readonly #pool: ChunkPool;
  readonly #chunks: { readonly chunk: Chunk; bytes: number }[] = [];
  readonly count: number;

  constructor(pool: ChunkPool, changes: readonly Change[]) {
    this.#pool = pool;
    this.count = changes.length;
    for (const change of changes) this.#add(change);
  }

  /** Calls `put` for each change, in order. The key is valid during the call; a value of undefined
   *  deletes it. */
  each(put: (table: Table, key: Buffer, value: Chunk | undefined) => void): void {
    for (const { chunk, bytes } of this.#chunks) {
      for (let at = 0; at < bytes; ) {
        const table = tables[chunk.readUInt8(at)];
        const keyAt = at + headBytes;
        const valueAt = keyAt + chunk.readUInt16LE(at + 1);
        const valueBytes = chunk.readUInt32LE(at + 3);
        const isDeleted = valueBytes === deleted;
        chunk.start = valueAt;
        chunk.end = isDeleted ? valueAt : valueAt + valueBytes;
        at = chunk.end;
        if (table === undefined) throw new RangeError('no such table');
        put(table, chunk.subarray(keyAt, valueAt), isDeleted ? undefined : chunk);
      }
    }
  }

  /** Everything is on the disk: nobody reads this memory any more. */
  free(): void {
    for (const { chunk } of this.#chunks) this.#pool.give(chunk);
    this.#chunks.length = 0;
  }

  #add({ table, key, value }: Change): void {
    const summed = value !== undefined && hasSum(table) ? sumBytes : 0;
    const valueBytes = value === undefined ? 0 : value.length + summed;
    const bytes = headBytes + key.length + valueBytes;
    let last = this.#chunks.at(-1);
    if (last === undefined || last.bytes + bytes > last.chunk.length) {
      last = { chunk: this.#pool.take(bytes), bytes: 0 };
      this.#chunks.push(last);
    }
    const { chunk, bytes: at } = last;
    last.bytes += bytes;
    const keyAt = at + headBytes;
    const valueAt = keyAt + key.length;
    chunk.writeUInt8(numberOf.get(table) ?? tables.length, at);
    chunk.writeUInt16LE(key.length, at + 1);
    chunk.writeUInt32LE(value === undefined ? deleted : valueBytes, at + 3);
    chunk.set(key, keyAt);
    if (value === undefined) return;
    chunk.set(value, valueAt);
    const end = valueAt + value.length;
    if (summed > 0) chunk.writeUInt32LE(sumOf(chunk, keyAt, end), end);
  }
}

/**
 * Checksums of the store's rows, so that a flipped bit is damage and not another URL.
 *
 * Every value ends with a CRC-32 of its key and itself. A row of `seen`, up to format 3, has no
 * value. The crawl's record has the XOR of all its seen keys, wherever they are.
 */
import { crc32 } from 'node:zlib';
import type { Table } from './store.ts';

/** One row: the positions of key and value. The buffers are valid until the next one. */
export type Take = (
  keys: Buffer,
  keyAt: number,
  keyBytes: number,
  values: Buffer,
  valueAt: number,
  valueBytes: number,
) => void;

export const sumBytes = 4;
/** From here on zlib is faster, and there are few enough rows. */
const largeBytes = 512;

export function hasSum(table: Table): boolean {
  return table !== 'seen';
}

/** Returns the checksum of a row whose key and value follow each other. */
export function sumOf(row: Buffer, from: number, to: number): number {
  if (to - from > largeBytes) return crc32(row.subarray(from, to));
  return ~steps(~0, row, from, to) >>> 0;
}

/** Returns whether key and value are unchanged. The row is in buffers, as `Take` describes it. It
 *  allocates nothing for small ones: there are millions of rows, and the memory of their views
 *  would stay with the process. */
export function isSound(...row: Parameters<Take>): boolean {
  const [keys, keyAt, keyBytes, values, valueAt, valueBytes] = row;
  if (valueBytes < sumBytes) return false;
  const end = valueAt + valueBytes - sumBytes;
  if (valueBytes > largeBytes) {
    const key = crc32(keys.subarray(keyAt, keyAt + keyBytes));
    return crc32(values.subarray(valueAt, end), key) === values.readUInt32LE(end);
  }
  const crc = steps(steps(~0, keys, keyAt, keyAt + keyBytes), values, valueAt, end);
  return ~crc >>> 0 === values.readUInt32LE(end);
}

/** CRC-32 of each byte, as in zlib; then the same with one to seven bytes of 0 behind it. Eight
 *  bytes a step do not wait for each other. Source: Kounavis & Berry, "Novel Table Lookup-Based
 *  Algorithms for High-Performance CRC Generation" (2008). */
const [crc0, crc1, crc2, crc3, crc4, crc5, crc6, crc7] = tablesOfBytes();

function tablesOfBytes() {
  const first = Int32Array.from({ length: 256 }, (_, byte) => {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    return crc;
  });
  const next = (table: Int32Array) => table.map((crc) => (first[crc & 0xff] ?? 0) ^ (crc >>> 8));
  const second = next(first);
  const third = next(second);
  const fourth = next(third);
  const fifth = next(fourth);
  const sixth = next(fifth);
  const seventh = next(sixth);
  return [first, second, third, fourth, fifth, sixth, seventh, next(seventh)] as const;
}

function steps(from: number, bytes: Buffer, at: number, to: number): number {
  let crc = from;
  let i = at;
  for (; i + 8 <= to; i += 8) {
    crc =
      (crc7[(crc ^ (bytes[i] ?? 0)) & 0xff] ?? 0) ^
      (crc6[((crc >>> 8) ^ (bytes[i + 1] ?? 0)) & 0xff] ?? 0) ^
      (crc5[((crc >>> 16) ^ (bytes[i + 2] ?? 0)) & 0xff] ?? 0) ^
      (crc4[(crc >>> 24) ^ (bytes[i + 3] ?? 0)] ?? 0) ^
      (crc3[bytes[i + 4] ?? 0] ?? 0) ^
      (crc2[bytes[i + 5] ?? 0] ?? 0) ^
      (crc1[bytes[i + 6] ?? 0] ?? 0) ^
      (crc0[bytes[i + 7] ?? 0] ?? 0);
  }
  for (; i < to; i++) crc = (crc0[(crc ^ (bytes[i] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
  return crc;
}

/** XORs one more fingerprint into `sum`; both are four words. */
export function addToSum(sum: Uint32Array, words: Uint32Array, at: number): void {
  for (let i = 0; i < 4; i++) sum[i] = (sum[i] ?? 0) ^ (words[at + i] ?? 0);
}

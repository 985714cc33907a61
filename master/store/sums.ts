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

/** Returns the value with its checksum appended. */
export function withSum(key: Uint8Array, value: Uint8Array): Buffer {
  const sealed = Buffer.allocUnsafe(value.length + sumBytes);
  sealed.set(value);
  sealed.writeUInt32LE(crc32(value, crc32(key)), value.length);
  return sealed;
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
  let crc = ~0;
  for (let at = keyAt; at < keyAt + keyBytes; at++) crc = step(crc, keys[at] ?? 0);
  for (let at = valueAt; at < end; at++) crc = step(crc, values[at] ?? 0);
  return ~crc >>> 0 === values.readUInt32LE(end);
}

/** CRC-32 of each byte, as in zlib. */
const crcOfByte = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

function step(crc: number, byte: number): number {
  return (crcOfByte[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8);
}

/** XORs one more fingerprint into `sum`; both are four words. */
export function addToSum(sum: Uint32Array, words: Uint32Array, at: number): void {
  for (let i = 0; i < 4; i++) sum[i] = (sum[i] ?? 0) ^ (words[at + i] ?? 0);
}

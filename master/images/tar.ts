/**
 * Entries of tar files, written and read: plain files with short names. Pure but for the reading.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format".
 */
import { type FileHandle, open } from 'node:fs/promises';

export const tarBlockBytes = 512;
/** The end of a tar file. */
export const tarTrailer: Uint8Array = new Uint8Array(2 * tarBlockBytes);
const readBytes = 64 << 10;
const nameBytesMax = 100;
const magic = 'ustar\0';
/** Offset and length of the sum in a header. */
const [sumAt, sumBytes] = [148, 8];

/** `at`: where its bytes begin; `end`: where the next entry begins. */
type TarEntry = { readonly name: string; readonly at: number; readonly end: number };

/** Returns a header, the bytes, and the rest of the last block. `name`: ASCII, to 100 bytes. */
export function entryOf(name: string, pieces: readonly Uint8Array[]): Uint8Array[] {
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const header = Buffer.alloc(tarBlockBytes);
  header.write(name, 0, nameBytesMax, 'latin1');
  header.write('0000644\0', 100, 'latin1');
  header.write('0000000\0'.repeat(2), 108, 'latin1');
  header.write(`${octal(bytes)}\0${octal(Math.floor(Date.now() / 1000))}\0`, 124, 'latin1');
  header.write('0', 156, 'latin1');
  header.write(`${magic}00`, 257, 'latin1');
  header.write(`${sumOf(header).toString(8).padStart(6, '0')}\0 `, sumAt, 'latin1');
  return [header, ...pieces, tarTrailer.subarray(0, blocksOf(bytes) - bytes)];
}

/** Yields the entries of a file that are whole, up to the first block that is none of a plain file.
 *  A file that cannot be read has none. */
export async function* tarEntries(path: string): AsyncGenerator<TarEntry> {
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch {
    return;
  }
  try {
    const { size } = await handle.stat();
    const buffer = Buffer.alloc(readBytes);
    let [from, filled] = [0, 0];
    for (let at = 0; at + tarBlockBytes <= size; ) {
      if (at < from || at + tarBlockBytes > from + filled) {
        from = at;
        filled = (await handle.read(buffer, 0, readBytes, at)).bytesRead;
      }
      const header = buffer.subarray(at - from, at - from + tarBlockBytes);
      const bytes = header.length === tarBlockBytes ? bytesOf(header) : undefined;
      if (bytes === undefined) return;
      const name = header.toString('latin1', 0, nameBytesMax).replace(/\0.*/s, '');
      const end = at + tarBlockBytes + blocksOf(bytes);
      if (end > size) return;
      yield { name, at: at + tarBlockBytes, end };
      at = end;
    }
  } finally {
    await handle.close();
  }
}

/** The length of the file of a header; undefined: it is no header. */
function bytesOf(header: Buffer): number | undefined {
  if (header.toString('latin1', 257, 257 + magic.length) !== magic) return undefined;
  const sum = Number.parseInt(header.toString('latin1', sumAt, sumAt + sumBytes), 8);
  const bytes = Number.parseInt(header.toString('latin1', 124, 136), 8);
  return sum === sumOf(header) && bytes >= 0 ? bytes : undefined;
}

/** The sum of all bytes, with blanks in the place of the sum. */
function sumOf(header: Uint8Array): number {
  let sum = sumBytes * 0x20;
  for (let at = 0; at < tarBlockBytes; at++) {
    if (at < sumAt || at >= sumAt + sumBytes) sum += header[at] ?? 0;
  }
  return sum;
}

function octal(value: number): string {
  return value.toString(8).padStart(11, '0');
}

function blocksOf(bytes: number): number {
  return Math.ceil(bytes / tarBlockBytes) * tarBlockBytes;
}

/**
 * The file that keeps the Bloom filter of a crawl across restarts: the filters, the digest of the
 * file that it replaced, and its own digest. It is written in slices, each copied and digested by
 * itself: a large filter would hold the event loop.
 */
import { createHash } from 'node:crypto';
import { closeSync, existsSync, fstatSync, openSync, readSync, rmSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncFolder } from '../../../shared/sync-folder.ts';
import { Bloom } from './bloom.ts';

const digestBytes = 32;
const sliceBytes = 256 << 10;
/** The digest if no filter was saved. */
export const noDigest = Buffer.alloc(digestBytes);

/** Writes the filter, based on the file with the digest `base`. Returns its own digest. */
export async function writeBloom(path: string, bloom: Bloom, base: Buffer): Promise<Buffer> {
  const digest = createHash('sha256');
  const file = await open(`${path}.new`, 'w');
  // Bits that are set in the meantime must not make the digest wrong. One copy for all slices: a
  // large filter would leave hundreds of them to the next collection.
  const copy = Buffer.allocUnsafeSlow(sliceBytes);
  let own: Buffer;
  try {
    for (const live of bloom.save()) {
      for (let at = 0; at < live.length; at += sliceBytes) {
        const bytes = copy.subarray(0, Math.min(sliceBytes, live.length - at));
        bytes.set(live.subarray(at, at + bytes.length));
        digest.update(bytes);
        await writeWhole(file, bytes);
      }
    }
    own = digest.update(base).digest();
    await writeWhole(file, Buffer.concat([base, own]));
    await file.sync();
  } catch (error) {
    rmSync(`${path}.new`, { force: true }); // perhaps there was no room on the disk
    throw error;
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  // Not at once: while the disk is busy, that of a folder may take half a second.
  await syncFolder(dirname(path));
  return own;
}

/** Reads the saved filter; undefined: there is none, or neither that of the digest `base` nor one
 *  based on it, or it is empty: such a one does not know how many URLs are expected. */
export function readBloom(
  path: string,
  base: Buffer,
  bytesLeft: (() => number) | undefined,
): Bloom | undefined {
  if (!existsSync(path)) return undefined;
  const file = openSync(path, 'r');
  try {
    const digest = createHash('sha256');
    const saved = new Bloom(1, { bytesLeft });
    saved.restore(Math.max(0, fstatSync(file).size - 2 * digestBytes), (into) => {
      readWhole(file, into);
      digest.update(into);
    });
    const [replaced, own] = [Buffer.alloc(digestBytes), Buffer.alloc(digestBytes)];
    readWhole(file, replaced);
    readWhole(file, own);
    if (!digest.update(replaced).digest().equals(own)) return undefined;
    if (!own.equals(base) && !replaced.equals(base)) return undefined;
    return saved.count > 0 ? saved : undefined;
  } catch (error) {
    // A damaged filter is made anew.
    if (error instanceof RangeError) return undefined;
    throw error;
  } finally {
    closeSync(file);
  }
}

async function writeWhole(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done);
    done += bytesWritten;
  }
}

function readWhole(file: number, into: Uint8Array): void {
  for (let done = 0; done < into.length; ) {
    const count = readSync(file, into, done, into.length - done, null);
    if (count === 0) throw new RangeError('the file ends early');
    done += count;
  }
}

/**
 * The mark of an orderly end, beside the store: a large store that has it is not read as a whole
 * before the next start. It holds what changes with any write to the file, by whomever: size, inode
 * and times of the file, and a digest of its meta pages. A start removes it for good before it
 * opens the store, so that after a crash there is none.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf } from '../../shared/errors.ts';

/** The check of a smaller store takes no time. */
const largeBytes = 64 << 20;
const metaBytes = 8192;
/** Clocks of file systems are that coarse: a later change has another time. */
const clockMs = 20;

/** The store at `path` was closed, and all of it is on the disk. Rejects for a failing disk. */
export async function markWhole(path: string, bytesMin = largeBytes): Promise<void> {
  if (statSync(path).size < bytesMin) return;
  await pause(clockMs);
  const file = `${markOf(path)}.new`;
  writeFileSync(file, describe(path), { mode: 0o600 });
  synced(file);
  renameSync(file, markOf(path));
  synced(dirname(path));
}

/** Returns whether the store is large, and as an orderly end has left it. */
export function isMarkedWhole(path: string, bytesMin = largeBytes): boolean {
  try {
    if (statSync(path).size < bytesMin) return false;
    return readFileSync(markOf(path), 'latin1') === describe(path);
  } catch {
    // There is no mark, or it cannot be read: then the store is.
    return false;
  }
}

/** The store is about to be written. @throws Error of the file system */
export function forgetMark(path: string): void {
  try {
    rmSync(markOf(path));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return;
    throw error;
  }
  synced(dirname(path));
}

function markOf(path: string): string {
  return `${path}.whole`;
}

function describe(path: string): string {
  const { size, ino, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
  const meta = Buffer.alloc(metaBytes);
  const file = openSync(path, 'r');
  readSync(file, meta, 0, metaBytes, 0);
  closeSync(file);
  const digest = createHash('sha256').update(meta).digest('hex');
  return `whole ${size} ${ino} ${mtimeNs} ${ctimeNs} ${digest}\n`;
}

/** Puts a file or folder on the disk. */
function synced(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

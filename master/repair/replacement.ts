/**
 * Puts a new store in the place of one. It is made in the folder of the store, which may be on
 * another disk than the rest of the data folder, and is renamed over it:
 *
 *     store/new/store.mdb --> on the disk --> store/store.mdb
 *
 * There is a whole store at its path at any moment: without one a start would begin with nothing.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { forgetLock, storeFile } from '../store/lmdb.ts';

/** The folder in which a new store is made. */
export function replacementIn(dataFolder: string): string {
  return join(dataFolder, 'store', 'new');
}

/** Deletes what was not finished. */
export function forgetReplacement(dataFolder: string): void {
  // Where earlier versions compacted.
  const before = join(dataFolder, 'store.compact');
  for (const path of [replacementIn(dataFolder), before]) {
    rmSync(path, { recursive: true, force: true });
  }
}

/** The new store takes the place of the old one, which nobody uses, and which keeps a name if it
 *  gets one (`aside`). @throws the error of the system */
export function replaceStore(dataFolder: string, aside?: string): void {
  const path = storeFile(join(dataFolder, 'store'));
  const made = storeFile(replacementIn(dataFolder));
  belongAs(made, path);
  synced(made);
  if (aside !== undefined) keepAs(path, aside);
  forgetLock(path);
  renameSync(made, path);
  synced(dirname(path));
  forgetReplacement(dataFolder);
}

/** Root may have made it: whose store it is may go on using it. */
function belongAs(path: string, other: string): void {
  const { uid, gid, mode } = statSync(other);
  chmodSync(path, mode & 0o777);
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
}

/** Gives a file a second name; a copy where the file system knows no links. */
function keepAs(path: string, aside: string): void {
  try {
    linkSync(path, aside);
  } catch {
    copyFileSync(path, aside);
  }
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

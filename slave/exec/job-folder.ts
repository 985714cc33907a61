/**
 * The folder of a job, below one of the slave, in the system's folder for temporary files
 * (`TMPDIR`). It is the job's own, its size is looked at while the job runs, and it goes with the
 * job. A slave of root removes it as the user of the job: otherwise a process that was missed could
 * put a link into the place of a folder, and have root delete what it points to.
 */
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeOf } from '../../shared/errors.ts';
import { startProcess } from '../../shared/start-process.ts';

/** Whom jobs run as. */
export type ExecUser = { readonly name: string; readonly uid: number; readonly gid: number };

/** More entries than this are too many, whatever their size. */
const entriesMax = 200_000;
const removeMs = 60_000;
const slash = Buffer.from('/');
const inBytes = { encoding: 'buffer' as BufferEncoding }; // the types lack it

/** Makes the folder of a slave's jobs. */
export function makeBase(): string {
  const base = mkdtempSync(join(tmpdir(), 'orb-jobs-'));
  // The user of a job passes through it, and does not see the others.
  chmodSync(base, 0o711);
  return base;
}

/** Makes the folder of a job. `user`: whose it is; undefined: this process's.
 *  @throws Error it cannot be made */
export function makeJobFolder(base: string, name: string, user: ExecUser | undefined): string {
  remakeBase(base);
  const folder = join(base, name);
  mkdirSync(folder, { mode: 0o700 });
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

/** A cleaner of temporary files may have removed the folder, and then anybody may make its name. */
function remakeBase(base: string): void {
  const stats = lstatSync(base, { throwIfNoEntry: false });
  if (stats === undefined) {
    mkdirSync(base, { mode: 0o711 });
    chmodSync(base, 0o711);
  } else if (!stats.isDirectory() || stats.uid !== process.getuid?.()) {
    throw new Error(`${base} is not the folder that this slave made: start the slave again`);
  }
}

/** Bytes on the disk below a folder; infinite if there are too many entries. It stops counting
 *  above `bytesMax`. */
export async function folderBytes(folder: string, bytesMax: number): Promise<number> {
  let bytes = 0;
  let entries = 0;
  // Names are bytes: one that is not UTF-8 is not found by its text.
  const folders = [Buffer.from(folder)];
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    const listed = await opendir(at, inBytes).catch(() => undefined);
    if (listed === undefined) continue;
    try {
      for await (const entry of listed) {
        if (++entries > entriesMax) return Number.POSITIVE_INFINITY;
        const path = Buffer.concat([at, slash, Buffer.from(entry.name)]);
        bytes += ((await lstat(path).catch(() => undefined))?.blocks ?? 0) * 512;
        if (bytes > bytesMax) return bytes;
        if (entry.isDirectory()) folders.push(path);
      }
    } catch {
      // It was removed meanwhile.
    }
  }
  return bytes;
}

/** Removes a folder with all that is in it. False: something is left. */
export async function removeJobFolder(
  folder: string,
  user: ExecUser | undefined,
): Promise<boolean> {
  if (user === undefined) {
    try {
      rmSync(folder, { recursive: true, force: true });
      return true;
    } catch {
      // A folder without rights, of its own.
    }
  }
  // The job's user may have taken rights from itself. The folder itself stays where it may not
  // remove it.
  await runs('/bin/chmod', ['-R', 'u+rwX', '--', folder], user);
  await runs('/bin/rm', ['-rf', '--', folder], user);
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    return codeOf(error) === 'ENOENT';
  }
}

/** Runs a program of the system, and waits for its end. */
function runs(program: string, args: readonly string[], user: ExecUser | undefined): Promise<void> {
  return new Promise((resolve) => {
    const child = startProcess(program, args, {
      ...(user && { uid: user.uid, gid: user.gid }),
      stdio: 'ignore',
      timeout: removeMs,
      cwd: '/',
    });
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
}

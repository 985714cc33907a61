/**
 * The mark of a store that was read as a whole, beside it, while a master uses it. If that master
 * dies, the next start need not read a large store before it serves.
 *
 * A process that dies harms no file: the kernel has all that it wrote, and a commit that was under
 * way has no roots yet. A machine that stops may, if its disk had promised too much. So the mark
 * holds for this very file, until the machine starts again. The master then reads the store while
 * it serves. If it dies before it has, again and again, damage may be why: then the store is read
 * before the next start.
 */
import {
  closeSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { formatVersion } from '../store/records.ts';
import { current, StoreFile } from './pages.ts';

/** A smaller store is read in two seconds. */
const largeBytes = 1 << 30;
/** Starts in a row before which the store was not read. */
const startsMax = 3;
/** Of the machine since its start. Source: proc_sys_kernel(5). */
const bootFile = '/proc/sys/kernel/random/boot_id';
/** Of the last transaction in the file of LMDB's readers. Source: mdb.c, `MDB_txbody`. */
const transactionAt = 8;

/** The store at `path` was read, and is whole; or it is as one that was. `starts`: how many there
 *  were since it was read. @throws Error of the file system */
export function markRead(path: string, starts = 0): void {
  const file = describe(path);
  if (file === undefined) return;
  // It need not be on the disk, since it ends with this run of the machine.
  const made = `${markOf(path)}.new`;
  writeFileSync(made, `${file} ${starts}\n`, { mode: 0o600 });
  renameSync(made, markOf(path));
}

/** Returns how many starts there were since the store was read; undefined: it must be read before
 *  this one. */
export function startsSinceRead(path: string, bytesMin = largeBytes): number | undefined {
  try {
    if (statSync(path).size < bytesMin) return undefined;
    const file = describe(path);
    const mark = /^(read .*) (\d+)\n$/.exec(readFileSync(markOf(path), 'latin1'));
    if (mark === null || mark[1] !== file || !isOfLastWriter(path)) return undefined;
    const starts = Number(mark[2]);
    return starts < startsMax ? starts : undefined;
  } catch {
    // There is no mark, or it cannot be read.
    return undefined;
  }
}

/** The next start reads the store, or finds that it is as an orderly end has left it.
 *  @throws Error of the file system */
export function forgetRead(path: string): void {
  rmSync(markOf(path), { force: true });
}

function markOf(path: string): string {
  return `${path}.read`;
}

/** Identity of a file until the machine is started again; undefined: there is none on this
 *  system. */
function describe(path: string): string | undefined {
  let boot: string;
  try {
    boot = readFileSync(bootFile, 'latin1').trim();
  } catch {
    return undefined;
  }
  const { dev, ino, birthtimeNs } = statSync(path, { bigint: true });
  return `read ${formatVersion} ${boot} ${dev} ${ino} ${birthtimeNs}`;
}

/** A backup that was copied into the file has an older transaction than its last writer left. That
 *  may have died between its meta page and this number. */
function isOfLastWriter(path: string): boolean {
  const store = new StoreFile(path);
  const [a, b] = store.metas();
  store.close();
  if (a === undefined || b === undefined) return false;
  const last = Buffer.alloc(8);
  const readers = openSync(`${path}-lock`, 'r');
  readSync(readers, last, 0, 8, transactionAt);
  closeSync(readers);
  const since = current(a, b).transaction - Number(last.readBigUInt64LE());
  return since === 0 || since === 1;
}

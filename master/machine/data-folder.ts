/**
 * The data folder: one master at a time. `master.lock` names the process that uses it, by process
 * id and start time. So a lock left by `kill -9` is recognised at once, even if another process now
 * has its id. A lock of another machine or container counts while it is touched: a container may
 * have the host name of its machine, and numbers its processes by itself. A lock names its own
 * file, too, so that a copy of the folder, which has a copy of the lock, is free.
 */
import {
  type BigIntStats,
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { addressText } from '../../shared/client.ts';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import { isDiskFull, refusalText } from './disk-room.ts';
import { makeFolder } from './make-folder.ts';
import { isSameFile } from './same-file.ts';

/** Advice for when the disk has failed. */
export const afterFault =
  'all that was acknowledged is on the disk: repair the disk, and start again';

const touchEveryMs = 2_000;
/** A lock of another machine that was not touched for this long is left over from a crash. */
const staleMs = 10_000;

/** The address by which this machine reaches a master that listens on all addresses. */
const ownAddresses: ReadonlyMap<string, string> = new Map([
  ['', '127.0.0.1'],
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
]);

/** Returns the address by which programs on this machine reach a master that listens there. */
export function localAddress(host: string, port: number): string {
  return addressText(ownAddresses.get(host) ?? host, port);
}

type Process = { readonly pid: number; readonly started: string };
type Owner = Process & {
  readonly host: string;
  /** The namespace of its process id, on Linux; one of an earlier version lacks it. */
  readonly space?: string;
  /** The program that has started it, and without which it ends. */
  readonly program?: Process;
  /** Device and inode of its lock; one of an earlier version lacks it. */
  readonly file?: string;
  /** Its folder of results. */
  readonly out?: string;
  /** Its data folder. */
  readonly data?: string;
};

/** Of the process that takes the folder. */
type Taker = {
  /** Process id of the program without which it ends. */
  readonly program?: number | undefined;
  /** Folder of results that it writes to. */
  readonly outFolder?: string;
};

/** How long a start waits for a master whose program is gone. */
const leavingMs = 15_000;
const lookEveryMs = 50;
/** How long a process may take to write its lock. */
const writingMs = 200;
/** A lock whose process cannot be seen, and that was not touched for this long, is left over. */
const untouchedMs = 2.5 * touchEveryMs;

export class DataFolder {
  readonly path: string;
  readonly #lock: string;
  readonly #address: string;
  /** The text that this process has written into it. */
  readonly #own: string;
  readonly #touch: NodeJS.Timeout;

  /** Called when the folder can no longer be used: its file system is gone, or is read-only. */
  onFault: (error: unknown) => void = () => {};

  private constructor(path: string, own: string) {
    this.path = path;
    this.#lock = join(path, 'master.lock');
    this.#own = own;
    this.#address = join(path, 'master.addr');
    this.#touch = setInterval(() => {
      const now = new Date();
      try {
        if (this.#isTaken()) {
          const why = `another master has taken the data folder ${path}, since this one stood still`;
          this.onFault(new ConfigError(`${why}; stop one of them`));
          return;
        }
        utimesSync(this.#lock, now, now);
      } catch (error) {
        const why = `the data folder ${path} can no longer be used: ${messageOf(error)}`;
        this.onFault(new ConfigError(`${why}; ${afterFault}`, error));
      }
    }, touchEveryMs);
    this.#touch.unref();
  }

  /** As `open`, when a master whose program is gone has left. @throws ConfigError as `open` */
  static async openWhenLeft(master: {
    readonly dataFolder: string;
    readonly outFolder: string;
    readonly reader?: { readonly pid: number } | undefined;
  }): Promise<DataFolder> {
    const { dataFolder: path, outFolder, reader } = master;
    const deadline = performance.now() + leavingMs;
    while (isLeaving(join(path, 'master.lock')) && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    return DataFolder.open(path, { program: reader?.pid, outFolder });
  }

  /** Makes the folder if it is missing and takes its lock. @throws ConfigError in use, or
   *  unwritable. */
  static open(path: string, taker: Taker = {}): DataFolder {
    const lock = join(path, 'master.lock');
    let own: string | undefined;
    try {
      makeFolder(path);
      refuseOddLock(lock);
      own = take(lock, taker);
      if (own === undefined) {
        const text = writtenText(lock);
        const owner = ownerIn(text);
        if (owner !== undefined && isAlive(owner, lock)) {
          throw new ConfigError(
            `the data folder ${path} is in use by the master with process id ${owner.pid}` +
              `${placeOf(owner)}; stop it, or choose another --data`,
          );
        }
        if (owner !== undefined) refuseSharedResults(path, owner, taker);
        dropStale(lock, text);
        own = take(lock, taker);
        if (own === undefined) {
          throw new ConfigError(
            `the data folder ${path} is in use by another master; stop it, or choose another --data`,
          );
        }
      }
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      const other = `${messageOf(error)}; choose another --data`;
      const why = isDiskFull(error) ? refusalText(error) : other;
      throw new ConfigError(`cannot use the data folder ${path}: ${why}`, error);
    }
    return new DataFolder(path, own);
  }

  /** A master of another machine or container takes a lock that is not touched. */
  #isTaken(): boolean {
    const text = textOf(this.#lock);
    return text !== undefined && text !== this.#own;
  }

  /** Records the address where the master listens, for programs on this machine; `isEncrypted`: it
   *  refuses those that do not encrypt. */
  publish(host: string, port: number, isEncrypted: boolean): void {
    const scheme = isEncrypted ? 'orbs://' : '';
    writeFileSync(`${this.#address}.new`, `${scheme}${localAddress(host, port)}\n`);
    renameSync(`${this.#address}.new`, this.#address);
  }

  close(): void {
    clearInterval(this.#touch);
    if (this.#isTaken()) return;
    try {
      rmSync(this.#address, { force: true });
      rmSync(this.#lock, { force: true });
    } catch {
      // The disk is read-only. The next start sees that no process holds the lock.
    }
  }
}

/** Returns the process id of the master that uses the data folder; undefined: none does. */
export function masterOf(path: string): number | undefined {
  const lock = join(path, 'master.lock');
  const owner = readOwner(lock);
  return owner !== undefined && isAlive(owner, lock) ? owner.pid : undefined;
}

/** Takes a lock file for this process. Returns the process id of another one that has it.
 *  @throws the error of the system */
export function takeLock(lock: string): number | undefined {
  if (take(lock, {}) !== undefined) return undefined;
  const text = writtenText(lock);
  const owner = ownerIn(text);
  if (owner !== undefined && isAlive(owner, lock)) return owner.pid;
  dropStale(lock, text);
  return take(lock, {}) !== undefined ? undefined : (readOwner(lock)?.pid ?? 0);
}

/** @throws ConfigError no process can have made it */
function refuseOddLock(lock: string): void {
  const found = statSync(lock, { throwIfNoEntry: false });
  if (found === undefined || found.isFile()) return;
  const what = found.isDirectory() ? 'a folder' : 'not a file';
  throw new ConfigError(
    `${lock} is ${what}, so that no master can take its data folder; remove it`,
  );
}

/** A copy of a folder in use knows the same crawls: its master would cut their result files, which
 *  the other one writes, or goes on with at its next start. @throws ConfigError */
function refuseSharedResults(path: string, owner: Owner, { outFolder }: Taker): void {
  const { data, out, pid } = owner;
  if (out === undefined || outFolder === undefined || owner.host !== hostname()) return;
  if (!isSameFolder(out, outFolder)) return;
  if (isRunning(owner)) {
    throw new ConfigError(
      `the data folder ${path} is a copy of that of the master with process id ${pid}, which ` +
        `writes its results to ${outFolder}; choose another --out`,
    );
  }
  // Moved, or brought back from elsewhere, it is the only one.
  if (data === undefined || isSameFolder(data, path) || !existsSync(join(data, 'store'))) return;
  throw new ConfigError(
    `the data folder ${path} is a copy of ${data}, which has its results in ${outFolder}; choose ` +
      `another --out, or move ${data} away`,
  );
}

function isSameFolder(one: string, other: string): boolean {
  if (resolve(one) === resolve(other)) return true;
  const [a, b] = [one, other].map((path) =>
    statSync(path, { bigint: true, throwIfNoEntry: false }),
  );
  return b !== undefined && isSameFile(a, b);
}

/** Removes a lock that a crash has left, of which this is the text. Another process may have done
 *  so a moment ago and taken the folder: then that one's lock is put back. */
function dropStale(lock: string, text: string | undefined): void {
  const gone = `${lock}.${process.pid}`;
  try {
    renameSync(lock, gone);
  } catch {
    return; // another one has
  }
  const found = textOf(gone);
  rmSync(gone, { force: true });
  if (found === undefined || found === text) return;
  try {
    writeFileSync(lock, found, { flag: 'wx' });
  } catch {
    // A third one has taken the folder: the second one ends when it sees that.
  }
}

/** The text of a lock. One that is empty is perhaps being written. */
function writtenText(lock: string): string | undefined {
  const text = textOf(lock);
  if (text !== '') return text;
  sleep(writingMs);
  return textOf(lock);
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** The master that holds it has lost its program, so that it is about to end. */
function isLeaving(lock: string): boolean {
  const owner = readOwner(lock);
  if (owner?.program === undefined || !isAlive(owner, lock)) return false;
  return isHere(owner) && !isRunning(owner.program);
}

function processOf(pid: number): Process {
  return { pid, started: startOf(pid) };
}

/** Returns what it has written; undefined: there is a lock. */
function take(lock: string, { program, outFolder }: Taker): string | undefined {
  let file: number;
  try {
    file = openSync(lock, 'wx');
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined;
    throw error;
  }
  try {
    const space = processSpace();
    const owner: Owner = {
      host: hostname(),
      ...(space !== undefined && { space }),
      ...processOf(process.pid),
      ...(program !== undefined && { program: processOf(program) }),
      ...(outFolder !== undefined && { out: resolve(outFolder), data: resolve(dirname(lock)) }),
      file: fileName(fstatSync(file, { bigint: true })),
    };
    const text = JSON.stringify(owner);
    writeFileSync(file, text);
    return text;
  } finally {
    closeSync(file);
  }
}

function fileName({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function readOwner(lock: string): Owner | undefined {
  return ownerIn(textOf(lock));
}

function ownerIn(text: string | undefined): Owner | undefined {
  try {
    return JSON.parse(text ?? '') as Owner;
  } catch {
    return undefined; // a crash while it was written, or just gone
  }
}

function isAlive(owner: Owner, lock: string): boolean {
  if (owner.host !== hostname()) return Date.now() - statSync(lock).mtimeMs < staleMs;
  return isHere(owner) ? isRunning(owner) && !isCopy(owner, lock) : isTouched(lock);
}

/** Whether its process id means the same to this process. */
function isHere({ host, space }: Owner): boolean {
  return host === hostname() && (space === undefined || space === processSpace());
}

/** For a message: where to look for its process, if not here. */
function placeOf(owner: Owner): string {
  if (isHere(owner)) return '';
  return owner.host === hostname() ? ' of another container' : ` on ${owner.host}`;
}

/** Undefined: the system does not show it. Source: pid_namespaces(7). */
function processSpace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return undefined;
  }
}

/** The lock of another folder, copied with its files. Other programs may put a lock back under its
 *  name, and some file systems number files anew: then its master goes on touching it. */
function isCopy({ file }: Owner, lock: string): boolean {
  const found = statSync(lock, { bigint: true, throwIfNoEntry: false });
  if (file === undefined || found === undefined || fileName(found) === file) return false;
  return !isTouched(lock);
}

/** Whether a master goes on touching it; waits until that is known. */
function isTouched(lock: string): boolean {
  const look = () => statSync(lock, { bigint: true, throwIfNoEntry: false });
  const first = look();
  if (first === undefined) return false;
  const age = Date.now() - Number(first.mtimeMs);
  if (age < untouchedMs) sleep(untouchedMs - Math.max(0, age));
  const last = look();
  return last !== undefined && last.mtimeNs !== first.mtimeNs;
}

function isRunning({ pid, started }: Process): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (codeOf(error) === 'ESRCH') return false;
  }
  return startOf(pid) === started;
}

/** Returns the start time of a process, if the system shows it: another process may have taken over
 *  its id. */
function startOf(pid: number): string {
  try {
    // Fields 3 and 22, counted after the command name, which may hold spaces. Source: proc(5).
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    // A process that has ended but was not waited for holds no lock.
    return fields[0] === 'Z' || fields[0] === 'X' ? '' : (fields[19] ?? '');
  } catch {
    return '';
  }
}

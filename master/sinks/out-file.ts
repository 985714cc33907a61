/**
 * One result file of a crawl while a master writes to it. Other programs may move it, remove it,
 * rotate it or write into it. So the master compares it with the file at its path before each
 * append, and again when the append is on the disk, before anything counts as written:
 *
 *     check --as it was left--> append, sync --> check --as it was left--> accept
 *       |                                          |
 *       +------------- HeldError ------------------+     nothing counts; the rows stay in the store
 *
 * It is opened for appending, so that a file that another program cuts gets no hole.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { ConfigError, codeOf, messageOf } from '../../shared/errors.ts';
import { isSameFile } from '../machine/same-file.ts';
import { HeldError } from './sink.ts';

/** The record of one file. */
export type FileMark = {
  readonly length: number;
  /** Undefined: not counted. */
  readonly lines: number | undefined;
  /** CRC-32 of its last bytes, `endBytes` at most; undefined: not known. */
  readonly end: number | undefined;
};

const endBytes = 1024;
const lineFeed = 10;
const { O_APPEND, O_CREAT, O_RDWR } = constants;
/** Errors of the path, not of the disk. */
const pathCodes: ReadonlySet<unknown> = new Set([
  'EACCES',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
  'ENXIO',
  'EPERM',
]);

export class OutFile {
  readonly path: string;
  readonly #handle: FileHandle;
  #mark: FileMark;
  /** The last bytes up to the mark. */
  #end: Buffer;
  /** Expected bytes: more than the mark while an append is not accepted. */
  #size: number;
  #appended: Buffer = Buffer.alloc(0);

  private constructor(path: string, handle: FileHandle, mark: FileMark, end: Buffer, size: number) {
    this.path = path;
    this.#handle = handle;
    this.#mark = mark;
    this.#end = end;
    this.#size = size;
  }

  /** Opens the file and leaves it as it is; undefined: there is none, and none was written.
   *  `isLines`: what is written to it ends with a line feed.
   *  @throws HeldError it is not what was written to · ConfigError the disk fails */
  static async find(path: string, mark: FileMark, isLines = true): Promise<OutFile | undefined> {
    let handle: FileHandle;
    try {
      handle = await open(path, O_RDWR | O_APPEND);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw unusable(path, error);
      if (mark.length === 0) return undefined;
      throw goneFrom(path, mark);
    }
    try {
      const stats = await handle.stat();
      if (!stats.isFile()) throw new HeldError(`${path} is not a plain file; put that back`);
      if (stats.size < mark.length) throw otherSize(path, stats.size, mark.length);
      const end = await endOf(handle, mark.length);
      if (mark.length > 0 && !isEnd(end, mark, isLines)) throw otherFile(path);
      return new OutFile(path, handle, { ...mark, end: crc32(end) }, end, stats.size);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Makes a file that is not there. @throws HeldError, ConfigError it cannot be made */
  static async make(path: string): Promise<OutFile> {
    try {
      // Not O_EXCL: it may be a link to a file that is still to be made.
      const handle = await open(path, O_RDWR | O_APPEND | O_CREAT, 0o644);
      return new OutFile(path, handle, { length: 0, lines: 0, end: 0 }, Buffer.alloc(0), 0);
    } catch (error) {
      throw unusable(path, error);
    }
  }

  get mark(): FileMark {
    return this.#mark;
  }

  /** Cuts the bytes behind the mark. Returns their number. */
  async cut(): Promise<number> {
    const bytes = this.#size - this.#mark.length;
    if (bytes > 0) await this.#named(() => this.#handle.truncate(this.#mark.length));
    this.#size = this.#mark.length;
    return bytes;
  }

  /** Puts a cut on the disk. */
  async sync(): Promise<void> {
    await this.#named(() => this.#handle.sync());
  }

  /** Is it still the file at its path, and as long as it was left?
   *  @throws HeldError it is not · Error of the file system */
  async check(): Promise<void> {
    const [open, there] = await this.#named(() =>
      Promise.all([this.#handle.stat({ bigint: true }), statOf(this.path)]),
    );
    if (there === undefined) throw goneFrom(this.path, this.#mark);
    if (!isSameFile(there, open) || open.nlink === 0n) throw otherFile(this.path);
    if (open.size !== BigInt(this.#size)) {
      throw otherSize(this.path, Number(open.size), this.#size);
    }
  }

  /** Does it end as it was left? @throws HeldError, Error as `check` */
  async checkEnd(): Promise<void> {
    const end = await this.#named(() => endOf(this.#handle, this.#mark.length));
    if (!end.equals(this.#end)) throw otherFile(this.path);
  }

  /** Puts bytes behind the mark and on the disk; they count when they are accepted.
   *  @throws Error of the file system, with its code; nothing is left of the bytes then */
  async append(bytes: Buffer): Promise<void> {
    await this.cut();
    this.#appended = bytes;
    try {
      await this.#named(async () => {
        for (let done = 0; done < bytes.length; ) {
          const { bytesWritten } = await this.#handle.write(bytes, done);
          done += bytesWritten;
          this.#size += bytesWritten;
        }
        await this.#handle.datasync();
      });
    } catch (error) {
      // After a full disk all is written again, from the mark on.
      await this.cut().catch(() => {});
      throw error;
    }
  }

  /** The appended bytes count from now on. */
  accept(): void {
    const bytes = this.#appended;
    if (bytes.length === 0) return;
    this.#appended = Buffer.alloc(0);
    const { lines } = this.#mark;
    this.#end = Buffer.concat([this.#end, bytes.subarray(-endBytes)]).subarray(-endBytes);
    this.#mark = {
      length: this.#mark.length + bytes.length,
      lines: lines === undefined ? undefined : lines + linesIn(bytes),
      end: crc32(this.#end),
    };
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** Node does not name the file of an open one. */
  async #named<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Removed by another machine, on a network file system.
      if (codeOf(error) === 'ESTALE') throw goneFrom(this.path, this.#mark);
      // Made immutable while it is open (`chattr +i`), which its mode cannot do.
      if (pathCodes.has(codeOf(error))) throw unusable(this.path, error);
      if (error instanceof Error && !(error instanceof HeldError)) {
        error.message = `cannot write ${this.path}: ${messageOf(error)}`;
      }
      throw error;
    }
  }
}

/** The reason why a path cannot be used: the operator's own, or the disk's. */
export function unusable(path: string, error: unknown, what = 'cannot write'): ConfigError {
  const text = `${what} ${path}: ${messageOf(error)}; mend that, or choose another --out`;
  return pathCodes.has(codeOf(error)) ? new HeldError(text, error) : new ConfigError(text, error);
}

function bytes(count: number): string {
  return `${count} ${count === 1 ? 'byte' : 'bytes'}`;
}

export function goneFrom(path: string, { length }: FileMark): HeldError {
  const were = length === 1 ? 'was' : 'were';
  return new HeldError(
    `${path} is gone, and ${bytes(length)} ${were} written to it; put the file back`,
  );
}

export function otherSize(path: string, size: number, length: number): HeldError {
  return new HeldError(
    `${path} has ${bytes(size)}, but ${length} were written to it; put the file back`,
  );
}

export function otherFile(path: string): HeldError {
  return new HeldError(`${path} is not the file that was written to; put that back`);
}

async function statOf(path: string) {
  try {
    return await stat(path, { bigint: true });
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw pathCodes.has(code) ? unusable(path, error) : error;
  }
}

/** The last bytes before `length`. */
async function endOf(handle: FileHandle, length: number): Promise<Buffer> {
  const from = Math.max(0, length - endBytes);
  const bytes = Buffer.alloc(length - from);
  let done = 0;
  while (done < bytes.length) {
    const { bytesRead } = await handle.read(bytes, done, bytes.length - done, from + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

/** Only whole lines count as written. */
function isEnd(end: Buffer, { end: known }: FileMark, isLines: boolean): boolean {
  if (isLines && end.at(-1) !== lineFeed) return false;
  return known === undefined || crc32(end) === known;
}

function linesIn(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) count++;
  return count;
}

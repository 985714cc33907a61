/**
 * Watches the free space on the disk. A commit on a full disk ends the master, so below a reserve
 * none begins: commits wait, no task is handed out, and sockets are not read once the filter queue
 * is full. Work resumes when there is room again.
 *
 *     room --free space below the reserve, or a write was refused--> short
 *       ^                                                             |
 *       +-------- free space again, and a trial write succeeds -------+
 *
 * A write may need more than the trial: many files where few inodes are left, or much of a quota.
 * If it is refused again, it is tried after a pause, which grows.
 */

import { existsSync, rmSync, type StatsFs, statfsSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { codeOf, messageOf, StoreError } from '../../shared/errors.ts';

/** A file system is queried at most this often, and the more rarely the farther it is from being
 *  short: faster than so many bytes a ms none fills. */
const lookMsMin = 20;
const lookMsMax = 1_000;
const fillsMax = 5_000_000;
/** While there is no room. */
const waitMs = 250;
/** Between tries of what is refused again and again. */
const pauseMsMax = 5_000;
/** A refusal within this time after the last trial is one more of the same write. */
const againMs = 10_000;
/** With fewer inodes a file system is said to lack them. */
const fewFiles = 64;
const trialBytes = 1 << 20;

export type FreeSpace = {
  readonly folder: string;
  readonly freeBytes: number;
  /** Inodes that are left, if they are few. Absent: bytes are missing. */
  readonly freeFiles?: number;
};

/** The listener of a disk: `Notices`. */
interface DiskEvents {
  diskFull(shortage: FreeSpace): void;
  diskFree(): void;
}

type DiskRoomOptions = {
  /** Each may be a link to another disk. */
  readonly folders: readonly string[];
  /** With fewer free bytes there is no room. */
  readonly reserveBytes: number;
  readonly events: DiskEvents;
  /** The file system cannot be queried. */
  readonly onError: (error: unknown) => void;
  /** For tests: free bytes under a folder. */
  readonly freeBytes?: (folder: string) => number;
};

export class DiskRoom {
  readonly #options: DiskRoomOptions;
  #state: 'room' | 'short' = 'room';
  #wasRefused = false;
  /** Where that was, if it is known: it may be on another disk than the folders. */
  #refusedIn: string | undefined;
  /** A trial succeeded, and what had been refused was tried again. */
  #triedAt = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  /** The operator knows that it is short. */
  #isTold = false;
  /** Until then it is taken to be as it was. */
  #lookAgainAt = Number.NEGATIVE_INFINITY;
  #shortSince = 0;
  #shortage: FreeSpace | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting: (() => void)[] = [];

  constructor(options: DiskRoomOptions) {
    this.#options = options;
  }

  get isShort(): boolean {
    const now = performance.now();
    if (this.#state === 'room' && now >= this.#lookAgainAt) this.#look(now);
    return this.#state === 'short';
  }

  /** Where there is no room; undefined: there is. */
  get shortage(): FreeSpace | undefined {
    // Also while what was refused is tried again.
    return this.isShort || this.#isTold ? this.#shortage : undefined;
  }

  /** Time without room so far, in ms. */
  get shortMs(): number {
    return this.isShort ? performance.now() - this.#shortSince : 0;
  }

  /** Resolves when there is room. */
  room(): Promise<void> {
    if (!this.isShort) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Can something be written to each of the folders? */
  hasRoom(): boolean {
    return this.#options.folders.every(canWrite);
  }

  /** A write failed for lack of room, even if the file system shows free space: a quota, for
   *  example. `folder`: where; default: in one of those that are watched. */
  refused(folder?: string): void {
    this.#wasRefused = true;
    this.#refusedIn = folder;
    if (this.#state === 'short') return;
    const now = performance.now();
    const isAgain = now - this.#triedAt < againMs;
    this.#pauseMs = isAgain ? Math.min(Math.max(waitMs, 2 * this.#pauseMs), pauseMsMax) : 0;
    this.#pausedUntil = now + this.#pauseMs;
    this.#look(now);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(now: number): void {
    const shortage = this.#shortageNow(now) ?? this.#refusal(now);
    if (shortage !== undefined) this.#shortage = shortage;
    if ((shortage !== undefined) === (this.#state === 'short')) return;
    clearInterval(this.#timer);
    if (shortage !== undefined) {
      this.#state = 'short';
      this.#timer = setInterval(() => this.#look(performance.now()), waitMs);
      if (this.#isTold) return;
      this.#isTold = true;
      this.#shortSince = now;
      this.#options.events.diskFull(shortage);
      return;
    }
    this.#state = 'room';
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
    // A write that was refused more than once has room when it is not refused once more.
    if (this.#pauseMs === 0) this.#tellFree();
    else this.#timer = setTimeout(() => this.#tellFree(), againMs);
  }

  #tellFree(): void {
    this.#isTold = false;
    this.#options.events.diskFree();
  }

  /** After a failed write, only a successful write proves that there is room. */
  #refusal(now: number): FreeSpace | undefined {
    if (!this.#wasRefused) return undefined;
    const { folders } = this.#options;
    const refusedIn = this.#refusedIn;
    const all = refusedIn === undefined ? folders : [...folders, refusedIn];
    const isPaused = now < this.#pausedUntil;
    const folder = isPaused ? (refusedIn ?? likely(folders)) : all.find((path) => !canWrite(path));
    if (folder !== undefined) {
      const freeFiles = freeFilesOf(folder);
      return { folder, freeBytes: 0, ...(freeFiles < fewFiles && { freeFiles }) };
    }
    this.#wasRefused = false;
    this.#triedAt = now;
    return undefined;
  }

  #shortageNow(now: number): FreeSpace | undefined {
    const { folders, reserveBytes, freeBytes, onError } = this.#options;
    this.#lookAgainAt = now + lookMsMin;
    try {
      const least = leastFree(folders, freeBytes);
      const leftBytes = least.freeBytes - reserveBytes;
      this.#lookAgainAt = now + Math.min(Math.max(leftBytes / fillsMax, lookMsMin), lookMsMax);
      return leftBytes < 0 ? least : undefined;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }
}

/** Returns the folder with the least free space. */
export function leastFree(folders: readonly string[], freeBytes = freeBytesOf): FreeSpace {
  const all = folders.map((folder) => ({ folder, freeBytes: freeBytes(folder) }));
  return all.reduce((least, one) => (one.freeBytes < least.freeBytes ? one : least));
}

export function freeBytesOf(folder: string): number {
  const { bavail, bsize, blocks } = statfsOf(folder);
  // A file system without blocks, such as `/proc`, is not full: nothing can be written there.
  return blocks === 0 ? Number.POSITIVE_INFINITY : bavail * bsize;
}

/** Inodes. A file system without a limit of files counts none. */
function freeFilesOf(folder: string): number {
  const { ffree, files } = statfsOf(folder);
  return files === 0 ? Number.POSITIVE_INFINITY : ffree;
}

/** Where something was refused that needs more than a trial. */
function likely(folders: readonly string[]): string | undefined {
  return folders.find((folder) => freeFilesOf(folder) < fewFiles) ?? folders.at(-1);
}

/** Of the folder, or of its nearest existing parent. */
function statfsOf(folder: string): StatsFs {
  try {
    return statfsSync(folder);
  } catch {
    return statfsSync(existing(folder));
  }
}

/** Returns the folder, or its nearest existing parent. */
function existing(folder: string): string {
  return existsSync(folder) ? folder : existing(dirname(resolve(folder)));
}

/** Did a write fail because there was no room? */
export function isDiskFull(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** The message of a write that failed at a start or in a command, which do not wait for room, with
 *  what to do if there was none. */
export function refusalText(error: unknown): string {
  const isFull = error instanceof StoreError ? error.isFull : isDiskFull(error);
  return isFull ? `${messageOf(error)}; free some space and start again` : messageOf(error);
}

function canWrite(folder: string): boolean {
  const path = join(existing(folder), '.room');
  try {
    writeFileSync(path, Buffer.alloc(trialBytes), { flush: true });
    rmSync(path);
    return true;
  } catch {
    remove(path);
    return false;
  }
}

/** A part of a trial takes room, too. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Its folder is none.
  }
}

/** For messages: what is left. */
export function freeText({ folder, freeBytes, freeFiles }: FreeSpace): string {
  if (freeFiles !== undefined) {
    return `${freeFiles} ${freeFiles === 1 ? 'inode is' : 'inodes are'} free under ${folder}`;
  }
  return `${megabytes(freeBytes)} MB are free under ${folder}`;
}

/** Rounded, for messages. */
export function megabytes(bytes: number): number {
  return Math.floor(bytes / 1e6);
}

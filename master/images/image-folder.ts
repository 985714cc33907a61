/**
 * The images of one crawl, by content: `<out>/<crawl>/images/ab/cd/<sha256>.<type>`.
 *
 *     append --> queue --> files written and synced, renamed, folders synced --> `then`, in order
 *
 * What is on the disk before its commit does not count: it is written again, or swept away when the
 * crawl is finished. A file is first written under another name, so that one which has its name is
 * whole.
 */
import { existsSync } from 'node:fs';
import { open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../../shared/errors.ts';
import { type ImageType, imagePath, thumbnailPath } from '../../shared/images.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import type { Room } from '../store/group-commit.ts';

export type KeptContent = {
  readonly sha256: string;
  readonly type: ImageType;
  readonly bytes: number;
  readonly pieces: readonly Uint8Array[];
  readonly thumbnail?: Uint8Array | undefined;
};
/** `fault`: why it could not be written; undefined: it is on the disk. */
export type Kept = (fault?: string) => void;
type Job = { readonly content: KeptContent; readonly then: Kept };
type FolderRoom = Room & { refused(): void };

/** Of one round. */
const jobsMax = 64;
/** Files written at once. */
const filesMax = 8;
/** Contents that may be under way to the store, and are not swept. */
const freshMax = 8_192;
/** A file of ours. */
const named = /^([0-9a-f]{2})([0-9a-f]{2})[0-9a-f]{60}\.(?:thumb\.)?[a-z]{3,4}$/;
const partFolder = 'parts';

export class ImageFolder {
  readonly path: string;
  readonly #room: FolderRoom;
  #jobs: Job[] = [];
  #isWriting = false;
  #work: Promise<void> = Promise.resolve();
  /** Written since the start of the master, the last of them. */
  readonly #fresh = new Set<string>();
  #parts = 0;

  constructor(path: string, room: FolderRoom) {
    this.path = path;
    this.#room = room;
  }

  /** Keeps an image. `then` is called in the order of the calls, when it is on the disk, or cannot
   *  get there before the operator acts. */
  append(content: KeptContent, then: Kept): Promise<void> {
    this.#jobs.push({ content, then });
    if (!this.#isWriting) {
      this.#isWriting = true;
      this.#work = this.#work.then(() => this.#writeAll());
    }
    return this.#work;
  }

  /** Does something while nothing is written. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work);
    this.#work = done.then(
      () => {},
      () => {},
    );
    return await done;
  }

  /** Resolves when all that was appended is on the disk. */
  async idle(): Promise<void> {
    while (this.#isWriting) await this.#work;
    await this.#work;
  }

  /** Is this image there, in its length? */
  async has(sha256: string, type: ImageType, bytes: number): Promise<boolean> {
    const found = await stat(join(this.path, imagePath(sha256, type))).catch(() => undefined);
    return found?.isFile() === true && found.size === bytes;
  }

  /** Deletes the files of a crawl that is finished which `isKept` does not know: what a crash left.
   *  `sinceMs`: older files are somebody else's. Returns how many. */
  sweep(isKept: (sha256: string) => boolean, sinceMs: number): Promise<number> {
    return this.alone(async () => {
      await rm(join(this.path, partFolder), { recursive: true, force: true }).catch(() => {});
      let swept = 0;
      for await (const { folder, names } of this.#leaves()) {
        for (const name of names) {
          const sha256 = name.slice(0, 64);
          if (this.#fresh.has(sha256) || isKept(sha256)) continue;
          const path = join(folder, name);
          const found = await stat(path).catch(() => undefined);
          if (found?.isFile() !== true || found.mtimeMs < sinceMs) continue;
          await rm(path, { force: true }).then(
            () => swept++,
            () => {},
          );
        }
      }
      return swept;
    });
  }

  /** Deletes the images that `isKept` knows, and folders that are empty then. Returns how many
   *  files were deleted, and how many others are there. */
  remove(isKept: (sha256: string) => boolean): Promise<{ deleted: number; kept: number }> {
    return this.alone(async () => {
      const count = { deleted: 0, kept: 0 };
      await rm(join(this.path, partFolder), { recursive: true, force: true }).catch(() => {});
      for await (const { folder, names } of this.#leaves()) {
        for (const name of names) {
          const isOurs = isKept(name.slice(0, 64));
          const isGone = isOurs && (await rm(join(folder, name)).then(isTrue, isFalse));
          count[isGone ? 'deleted' : 'kept']++;
        }
        await rmdir(folder).catch(() => {});
        await rmdir(dirname(folder)).catch(() => {});
      }
      await rmdir(this.path).catch(() => {});
      return count;
    });
  }

  async *#leaves(): AsyncGenerator<{ folder: string; names: string[] }> {
    for (const first of await namesIn(this.path, /^[0-9a-f]{2}$/)) {
      for (const second of await namesIn(join(this.path, first), /^[0-9a-f]{2}$/)) {
        const folder = join(this.path, first, second);
        const names = await namesIn(folder, named);
        yield { folder, names: names.filter((name) => name.startsWith(first + second)) };
      }
    }
  }

  async #writeAll(): Promise<void> {
    while (this.#jobs.length > 0) {
      const jobs = this.#jobs.splice(0, jobsMax);
      const fault = await this.#written(jobs.map(({ content }) => content));
      for (const { then } of jobs) then(fault);
    }
    this.#isWriting = false;
  }

  async #written(contents: readonly KeptContent[]): Promise<string | undefined> {
    try {
      await this.#write(contents);
      return undefined;
    } catch (error) {
      // A fault of the disk or of a path. All else is one of ours.
      if (!(error instanceof Error && 'syscall' in error)) throw error;
      return `cannot write to ${this.path}: ${messageOf(error)}; mend that`;
    }
  }

  /** Tries again while the disk is full. */
  async #write(contents: readonly KeptContent[]): Promise<void> {
    // Two tasks may bring the same image: the second is dropped.
    const wanted = new Map(contents.map((content) => [content.sha256, content]));
    for (const sha256 of wanted.keys()) if (this.#fresh.has(sha256)) wanted.delete(sha256);
    while (wanted.size > 0) {
      await this.#room.room();
      try {
        await this.#writeFiles([...wanted.values()]);
        break;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        this.#room.refused();
      }
    }
    for (const sha256 of wanted.keys()) this.#fresh.add(sha256);
    for (const sha256 of this.#fresh) {
      if (this.#fresh.size <= freshMax) break;
      this.#fresh.delete(sha256);
    }
  }

  /** It is not there any more: it has to be written again. */
  forget(sha256: string): void {
    this.#fresh.delete(sha256);
  }

  async #writeFiles(contents: readonly KeptContent[]): Promise<void> {
    const parts = join(this.path, partFolder);
    makeFolder(parts);
    const folders = new Set<string>();
    const files = contents.flatMap(({ sha256, type, pieces, thumbnail }) => [
      { path: join(this.path, imagePath(sha256, type)), pieces },
      ...(thumbnail ? [{ path: join(this.path, thumbnailPath(sha256)), pieces: [thumbnail] }] : []),
    ]);
    await inTurn(files, async ({ path, pieces }) => {
      const part = join(parts, `part-${process.pid}-${++this.#parts}`);
      try {
        await writeWhole(part, pieces);
        const folder = dirname(path);
        if (!existsSync(folder)) {
          makeFolder(folder);
          // Its name is in the folder above.
          for (const above of [dirname(folder), this.path, dirname(this.path)]) folders.add(above);
        }
        folders.add(folder);
        await rename(part, path);
      } catch (error) {
        await rm(part, { force: true }).catch(() => {});
        throw error;
      }
    });
    await inTurn([...folders], syncFolder);
  }
}

/** Does all of them, some at once. Ends when all have ended. @throws the first error */
async function inTurn<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const lane = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) await work(one);
  };
  const lanes = await Promise.allSettled(Array.from({ length: filesMax }, lane));
  for (const ended of lanes) if (ended.status === 'rejected') throw ended.reason;
}

async function writeWhole(path: string, pieces: readonly Uint8Array[]): Promise<void> {
  const handle = await open(path, 'w', 0o666);
  try {
    for (const piece of pieces) {
      for (let at = 0; at < piece.length; ) {
        at += (await handle.write(piece, at, piece.length - at)).bytesWritten;
      }
    }
    await handle.datasync();
  } finally {
    await handle.close();
  }
}

async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    await handle.sync().finally(() => handle.close());
  } catch {
    // Some file systems cannot; then it is as safe as they make it.
  }
}

async function namesIn(folder: string, pattern: RegExp): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).filter((name) => pattern.test(name));
}

const isTrue = () => true;
const isFalse = () => false;

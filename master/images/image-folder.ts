/**
 * The images of one crawl as files, by content: `<out>/<crawl>/images/ab/cd/<sha256>.<type>`. A file
 * is first written under another name, so that one which has its name is whole.
 */
import { existsSync, statSync } from 'node:fs';
import { open, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { imagePath, thumbnailPath } from '../../shared/images.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { makeFolder } from '../machine/make-folder.ts';
import type { KeptImage } from '../store/image-rows.ts';
import type { ImageKeeper, KeptContent, Removed } from './image-queue.ts';

/** Files written at once. */
const filesMax = 8;
/** A file of ours. */
const named = /^([0-9a-f]{2})([0-9a-f]{2})[0-9a-f]{60}\.(?:thumb\.)?[a-z]{3,4}$/;
const partFolder = 'parts';

export class ImageFolder implements ImageKeeper {
  path: string;
  #parts = 0;

  constructor(path: string) {
    this.path = path;
  }

  async write(contents: readonly KeptContent[]): Promise<undefined> {
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

  has(sha256: string, { type, bytes }: KeptImage): boolean {
    return isFileOf(join(this.path, imagePath(sha256, type)), (size) => size === bytes);
  }

  async drop(sha256: string, { type }: KeptImage): Promise<void> {
    for (const path of [imagePath(sha256, type), thumbnailPath(sha256)]) {
      await rm(join(this.path, path), { force: true });
    }
  }

  async sweep(isKept: (sha256: string) => boolean, sinceMs: number): Promise<number> {
    await rm(join(this.path, partFolder), { recursive: true, force: true }).catch(() => {});
    let swept = 0;
    for await (const { folder, names } of this.#leaves()) {
      for (const name of names) {
        if (isKept(name.slice(0, 64))) continue;
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
  }

  /** Folders that are empty then are deleted, too. */
  async remove(isKept: (sha256: string) => boolean): Promise<Removed> {
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
  }

  async close(): Promise<void> {}

  async *#leaves(): AsyncGenerator<{ folder: string; names: string[] }> {
    for (const first of await namesIn(this.path, /^[0-9a-f]{2}$/)) {
      for (const second of await namesIn(join(this.path, first), /^[0-9a-f]{2}$/)) {
        const folder = join(this.path, first, second);
        const names = await namesIn(folder, named);
        yield { folder, names: names.filter((name) => name.startsWith(first + second)) };
      }
    }
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

/** Asked for each image of a slave, so not by way of a thread: that takes ten times as long. */
export function isFileOf(path: string, fits: (bytes: number) => boolean): boolean {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found?.isFile() === true && fits(found.size);
  } catch {
    return false;
  }
}

async function namesIn(folder: string, pattern: RegExp): Promise<string[]> {
  return (await readdir(folder).catch(() => [])).filter((name) => pattern.test(name));
}

const isTrue = () => true;
const isFalse = () => false;

/**
 * One WARC file that is written, with its index beside it. It only grows, and is cut back to what
 * is on record.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from '../../shared/errors.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { isSameFile } from '../machine/same-file.ts';
import { WarcIndex } from './warc-index.ts';

/** `000001.warc.gz`. */
export function warcName(file: number): string {
  return `${String(file).padStart(6, '0')}.warc.gz`;
}

export class WarcFile {
  readonly number: number;
  readonly index: WarcIndex;
  readonly #handle: FileHandle;
  #own: Promise<Stats> | undefined;
  /** Bytes that count. */
  length: number;

  private constructor(number: number, handle: FileHandle, length: number, isNew: boolean) {
    this.number = number;
    this.#handle = handle;
    this.length = length;
    this.index = new WarcIndex(isNew);
  }

  /** Makes a new file. @throws EEXIST there is one · the error of the system */
  static async make(path: string, number: number): Promise<WarcFile> {
    const handle = await open(path, 'wx');
    await syncFolder(dirname(path));
    return new WarcFile(number, handle, 0, true);
  }

  /** Opens the file and cuts what stands behind `length`; undefined: it is not there, is no plain
   *  file, or is shorter. */
  static async find(path: string, number: number, length: number): Promise<WarcFile | undefined> {
    let handle: FileHandle;
    try {
      handle = await open(path, constants.O_RDWR | constants.O_NOFOLLOW);
    } catch (error) {
      if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ELOOP') return undefined;
      throw error;
    }
    const found = await handle.stat();
    if (!found.isFile() || found.size < length) {
      await handle.close();
      return undefined;
    }
    if (found.size > length) await handle.truncate(length);
    return new WarcFile(number, handle, length, false);
  }

  /** Appends and syncs. After an error the file is as it was. */
  async append(chunks: readonly Buffer[]): Promise<void> {
    const bytes = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    if (bytes === undefined) return;
    try {
      for (let at = 0; at < bytes.length; ) {
        const left = bytes.length - at;
        const { bytesWritten } = await this.#handle.write(bytes, at, left, this.length + at);
        at += bytesWritten;
      }
      await this.#handle.datasync();
    } catch (error) {
      await this.#handle.truncate(this.length).catch(() => {});
      throw error;
    }
    this.length += bytes.length;
  }

  /** Cuts it back to an earlier length, unless somebody else has written behind it. */
  async takeBack(length: number): Promise<void> {
    const { size } = await this.#handle.stat();
    // A record that cannot be cut stands there twice.
    if (size === this.length) await this.#handle.truncate(length).catch(() => {});
    this.length = length;
  }

  /** Is it at this path, and as long as it was left? */
  async isAt(path: string): Promise<boolean> {
    this.#own ??= this.#handle.stat();
    const [found, own] = [await stat(path).catch(() => undefined), await this.#own];
    return isSameFile(found, own) && found?.size === this.length;
  }

  async close(): Promise<void> {
    await this.index.close();
    await this.#handle.close();
  }
}

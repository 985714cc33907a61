/**
 * One WARC file that is written: it only grows, and is cut back to what is on record. It has an
 * index beside it, in the order of the records until the file is closed, then sorted.
 */
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { syncFolder } from '../../shared/sync-folder.ts';
import { replaceFile } from '../sinks/result-folder.ts';
import { cdxjLine, type Indexed, revisitMime, sortedLines } from './cdxj.ts';
import { answerOf, type Digests } from './records.ts';
import { warcRecords } from './warc-reader.ts';

/** `000001.warc.gz`. */
export function warcName(file: number): string {
  return `${String(file).padStart(6, '0')}.warc.gz`;
}

/** Of the index of a file. */
export function indexName(warc: string): string {
  return warc.replace(/\.warc\.gz$/, '.cdxj');
}

export class WarcFile {
  readonly number: number;
  readonly #handle: FileHandle;
  #index: FileHandle | undefined;
  #own: Promise<Stats> | undefined;
  /** Bytes that count. */
  length: number;

  private constructor(number: number, handle: FileHandle, length: number) {
    this.number = number;
    this.#handle = handle;
    this.length = length;
  }

  /** Makes a new file. @throws EEXIST there is one · the error of the system */
  static async make(path: string, number: number): Promise<WarcFile> {
    const handle = await open(path, 'wx');
    await syncFolder(dirname(path));
    return new WarcFile(number, handle, 0);
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
    return new WarcFile(number, handle, length);
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

  /** Is it at this path, and as long as it was left? */
  async isAt(path: string): Promise<boolean> {
    this.#own ??= this.#handle.stat();
    const [found, own] = [await stat(path).catch(() => undefined), await this.#own];
    return found?.ino === own.ino && found.dev === own.dev && found.size === this.length;
  }

  /** Adds to the index of the file, which is at this path. It is no loss if that fails: the next
   *  start makes it again. */
  async addToIndex(path: string, lines: readonly Indexed[]): Promise<void> {
    try {
      this.#index ??= await open(indexName(path), 'a');
      await this.#index.appendFile(lines.map(cdxjLine).join(''));
    } catch {
      // As said.
    }
  }

  async close(): Promise<void> {
    await this.#index?.close().catch(() => {});
    await this.#handle.close();
  }
}

/** Makes the index of a file again, of the records themselves; also learns the digests of its
 *  pages. @throws ConfigError the file is damaged */
export async function rebuildIndex(
  warc: string,
  length: number,
  { crawl, digests }: { readonly crawl: number; readonly digests: Digests },
): Promise<void> {
  const lines: string[] = [];
  for await (const record of warcRecords(warc, { end: length })) {
    const { type, fields, block, offset, length: bytes } = record;
    if (type !== 'response' && type !== 'revisit') continue;
    const url = fields.get('warc-target-uri') ?? '';
    const date = fields.get('warc-date') ?? '';
    const digest = fields.get('warc-payload-digest') ?? '-';
    const { status, mime } = answerOf(block);
    const place = { length: bytes, offset, filename: basename(warc) };
    const shown = type === 'revisit' ? revisitMime : mime;
    lines.push(cdxjLine({ ...{ url, date, digest, status, mime: shown }, ...place }));
    const isWhole = type === 'response' && !fields.has('warc-truncated');
    if (isWhole && status >= 200 && status < 300 && block.length > block.indexOf('\r\n\r\n') + 4) {
      digests.set(crawl, digest, { id: fields.get('warc-record-id') ?? '', url, date });
    }
  }
  await replaceFile(indexName(warc), lines.join(''));
}

/** Puts the lines of the index in order, durably. Without it nothing is done. */
export async function sortIndex(warc: string): Promise<void> {
  const path = indexName(warc);
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text !== undefined) await replaceFile(path, sortedLines(text));
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

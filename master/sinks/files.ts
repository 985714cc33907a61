/**
 * The file sink of one crawl: `pages.jsonl` and `img_src.txt` under `<out>/<crawl>/`.
 *
 * The length of both files is kept in the store, in the transaction that takes the written rows
 * out of the result queue. After a crash the files are cut back to those lengths and the rows
 * are written again, so that a file holds every line once.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { decodeResults } from '../store/records.ts';

/** Bytes of each file that are accounted for. */
export type Lengths = { readonly pages: number; readonly images: number };

export class FileSink {
  readonly #pages: FileHandle;
  readonly #images: FileHandle;
  #lengths: Lengths;

  private constructor(pages: FileHandle, images: FileHandle, lengths: Lengths) {
    this.#pages = pages;
    this.#images = images;
    this.#lengths = lengths;
  }

  /** Opens the files and cuts what a crash left beyond `lengths`.
   *  @throws ConfigError unwritable, or a file is shorter than what was written to it. */
  static async open(folder: string, lengths: Lengths): Promise<FileSink> {
    await mkdir(folder, { recursive: true }).catch((error: unknown) => {
      throw new ConfigError(
        `cannot make the folder ${folder}: ${messageOf(error)}; choose another --out`,
        error,
      );
    });
    const pages = await openAt(join(folder, 'pages.jsonl'), lengths.pages);
    const images = await openAt(join(folder, 'img_src.txt'), lengths.images);
    return new FileSink(pages, images, lengths);
  }

  /** Appends the rows to both files and syncs them; gives the new lengths. */
  async write(rows: readonly Buffer[]): Promise<Lengths> {
    const results = rows.map(decodeResults);
    const pages = results.map((result) => result.pages);
    const images = results.map((result) => result.images).filter(({ length }) => length > 0);
    const lengths = {
      pages: await append(this.#pages, pages, this.#lengths.pages),
      images: await append(this.#images, images, this.#lengths.images),
    };
    this.#lengths = lengths;
    return lengths;
  }

  async close(): Promise<void> {
    await this.#pages.close();
    await this.#images.close();
  }
}

/** @throws ConfigError when a crawl that has written nothing would write over somebody's file. */
export async function refuseForeignFiles(folder: string): Promise<void> {
  for (const name of ['pages.jsonl', 'img_src.txt']) {
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && found.size > 0) {
      throw new ConfigError(
        `${path} holds the results of a crawl that this data folder does not know; ` +
          'move it away, or choose another --crawl, --out or --data',
      );
    }
  }
}

async function openAt(path: string, length: number): Promise<FileHandle> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o644);
  } catch (error) {
    throw new ConfigError(`cannot write ${path}: ${messageOf(error)}; choose another --out`, error);
  }
  const { size } = await file.stat();
  if (size < length) {
    await file.close();
    throw new ConfigError(
      `${path} has ${size} bytes, but ${length} were written to it; ` +
        'put the file back, name its folder with --out, or cancel the crawl',
    );
  }
  await file.truncate(length);
  return file;
}

async function append(file: FileHandle, buffers: Buffer[], at: number): Promise<number> {
  if (buffers.length === 0) return at;
  const bytes = buffers.length === 1 ? (buffers[0] ?? Buffer.alloc(0)) : Buffer.concat(buffers);
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    done += bytesWritten;
  }
  await file.datasync();
  return at + bytes.length;
}

/**
 * The file sink of one crawl: `pages.jsonl`, `img_src.txt` and `skipped.jsonl` under
 * `<out>/<crawl>/`.
 *
 * The length of each file is kept in the store, in the transaction that takes the written rows
 * out of the result queue. After a crash the files are cut back to those lengths and the rows
 * are written again, so that a file holds every line once.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { decodeResults, type Lengths } from '../store/records.ts';

export const fileNames = {
  pages: 'pages.jsonl',
  images: 'img_src.txt',
  skipped: 'skipped.jsonl',
} as const;

export const noLengths: Lengths = { pages: 0, images: 0, skipped: 0 };
type File = { readonly path: string; readonly handle: FileHandle };
type Files = Readonly<Record<keyof typeof fileNames, File>>;

export class FileSink {
  readonly #files: Files;
  #lengths: Lengths;

  private constructor(files: Files, lengths: Lengths) {
    this.#files = files;
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
    const pages = await openAt(join(folder, fileNames.pages), lengths.pages);
    const images = await openAt(join(folder, fileNames.images), lengths.images);
    const skipped = await openAt(join(folder, fileNames.skipped), lengths.skipped);
    return new FileSink({ pages, images, skipped }, lengths);
  }

  /** Appends the rows to the files and syncs them; gives the new lengths.
   *  @throws Error of the file system, with its code; the lengths are then those of before. */
  async write(rows: readonly Buffer[]): Promise<Lengths> {
    const results = rows.map(decodeResults);
    const add = (file: keyof Files) => {
      const buffers = results.map((result) => result[file]).filter(({ length }) => length > 0);
      return append(this.#files[file], buffers, this.#lengths[file]);
    };
    this.#lengths = {
      pages: await add('pages'),
      images: await add('images'),
      skipped: await add('skipped'),
    };
    return this.#lengths;
  }

  async close(): Promise<void> {
    for (const { handle } of Object.values(this.#files)) await handle.close();
  }
}

/** @throws ConfigError when a crawl that has written nothing would write over somebody's file. */
export async function refuseForeignFiles(folder: string): Promise<void> {
  for (const name of Object.values(fileNames)) {
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

async function openAt(path: string, length: number): Promise<File> {
  let handle: FileHandle;
  try {
    handle = await open(path, constants.O_RDWR | constants.O_CREAT, 0o644);
  } catch (error) {
    throw new ConfigError(`cannot write ${path}: ${messageOf(error)}; choose another --out`, error);
  }
  const { size } = await handle.stat();
  if (size < length) {
    await handle.close();
    throw new ConfigError(
      `${path} has ${size} bytes, but ${length} were written to it; ` +
        'put the file back, name its folder with --out, or cancel the crawl',
    );
  }
  await handle.truncate(length);
  return { path, handle };
}

async function append({ path, handle }: File, buffers: Buffer[], at: number): Promise<number> {
  if (buffers.length === 0) return at;
  const bytes = buffers.length === 1 ? (buffers[0] ?? Buffer.alloc(0)) : Buffer.concat(buffers);
  try {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done);
      done += bytesWritten;
    }
    await handle.datasync();
  } catch (error) {
    // Node does not name the file of an open one.
    if (error instanceof Error) error.message = `cannot write ${path}: ${messageOf(error)}`;
    throw error;
  }
  return at + bytes.length;
}

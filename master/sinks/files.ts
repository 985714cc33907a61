/**
 * The file sink of one crawl: `pages.jsonl`, `img_src.txt` and `skipped.jsonl` under
 * `<out>/<crawl>/`; for a crawl with items also `items.jsonl` and `rejected.jsonl`, and for one
 * that downloads images `images.jsonl`.
 *
 * The length of each file is kept in the store, in the transaction that takes the written rows
 * out of the result queue. After a crash the files are cut back to those lengths and the rows
 * are written again, so that a file holds every line once. A file that differs from its record, or
 * that another program changes meanwhile, is left as it is: see `out-file.ts`.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../../shared/sync-folder.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { imageLinesOf, type Section } from '../store/result-rows.ts';
import { type FileMark, OutFile, unusable } from './out-file.ts';
import { linesOf } from './result-lines.ts';
import type { Sink } from './sink.ts';

export const fileNames = {
  pages: 'pages.jsonl',
  images: 'img_src.txt',
  skipped: 'skipped.jsonl',
  items: 'items.jsonl',
  rejected: 'rejected.jsonl',
  downloads: 'images.jsonl',
} as const;

export type FileKey = keyof typeof fileNames;
export const fileKeys = Object.keys(fileNames) as FileKey[];
type PlainKey = 'pages' | 'images' | 'skipped';
/** Those of items are made with their first line, or for a crawl with items. */
type ItemKey = 'items' | 'rejected';
type MoreKey = Exclude<FileKey, PlainKey>;
/** The files that a crawl has besides those that all have. */
export type Wanted = {
  readonly items?: boolean | undefined;
  readonly downloads?: boolean | undefined;
};
type Files = Map<FileKey, OutFile>;

/** Bytes of each file that are accounted for; absent: 0. */
export type Lengths = Readonly<Record<PlainKey, number>> & {
  readonly [K in MoreKey]?: number;
};

/** The mark of the sink: how long each file is, how many lines that is, and the CRC-32 of its end.
 *  One of an earlier version, or of `repair`, has the lengths alone. */
export type FileMarks = Lengths & { readonly lines?: Lengths; readonly ends?: Lengths };

export const noLengths: Lengths = { pages: 0, images: 0, skipped: 0 };

/** Name of the kind in the store. */
export const filesName = 'files';

export class FileSink implements Sink {
  readonly #folder: string;
  readonly #files: Files;
  /** Bytes behind the recorded length when it was opened. */
  readonly cutBytes: number;

  private constructor(folder: string, files: Files, cutBytes: number) {
    this.#folder = folder;
    this.#files = files;
    this.cutBytes = cutBytes;
  }

  /** Opens the files and cuts what a crash left beyond `marks`. Nothing is made or cut unless all
   *  of them are what was written to.
   *  @throws HeldError they are not, or cannot be used · ConfigError the disk fails */
  static async open(folder: string, marks: FileMarks, wanted: Wanted = {}): Promise<FileSink> {
    const opened: OutFile[] = [];
    const made: OutFile[] = [];
    try {
      const files: Files = new Map();
      for (const key of fileKeys) {
        if (isForeign(key, marks, wanted)) continue;
        const file = await OutFile.find(join(folder, fileNames[key]), markOf(marks, key));
        if (file === undefined) continue;
        opened.push(file);
        files.set(key, file);
      }
      for (const key of fileKeys) {
        if (files.has(key) || !isMade(key, wanted)) continue;
        if (made.length === 0) folderAt(folder);
        const file = await OutFile.make(join(folder, fileNames[key]));
        opened.push(file);
        made.push(file);
        files.set(key, file);
      }
      let cutBytes = 0;
      for (const file of opened) cutBytes += await file.cut();
      if (made.length > 0) await syncFolder(folder);
      return new FileSink(folder, files, cutBytes);
    } catch (error) {
      for (const file of opened) await file.close();
      for (const { path } of made) await rm(path, { force: true });
      throw error;
    }
  }

  /** Appends the records to the files and syncs them; returns the marks.
   *  @throws HeldError somebody did something to them · Error of the file system, with its code.
   *  The marks are then those of before. */
  async write(records: readonly Section[]): Promise<FileMarks> {
    const texts = textsOf(records);
    await this.check();
    await this.#each((file) => file.checkEnd());
    for (const key of fileKeys) if (texts[key].length > 0) await this.#make(key);
    try {
      await allOver(
        [...this.#files].map(([key, file]) =>
          texts[key].length > 0 ? file.append(texts[key]) : undefined,
        ),
      );
    } catch (error) {
      // It is all written again: the files that had room are as short as the others.
      await this.#each((file) => file.cut().then(nothing, nothing));
      throw error;
    }
    // If a file was removed since the first look, its rows are in no file: they must stay queued.
    await this.check();
    for (const file of this.#files.values()) file.accept();
    return this.marks;
  }

  /** Are the files still at their paths, as they were left? @throws as `write` */
  async check(): Promise<void> {
    await this.#each((file) => file.check());
  }

  /** The lengths to record. */
  get marks(): FileMarks {
    const marks = (of: (mark: FileMark) => number) =>
      byFile((key) => {
        const file = this.#files.get(key);
        return file === undefined ? undefined : of(file.mark);
      });
    const isCounted = [...this.#files.values()].every(({ mark }) => mark.lines !== undefined);
    return {
      ...marks(({ length }) => length),
      ...(isCounted && { lines: marks(({ lines = 0 }) => lines) }),
      ends: marks(({ end = 0 }) => end),
    };
  }

  async close(): Promise<void> {
    for (const file of this.#files.values()) await file.close();
  }

  /** A page function may be the first to make an item. */
  async #make(key: FileKey): Promise<void> {
    if (this.#files.has(key)) return;
    const file = await OutFile.make(join(this.#folder, fileNames[key]));
    await syncFolder(this.#folder);
    this.#files.set(key, file);
  }

  /** All at once: one after the other, they would wait for a turn of the event loop each, which is
   *  long while reports come. */
  async #each(work: (file: OutFile) => Promise<void>): Promise<void> {
    await allOver([...this.#files.values()].map(work));
  }
}

/** Resolves when nothing of it is under way any more. @throws the first error, in their order */
async function allOver(work: readonly (Promise<void> | undefined)[]): Promise<void> {
  for (const outcome of await Promise.allSettled(work)) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}

function nothing(): void {}

export function isItemKey(key: string): key is ItemKey {
  return key === 'items' || key === 'rejected';
}

/** Has every crawl this file? */
export function isPlainKey(key: string): key is PlainKey {
  return key in noLengths;
}

function isMade(key: FileKey, { items = false, downloads = false }: Wanted): boolean {
  return key === 'downloads' ? downloads : !isItemKey(key) || items;
}

/** Of a crawl that downloads nothing an output may have that name. */
export function isForeign(key: FileKey, marks: FileMarks, wanted: Wanted): boolean {
  return key === 'downloads' && wanted.downloads !== true && marks.downloads === undefined;
}

/** Of one file. */
export function markOf({ lines, ends, ...lengths }: FileMarks, key: FileKey): FileMark {
  const length = lengths[key] ?? 0;
  return { length, lines: length === 0 ? 0 : lines?.[key], end: ends?.[key] };
}

function textsOf(records: readonly Section[]): Record<FileKey, Buffer> {
  const lines = { pages: '', skipped: '', items: '', rejected: '', downloads: '' };
  const images: Buffer[] = [];
  for (const section of records) {
    const { kind } = section;
    if (kind === 'image-url') images.push(imageLinesOf(section));
    else lines[fileOf(kind)] += linesOf(section);
  }
  return {
    pages: Buffer.from(lines.pages),
    images: Buffer.concat(images),
    skipped: Buffer.from(lines.skipped),
    items: Buffer.from(lines.items),
    rejected: Buffer.from(lines.rejected),
    downloads: Buffer.from(lines.downloads),
  };
}

/** The file that a line is for. */
export function fileOf(kind: Section['kind']): Exclude<FileKey, 'images'> {
  switch (kind) {
    case 'skipped':
    case 'rejected':
      return kind;
    case 'item':
      return 'items';
    case 'image':
      return 'downloads';
    default:
      return 'pages';
  }
}

/** The same marks, but for files that begin anew. */
export function zeroed(marks: FileMarks, isZero: (key: FileKey) => boolean): FileMarks {
  const without = (of: Lengths) =>
    byFile((key) => (isZero(key) && of[key] !== undefined ? 0 : of[key]));
  const { lines, ends } = marks;
  return {
    ...without(marks),
    ...(lines !== undefined && { lines: without(lines) }),
    ...(ends !== undefined && { ends: without(ends) }),
  };
}

/** A value for each file; undefined: it has none, which only those that not all have may be. */
function byFile(of: (key: FileKey) => number | undefined): Lengths {
  const [items, rejected, downloads] = [of('items'), of('rejected'), of('downloads')];
  return {
    pages: of('pages') ?? 0,
    images: of('images') ?? 0,
    skipped: of('skipped') ?? 0,
    ...(items !== undefined && { items }),
    ...(rejected !== undefined && { rejected }),
    ...(downloads !== undefined && { downloads }),
  };
}

function folderAt(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    throw unusable(folder, error, 'cannot make the folder');
  }
}

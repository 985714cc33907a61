/**
 * The file sink of one crawl: `pages.jsonl`, `img_src.txt` and `skipped.jsonl` under
 * `<out>/<crawl>/`; for a crawl with items also `items.jsonl` and `rejected.jsonl`.
 *
 * The length of each file is kept in the store, in the transaction that takes the written rows
 * out of the result queue. After a crash the files are cut back to those lengths and the rows
 * are written again, so that a file holds every line once. A file that differs from its record, or
 * that another program changes meanwhile, is left as it is: see `out-file.ts`.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../machine/make-folder.ts';
import { imageLinesOf, type Section } from '../store/result-rows.ts';
import { type FileMark, OutFile, unusable } from './out-file.ts';
import { syncFolder } from './result-folder.ts';
import { lineOf } from './result-lines.ts';
import type { Sink } from './sink.ts';

export const fileNames = {
  pages: 'pages.jsonl',
  images: 'img_src.txt',
  skipped: 'skipped.jsonl',
  items: 'items.jsonl',
  rejected: 'rejected.jsonl',
} as const;

export type FileKey = keyof typeof fileNames;
export const fileKeys = Object.keys(fileNames) as FileKey[];
type PlainKey = 'pages' | 'images' | 'skipped';
/** Made with their first line, or for a crawl with items. */
type ItemKey = Exclude<FileKey, PlainKey>;
type Files = Map<FileKey, OutFile>;

/** Bytes of each file that are accounted for; absent: 0. */
export type Lengths = Readonly<Record<PlainKey, number>> & {
  readonly [K in ItemKey]?: number;
};

/** The mark of the sink: how long each file is, how many lines that is, and the CRC-32 of its end.
 *  One of an earlier version, or of `repair`, has the lengths alone. */
export type FileMarks = Lengths & { readonly lines?: Lengths; readonly ends?: Lengths };

export const noLengths: Lengths = { pages: 0, images: 0, skipped: 0 };

/** What the kind calls itself in the store. */
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
  static async open(folder: string, marks: FileMarks, hasItems = false): Promise<FileSink> {
    const opened: OutFile[] = [];
    const made: OutFile[] = [];
    try {
      const files: Files = new Map();
      for (const key of fileKeys) {
        const file = await OutFile.find(join(folder, fileNames[key]), markOf(marks, key));
        if (file === undefined) continue;
        opened.push(file);
        files.set(key, file);
      }
      for (const key of fileKeys) {
        if (files.has(key) || (isItemKey(key) && !hasItems)) continue;
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
    for (const file of this.#files.values()) await file.checkEnd();
    for (const key of fileKeys) {
      if (texts[key].length > 0) await (await this.#file(key)).append(texts[key]);
    }
    // What was removed since the first look is in no file: the rows must stay where they are.
    await this.check();
    for (const file of this.#files.values()) file.accept();
    return this.marks;
  }

  /** Are the files still at their paths, as they were left? @throws as `write` */
  async check(): Promise<void> {
    for (const file of this.#files.values()) await file.check();
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
  async #file(key: FileKey): Promise<OutFile> {
    const known = this.#files.get(key);
    if (known !== undefined) return known;
    const file = await OutFile.make(join(this.#folder, fileNames[key]));
    await syncFolder(this.#folder);
    this.#files.set(key, file);
    return file;
  }
}

function isItemKey(key: FileKey): key is ItemKey {
  return key === 'items' || key === 'rejected';
}

/** Of one file. */
export function markOf({ lines, ends, ...lengths }: FileMarks, key: FileKey): FileMark {
  const length = lengths[key] ?? 0;
  return { length, lines: length === 0 ? 0 : lines?.[key], end: ends?.[key] };
}

function textsOf(records: readonly Section[]): Record<FileKey, Buffer> {
  const lines = { pages: '', skipped: '', items: '', rejected: '' };
  const images: Buffer[] = [];
  for (const section of records) {
    const { kind } = section;
    if (kind === 'image-url') images.push(imageLinesOf(section));
    else lines[fileOf(kind)] += lineOf(section);
  }
  return {
    pages: Buffer.from(lines.pages),
    images: Buffer.concat(images),
    skipped: Buffer.from(lines.skipped),
    items: Buffer.from(lines.items),
    rejected: Buffer.from(lines.rejected),
  };
}

/** The file that a line is for. */
function fileOf(kind: Section['kind']): Exclude<FileKey, 'images'> {
  switch (kind) {
    case 'skipped':
    case 'rejected':
      return kind;
    case 'item':
      return 'items';
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

/** A value for each file; undefined: it has none, which only those of items may not. */
function byFile(of: (key: FileKey) => number | undefined): Lengths {
  const [items, rejected] = [of('items'), of('rejected')];
  return {
    pages: of('pages') ?? 0,
    images: of('images') ?? 0,
    skipped: of('skipped') ?? 0,
    ...(items !== undefined && { items }),
    ...(rejected !== undefined && { rejected }),
  };
}

function folderAt(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    throw unusable(folder, error, 'cannot make the folder');
  }
}

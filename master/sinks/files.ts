/**
 * The file sink of one crawl: `pages.jsonl`, `img_src.txt` and `skipped.jsonl` under
 * `<out>/<crawl>/`.
 *
 * The length of each file is kept in the store, in the transaction that takes the written rows
 * out of the result queue. After a crash the files are cut back to those lengths and the rows
 * are written again, so that a file holds every line once. A file that differs from its record, or
 * that another program changes meanwhile, is left as it is: see `out-file.ts`.
 */
import { lstat, open, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { imageLinesOf, type Section } from '../store/result-rows.ts';
import { type FileMark, OutFile, unusable } from './out-file.ts';
import { lineOf } from './result-lines.ts';
import { type BegunFile, type Deleted, HeldError, type Sink, type SinkKind } from './sink.ts';

export const fileNames = {
  pages: 'pages.jsonl',
  images: 'img_src.txt',
  skipped: 'skipped.jsonl',
} as const;

type FileKey = keyof typeof fileNames;
const fileKeys = Object.keys(fileNames) as FileKey[];
type Files = Readonly<Record<FileKey, OutFile>>;

/** Bytes of each file that are accounted for. */
export type Lengths = Readonly<Record<FileKey, number>>;

/** The mark of the sink: how long each file is, how many lines that is, and the CRC-32 of its end.
 *  One of an earlier version, or of `repair`, has the lengths alone. */
export type FileMarks = Lengths & { readonly lines?: Lengths; readonly ends?: Lengths };

export const noLengths: Lengths = { pages: 0, images: 0, skipped: 0 };

/** What the kind calls itself in the store. */
export const filesName = 'files';

/** Files of each crawl below `<out>`. */
export function filesKind(outFolder: string): SinkKind {
  const folderOf = (crawl: string) => join(outFolder, crawl);
  const marksOf = (mark: unknown) => (mark as FileMarks | undefined) ?? noLengths;
  return {
    name: filesName,
    async prepare(crawl) {
      const folder = folderOf(crawl);
      await refuseForeignFiles(folder);
      await (await FileSink.open(folder, noLengths)).close();
    },
    open: ({ name }, mark) => FileSink.open(folderOf(name), marksOf(mark)),
    async beginAnew({ name }, mark) {
      const { marks, begun } = await beginAnew(folderOf(name), marksOf(mark));
      return { mark: marks, begun };
    },
    isTaken: (crawl) => exists(folderOf(crawl)),
    rename: (from, to, isAgain) => renameFolder(folderOf(from), folderOf(to), isAgain),
    remove: ({ name }, mark) => deleteFiles(folderOf(name), marksOf(mark)),
  };
}

export class FileSink implements Sink {
  readonly #files: Files;
  /** Bytes behind the recorded length when it was opened. */
  readonly cutBytes: number;

  private constructor(files: Files, cutBytes: number) {
    this.#files = files;
    this.cutBytes = cutBytes;
  }

  /** Opens the files and cuts what a crash left beyond `marks`. Nothing is made or cut unless all
   *  of them are what was written to.
   *  @throws HeldError they are not, or cannot be used · ConfigError the disk fails */
  static async open(folder: string, marks: FileMarks): Promise<FileSink> {
    const opened: OutFile[] = [];
    const made: OutFile[] = [];
    try {
      const found = new Map<FileKey, OutFile>();
      for (const key of fileKeys) {
        const file = await OutFile.find(join(folder, fileNames[key]), markOf(marks, key));
        if (file === undefined) continue;
        opened.push(file);
        found.set(key, file);
      }
      const fileFor = async (key: FileKey) => {
        const known = found.get(key);
        if (known !== undefined) return known;
        if (made.length === 0) folderAt(folder);
        const file = await OutFile.make(join(folder, fileNames[key]));
        opened.push(file);
        made.push(file);
        return file;
      };
      const files = {
        pages: await fileFor('pages'),
        images: await fileFor('images'),
        skipped: await fileFor('skipped'),
      };
      let cutBytes = 0;
      for (const file of opened) cutBytes += await file.cut();
      if (made.length > 0) await syncFolder(folder);
      return new FileSink(files, cutBytes);
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
    for (const key of fileKeys) await this.#files[key].checkEnd();
    for (const key of fileKeys) {
      if (texts[key].length > 0) await this.#files[key].append(texts[key]);
    }
    // What was removed since the first look is in no file: the rows must stay where they are.
    await this.check();
    for (const key of fileKeys) this.#files[key].accept();
    return this.marks;
  }

  /** Are the files still at their paths, as they were left? @throws as `write` */
  async check(): Promise<void> {
    for (const key of fileKeys) await this.#files[key].check();
  }

  /** The lengths to record. */
  get marks(): FileMarks {
    const marks = byFile((key) => this.#files[key].mark);
    const { pages, images, skipped } = marks;
    const isCounted = fileKeys.every((key) => marks[key].lines !== undefined);
    return {
      pages: pages.length,
      images: images.length,
      skipped: skipped.length,
      ...(isCounted && { lines: byFile((key) => marks[key].lines ?? 0) }),
      ends: byFile((key) => marks[key].end ?? 0),
    };
  }

  async close(): Promise<void> {
    for (const key of fileKeys) await this.#files[key].close();
  }
}

/** Makes room for new files where the old ones are not those that were written. Moves the old ones
 *  aside, removes nothing. Returns the marks to go on with.
 *  @throws HeldError, ConfigError a file cannot be moved */
async function beginAnew(
  folder: string,
  marks: FileMarks,
): Promise<{ marks: FileMarks; begun: BegunFile[] }> {
  const begun = new Map<FileKey, BegunFile>();
  for (const key of fileKeys) {
    const path = join(folder, fileNames[key]);
    const mark = markOf(marks, key);
    try {
      await (await OutFile.find(path, mark))?.close();
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      const { length: bytes, lines } = mark;
      begun.set(key, { file: fileNames[key], bytes, lines, movedTo: await moveAside(path) });
    }
  }
  const zeroed = (of: Lengths) => byFile((key) => (begun.has(key) ? 0 : of[key]));
  const { lines, ends } = marks;
  return {
    marks: {
      ...zeroed(marks),
      ...(lines !== undefined && { lines: zeroed(lines) }),
      ...(ends !== undefined && { ends: zeroed(ends) }),
    },
    begun: [...begun.values()],
  };
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** @throws ConfigError it cannot be renamed */
async function renameFolder(from: string, to: string, isAgain: boolean): Promise<void> {
  const [isFrom, isTo] = [await exists(from), await exists(to)];
  if (isTo && (isFrom || !isAgain)) throw new ConfigError(`${to} exists already; move it away`);
  if (!isFrom) return;
  try {
    await rename(from, to);
  } catch (error) {
    throw new ConfigError(`cannot rename ${from}: ${messageOf(error)}`, error);
  }
  await syncFolder(dirname(to));
}

/** Deletes the files that were written, and their folder if nothing else is in it. One that is not
 *  as it was left, or a link, is somebody else's. */
async function deleteFiles(folder: string, marks: FileMarks): Promise<Deleted> {
  const deleted: string[] = [];
  const kept: string[] = [];
  for (const key of fileKeys) {
    const path = join(folder, fileNames[key]);
    const isOurs = await isAsLeft(path, markOf(marks, key));
    if (isOurs === undefined) continue;
    const isGone = isOurs && (await rm(path).then(isTrue, isFalse));
    (isGone ? deleted : kept).push(fileNames[key]);
  }
  // Not empty: it holds other files.
  await rmdir(folder).catch(() => {});
  await syncFolder(dirname(folder));
  return { deleted, kept };
}

const isTrue = () => true;
const isFalse = () => false;

/** Is it the file that was written, to the byte? Undefined: nothing is there. */
async function isAsLeft(path: string, mark: FileMark): Promise<boolean | undefined> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  if (!found.isFile() || found.size !== mark.length) return false;
  try {
    await (await OutFile.find(path, mark))?.close();
    return true;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

/** @throws ConfigError when a crawl that has written nothing would overwrite another file. */
async function refuseForeignFiles(folder: string): Promise<void> {
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

function markOf({ lines, ends, ...lengths }: FileMarks, key: FileKey): FileMark {
  const length = lengths[key];
  return { length, lines: length === 0 ? 0 : lines?.[key], end: ends?.[key] };
}

function textsOf(records: readonly Section[]): Record<FileKey, Buffer> {
  const lines = { pages: '', skipped: '' };
  const images: Buffer[] = [];
  for (const section of records) {
    const { kind } = section;
    if (kind === 'image-url') images.push(imageLinesOf(section));
    else lines[kind === 'skipped' ? 'skipped' : 'pages'] += lineOf(section);
  }
  return {
    pages: Buffer.from(lines.pages),
    images: Buffer.concat(images),
    skipped: Buffer.from(lines.skipped),
  };
}

function byFile<T>(of: (key: FileKey) => T): Record<FileKey, T> {
  return { pages: of('pages'), images: of('images'), skipped: of('skipped') };
}

function folderAt(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    throw unusable(folder, error, 'cannot make the folder');
  }
}

/** A file that is new is not there after a power cut unless its folder is on the disk, too. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r');
    await handle.sync().finally(() => handle.close());
  } catch {
    // Some file systems cannot; then it is as safe as they make it.
  }
}

/** Moves what stands at a path to a free name beside it; undefined: nothing is there, or an empty
 *  file, which can be gone on with. @throws HeldError, ConfigError it cannot be moved */
async function moveAside(path: string): Promise<string | undefined> {
  if (!(await exists(path))) return undefined;
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() && found.size === 0) return undefined;
  for (let n = 1; ; n++) {
    const aside = `${path}.old-${n}`;
    if (await exists(aside)) continue;
    try {
      await rename(path, aside);
      await syncFolder(dirname(path));
      return aside;
    } catch (error) {
      throw unusable(path, error);
    }
  }
}

/**
 * The kind of the file sinks: what is done to the files of a crawl apart from writing them. Every
 * file is compared with its record first; one that is somebody else's is left alone.
 */
import { lstat, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import type { Part } from '../store/parts.ts';
import { isDated } from './dated-files.ts';
import { fileRotation, filesOfPart } from './file-rotation.ts';
import {
  type FileKey,
  type FileMarks,
  FileSink,
  fileKeys,
  fileNames,
  filesName,
  isForeign,
  markOf,
  noLengths,
  type Wanted,
  zeroed,
} from './files.ts';
import { type FileMark, OutFile } from './out-file.ts';
import { exists, moveAside } from './result-folder.ts';
import { type BegunFile, type Deleted, HeldError, type SinkCrawl, type SinkKind } from './sink.ts';

/** The pages of a crawl with `every` that came, went and changed since the one before. */
export const changesName = 'changes.jsonl';

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
    open: (crawl, mark) => FileSink.open(folderOf(crawl.name), marksOf(mark), wantedOf(crawl)),
    async beginAnew(crawl, mark) {
      const folder = folderOf(crawl.name);
      const { marks, begun } = await beginAnew(folder, marksOf(mark), wantedOf(crawl));
      return { mark: marks, begun };
    },
    isTaken: (crawl) => exists(folderOf(crawl)),
    rename: (from, to, isAgain) => renameFolder(folderOf(from), folderOf(to), isAgain),
    remove: async ({ name, spec }, mark, parts) => {
      // Made of the results, so that nothing need be known of it.
      const isRepeated = spec?.everyMs !== undefined;
      if (isRepeated) await deleteChanges(folderOf(name));
      return await deleteFiles(folderOf(name), marksOf(mark), parts);
    },
    rotation: fileRotation(folderOf, marksOf),
  };
}

function wantedOf({ hasRules, spec }: SinkCrawl): Wanted {
  return { items: hasRules, downloads: spec?.fetch?.download !== undefined };
}

/** Makes room for new files where the old ones are not those that were written. Moves the old ones
 *  aside, removes nothing. Returns the marks to go on with.
 *  @throws HeldError, ConfigError a file cannot be moved */
async function beginAnew(
  folder: string,
  marks: FileMarks,
  wanted: Wanted,
): Promise<{ marks: FileMarks; begun: BegunFile[] }> {
  const begun = new Map<FileKey, BegunFile>();
  for (const key of fileKeys) {
    if (isForeign(key, marks, wanted)) continue;
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
  return { marks: zeroed(marks, (key) => begun.has(key)), begun: [...begun.values()] };
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

async function deleteChanges(folder: string): Promise<void> {
  for (const name of [changesName, `${changesName}.unfinished`]) {
    await rm(join(folder, name), { force: true }).catch(() => {});
  }
}

/** Deletes the files that were written, and their folder if nothing else is in it. One that is not
 *  as it was left, or a link, is somebody else's. */
async function deleteFiles(
  folder: string,
  marks: FileMarks,
  parts: readonly Part[],
): Promise<Deleted> {
  const deleted: string[] = [];
  const kept: string[] = [];
  const ours = fileKeys.filter((key) => !isForeign(key, marks, {}));
  const written = ours.map((key) => ({ name: fileNames[key], mark: markOf(marks, key) }));
  const closed = parts.flatMap(({ part, date }) => filesOfPart(part, date));
  for (const { name, mark } of [...closed, ...written]) {
    const path = join(folder, name);
    const isOurs = await isAsLeft(path, mark);
    if (isOurs === undefined) continue;
    const isGone = isOurs && (await rm(path).then(isTrue, isFalse));
    (isGone ? deleted : kept).push(name);
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

/** @throws ConfigError when a crawl that has written nothing would overwrite another file, or go on
 *  with dated files that are not its own. */
async function refuseForeignFiles(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const inner of ['archive', 'html', 'screenshots']) {
    const found = await readdir(join(folder, inner)).catch(() => []);
    if (found.length > 0) throw foreignFiles(join(folder, inner));
  }
  for (const name of Object.values(fileNames)) {
    // A program may have made it: the names of all other files are ours.
    if (name === fileNames.downloads) continue;
    const dated = names.find((one) => isDated(one, name));
    const found = await stat(join(folder, name)).catch(() => undefined);
    const foreign = found !== undefined && found.size > 0 ? name : dated;
    if (foreign === undefined) continue;
    throw foreignFiles(join(folder, foreign));
  }
}

function foreignFiles(path: string): ConfigError {
  return new ConfigError(
    `${path} holds the results of a crawl that this data folder does not know; ` +
      'move it away, or choose another --crawl, --out or --data',
  );
}

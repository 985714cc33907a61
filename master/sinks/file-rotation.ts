/**
 * Rotation of result files: `pages.jsonl` becomes `pages-20261122T215501Z.jsonl`, and so do the
 * others, with the same date. Only a file that holds what was written to it, to the byte, is
 * closed. One that another program such as logrotate has renamed already, in the same folder, is
 * found by its length and its end, and counts as closed under the name that it has.
 */
import { lstat, readdir, rename, stat } from 'node:fs/promises';
import { join, parse } from 'node:path';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { syncFolder } from '../../shared/sync-folder.ts';
import { dateAfter, datedName, dateOf, isDated } from './dated-files.ts';
import {
  type FileKey,
  type FileMarks,
  fileKeys,
  fileNames,
  markOf,
  noLengths,
  zeroed,
} from './files.ts';
import { type FileMark, goneFrom, OutFile, otherFile, otherSize } from './out-file.ts';
import { exists } from './result-folder.ts';
import { type ClosedTarget, HeldError, type Rotation } from './sink.ts';

/** Names that are tried: a second each. */
const datesMax = 100_000;
/** Files that may be the one that was renamed. */
const candidatesMax = 1_000;

/** Where what was written to a file is: under the name of the date, under its own, or renamed by
 *  another program to `name`. */
type Place =
  | { readonly at: 'dated' | 'path' }
  | { readonly at: 'elsewhere'; readonly name: string }
  | { readonly at: 'gone' | 'changed'; readonly fault: HeldError };

export function fileRotation(
  folderOf: (crawl: string) => string,
  marksOf: (mark: unknown) => FileMarks,
): Rotation {
  return {
    async plan({ name }, mark, { after, isOver, isExact }) {
      const folder = folderOf(name);
      const marks = marksOf(mark);
      let isAny = false;
      for (const key of fileKeys) {
        if (markOf(marks, key).length === 0) continue;
        const place = await placeOf(folder, key, marks, { isExact });
        if (place.at === 'gone' && isOver) continue;
        if ('fault' in place) throw place.fault;
        isAny = true;
      }
      return isAny ? await freeDate(folder, after) : undefined;
    },
    close: ({ name }, mark, date) => closeFiles(folderOf(name), marksOf(mark), date),
  };
}

async function closeFiles(folder: string, marks: FileMarks, date: string) {
  const closed = new Map<FileKey, ClosedTarget>();
  let fault: ConfigError | undefined;
  for (const key of fileKeys) {
    const mark = markOf(marks, key);
    if (mark.length === 0) continue;
    try {
      const as = await closeFile(folder, key, marks, date);
      closed.set(key, { file: fileNames[key], as, bytes: mark.length, lines: mark.lines });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      fault ??= error;
    }
  }
  await syncFolder(folder);
  const isClosed = (key: FileKey) => closed.has(key);
  return {
    mark: zeroed(marks, isClosed),
    part: zeroed(marks, (key) => !isClosed(key)),
    closed: [...closed.values()],
    fault,
  };
}

/** Returns its name from now on. @throws HeldError, ConfigError it is not as it was left, or cannot
 *  be renamed */
async function closeFile(
  folder: string,
  key: FileKey,
  marks: FileMarks,
  date: string,
): Promise<string> {
  const dated = datedName(fileNames[key], date);
  const place = await placeOf(folder, key, marks, { dated });
  switch (place.at) {
    case 'dated':
      return dated;
    case 'path':
      await cutTail(join(folder, fileNames[key]), markOf(marks, key));
      await giveName(join(folder, fileNames[key]), join(folder, dated));
      return dated;
    case 'elsewhere':
      await cutTail(join(folder, place.name), markOf(marks, key));
      return place.name;
    case 'gone':
    case 'changed':
      throw place.fault;
    default:
      return place satisfies never;
  }
}

async function giveName(path: string, dated: string): Promise<void> {
  if (await exists(dated)) throw new ConfigError(`${dated} exists already; move it away`);
  try {
    await rename(path, dated);
  } catch (error) {
    throw new ConfigError(`cannot rename ${path}: ${messageOf(error)}`, error);
  }
}

/** `dated`: the name that it may have already. `isExact`: nothing may stand behind what counts. */
async function placeOf(
  folder: string,
  key: FileKey,
  marks: FileMarks,
  { dated, isExact = false }: { readonly dated?: string; readonly isExact?: boolean },
): Promise<Place> {
  const mark = markOf(marks, key);
  const name = fileNames[key];
  const path = join(folder, name);
  if (dated !== undefined && (await isWhole(join(folder, dated), mark))) return { at: 'dated' };
  if (await (isExact ? isWhole : isWritten)(path, mark)) return { at: 'path' };
  const stats = await stat(path).catch(() => undefined);
  // An empty file is what logrotate puts in its place.
  if (stats === undefined || (stats.isFile() && stats.size === 0)) {
    const moved = await renamedFile(folder, name, mark);
    if (moved !== undefined) return { at: 'elsewhere', name: moved };
  }
  if (!(await exists(path))) return { at: 'gone', fault: goneFrom(path, mark) };
  const isResized = stats?.isFile() === true && stats.size !== mark.length;
  const fault = isResized ? otherSize(path, stats.size, mark.length) : otherFile(path);
  return { at: 'changed', fault };
}

/** Is it the file that was written, to the byte? */
async function isWhole(path: string, mark: FileMark): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined);
  return stats?.isFile() === true && stats.size === mark.length && (await isWritten(path, mark));
}

/** Does it begin with what was written? What stands behind that is of a write that did not
 *  count. */
async function isWritten(path: string, mark: FileMark): Promise<boolean> {
  try {
    const file = await OutFile.find(path, mark);
    await file?.close();
    return file !== undefined;
  } catch (error) {
    if (error instanceof HeldError) return false;
    throw error;
  }
}

/** The name that another program has given to the file, in the same folder: as a rule its own with
 *  something behind it. Parts of earlier rotations are none. */
async function renamedFile(
  folder: string,
  name: string,
  mark: FileMark,
): Promise<string | undefined> {
  const { name: stem } = parse(name);
  const names = await readdir(folder).catch(() => []);
  const isCandidate = (one: string) => one.startsWith(stem) && one !== name && !isDated(one, name);
  for (const candidate of names.filter(isCandidate).sort().slice(0, candidatesMax)) {
    const path = join(folder, candidate);
    const isFile = await lstat(path).then(
      (stats) => stats.isFile(),
      () => false,
    );
    if (isFile && (await isWritten(path, mark))) return candidate;
  }
  return undefined;
}

async function cutTail(path: string, mark: FileMark): Promise<void> {
  const file = await OutFile.find(path, mark);
  if (file === undefined) return;
  try {
    if ((await file.cut()) > 0) await file.sync();
  } finally {
    await file.close();
  }
}

/** The present second, or the first one later of which no file has the name. So names order as they
 *  were given, whatever the clock does. @throws ConfigError too many names are taken */
async function freeDate(folder: string, after: string | undefined): Promise<string> {
  const names = new Set(await readdir(folder).catch(() => []));
  const isTaken = (date: string) =>
    fileKeys.some((key) => names.has(datedName(fileNames[key], date)));
  let date = dateOf(Date.now());
  if (after !== undefined && date <= after) date = dateAfter(after);
  for (let tries = 0; isTaken(date); tries++) {
    if (tries >= datesMax) throw new ConfigError(`too many dated files in ${folder}; move them`);
    date = dateAfter(date);
  }
  return date;
}

/** The files of a part: their keys, names and marks. */
export function filesOfPart(
  part: unknown,
  date: string,
): readonly { readonly key: FileKey; readonly name: string; readonly mark: FileMark }[] {
  const marks = (part as FileMarks | undefined) ?? noLengths;
  return fileKeys
    .map((key) => ({ key, name: datedName(fileNames[key], date), mark: markOf(marks, key) }))
    .filter(({ mark }) => mark.length > 0);
}

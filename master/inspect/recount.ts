/**
 * Verifies the ledger of a crawl: counts the rows of its tasks and buried URLs, and the lines of
 * its files and of the results that wait to be written, and says which numbers differ. All of it is
 * of one moment: a snapshot of the store, which also says how long the files were. Works in slices,
 * while its master goes on.
 *
 *     names of files --> snapshot --> open files --> the same names? --no, rotated--> again
 *                                                         |
 *                                                         v
 *                                                  count rows and lines
 */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { CommandError, ConfigError } from '../../shared/errors.ts';
import type { LedgerCheck, LedgerDifference, LedgerRow } from '../../shared/ledger.ts';
import type { RecordKind } from '../../shared/result-fields.ts';
import { type LookedCrawl, skippedListedMax, type UrlLook } from '../frontier/look/url-look.ts';
import { datedName } from '../sinks/dated-files.ts';
import { filesOfPart } from '../sinks/file-rotation.ts';
import {
  type FileKey,
  type FileMarks,
  fileKeys,
  fileNames,
  filesName,
  isItemKey,
  noLengths,
} from '../sinks/files.ts';
import { lineOf } from '../sinks/result-lines.ts';
import { partsOf, rotatingDate } from '../store/parts.ts';
import {
  commitKey,
  crawlKey,
  cursorKey,
  decodeCrawl,
  decodeCursor,
  decodeTask,
  kindNumbers,
} from '../store/records.ts';
import { isRowKind, sectionsOf } from '../store/result-rows.ts';
import { batches, type ReadableStore, type Snapshot } from '../store/store.ts';
import { taskBatches } from '../store/unsorted-rows.ts';
import { eachLine, LineCounts, type OpenParts, openParts } from './line-count.ts';
import { partNamesOf } from './line-search.ts';

const batchRows = 1_000;
const resultRows = 16;
/** How often it begins anew because a file was rotated meanwhile. */
const triesMax = 5;
/** How often it looks whether a renaming has ended, and how long it waits for that. */
const renamingMs = 50;
const renamingMsMax = 60_000;
/** Recounts that wait while one is under way. */
const waitingMax = 16;
const lineColumns = ['pages', 'redirects', 'others', 'failed', 'excluded'] as const;

type RecountOptions = {
  readonly store: Pick<ReadableStore, 'snapshot'>;
  readonly look: UrlLook;
  /** The folder of a crawl's result files. */
  readonly folderOf: (crawl: string) => string;
};

/** A crawl of a running master may get another name, or be removed, while it is counted. */
type CountedCrawl = {
  readonly id: number;
  readonly name: string;
  readonly renaming?: unknown;
  readonly removal?: unknown;
};

type Taken = {
  readonly snapshot: Snapshot;
  readonly files: Readonly<Record<FileKey, OpenParts>>;
};

export class Recount {
  readonly #options: RecountOptions;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(options: RecountOptions) {
    this.#options = options;
  }

  /** One after the other. @throws CommandError E_NO_CRAWL, E_LIMIT too many wait ·
   *  E_BAD_REQUEST it is being removed or renamed · ConfigError a file cannot be read */
  async verify(crawl: CountedCrawl): Promise<LedgerCheck> {
    if (this.#waiting >= waitingMax) {
      throw new CommandError('E_LIMIT', 'other ledgers are being verified; try again');
    }
    this.#waiting++;
    const check = this.#last.then(() => this.#verify(crawl));
    this.#last = check.catch(() => {}).finally(() => this.#waiting--);
    return await check;
  }

  async #verify(crawl: CountedCrawl): Promise<LedgerCheck> {
    for (let left = renamingMsMax / renamingMs; left > 0; left--) {
      const { id, name, renaming } = crawl;
      const check = renaming === undefined ? await this.#count(id, name) : undefined;
      if (crawl.removal !== undefined) {
        const why = `the crawl "${name}" is being removed: its ledger cannot be verified`;
        throw new CommandError('E_BAD_REQUEST', why);
      }
      // Its folder may have been moved meanwhile.
      const isStill = crawl.name === name && crawl.renaming === undefined;
      if (check !== undefined && isStill) return check;
      await sleep(renamingMs);
    }
    const why = `the crawl "${crawl.name}" is being renamed; try again`;
    throw new CommandError('E_BAD_REQUEST', why);
  }

  async #count(id: number, name: string): Promise<LedgerCheck> {
    const { snapshot, files } = await this.#take(name);
    try {
      return await this.#compare(id, name, { snapshot, files });
    } finally {
      snapshot.close();
      for (const key of fileKeys) await files[key].close();
    }
  }

  /** A snapshot, and the files that belong to it. */
  async #take(name: string): Promise<Taken> {
    const { store, folderOf } = this.#options;
    const folder = folderOf(name);
    for (let left = triesMax; ; left--) {
      const before = await namesIn(folder);
      const snapshot = store.snapshot();
      const files: Partial<Record<FileKey, OpenParts>> = {};
      try {
        for (const key of fileKeys) files[key] = await openParts(folder, key);
      } catch (error) {
        snapshot.close();
        for (const key of fileKeys) await files[key]?.close();
        throw new ConfigError(`cannot read the results in ${folder}`, error);
      }
      const isSame = before === (await namesIn(folder));
      if (isSame || left <= 1) return { snapshot, files: files as Taken['files'] };
      snapshot.close();
      for (const key of fileKeys) await files[key]?.close();
    }
  }

  async #compare(id: number, name: string, { snapshot, files }: Taken): Promise<LedgerCheck> {
    const value = snapshot.get('crawls', crawlKey(id));
    if (value === undefined) throw new CommandError('E_NO_CRAWL', `there is no crawl "${name}"`);
    const crawl = this.#options.look.crawlOf(decodeCrawl(value));
    const { ledger } = crawl.books;
    if (ledger === undefined)
      return { crawl: name, rows: 0, lines: 0, differs: [], uncounted: true };
    const cursor = snapshot.get('meta', cursorKey(id, filesName));
    const { commit, mark } = cursor ? decodeCursor(cursor) : { commit: 0, mark: undefined };
    const marks = (mark ?? noLengths) as FileMarks;
    const counts = new LineCounts();
    const missing: string[] = [];
    const date = rotatingDate(snapshot, id, filesName);
    for (const key of fileKeys) {
      const length = { bytes: marks[key] ?? 0, rotated: date && datedName(fileNames[key], date) };
      missing.push(...(await countFile(files[key], length, key, counts)));
    }
    await countWaiting(snapshot, id, commit, counts);
    const tasks = await countTasks(snapshot, id);
    const buried = await countKeys(snapshot, 'buried', id);
    const moved = movedParts(snapshot, id, files);
    const differs = differences(crawl, counts, { tasks, buried }, ledger.rows, moved);
    let rows = buried;
    for (const count of tasks.values()) rows += count;
    return {
      crawl: name,
      rows,
      lines: counts.lines + counts.images,
      differs,
      ...(missing.length > 0 && { missing }),
      ...(moved.size > 0 && { moved: [...moved.values()].flat() }),
    };
  }
}

/** The files that a rotation has closed and that are not there now, by their keys: their operator
 *  may move and pack them. */
function movedParts(
  snapshot: Snapshot,
  crawl: number,
  files: Taken['files'],
): Map<FileKey, string[]> {
  const moved = new Map<FileKey, string[]>();
  for (const { part, date } of partsOf(snapshot, crawl, filesName)) {
    for (const { key, name } of filesOfPart(part, date)) {
      const isThere = files[key].parts.some((one) => one.name === name && one.file !== undefined);
      if (!isThere) moved.set(key, [...(moved.get(key) ?? []), name]);
    }
  }
  return moved;
}

/** The figures of the ledger that differ from the count; lines of files that are not there are left
 *  out. */
function differences(
  crawl: LookedCrawl,
  lines: LineCounts,
  stored: { readonly tasks: ReadonlyMap<number, number>; readonly buried: number },
  ledger: readonly LedgerRow[],
  moved: ReadonlyMap<FileKey, unknown>,
): LedgerDifference[] {
  const differs: LedgerDifference[] = [];
  const compare = (what: string, said: number, found: number) => {
    if (said !== found) differs.push({ what, ledger: said, counted: found });
  };
  // The rows of a cancelled crawl are erased bit by bit.
  const isErased = crawl.state === 'cancelled';
  let waiting = 0;
  for (const [kind, number] of Object.entries(kindNumbers)) {
    const row = ledger[number];
    const tasks = stored.tasks.get(number) ?? 0;
    waiting += tasks;
    if (!isErased) compare(`${kind}: waiting`, row?.waiting ?? 0, tasks);
    if (moved.has(kind in adders ? 'downloads' : 'pages')) continue;
    for (const column of lineColumns) {
      compare(`${kind}: ${column}`, row?.[column] ?? 0, lines.of(kind, column));
    }
    const { buried = 0, replayed = 0 } = row ?? {};
    compare(`${kind}: buried and replayed`, buried + replayed, lines.of(kind, 'givenUp'));
  }
  const { counters } = crawl;
  const buried = ledger.reduce((sum, row) => sum + row.buried, 0);
  compare('lines that are torn', 0, lines.torn);
  if (!moved.has('images')) compare('images', counters.images, lines.images);
  const rows = crawl.books.rules.rows;
  if (!moved.has('items')) compare('rows of items', rows.items, lines.rows.items);
  if (!moved.has('rejected')) compare('rejected rows', rows.rejected, lines.rows.rejected);
  if (!isErased) {
    compare('buried rows', buried, stored.buried);
    compare('waiting', counters.waiting, waiting);
  }
  if (moved.has('skipped')) return differs;
  for (const [reason, count = 0] of Object.entries(counters.skipped)) {
    const listed = lines.skipped.get(reason) ?? 0;
    compare(`skipped links listed: ${reason}`, Math.min(count, skippedListedMax), listed);
  }
  return differs;
}

const adders: { readonly [K in RecordKind]?: 'addImage' } = { image: 'addImage' };
const fileOfRow = { item: 'items', rejected: 'rejected' } as const;

/** Counts the lines of a file and of its rotated parts. Returns what is not there. `rotated`: the
 *  name that the file has already if a crash has cut off its rotation. */
async function countFile(
  { parts }: OpenParts,
  { bytes, rotated }: { readonly bytes: number; readonly rotated: string | undefined },
  key: FileKey,
  counts: LineCounts,
): Promise<string[]> {
  const missing: string[] = [];
  const onLine = (text: string) => {
    if (key === 'images') counts.images++;
    else if (key === 'downloads') counts.addImage(text);
    else if (isItemKey(key)) counts.addRow(key, text);
    else counts.add(text);
  };
  const cutOff = parts.findIndex(({ name, file }) => name === rotated && file !== undefined);
  const open = cutOff < 0 ? parts.length - 1 : cutOff;
  for (const [i, { name, file }] of parts.slice(0, open + 1).entries()) {
    const length = i === open ? bytes : Number.POSITIVE_INFINITY;
    const found = file === undefined ? 0 : await eachLine(file, length, onLine);
    if (i === open && found < bytes) {
      missing.push(file === undefined ? `${name} is not there` : `${name} is shorter than it was`);
    }
  }
  return missing;
}

/** The results that are not in the files. */
async function countWaiting(
  snapshot: Snapshot,
  crawl: number,
  commit: number,
  counts: LineCounts,
): Promise<void> {
  const range = { from: commitKey(crawl, commit + 1), to: crawlKey(crawl + 1) };
  for (const rows of batches(snapshot, 'results', range, resultRows)) {
    for (const { value } of rows) {
      for (const section of sectionsOf(value)) {
        if (section.kind === 'image-url') counts.images += section.count;
        else if (isRowKind(section.kind)) counts.addRows(fileOfRow[section.kind], section.count);
        else counts[adders[section.kind] ?? 'add'](lineOf(section).trimEnd());
      }
    }
    await turn();
  }
}

/** Tasks by the numbers of their kinds. */
async function countTasks(snapshot: Snapshot, crawl: number): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  for (const rows of taskBatches(snapshot, crawl, batchRows)) {
    for (const { value } of rows) {
      const { kind } = decodeTask(value);
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    await turn();
  }
  return counts;
}

async function countKeys(snapshot: Snapshot, table: 'buried', crawl: number): Promise<number> {
  let count = 0;
  for (let from = crawlKey(crawl), isFirst = true; ; isFirst = false) {
    const range = { from, after: !isFirst, to: crawlKey(crawl + 1), limit: batchRows };
    const keys = snapshot.keys(table, range);
    count += keys.length;
    const last = keys.at(-1);
    if (last === undefined || keys.length < batchRows) return count;
    from = last;
    await turn();
  }
}

async function namesIn(folder: string): Promise<string> {
  const names: string[] = [];
  for (const key of fileKeys) names.push(...(await partNamesOf(folder, key)));
  return names.join();
}

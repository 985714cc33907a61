/**
 * `compact`: gives the file system back what a store no longer uses. LMDB keeps the pages that
 * removed rows leave and uses them again, so its file never gets smaller.
 *
 * All rows are copied to a new store, which is checked and takes the place of the old one. The
 * store is the old file or the new one, whole, whenever the process is killed. The rows are copied
 * in their order by ourselves, which fills the pages. LMDB's own compacting copy keeps half-empty
 * pages, and the writer of lmdb-js aborts on its free list.
 */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ConfigError, StoreError } from '../../shared/errors.ts';
import { DataFolder } from '../machine/data-folder.ts';
import { freeBytesOf, megabytes, refusalText } from '../machine/disk-room.ts';
import { openLmdbStore, storeFile } from '../store/lmdb.ts';
import { afterPrefix, formatKey } from '../store/records.ts';
import {
  batches,
  type Change,
  type Range,
  type Row,
  type Store,
  type Table,
  tables,
} from '../store/store.ts';
import { hasSum } from '../store/sums.ts';
import { checkStore, refuseDamagedStore } from './check.ts';
import { current, freePages, pageBytes, StoreFile } from './pages.ts';
import { forgetReplacement, replacementIn, replaceStore } from './replacement.ts';

/** Keys that are read at once. */
const keysMax = 5_000;
/** Their rows have a page at most: many are read at once. */
const smallTables: ReadonlySet<Table> = new Set(['runs', 'tasks', 'unsorted']);
/** Rows and bytes of one commit. */
const batchRows = 50_000;
const batchBytes = 16 << 20;
/** Left over for others, and for pages that the copy frees while it is made: as much again as the
 *  store, up to this. A small store needs little room on a full disk. */
const spareBytesMax = 64e6;
const spareBytesMin = 1e6;
/** Longer than any key. */
const allKeys = { from: Buffer.from([0]), to: afterPrefix(Buffer.alloc(480, 0xff)) };

export type Compacted = {
  /** Bytes that the file takes on the disk. */
  readonly before: number;
  readonly after: number;
};

/** While no master runs. @throws ConfigError what the operator has to do */
export async function compact(options: {
  readonly dataFolder: string;
  readonly outFolder: string;
}): Promise<Compacted> {
  const { dataFolder, outFolder } = options;
  const path = storeFile(join(dataFolder, 'store'));
  if (!existsSync(path)) throw new ConfigError(`there is no store in ${dataFolder}: see --data`);
  const folder = DataFolder.open(dataFolder);
  try {
    forgetReplacement(dataFolder);
    refuseDamagedStore(path, outFolder, true);
    return await compactStore(dataFolder);
  } finally {
    folder.close();
  }
}

/** Compacts a store that is whole, and that nobody uses. @throws ConfigError, StoreError the store
 *  is as it was */
export async function compactStore(dataFolder: string): Promise<Compacted> {
  const path = storeFile(join(dataFolder, 'store'));
  const folder = dirname(path);
  const unfinished = replacementIn(dataFolder);
  const before = bytesOf(path);
  const wanted = usedBytes(path);
  const free = freeBytesOf(folder);
  const needed = wanted + Math.min(spareBytesMin + wanted, spareBytesMax);
  if (free < needed) {
    throw new ConfigError(
      `the compacted store needs ${Math.ceil(needed / 1e6)} MB under ${folder}, and ` +
        `${megabytes(free)} MB are free; free some space`,
    );
  }
  try {
    await copyTo(unfinished, folder);
    const damage = checkStore(storeFile(unfinished));
    if (damage !== undefined) throw new ConfigError(`the compacted store is damaged (${damage})`);
  } catch (error) {
    forgetReplacement(dataFolder);
    if (!(error instanceof StoreError)) throw error;
    throw new ConfigError(`the store is as it was: ${refusalText(error)}`, error);
  }
  replaceStore(dataFolder);
  return { before, after: bytesOf(path) };
}

/** Copies all rows of the store in the folder `from`. @throws ConfigError, StoreError */
async function copyTo(to: string, from: string): Promise<void> {
  const source = await openLmdbStore(from);
  try {
    const target = await openLmdbStore(to);
    try {
      for (const table of tables) await copyTable(table, source, target);
      // Repair falls back on the roots of the commit before: they are to have all rows, too.
      const value = source.get('meta', formatKey);
      if (value !== undefined) await target.commit([{ table: 'meta', key: formatKey, value }]);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

async function copyTable(table: Table, source: Store, target: Store): Promise<void> {
  let changes: Change[] = [];
  let bytes = 0;
  // One batch is written while the next one is read: each waits for the disk.
  let written = Promise.resolve();
  const flush = async () => {
    await written;
    written = target.commit(changes);
    // It is awaited later; a row that cannot be read may come first.
    written.catch(() => {});
    changes = [];
    bytes = 0;
  };
  let copied = 0;
  for (const rows of rowsIn(source, table)) {
    for (const { key, value } of rows) {
      changes.push({ table, key, value });
      bytes += value.length;
      copied++;
      if (bytes >= batchBytes || changes.length >= batchRows) await flush();
    }
  }
  await flush();
  await written;
  let count = 0;
  for (const keys of keysIn(target, table)) count += keys.length;
  if (count !== copied) throw new ConfigError(`rows of ${table} were not copied`);
}

/** All rows of a table. Those that may be large are read one by one. @throws ConfigError */
function* rowsIn(store: Store, table: Table): Generator<Row[]> {
  if (smallTables.has(table)) yield* batches(store, table, allKeys, keysMax);
  else {
    for (const keys of keysIn(store, table)) {
      for (const key of keys) {
        const value = hasSum(table) ? store.get(table, key) : Buffer.alloc(0);
        if (value === undefined) throw new ConfigError(`a row of ${table} cannot be read`);
        yield [{ key, value }];
      }
    }
  }
}

/** All keys of a table, some at a time. */
function* keysIn(store: Store, table: Table): Generator<Buffer[]> {
  for (let range: Range = { ...allKeys, limit: keysMax }; ; ) {
    const keys = store.keys(table, range);
    const last = keys.at(-1);
    if (last === undefined) return;
    yield keys;
    range = { ...range, from: last, after: true };
  }
}

/** Bytes of the pages in use: a compacted store has at most as many. */
function usedBytes(path: string): number {
  const file = new StoreFile(path);
  try {
    const [a, b] = file.metas();
    if (a === undefined || b === undefined) return file.bytes;
    const meta = current(a, b);
    let free = 0;
    file.read({
      tree: meta.free,
      meta,
      used: new Uint8Array(meta.end),
      isNumeric: true,
      onDamage: () => {},
      take: (_keys, _keyAt, _keyBytes, values, valueAt, valueBytes) => {
        free += freePages(values.subarray(valueAt, valueAt + valueBytes))?.length ?? 0;
      },
    });
    return (meta.end - free) * pageBytes;
  } finally {
    file.close();
  }
}

function bytesOf(path: string): number {
  return statSync(path).blocks * 512;
}

/**
 * Checks before every start whether the store is whole, by reading the file: all pages of all
 * trees, the order of their rows, every value's checksum, and each crawl's seen URLs against its
 * record. LMDB can safely open a store that passes.
 *
 * A child process that walks the store with LMDB, a crash being the verdict, cannot take its place.
 * Such a walk never reads the list of free pages, so it passes a page that is both free and in use,
 * which the next commit overwrites. It reads no header that it does not need, so it passes a page
 * with another number, of a later transaction or with wrong bounds, a large value with a wrong
 * number of pages, a table with a wrong depth, a lost older meta page, and a file that lacks its
 * last page. It also takes 2.3 times the CPU time. And repair reads the pages itself in any case.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { masterCall } from '../../shared/calls.ts';
import { ConfigError, messageOf } from '../../shared/errors.ts';
import { shellWord } from '../machine/shell-word.ts';
import { crawlOfRow, formatKey, formatVersion } from '../store/records.ts';
import { isTable, type Table } from '../store/store.ts';
import { hasSum, isSound, sumBytes, type Take } from '../store/sums.ts';
import { otherFormat } from '../store/upgrade.ts';
import { Leaves } from './leaves.ts';
import {
  current,
  freePages,
  type Meta,
  pageBytes,
  StoreFile,
  type Tree,
  type Walk,
} from './pages.ts';
import { SeenCheck, type SummedCrawl } from './seen-check.ts';
import { isMarkedWhole } from './whole-mark.ts';

/** A commit writes one in microseconds, and the next waits for the disk. */
const metaTries = 1_000;
/** Of a small table: 16 MiB. */
const smallPages = 4_096;

/** Called before a store is opened. `outFolder`: the folder of the results, which repair reads.
 *  Returns whether the store was read: a large one that is as an orderly end has left it is not,
 *  unless its rows are to be written with new checksums (`isRewritten`).
 *  @throws ConfigError it is damaged */
export function refuseDamagedStore(path: string, outFolder: string, isRewritten = false): boolean {
  if (!isRewritten && isMarkedWhole(path)) return false;
  const damage = checkStore(path);
  if (damage === undefined) return true;
  throw damagedStore(path, outFolder, damage);
}

/** The same for one of which the rest is read later: reads its small tables, which a start needs
 *  most, the roots of the others, and the list of free pages. @throws ConfigError it is damaged */
export function refuseDamagedHead(path: string, outFolder: string): void {
  const damage = damageOf(path, (file) => checkHead(file, metaOf(file)));
  if (damage !== undefined) throw damagedStore(path, outFolder, damage);
}

/** Advice to the operator of a damaged store. */
export function damagedStore(path: string, outFolder: string, damage: string): ConfigError {
  const folders = `--data ${shellWord(dirname(dirname(path)))} --out ${shellWord(outFolder)}`;
  return new ConfigError(
    `the store ${path} is damaged (${damage}); save the readable part with: ` +
      `${masterCall} repair ${folders}`,
  );
}

/** Returns the damage of the store file at `path`, in a few words; undefined: none, or no file.
 *  @throws ConfigError it is of a newer version, or the disk cannot be read */
export function checkStore(path: string): string | undefined {
  return existsSync(path) ? damageOf(path, (file) => check(file, metaOf(file))) : undefined;
}

/** The same for a store that is written meanwhile, as it was at `meta`: its master holds a snapshot
 *  of that moment, or from before, so that no page that was in use is written over. */
export function checkWhileWritten(path: string, meta: Meta): string | undefined {
  return damageOf(path, (file) => check(file, meta));
}

/** Returns the newest meta page of a store that may be written meanwhile. @throws ConfigError */
export function newestMeta(path: string): Meta {
  let meta: Meta | undefined;
  const damage = damageOf(path, (file) => {
    meta = stableMeta(file);
  });
  if (meta === undefined) throw new ConfigError(`cannot read the store ${path}: ${damage}`);
  return meta;
}

function damageOf(path: string, look: (file: StoreFile) => void): string | undefined {
  let file: StoreFile | undefined;
  try {
    file = new StoreFile(path);
    look(file);
    return undefined;
  } catch (error) {
    if (error instanceof Damage) return messageOf(error);
    if (error instanceof RangeError && !isOutOfMemory(error)) return messageOf(error);
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new ConfigError(
      `cannot read the store ${path}: ${messageOf(error)}; repair the disk, or put a backup in its place`,
      error,
    );
  } finally {
    file?.close();
  }
}

class Damage extends Error {}

function isOutOfMemory({ message }: RangeError): boolean {
  return /allocation failed/i.test(message);
}

const onDamage = (what: string): never => {
  throw new Damage(what);
};

function check(file: StoreFile, meta: Meta): void {
  const used = new Uint8Array(meta.end);
  const read = (tree: Tree, take: Take, isNumeric = false) =>
    file.read({ tree, meta, used, take, onDamage, isNumeric });
  const trees = file.tables({ meta, used, onDamage });
  const tableOf = (name: Table, take?: (key: Buffer, value: Buffer) => void) => {
    const tree = trees.get(name);
    trees.delete(name);
    if (tree !== undefined) read(tree, summed(name, take));
  };
  let format = formatVersion;
  tableOf('meta', (key, value) => {
    if (key.equals(formatKey)) format = value[0] ?? formatVersion;
  });
  // This version does not know what is whole in another format.
  if (format > formatVersion) throw otherFormat(format, formatVersion);
  const crawls: SummedCrawl[] = [];
  tableOf('crawls', (key, value) => crawls.push(summedCrawl(key, value)));
  // The order of their rows says something: they are read last, from the kernel's cache.
  const isOrdered = (name: string) => name === 'runs' || name === 'recent' || name === 'seen';
  const leaves = new Leaves<Walk>(meta.end);
  for (const [name, tree] of trees) {
    if (isOrdered(name)) continue;
    trees.delete(name);
    // One of another version is reported by the check of the format.
    const isSummed = isTable(name);
    const take = isSummed ? summed(name) : () => {};
    file.readBranches({ tree, meta, used, take, onDamage, isSummed }, leaves);
  }
  file.sweep(meta, leaves);
  const seen = new SeenCheck(crawls, format, onDamage);
  tableOf('runs', (key, value) => seen.addRun(key, value));
  seen.endRuns();
  tableOf('recent', (key, value) => seen.addJournal(key, value));
  const old = trees.get('seen');
  if (old !== undefined) {
    read(old, (keys, at, bytes) => seen.addKey(keys.subarray(at, at + bytes)));
  }
  seen.end();
  read(meta.free, freeTaker(used, meta), true);
}

function checkHead(file: StoreFile, meta: Meta): void {
  const used = new Uint8Array(meta.end);
  for (const [name, tree] of file.tables({ meta, used, onDamage })) {
    if (!isTable(name) || !hasSum(name) || tree.pages > smallPages) continue;
    file.read({ tree, meta, used, take: summed(name), onDamage });
  }
  file.read({
    tree: meta.free,
    meta,
    used,
    take: freeTaker(used, meta),
    onDamage,
    isNumeric: true,
  });
}

/** @throws Damage */
function metaOf(file: StoreFile): Meta {
  if (file.bytes === 0) throw new Damage('it is empty');
  const [a, b] = file.metas();
  if (a === undefined && b === undefined) throw new Damage('it is not a store of this program');
  if (a === undefined || b === undefined) throw new Damage('a meta page is damaged');
  const meta = current(a, b);
  const other = meta === a ? b : a;
  // One transaction apart; or a copy, whose first page describes an empty store.
  const isPair = Math.abs(a.transaction - b.transaction) <= 1;
  const isCopy = a.transaction === 0 && a.main.root === undefined && b.transaction % 2 === 1;
  if (!isPair && !(isCopy && meta === b)) throw new Damage('a meta page is damaged');
  if (meta.main.root === undefined && other.main.root !== undefined) {
    throw new Damage('a meta page is damaged');
  }
  if (!(meta.end * pageBytes <= file.bytes)) {
    throw new Damage(`it has ${file.bytes} bytes instead of ${meta.end * pageBytes}`);
  }
  return meta;
}

/** Returns the newest meta page, which is not the one that a commit writes at this moment.
 *  @throws Damage */
function stableMeta(file: StoreFile): Meta {
  const newest = () => {
    const [a, b] = file.metas();
    return a && b && current(a, b);
  };
  for (let tries = 0; tries < metaTries; tries++) {
    const meta = newest();
    if (meta !== undefined && isDeepStrictEqual(meta, newest())) return meta;
  }
  throw new Damage('a meta page is damaged');
}

/** Verifies the checksum of each row; `take` gets its key until the next row, and a copy of its
 *  value. */
function summed(table: Table, take?: (key: Buffer, value: Buffer) => void): Take {
  return (keys, keyAt, keyBytes, values, valueAt, valueBytes) => {
    if (!isSound(keys, keyAt, keyBytes, values, valueAt, valueBytes)) {
      onDamage(`a row of ${table} has changed`);
    }
    take?.(
      keys.subarray(keyAt, keyAt + keyBytes),
      Buffer.from(values.subarray(valueAt, valueAt + valueBytes - sumBytes)),
    );
  };
}

/** No page may be free and used. */
function freeTaker(used: Uint8Array, { end }: Meta): Take {
  return (_keys, _keyAt, _keyBytes, values, valueAt, valueBytes) => {
    const pages = freePages(values.subarray(valueAt, valueAt + valueBytes));
    if (pages === undefined) onDamage('the list of free pages is invalid');
    for (const page of pages ?? []) {
      if (!(page >= 2 && page < end) || used[page] !== 0)
        onDamage(`page ${page} is both free and in use`);
      used[page] = 1;
    }
  };
}

function summedCrawl(key: Buffer, value: Buffer): SummedCrawl {
  const { id, name, state, seenSum, counters } =
    crawlOfRow(key, value) ?? onDamage('a row of crawls is of another table');
  return { id, name, state, seenSum, counters: { seen: counters.seen } };
}

/**
 * Reads the file of an LMDB environment page by page, with code of our own that trusts nothing: a
 * damaged page would crash native code and so the process. Used by the check before the start, by
 * repair, and to read a backup.
 *
 *     page 0, 1   meta: the roots of two trees, of the last transaction and the one before
 *     main tree   table name -> root of the table
 *     free tree   transaction -> pages that it freed
 *
 * Source: liblmdb/mdb.c of lmdb-js 3.5 (MDB_meta, MDB_page, MDB_node, mdb_pick_meta).
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import type { Take } from '../store/sums.ts';
import { LeafCheck } from './leaf-check.ts';
import type { Leaves } from './leaves.ts';

/** A tree as its parent describes it; `root` is undefined if it is empty. */
export type Tree = {
  /** Other orders of keys, or several values of one: no table has any. */
  readonly flags: number;
  readonly depth: number;
  /** Of the tree and of its large values. */
  readonly pages: number;
  readonly entries: number;
  readonly root: number | undefined;
};

export type Meta = {
  readonly transaction: number;
  /** All pages are below this one. */
  readonly end: number;
  readonly free: Tree;
  readonly main: Tree;
};

type Reading = {
  readonly tree: Tree;
  readonly meta: Meta;
  /** Pages read so far; a page read twice is damage. */
  readonly used: Uint8Array;
  readonly take: Take;
  /** Called for a part that cannot be read. It may throw; otherwise the part is left out. */
  readonly onDamage: (what: string) => void;
  /** Nothing but the checksum of its rows is taken. */
  readonly isSummed?: boolean;
  /** Keys are numbers of the machine: their order is not that of their bytes. */
  readonly isNumeric?: boolean;
};

export const pageBytes = 4096;
const headBytes = 24;
const magic = 0xbeefc0de;
/** Version of the data: 2 for the LMDB of lmdb-js 3. */
const dataVersion = 2;
const metaFlags = 0x4008;
/** Flag of a store from before commits stopped overlapping. */
const overlappingFlag = 0x1000;
const branchFlag = 1;
const leafFlag = 2;
const overflowFlag = 4;
/** Flags that the writer leaves in the header of some whole pages. */
const looseFlags = 0xc000;
const bigNode = 1;
const treeNode = 2;
const depthMax = 32;
/** Of a large value, as far as `valuePagesOf` follows it. */
const valuePagesMax = 16;
const chunkBytes = 1 << 20;

export class StoreFile {
  readonly bytes: number;
  readonly #file: number;
  /** One page for each level of a tree. */
  readonly #levels: Buffer[] = [];

  /** @throws Error of the file system */
  constructor(path: string) {
    this.#file = openSync(path, 'r');
    this.bytes = fstatSync(this.#file).size;
  }

  /** Returns the two meta pages; undefined for an invalid one. */
  metas(): readonly [Meta | undefined, Meta | undefined] {
    return [this.#meta(0), this.#meta(1)];
  }

  /** Returns the tree of each table. */
  tables({ meta, used, onDamage }: Pick<Reading, 'meta' | 'used' | 'onDamage'>): Map<string, Tree> {
    const trees = new Map<string, Tree>();
    const add = (name: string, tree: Tree) => {
      // LMDB would look for rows, and put them, where they are not. A repair reads them as ever.
      if (tree.flags !== 0) onDamage('a table has impossible flags');
      trees.set(name, tree);
    };
    if (meta.main.flags !== 0) onDamage('a table has impossible flags');
    this.read({
      tree: meta.main,
      meta,
      used,
      onDamage,
      take: (keys, keyAt, keyBytes, values, valueAt, valueBytes) => {
        const name = tableName(keys.subarray(keyAt, keyAt + keyBytes));
        if (valueBytes !== treeBytes) onDamage('a table has no root');
        else add(name, treeAt(values, valueAt));
      },
    });
    return trees;
  }

  /** Reads the rows of a tree in the order of their keys. */
  read(reading: Reading): void {
    endWalk(this.#begin(reading, undefined));
  }

  /** Reads the branches of a tree, and notes its leaves: `sweep` reads those. */
  readBranches(reading: Reading, leaves: Leaves<Walk>): void {
    this.#begin(reading, leaves);
  }

  /** Reads the whole file in its order, and of it the leaves that were noted: a tree is scattered
   *  over it, and a call for each page takes longer than its check. The rows of a leaf come in
   *  order, the leaves do not. */
  sweep({ end }: Meta, leaves: Leaves<Walk>): void {
    const check = new LeafCheck(chunkBytes);
    const chunk = check.bytes;
    for (let first = 0; first < end; first += chunkBytes / pageBytes) {
      const bytes = this.#chunk(chunk, first * pageBytes);
      for (let at = 0; at + pageBytes <= bytes; at += pageBytes) {
        const number = first + at / pageBytes;
        const leaf = leaves.at(number);
        if (leaf < 0) continue;
        const page = chunk.subarray(at, at + pageBytes);
        const walk = leaves.treeOf(leaf);
        const what = wrongWith(page, number, leafFlag, walk.meta);
        if (what !== undefined) walk.onDamage(`page ${number}: ${what}`);
        else this.#sweepLeaf(leaves, leaf, page, walk.isSummed === true ? check.rows(at) : -1);
      }
    }
    for (const walk of leaves.trees) endWalk(walk);
  }

  /** `sound`: its rows, if nothing is wrong with them; -1: that is to be found out. */
  #sweepLeaf(leaves: Leaves<Walk>, leaf: number, page: Buffer, sound: number): void {
    const walk = leaves.treeOf(leaf);
    const count = page.readUInt16LE(20) >> 1;
    walk.rows += Math.max(0, sound);
    walk.lastBytes = -1;
    walk.low = leaves.low(leaf);
    if (sound < 0) this.#leaf(walk, page, count);
    if (count === 0) return;
    const [first, last] = [nodeAt(page, 0), nodeAt(page, count - 1)];
    const high = leaves.high(leaf);
    const isInOrder =
      isAtLeast(page, first + 8, page.readUInt16LE(first + 6), walk.low) &&
      (high === undefined ||
        compare(page, last + 8, page.readUInt16LE(last + 6), high, 0, high.length) < 0);
    if (!isInOrder) walk.onDamage('rows are out of order');
  }

  /** Returns how many bytes there are. */
  #chunk(chunk: Buffer, at: number): number {
    let bytes = 0;
    while (bytes < chunk.length) {
      const count = readSync(this.#file, chunk, bytes, chunk.length - bytes, at + bytes);
      if (count === 0) break;
      bytes += count;
    }
    return bytes;
  }

  #begin(reading: Reading, leaves: Leaves<Walk> | undefined): Walk {
    const { tree, onDamage } = reading;
    const start = { rows: 0, last: Buffer.alloc(512), lastBytes: -1, low: undefined, leaves };
    const walk: Walk = { ...reading, ...start };
    leaves?.begin(walk);
    if (tree.root !== undefined) this.#walk(walk, tree.root, tree.depth);
    else if (tree.entries !== 0) onDamage('a table has lost its root');
    return walk;
  }

  close(): void {
    closeSync(this.#file);
  }

  #meta(number: number): Meta | undefined {
    const page = this.#page(number, 0);
    if (page === undefined || page.readUInt16LE(18) !== 8) return undefined;
    if (page.readUInt32LE(24) !== magic || page.readUInt32LE(28) !== dataVersion) return undefined;
    const flags = page.readUInt16LE(52);
    if (page.readUInt32LE(48) !== pageBytes || (flags & ~overlappingFlag) !== metaFlags) {
      return undefined;
    }
    return {
      free: treeAt(page, 48),
      main: treeAt(page, 96),
      end: numberAt(page, 144) + 1,
      transaction: numberAt(page, 152),
    };
  }

  #walk(walk: Walk, number: number, depth: number): void {
    const isLater = depth === 1 && walk.leaves !== undefined;
    const page = isLater ? undefined : this.#page(number, depth);
    const flag = depth === 1 ? leafFlag : branchFlag;
    const what =
      page === undefined && !isLater
        ? 'it is not in the file'
        : (unusable(number, walk) ?? (page && wrongWith(page, number, flag, walk.meta)));
    if (what !== undefined) {
      walk.onDamage(`page ${number}: ${what}`);
      return;
    }
    walk.used[number] = 1;
    if (page === undefined) {
      walk.leaves?.add(number, walk.low);
      return;
    }
    const count = page.readUInt16LE(20) >> 1;
    if (depth > 1) this.#branch(walk, page, count, depth);
    else this.#leaf(walk, page, count);
  }

  #branch(walk: Walk, page: Buffer, count: number, depth: number): void {
    for (let i = 0; i < count; i++) {
      const at = nodeAt(page, i);
      const child = page.readUIntLE(at, 6);
      const keyBytes = page.readUInt16LE(at + 6);
      // The first key of a branch has no meaning: all smaller keys are there.
      if (i > 0) {
        if (at + 8 + keyBytes > pageBytes) {
          walk.onDamage('a key is cut');
          return;
        }
        const key = Buffer.from(page.subarray(at + 8, at + 8 + keyBytes));
        if (!isAfter(walk, key, 0, keyBytes)) walk.onDamage('a branch is out of order');
        walk.low = key;
      }
      this.#walk(walk, child, depth - 1);
    }
  }

  #leaf(walk: Walk, page: Buffer, count: number): void {
    let [lastAt, lastBytes] = [0, -1];
    for (let i = 0; i < count; i++) {
      const at = nodeAt(page, i);
      const bytes = page.readUInt32LE(at);
      const flags = page.readUInt16LE(at + 4);
      const keyBytes = page.readUInt16LE(at + 6);
      const keyAt = at + 8;
      const valueAt = keyAt + keyBytes;
      const isBig = flags === bigNode;
      const isSound = keyBytes <= 511 && (flags === 0 || isBig || flags === treeNode);
      if (!isSound || valueAt + (isBig ? headBytes : bytes) > pageBytes) {
        walk.onDamage('a row is cut');
        continue;
      }
      const isInOrder =
        walk.isNumeric === true ||
        (lastBytes < 0
          ? isAfter(walk, page, keyAt, keyBytes) && isAtLeast(page, keyAt, keyBytes, walk.low)
          : compare(page, keyAt, keyBytes, page, lastAt, lastBytes) > 0);
      if (!isInOrder) {
        walk.onDamage('rows are out of order');
        continue;
      }
      [lastAt, lastBytes] = [keyAt, keyBytes];
      walk.rows++;
      if (!isBig) walk.take(page, keyAt, keyBytes, page, valueAt, bytes);
      else {
        // LMDB reads all eight bytes. A repair finds the value nevertheless: its checksum decides.
        if (page.readUInt16LE(valueAt + 6) !== 0) walk.onDamage('a row names an impossible page');
        const value = this.#overflow(walk, page.readUIntLE(valueAt, 6), bytes);
        if (value !== undefined) walk.take(page, keyAt, keyBytes, value, 0, bytes);
      }
    }
    if (lastBytes < 0) return;
    page.copy(walk.last, 0, lastAt, lastAt + lastBytes);
    walk.lastBytes = lastBytes;
    walk.low = undefined;
  }

  /** Returns a value that has pages of its own. It keeps those that it had if the transaction that
   *  made it made it smaller (`mdb_cursor_put`: "we don't bother to try shrinking the page"). */
  #overflow(walk: Walk, number: number, bytes: number): Buffer | undefined {
    const count = Math.ceil((headBytes + bytes) / pageBytes);
    const end = Math.min(walk.meta.end, Math.floor(this.bytes / pageBytes));
    const isThere = number >= 2 && number + count <= end;
    const whole = Buffer.alloc(isThere ? count * pageBytes : 0);
    if (isThere) readSync(this.#file, whole, 0, whole.length, number * pageBytes);
    const pages = isThere ? whole.readUInt32LE(20) : 0;
    const isSound =
      isThere &&
      numberAt(whole, 0) === number &&
      (whole.readUInt16LE(18) & ~looseFlags) === overflowFlag &&
      pages >= count &&
      number + pages <= end &&
      walk.used.subarray(number, number + pages).every((isUsed) => isUsed === 0);
    if (!isSound) {
      walk.onDamage(`page ${number}: it is not a value of ${bytes} bytes`);
      return undefined;
    }
    walk.used.fill(1, number, number + pages);
    return whole.subarray(headBytes, headBytes + bytes);
  }

  /** Returns a page, valid until the next one of this level is read; undefined beyond the end. */
  #page(number: number, level: number): Buffer | undefined {
    if (level > depthMax || !((number + 1) * pageBytes <= this.bytes)) return undefined;
    this.#levels[level] ??= Buffer.alloc(pageBytes);
    const page = this.#levels[level];
    readSync(this.#file, page, 0, pageBytes, number * pageBytes);
    return page;
  }
}

export type Walk = Reading & {
  /** Where its leaves are noted; undefined: they are read at once. */
  readonly leaves: Leaves<Walk> | undefined;
  rows: number;
  /** The last key read; -1 bytes before the first. */
  last: Buffer;
  lastBytes: number;
  /** The next key is this one or a later one. */
  low: Buffer | undefined;
};

/** Returns the meta page that LMDB will use: the newer one, which is written when its pages are on
 *  the disk. */
export function current(a: Meta, b: Meta): Meta {
  return a.transaction >= b.transaction ? a : b;
}

/** Returns the tree that a row of the main tree describes. */
function treeAt(bytes: Buffer, at: number): Tree {
  const root = bytes.readBigUInt64LE(at + 40);
  return {
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    pages: numberAt(bytes, at + 8) + numberAt(bytes, at + 16) + numberAt(bytes, at + 24),
    entries: numberAt(bytes, at + 32),
    root: root === 0xffffffffffffffffn ? undefined : numberAt(bytes, at + 40),
  };
}

export const treeBytes = 48;

/** Returns the name of a table from a row of the main tree, where it ends with a zero. */
export function tableName(key: Buffer): string {
  return key.toString('latin1', 0, key.length - 1);
}

/** Returns the pages in a row of the free tree: a count, then page numbers; a negative number is
 *  the count of pages that follow the next number. Undefined: invalid. */
export function freePages(value: Buffer): number[] | undefined {
  const count = value.length >= 8 ? numberAt(value, 0) : Number.NaN;
  if (!(8 + count * 8 <= value.length)) return undefined;
  const pages: number[] = [];
  for (let i = 1; i <= count; i++) {
    const entry = Number(value.readBigInt64LE(i * 8));
    if (entry === 0) continue;
    if (entry > 0) pages.push(entry);
    else {
      if (++i > count || -entry > 1e9) return undefined;
      const first = numberAt(value, i * 8);
      for (let page = first; page < first - entry; page++) pages.push(page);
    }
  }
  return pages;
}

/** Returns the children of a page of a tree; none, if it is no branch. */
export function childPagesOf(page: Buffer, number: number, meta: Meta): number[] {
  if (wrongWith(page, number, branchFlag, meta) !== undefined) return [];
  const count = page.readUInt16LE(20) >> 1;
  const children = Array.from({ length: count }, (_, i) => page.readUIntLE(nodeAt(page, i), 6));
  return children.filter((child) => isUsable(child, meta));
}

/** Returns the pages of the large values of a leaf, by their keys; none, if it is no leaf. */
export function valuePagesOf(
  page: Buffer,
  number: number,
  meta: Meta,
  isWanted: (key: Buffer) => boolean,
): number[] {
  if (wrongWith(page, number, leafFlag, meta) !== undefined) return [];
  const found: number[] = [];
  for (let i = 0; i < page.readUInt16LE(20) >> 1; i++) {
    const at = nodeAt(page, i);
    const valueAt = at + 8 + page.readUInt16LE(at + 6);
    const isBig = page.readUInt16LE(at + 4) === bigNode && valueAt + 6 <= pageBytes;
    if (!isBig || !isWanted(page.subarray(at + 8, valueAt))) continue;
    const first = page.readUIntLE(valueAt, 6);
    const count = Math.ceil((headBytes + page.readUInt32LE(at)) / pageBytes);
    for (let one = 0; one < Math.min(count, valuePagesMax); one++) found.push(first + one);
  }
  return found.filter((one) => isUsable(one, meta));
}

function endWalk({ tree, rows, onDamage }: Walk): void {
  if (rows !== tree.entries && tree.root !== undefined) {
    onDamage(`a table has ${rows} rows instead of ${tree.entries}`);
  }
}

function unusable(number: number, { meta, used }: Walk): string | undefined {
  if (!isUsable(number, meta)) return 'it is out of bounds';
  return used[number] === 1 ? 'it is used twice' : undefined;
}

function isUsable(number: number, { end }: Meta): boolean {
  return number >= 2 && number < end;
}

function wrongWith(page: Buffer, number: number, flag: number, meta: Meta): string | undefined {
  if (numberAt(page, 0) !== number) return 'it has the number of another page';
  if (numberAt(page, 8) > meta.transaction) return 'it is of a later transaction';
  if ((page.readUInt16LE(18) & ~looseFlags) !== flag) return 'it is of another kind';
  const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)];
  const isSound = lower % 2 === 0 && lower > 0 && lower <= upper && upper <= pageBytes - headBytes;
  if (!isSound) return 'its bounds are invalid';
  for (let i = 0; i < lower >> 1; i++) {
    const at = page.readUInt16LE(headBytes + i * 2);
    if (at < upper || at + headBytes + 8 > pageBytes) return 'a row lies outside';
  }
  return undefined;
}

function nodeAt(page: Buffer, i: number): number {
  return headBytes + page.readUInt16LE(headBytes + i * 2);
}

function isAfter({ last, lastBytes, isNumeric }: Walk, key: Buffer, at: number, bytes: number) {
  return isNumeric === true || lastBytes < 0 || compare(key, at, bytes, last, 0, lastBytes) > 0;
}

function isAtLeast(key: Buffer, at: number, bytes: number, low: Buffer | undefined): boolean {
  return low === undefined || compare(key, at, bytes, low, 0, low.length) >= 0;
}

function compare(
  a: Buffer,
  aAt: number,
  aBytes: number,
  b: Buffer,
  bAt: number,
  bBytes: number,
): number {
  const length = Math.min(aBytes, bBytes);
  for (let i = 0; i < length; i++) {
    const difference = (a[aAt + i] ?? 0) - (b[bAt + i] ?? 0);
    if (difference !== 0) return difference;
  }
  return aBytes - bBytes;
}

/** Returns NaN for an impossible number. */
function numberAt(bytes: Buffer, at: number): number {
  return bytes.readUInt16LE(at + 6) === 0 ? bytes.readUIntLE(at, 6) : Number.NaN;
}

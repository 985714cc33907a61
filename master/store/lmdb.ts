/**
 * The embedded store: LMDB, one file, memory-mapped reads, writes on a thread of its own.
 *
 * - All changes of a commit are one batch, which lmdb-js does not divide. Commits that wait for the
 *   one before become one batch, too: a wait for the disk costs more than what is in them.
 * - A commit is on the disk before it is visible, and before the next one begins. lmdb-js can
 *   overlap these, but then two meta pages may refer to pages that never reached the disk: a
 *   failing disk, or a power cut, leaves a damaged store, and more than two at once lose one.
 * - Random keys cost a page each, so the keys of `seen` are sorted before they are put.
 * - Values carry a checksum, which is verified before the store is opened: a damaged page would
 *   crash native code and so the process.
 * - Pages are written by pwrite, not through the map, without read-ahead: a write into a map
 *   dirties the whole folio of the page cache, up to 2 MiB for each page of 4 KiB. A full disk is
 *   then an error, not a SIGBUS, and a stray write of native code cannot reach the file.
 */
import { chownSync, closeSync, existsSync, openSync, rmSync, statSync } from 'node:fs';
import { stat, utimes } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Database, RootDatabase, RootDatabaseOptionsWithPath, Transaction } from 'lmdb';
import { ConfigError, codeOf, messageOf, StoreError } from '../../shared/errors.ts';
import { freeBytesOf, refusalText } from '../machine/disk-room.ts';
import { makeFolder } from '../machine/make-folder.ts';
import { ownTurn } from '../machine/own-turn.ts';
import { isSameFile } from '../machine/same-file.ts';
import { type Chunk, ChunkPool, PackedChanges } from './packed-changes.ts';
import {
  type Change,
  type Peeked,
  type Range,
  type ReadableStore,
  type Row,
  type Snapshot,
  type Store,
  type Table,
  tables,
} from './store.ts';
import { hasSum, sumBytes } from './sums.ts';

/** With less free space than this a failed write means a full disk, not a broken one. */
const fullBytes = 1 << 20;
/** Changes of commits that become one: to hand them to LMDB takes 2 us each. */
const togetherMax = 16_384;
/** So long a file system is taken to be writable after it was. */
const writableMs = 1;
const diskFull = 'no space left on device';
/** Of a transaction: on the disk when the call returns; others inside it join it. Source: lmdb-js,
 *  `TransactionFlags`. */
const isWaited = 2;

/** Opens (or creates) the store under `folder`, which must be undamaged: see `refuseDamagedStore`.
 *  Loaded on demand, so that no other part of the master needs native code.
 *  @throws ConfigError when the folder cannot be used. */
export async function openLmdbStore(folder: string): Promise<NativeStore> {
  const path = storeFile(folder);
  try {
    makeFolder(folder);
    makeLock(path);
    const lmdb = await load();
    muteFaults();
    const root = lmdb.open(optionsOf(path));
    return new LmdbStore(root as RootDatabase<Buffer, Buffer>, path);
  } catch (error) {
    throw new ConfigError(`cannot open the store ${path}: ${refusalText(error)}`, error);
  }
}

/** Opens the store under `folder` to be read: nothing is made, written or upgraded. It must be
 *  there and undamaged. A table that its version did not have is empty. @throws ConfigError when it
 *  cannot be opened. */
export async function openStoppedStore(folder: string): Promise<ReadableStore> {
  const path = storeFile(folder);
  try {
    const lmdb = await load();
    const isLocked = existsSync(lockFile(path));
    const root = lmdb.open({ ...optionsOf(path), readOnly: true });
    if (!isLocked) giveLock(path);
    return new LmdbStore(root as RootDatabase<Buffer, Buffer>, path, true);
  } catch (error) {
    throw new ConfigError(`cannot read the store ${path}: ${messageOf(error)}`, error);
  }
}

/** As CommonJS, which is one file: to find and link those of the module takes 10 ms more. */
function load(): Promise<typeof import('lmdb')> {
  const require = createRequire(import.meta.url);
  return new Promise((resolve) => resolve(require('lmdb')));
}

function optionsOf(path: string): RootDatabaseOptionsWithPath & { noReadAhead: boolean } {
  return {
    path,
    noSubdir: true,
    keyEncoding: 'binary',
    encoding: 'binary',
    maxDbs: tables.length + 1,
    noReadAhead: true,
    overlappingSync: false,
    // Its own promise is lost: a commit that fails would end the process as an unhandled error.
    eventTurnBatching: false,
    // Room in the address space, not on the disk: growing the map later stalls readers.
    mapSize: 1 << 30,
    noMemInit: true,
  };
}

export type NativeStore = Store & {
  /** @throws ConfigError (as rejection) its file was moved or replaced */
  assertInPlace(): Promise<void>;
  /** A consistent copy. @throws StoreError (as rejection) */
  backup(path: string): Promise<void>;
};

export function storeFile(folder: string): string {
  return join(folder, 'store.mdb');
}

/** Of LMDB's readers. */
function lockFile(path: string): string {
  return `${path}-lock`;
}

/** It describes the readers of a store, and none has it open. */
export function forgetLock(path: string): void {
  rmSync(lockFile(path), { force: true });
}

/** LMDB (lmdb-js 3.5.6) crashes if it cannot open or make this file.
 *  @throws Error EACCES, ENOSPC */
function makeLock(path: string): void {
  closeSync(openSync(lockFile(path), 'a+', 0o664));
}

/** To the user whose store it is: one who may read everything has made it. */
function giveLock(path: string): void {
  if (process.getuid?.() !== 0 || !existsSync(lockFile(path))) return;
  const { uid, gid } = statSync(path);
  chownSync(lockFile(path), uid, gid);
}

type Bytes = Database<Buffer, Buffer>;
/** The moment that is read; undefined: now. */
type At = { readonly transaction: Transaction } | undefined;

type FileId = { readonly dev: bigint; readonly ino: bigint };

/** `count`: of its changes. */
type Commit = { readonly parts: PackedChanges[]; count: number };

class LmdbStore implements NativeStore {
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #path: string;
  /** The file that its path has to name for as long as it is open. */
  readonly #file: FileId;
  /** Undefined: a store that is only read has no such table. */
  readonly #tables: ReadonlyMap<Table, Bytes | undefined>;
  readonly #chunks = new ChunkPool();
  #ended: Promise<void> = Promise.resolve();
  /** The last commit, while it has not begun. */
  #next: Commit | undefined;
  #writableAt = Number.NEGATIVE_INFINITY;
  /** Number of the last transaction in the file. */
  #last: number;

  constructor(root: RootDatabase<Buffer, Buffer>, path: string, isReadOnly = false) {
    this.#root = root;
    this.#path = path;
    this.#file = statSync(path, { bigint: true });
    const open = () =>
      new Map(
        tables.map((name) => [
          name,
          root.openDB<Buffer, Buffer>({ name, keyEncoding: 'binary', encoding: 'binary' }),
        ]),
      );
    // A new store gets its tables in one transaction, and so with one wait for the disk.
    this.#tables = isReadOnly ? open() : root.transactionSync(open, isWaited);
    this.#last = this.#lastInFile;
  }

  has(table: Table, key: Uint8Array): boolean {
    try {
      return this.#tables.get(table)?.doesExist(asBuffer(key)) ?? false;
    } catch (error) {
      throw this.#unreadable(error);
    }
  }

  get(table: Table, key: Uint8Array): Buffer | undefined {
    return this.#get(table, key, undefined);
  }

  /** lmdb-js copies a value into a buffer of its own; a second copy would cost more than the
   *  look-up. */
  peek(table: Table, key: Uint8Array): Peeked | undefined {
    try {
      const bytes = this.#tables.get(table)?.getBinaryFast(asBuffer(key));
      return bytes && { bytes, length: hasSum(table) ? bytes.length - sumBytes : bytes.length };
    } catch (error) {
      throw this.#unreadable(error);
    }
  }

  range(table: Table, range: Range): Row[] {
    return this.#range(table, range, undefined);
  }

  keys(table: Table, range: Range): Buffer[] {
    return this.#keys(table, range, undefined);
  }

  snapshot(): Snapshot {
    const transaction = this.#root.useReadTransaction();
    const at = { transaction };
    let isOpen = true;
    return {
      has: (table, key) => this.#get(table, key, at) !== undefined,
      get: (table, key) => this.#get(table, key, at),
      peek: (table, key) => {
        const bytes = this.#get(table, key, at);
        return bytes && { bytes, length: bytes.length };
      },
      range: (table, range) => this.#range(table, range, at),
      keys: (table, range) => this.#keys(table, range, at),
      close: () => {
        if (isOpen) transaction.done();
        isOpen = false;
      },
    };
  }

  #get(table: Table, key: Uint8Array, at: At): Buffer | undefined {
    try {
      const value = this.#tables.get(table)?.get(asBuffer(key), at);
      return value && hasSum(table) ? withoutSum(value) : value;
    } catch (error) {
      throw this.#unreadable(error);
    }
  }

  #range(table: Table, range: Range, at: At): Row[] {
    const rows: Row[] = [];
    const isSummed = hasSum(table);
    try {
      for (const { key, value } of this.#tables.get(table)?.getRange(rangeOf(range, at)) ?? []) {
        rows.push({ key, value: isSummed ? withoutSum(value) : value });
      }
    } catch (error) {
      throw this.#unreadable(error);
    }
    return rows;
  }

  #keys(table: Table, range: Range, at: At): Buffer[] {
    try {
      return [...this.#table(table).getKeys(rangeOf(range, at))];
    } catch (error) {
      throw this.#unreadable(error);
    }
  }

  commit(changes: Change[]): Promise<void> {
    if (changes.length === 0) return this.#ended;
    const packed = new PackedChanges(this.#chunks, changes);
    changes.length = 0;
    const next = this.#next;
    // While the disk has another commit, changes join the one that waits already.
    if (next !== undefined && next.count + packed.count <= togetherMax) {
      next.count += packed.count;
      next.parts.push(packed);
      return this.#ended;
    }
    const made = { parts: [packed], count: packed.count };
    this.#next = made;
    this.#ended = this.#commitAfter(this.#ended, made);
    return this.#ended;
  }

  /** Behind a commit that failed none begins. */
  async #commitAfter(before: Promise<void>, made: Commit): Promise<void> {
    await before;
    await ownTurn();
    if (this.#next === made) this.#next = undefined;
    await this.#commit(made.parts);
  }

  async #commit(changes: readonly PackedChanges[]): Promise<void> {
    try {
      // LMDB (lmdb-js 3.5.6) describes a refused write in 107 bytes of a buffer of 100, which may
      // abort the process: a disk that has become read-only must not get that far.
      if (performance.now() - this.#writableAt > writableMs) await this.#assertWritable();
      this.#assertUntouched();
      await this.#put(changes);
      this.#last = this.#lastInFile;
      await this.#assertWritable();
      // A read of this turn may have opened a snapshot from before; the next one must not use it.
      this.#root.resetReadTxn();
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      const cause = await causeOf(error);
      // LMDB reports EIO for a short write.
      const isFull = freeBytesOf(dirname(this.#path)) < fullBytes;
      const why = isFull ? diskFull : messageOf(cause);
      throw new StoreError(`cannot write the store ${this.#path}: ${why}`, cause, isFull);
    }
  }

  async backup(path: string): Promise<void> {
    try {
      // Not compacted: LMDB's writer aborts on the result of its compaction.
      await this.#root.backup(path, false);
    } catch (error) {
      throw new StoreError(`the store could not be copied: ${messageOf(error)}`, error);
    }
  }

  async close(): Promise<void> {
    await this.#root.close();
  }

  /** LMDB refuses all reads once a commit has failed. */
  #unreadable(error: unknown): StoreError {
    return new StoreError(`cannot read the store ${this.#path}: ${messageOf(error)}`, error);
  }

  /** LMDB goes on in a file that has lost its name: the next start would know nothing of it. */
  async assertInPlace(): Promise<void> {
    const there = await stat(this.#path, { bigint: true }).catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
      throw new ConfigError(
        `the store ${this.#path} was moved or removed while the master used it; all that was ` +
          'acknowledged is in it: put it back, and start again',
        error,
      );
    });
    if (isSameFile(there, this.#file)) return;
    throw new ConfigError(
      `another file has taken the place of the store ${this.#path} while the master used it; all ` +
        'that was acknowledged is in the one that was there: put it back, and start again',
    );
  }

  /** Another program that writes into the file, as `cp` does, leaves pages of two stores in it.
   *  Its output is whole until the next commit. @throws ConfigError */
  #assertUntouched(): void {
    if (this.#lastInFile === this.#last) return;
    throw new ConfigError(
      `another program has written into the store ${this.#path} while the master used it; put a ` +
        'backup in its place, or start again, which checks what it is now',
    );
  }

  /** LMDB reads it in the page cache, where the writes of all programs are. `getStats` of lmdb-js
   *  (3.5.6) has it, too, but opens a snapshot for it. */
  get #lastInFile(): number {
    const { env } = this.#root as unknown as { env: { info(): { lastTxnId: number } } };
    return env.info().lastTxnId;
  }

  /** After an error Linux makes a file system read-only, flushes nothing, and reports success
   *  (`ext4_sync_file`). So data is certain to be on the disk only if the file system can still be
   *  written to afterwards. @throws Error EROFS; ConfigError as `assertInPlace` */
  async #assertWritable(): Promise<void> {
    await this.assertInPlace();
    const now = new Date();
    await utimes(this.#path, now, now);
    this.#writableAt = performance.now();
  }

  /** Resolves when all are on the disk. */
  async #put(changes: readonly PackedChanges[]): Promise<void> {
    let thrown: unknown;
    const put = (table: Table, key: Buffer, value: Chunk | undefined) => {
      // The promise of the batch covers theirs.
      if (value === undefined) void this.#table(table).remove(key);
      else void this.#table(table).put(key, value);
    };
    const ended = this.#root.batch(() => {
      try {
        for (const packed of changes) packed.each(put);
      } catch (error) {
        // Not thrown here: the outcome of earlier changes would be lost.
        thrown = error;
      }
    });
    await ended;
    // After a failure lmdb-js may still read them.
    for (const packed of changes) packed.free();
    if (thrown !== undefined) throw thrown;
  }

  #table(name: Table): Bytes {
    const table = this.#tables.get(name);
    if (table === undefined) throw new StoreError(`no table ${name}`);
    return table;
  }
}

/** A range in the words of lmdb-js. */
function rangeOf({ from, to, after, limit }: Range, at: At) {
  return {
    start: asBuffer(from),
    end: asBuffer(to),
    ...(after === true && { exclusiveStart: true }),
    ...(limit !== undefined && { limit }),
    ...at,
  };
}

/** Why a commit failed. lmdb-js keeps that in a promise that is about to be rejected. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error && 'commitError' in error)) return error;
  return await Promise.resolve(error.commitError).catch((cause: unknown) => cause);
}

let isMuted = false;

/** lmdb-js logs a failed commit itself, with a stack; we report it once, so mute it. */
function muteFaults(): void {
  if (isMuted) return;
  isMuted = true;
  const print = console.error;
  console.error = (...said: readonly unknown[]) => {
    const [error] = said;
    const isFault = error instanceof Error && 'code' in error && typeof error.code === 'number';
    if (!isFault) print(...said);
  };
}

/** The checksum is not verified here: see `check.ts`. */
function withoutSum(value: Buffer): Buffer {
  return value.subarray(0, value.length - sumBytes);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * The filter of one crawl: it finds new fingerprints by four look-ups, the cheap ones first:
 *
 *     recent table   hit: known, no further look            (bounded, forgets)
 *     pending sets   hit: known, being committed            (exact)
 *     Bloom filter   miss: surely new                       (errs towards "maybe")
 *     store          exact                                  (one read)
 *
 * A filter of a crawl that is over *sleeps*: it has no memory, and is read from the disk again by
 * its next use.
 *
 *     asleep --first look-up--> awake --sleep()--> asleep
 *       +---------forget()--------+--------------> forgotten: nothing is saved or read again
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { commitKey, crawlKey, fingerprintKey, fingerprintKeyBytes } from '../../store/records.ts';
import { batches, type Change, type Row, type Rows } from '../../store/store.ts';
import { Bloom, bloomBytesFor } from './bloom.ts';
import { fingerprintBytes } from './fingerprint.ts';
import { PendingSet, type RecentTable } from './recent.ts';

/** Fingerprints since the last save before the Bloom filter is saved again. */
const unsavedMax = 1 << 20;
/** The same for a filter that goes to sleep. Fewer are read from the journal, which costs no file
 *  of the size of the Bloom filter. */
const sleepUnsavedMax = 1 << 16;
const digestBytes = 32;
/** Before the fingerprint in a key of `seen`. */
const crawlBytes = fingerprintKeyBytes - fingerprintBytes;
/** Rows read at once at the start: about as much memory of either table. */
const recentRows = 8;
const seenRows = 4096;
/** Keys of one commit at most: a number has room for their places beside four bytes. */
const placeMax = 2 ** 21;
/** The digest if no filter was saved. */
const noDigest = Buffer.alloc(digestBytes);

export class Filter {
  readonly #crawl: number;
  readonly #store: Rows;
  readonly #recent: RecentTable;
  readonly #path: string | undefined;
  #urlsExpected: number;
  readonly #bloomBytesLeft: (() => number) | undefined;
  readonly #seenCount: () => number;
  /** Undefined: asleep. */
  #bloom: Bloom | undefined;
  /** One for every commit under way, and the last one for the commit that is being gathered. */
  #pending: PendingSet[] = [];
  #free: PendingSet[] = [];
  #unsaved = 0;
  #saving: Promise<Buffer> | undefined;
  /** Digest of the saved filter that rows of `recent` were erased for. */
  #base: Buffer = noDigest;
  #isForgotten = false;

  /** It is asleep. `path`: file that keeps the Bloom filter across restarts; undefined: none. */
  constructor(options: {
    crawl: number;
    store: Rows;
    recent: RecentTable;
    urlsExpected: number;
    path: string | undefined;
    /** Returns the bytes by which its Bloom filter may still grow. */
    bloomBytesLeft?: () => number;
    /** Keys of this crawl in the store; with fewer in the Bloom filter, it is rebuilt. */
    seenCount: () => number;
  }) {
    this.#crawl = options.crawl;
    this.#store = options.store;
    this.#recent = options.recent;
    this.#path = options.path;
    this.#urlsExpected = options.urlsExpected;
    this.#bloomBytesLeft = options.bloomBytesLeft;
    this.#seenCount = options.seenCount;
  }

  get isAwake(): boolean {
    return this.#bloom !== undefined;
  }

  get bloomBytes(): number {
    return this.#bloom?.bytes ?? 0;
  }

  /** The same, with the expected keys; 0: it is asleep. */
  get bloomBytesExpected(): number {
    if (this.#bloom === undefined) return 0;
    return Math.max(this.#bloom.bytes, this.bloomBytesAwake);
  }

  /** Bytes that its Bloom filter takes when it wakes, if no more keys come than expected. */
  get bloomBytesAwake(): number {
    return this.#isForgotten ? 0 : bloomBytesFor(this.#urlsExpected);
  }

  /** Reads what is on the disk, if it is asleep. */
  wake(): Bloom {
    if (this.#bloom !== undefined) return this.#bloom;
    this.#pending = [new PendingSet()];
    this.#unsaved = 0;
    if (this.#isForgotten) {
      this.#bloom = new Bloom(0);
      return this.#bloom;
    }
    this.#base = this.#store.get('recent', commitKey(this.#crawl, 0)) ?? noDigest;
    this.#bloom = this.#load(this.#seenCount());
    return this.#bloom;
  }

  /** True: its next sleep would lose so many keys that it is to be saved before. */
  get wantsSaveToSleep(): boolean {
    return this.#bloom !== undefined && this.#unsaved >= sleepUnsavedMax;
  }

  /** Frees its memory. Nothing of it may be on the way to the disk. */
  sleep(): void {
    if (this.#saving !== undefined) return;
    this.#bloom = undefined;
    this.#pending = [];
    this.#free = [];
  }

  /** The crawl has ended permanently: frees its memory. Resolves when it will neither write a file
   *  nor return changes any more. */
  async forget(): Promise<void> {
    this.#isForgotten = true;
    this.#urlsExpected = 0;
    this.#bloom = undefined;
    this.#pending = [];
    this.#free = [];
    while (this.#saving !== undefined) await this.#saving.catch(() => {});
  }

  /** Returns whether the fingerprint was admitted before, or settled. */
  knows(words: Uint32Array, at: number): boolean {
    return this.#recent.has(words, at) || this.hasAdmitted(words, at);
  }

  /** Returns whether it was admitted before. */
  hasAdmitted(words: Uint32Array, at: number): boolean {
    const bloom = this.wake();
    for (const pending of this.#pending) if (pending.has(words, at)) return true;
    if (!bloom.maybeHas(words, at)) return false;
    if (!this.#store.has('seen', fingerprintKey(this.#crawl, words, at))) return false;
    this.#recent.add(words, at);
    return true;
  }

  /** Remembers a fingerprint that needs no further look-up though it is not admitted (out of
   *  scope). */
  settle(words: Uint32Array, at: number): void {
    this.#recent.add(words, at);
  }

  /** Forgets what was settled: the crawl takes more URLs now. */
  unsettle(): void {
    this.#recent.clear();
  }

  /** Counts it as known from now on; its key must be in the commit that is being gathered. */
  admit(words: Uint32Array, at: number): void {
    const bloom = this.wake();
    this.#pending.at(-1)?.add(words, at);
    bloom.add(words, at);
  }

  /** Ends the batch of a commit: fingerprints admitted since the last call stay pending until the
   *  returned function is called, when the commit is on the disk. */
  seal(): () => void {
    const sealed = this.#pending.at(-1);
    if (sealed === undefined) return () => {};
    this.#pending.push(this.#free.pop() ?? new PendingSet());
    return () => {
      this.#pending = this.#pending.filter((pending) => pending !== sealed);
      // What is new is what the next pages link to.
      sealed.moveTo(this.#recent);
      this.#free.push(sealed);
    };
  }

  /** Returns the changes that store these keys of `seen`, sorted so that keys on one page of the
   *  store are together. `commit` numbers the commit within the crawl. */
  changes(keys: Buffer[], commit: number): Change[] {
    if (keys.length === 0) return [];
    const fingerprints = Buffer.allocUnsafe(keys.length * fingerprintBytes);
    const changes: Change[] = [];
    for (const place of orderOf(keys)) {
      const key = keys[place % placeMax] ?? nothing;
      key.copy(fingerprints, changes.length * fingerprintBytes, crawlBytes);
      changes.push({ table: 'seen', key, value: nothing });
    }
    // The keys missing in the saved Bloom filter, in one row, to avoid a scan of `seen` at the
    // start.
    changes.push({ table: 'recent', key: commitKey(this.#crawl, commit), value: fingerprints });
    this.#unsaved += keys.length;
    return changes;
  }

  /** True: so many keys are new that a restart would read for long. */
  get wantsSave(): boolean {
    return this.#path !== undefined && this.#unsaved >= unsavedMax && this.#saving === undefined;
  }

  /** Saves the Bloom filter. Returns the changes that delete the rows that it replaces, those of
   *  commits up to `commit`, and store its digest instead: without this file, or one based on it,
   *  the rows would be missing. */
  async save(commit: number): Promise<Change[]> {
    while (this.#saving !== undefined) await this.#saving;
    if (this.#path === undefined || this.#bloom === undefined || this.#isForgotten) return [];
    const unsaved = this.#unsaved;
    this.#unsaved = 0;
    try {
      this.#saving = this.#write(this.#path, this.#bloom);
      this.#base = await this.#saving;
    } catch (error) {
      this.#unsaved += unsaved;
      throw error;
    } finally {
      this.#saving = undefined;
    }
    if (this.#isForgotten) return [];
    const rows = this.#store.range('recent', {
      from: commitKey(this.#crawl, 1),
      to: commitKey(this.#crawl, commit + 1),
    });
    return [
      ...rows.map(({ key }): Change => ({ table: 'recent', key, value: undefined })),
      { table: 'recent', key: commitKey(this.#crawl, 0), value: this.#base },
    ];
  }

  /** Writes the filters, the digest of the file it is based on, and its own digest, which it
   *  returns. */
  async #write(path: string, bloom: Bloom): Promise<Buffer> {
    const digest = createHash('sha256');
    const file = await open(`${path}.new`, 'w');
    let own: Buffer;
    try {
      for (const live of bloom.save()) {
        // A copy: bits set in the meantime must not make the digest wrong.
        const bytes = live.slice();
        digest.update(bytes);
        await writeWhole(file, bytes);
      }
      digest.update(this.#base);
      own = digest.digest();
      await writeWhole(file, Buffer.concat([this.#base, own]));
      await file.sync();
    } catch (error) {
      rmSync(`${path}.new`, { force: true }); // perhaps there was no room on the disk
      throw error;
    } finally {
      await file.close();
    }
    renameSync(`${path}.new`, path);
    const folder = openSync(dirname(path), 'r');
    fsyncSync(folder);
    closeSync(folder);
    return own;
  }

  #load(seenCount: number): Bloom {
    const saved = this.#restore();
    const bloom = saved ?? new Bloom(this.#urlsExpected, { bytesLeft: this.#bloomBytesLeft });
    const isComplete = saved !== undefined || this.#base.equals(noDigest);
    this.#addRows(bloom, 'recent', commitKey(this.#crawl, 1), ({ value }) => value);
    if (isComplete && bloom.count >= seenCount) return bloom;
    // The saved filter is gone, damaged or an old one. A filter that lacks a key would fetch its
    // page twice.
    this.#addRows(bloom, 'seen', crawlKey(this.#crawl), ({ key }) => key.subarray(crawlBytes));
    return bloom;
  }

  /** Reads the saved filter; undefined: there is none, or not the one that replaced the deleted
   *  rows, or it is empty: such a one does not know `urlsExpected`. */
  #restore(): Bloom | undefined {
    if (this.#path === undefined || !existsSync(this.#path)) return undefined;
    const file = openSync(this.#path, 'r');
    try {
      const digest = createHash('sha256');
      const saved = new Bloom(1, { bytesLeft: this.#bloomBytesLeft });
      saved.restore(Math.max(0, fstatSync(file).size - 2 * digestBytes), (into) => {
        readWhole(file, into);
        digest.update(into);
      });
      const base = Buffer.alloc(digestBytes);
      const own = Buffer.alloc(digestBytes);
      readWhole(file, base);
      readWhole(file, own);
      if (!digest.update(base).digest().equals(own)) return undefined;
      if (!own.equals(this.#base) && !base.equals(this.#base)) return undefined;
      return saved.count > 0 ? saved : undefined;
    } catch (error) {
      // A damaged filter is rebuilt from the store: see `#load`.
      if (error instanceof RangeError) return undefined;
      throw error;
    } finally {
      closeSync(file);
    }
  }

  #addRows(
    bloom: Bloom,
    table: 'recent' | 'seen',
    first: Buffer,
    fingerprintsOf: (row: Row) => Buffer,
  ): void {
    const all = { from: first, to: crawlKey(this.#crawl + 1) };
    const limit = table === 'recent' ? recentRows : seenRows;
    for (const rows of batches(this.#store, table, all, limit)) {
      for (const row of rows) this.#addAll(bloom, fingerprintsOf(row));
    }
  }

  #addAll(bloom: Bloom, fingerprints: Buffer): void {
    const words = new Uint32Array(new Uint8Array(fingerprints).buffer);
    for (let at = 0; at < words.length; at += 4) bloom.add(words, at);
    this.#unsaved += fingerprints.length / fingerprintBytes;
  }
}

/** Places in a list of keys, as the last bits of numbers, in the order of the first four bytes of
 *  the fingerprints: that is order enough, and numbers sort at a fraction of the cost of keys. */
function orderOf(keys: readonly Buffer[]): Float64Array {
  assert(keys.length <= placeMax, 'too many keys in one commit');
  const order = new Float64Array(keys.length);
  for (let i = 0; i < keys.length; i++) {
    order[i] = (keys[i]?.readUInt32BE(crawlBytes) ?? 0) * placeMax + i;
  }
  return order.sort();
}

async function writeWhole(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done);
    done += bytesWritten;
  }
}

function readWhole(file: number, into: Uint8Array): void {
  for (let done = 0; done < into.length; ) {
    const count = readSync(file, into, done, into.length - done, null);
    if (count === 0) throw new RangeError('the file ends early');
    done += count;
  }
}

const nothing = Buffer.alloc(0);

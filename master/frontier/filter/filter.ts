/**
 * The filter of one crawl: it finds new fingerprints by four look-ups, the cheap ones first:
 *
 *     recent table   hit: known, no further look            (bounded, forgets)
 *     pending sets   hit: known, being committed            (exact)
 *     Bloom filter   miss: surely new                       (errs towards "maybe")
 *     store          exact                                  (one read)
 */
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
import { batches, type Change, type Row, type Store } from '../../store/store.ts';
import { Bloom, bloomBytesFor } from './bloom.ts';
import { fingerprintBytes } from './fingerprint.ts';
import { PendingSet, type RecentTable } from './recent.ts';

/** Fingerprints since the last save before the Bloom filter is saved again. */
const unsavedMax = 1 << 20;
const digestBytes = 32;
/** Before the fingerprint in a key of `seen`. */
const crawlBytes = fingerprintKeyBytes - fingerprintBytes;
/** Rows read at once at the start: about as much memory of either table. */
const recentRows = 8;
const seenRows = 4096;
/** The digest if no filter was saved. */
const noDigest = Buffer.alloc(digestBytes);

export class Filter {
  readonly #crawl: number;
  readonly #store: Store;
  readonly #recent: RecentTable;
  readonly #path: string | undefined;
  #urlsExpected: number;
  readonly #bloomBytesLeft: (() => number) | undefined;
  #bloom: Bloom;
  /** One for every commit under way, and the last one for the commit that is being gathered. */
  #pending: PendingSet[] = [new PendingSet()];
  #free: PendingSet[] = [];
  #unsaved = 0;
  #saving: Promise<Buffer> | undefined;
  /** Digest of the saved filter that rows of `recent` were erased for. */
  #base: Buffer;

  /** `path`: file that keeps the Bloom filter across restarts; undefined: none. */
  constructor(options: {
    crawl: number;
    store: Store;
    recent: RecentTable;
    urlsExpected: number;
    path: string | undefined;
    /** Returns the bytes by which its Bloom filter may still grow. */
    bloomBytesLeft?: () => number;
    /** Keys of this crawl in the store; with fewer in the Bloom filter, it is rebuilt. */
    seenCount: number;
  }) {
    this.#crawl = options.crawl;
    this.#store = options.store;
    this.#recent = options.recent;
    this.#path = options.path;
    this.#urlsExpected = options.urlsExpected;
    this.#bloomBytesLeft = options.bloomBytesLeft;
    this.#bloom = new Bloom(options.urlsExpected, { bytesLeft: options.bloomBytesLeft });
    this.#base = this.#store.get('recent', commitKey(this.#crawl, 0)) ?? noDigest;
    this.#load(options.seenCount);
  }

  get bloomBytes(): number {
    return this.#bloom.bytes;
  }

  /** The same, with the expected keys. */
  get bloomBytesExpected(): number {
    return Math.max(this.#bloom.bytes, bloomBytesFor(this.#urlsExpected));
  }

  /** The crawl has ended permanently: frees its memory. */
  forget(): void {
    this.#urlsExpected = 0;
    this.#bloom = new Bloom(0);
  }

  /** Returns whether the fingerprint was admitted before, or settled. */
  knows(words: Uint32Array, at: number): boolean {
    return this.#recent.has(words, at) || this.hasAdmitted(words, at);
  }

  /** Returns whether it was admitted before. */
  hasAdmitted(words: Uint32Array, at: number): boolean {
    for (const pending of this.#pending) if (pending.has(words, at)) return true;
    if (!this.#bloom.maybeHas(words, at)) return false;
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
    this.#pending.at(-1)?.add(words, at);
    this.#bloom.add(words, at);
  }

  /** Ends the batch of a commit: fingerprints admitted since the last call stay pending until the
   *  returned function is called, when the commit is on the disk. */
  seal(): () => void {
    const sealed = this.#pending.at(-1);
    this.#pending.push(this.#free.pop() ?? new PendingSet());
    return () => {
      if (sealed === undefined) return;
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
    // Four random bytes order them well enough, at a fraction of the cost of a full comparison.
    keys.sort((a, b) => a.readUInt32BE(crawlBytes) - b.readUInt32BE(crawlBytes));
    const fingerprints = Buffer.allocUnsafe(keys.length * fingerprintBytes);
    for (const [i, key] of keys.entries()) key.copy(fingerprints, i * fingerprintBytes, crawlBytes);
    const changes: Change[] = keys.map((key) => ({ table: 'seen', key, value: nothing }));
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
    if (this.#path === undefined) return [];
    this.#unsaved = 0;
    try {
      this.#saving = this.#write(this.#path);
      this.#base = await this.#saving;
    } finally {
      this.#saving = undefined;
    }
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
  async #write(path: string): Promise<Buffer> {
    const digest = createHash('sha256');
    const file = await open(`${path}.new`, 'w');
    let own: Buffer;
    try {
      for (const live of this.#bloom.save()) {
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

  #load(seenCount: number): void {
    const isComplete = this.#restore() || this.#base.equals(noDigest);
    this.#addRows('recent', commitKey(this.#crawl, 1), ({ value }) => value);
    if (isComplete && this.#bloom.count >= seenCount) return;
    // The saved filter is gone, damaged or an old one. A filter that lacks a key would fetch its
    // page twice.
    this.#addRows('seen', crawlKey(this.#crawl), ({ key }) => key.subarray(crawlBytes));
  }

  /** Reads the saved filter; returns false if there is none, or not the one that replaced the
   *  deleted rows. */
  #restore(): boolean {
    if (this.#path === undefined || !existsSync(this.#path)) return false;
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
      if (!digest.update(base).digest().equals(own)) return false;
      if (!own.equals(this.#base) && !base.equals(this.#base)) return false;
      // An empty one does not know `urlsExpected`.
      if (saved.count > 0) this.#bloom = saved;
      return true;
    } catch (error) {
      // A damaged filter is rebuilt from the store: see `#load`.
      if (error instanceof RangeError) return false;
      throw error;
    } finally {
      closeSync(file);
    }
  }

  #addRows(table: 'recent' | 'seen', first: Buffer, fingerprintsOf: (row: Row) => Buffer): void {
    const all = { from: first, to: crawlKey(this.#crawl + 1) };
    const limit = table === 'recent' ? recentRows : seenRows;
    for (const rows of batches(this.#store, table, all, limit)) {
      for (const row of rows) this.#addAll(fingerprintsOf(row));
    }
  }

  #addAll(fingerprints: Buffer): void {
    const words = new Uint32Array(new Uint8Array(fingerprints).buffer);
    for (let at = 0; at < words.length; at += 4) this.#bloom.add(words, at);
    this.#unsaved += fingerprints.length / fingerprintBytes;
  }
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

/**
 * The filter of one crawl: which fingerprints are new. Four looks, the cheap ones first:
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
/** Stands for the digest of a saved filter where there was none. */
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

  /** `path`: where the Bloom filter is kept over a restart; undefined: nowhere. */
  constructor(options: {
    crawl: number;
    store: Store;
    recent: RecentTable;
    urlsExpected: number;
    path: string | undefined;
    /** What its Bloom filter may still grow by. */
    bloomBytesLeft?: () => number;
    /** Keys of this crawl in the store; with fewer in the Bloom filter, it is built anew. */
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

  /** The same, with what is expected to come. */
  get bloomBytesExpected(): number {
    return Math.max(this.#bloom.bytes, bloomBytesFor(this.#urlsExpected));
  }

  /** The crawl is over for good: no memory for it. */
  forget(): void {
    this.#urlsExpected = 0;
    this.#bloom = new Bloom(0);
  }

  /** True when the fingerprint was admitted before, or settled. */
  knows(words: Uint32Array, at: number): boolean {
    return this.#recent.has(words, at) || this.hasAdmitted(words, at);
  }

  /** True when it was admitted before. */
  hasAdmitted(words: Uint32Array, at: number): boolean {
    for (const pending of this.#pending) if (pending.has(words, at)) return true;
    if (!this.#bloom.maybeHas(words, at)) return false;
    if (!this.#store.has('seen', fingerprintKey(this.#crawl, words, at))) return false;
    this.#recent.add(words, at);
    return true;
  }

  /** Remembers one that needs no further look though it is not admitted (out of scope). */
  settle(words: Uint32Array, at: number): void {
    this.#recent.add(words, at);
  }

  /** Counts it as known from now on; its key has to be in the commit that is being gathered. */
  admit(words: Uint32Array, at: number): void {
    this.#pending.at(-1)?.add(words, at);
    this.#bloom.add(words, at);
  }

  /** Ends the batch of a commit: what was admitted since the last time stays pending until
   *  the returned function says that the commit is on the disk. */
  seal(): () => void {
    const sealed = this.#pending.at(-1);
    this.#pending.push(this.#free.pop() ?? new PendingSet());
    return () => {
      if (sealed === undefined) return;
      this.#pending = this.#pending.filter((pending) => pending !== sealed);
      sealed.clear();
      this.#free.push(sealed);
    };
  }

  /** The changes that put these keys of `seen` on record, those together that share a page of the
   *  store. `commit` numbers the commit within the crawl. */
  changes(keys: Buffer[], commit: number): Change[] {
    if (keys.length === 0) return [];
    // Four random bytes order them well enough, at a fraction of what comparing all would cost.
    keys.sort((a, b) => a.readUInt32BE(crawlBytes) - b.readUInt32BE(crawlBytes));
    const fingerprints = Buffer.allocUnsafe(keys.length * fingerprintBytes);
    for (const [i, key] of keys.entries()) key.copy(fingerprints, i * fingerprintBytes, crawlBytes);
    const changes: Change[] = keys.map((key) => ({ table: 'seen', key, value: nothing }));
    // What the saved Bloom filter lacks, in one row instead of a scan of `seen` at the start.
    changes.push({ table: 'recent', key: commitKey(this.#crawl, commit), value: fingerprints });
    this.#unsaved += keys.length;
    return changes;
  }

  /** True when so much is new that a restart would read for long. */
  get wantsSave(): boolean {
    return this.#path !== undefined && this.#unsaved >= unsavedMax && this.#saving === undefined;
  }

  /** Saves the Bloom filter; gives the changes that forget the rows it made needless, those of
   *  commits up to `commit`, and put its digest on record instead: without that very file, or one
   *  saved on top of it, the rows would be missing. */
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

  /** The filters, the digest of the file it builds on, and its own, which is given back. */
  async #write(path: string): Promise<Buffer> {
    const digest = createHash('sha256');
    const file = await open(`${path}.new`, 'w');
    let own: Buffer;
    try {
      for (const live of this.#bloom.save()) {
        // A copy: bits that are set meanwhile must not make the digest wrong.
        const bytes = live.slice();
        digest.update(bytes);
        await writeWhole(file, bytes);
      }
      digest.update(this.#base);
      own = digest.digest();
      await writeWhole(file, Buffer.concat([this.#base, own]));
      await file.sync();
    } catch (error) {
      rmSync(`${path}.new`, { force: true }); // perhaps there was no room for it
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

  /** Reads the saved filter; false when there is none, or not that which the rows were erased
   *  for. */
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
      // An empty one knows nothing of `urlsExpected`.
      if (saved.count > 0) this.#bloom = saved;
      return true;
    } catch (error) {
      // A damaged filter is built anew from the store: see `#load`.
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

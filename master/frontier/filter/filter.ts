/**
 * The filter of one crawl: it finds new fingerprints by three look-ups, the cheap ones first:
 *
 *     recent table   hit: known, no further look            (bounded, forgets)
 *     Bloom filter   miss: surely new                       (errs towards "maybe")
 *     seen set       exact: in memory, then the store       (a read or some)
 *
 * A filter of a crawl that is over *sleeps*: it has no memory, and is read from the disk again by
 * its next use.
 *
 *     asleep --first look-up--> awake --sleep()--> asleep
 *       +---------forget()--------+--------------> forgotten: nothing is saved or read again
 */
import { commitKey } from '../../store/records.ts';
import type { Change, Rows } from '../../store/store.ts';
import { Bloom, bloomBytesFor } from './bloom.ts';
import { noDigest, readBloom, writeBloom } from './bloom-file.ts';
import type { RecentTable } from './recent.ts';
import { SeenSet, type SeenSetOptions } from './seen-set.ts';
import type { WaitingRoom } from './waiting-room.ts';

/** Fingerprints since the last save before the Bloom filter is saved again, and their share of
 *  all. */
const unsavedMax = 1 << 20;
const unsavedShare = 1 / 16;
/** The same for a filter that goes to sleep. Fewer are read from the journal, which costs no file
 *  of the size of the Bloom filter. */
const sleepUnsavedMax = 1 << 16;
const digestBytes = noDigest.length;
const commitBytes = 6;

type Awake = { readonly bloom: Bloom; readonly seen: SeenSet };

export class Filter {
  readonly #crawl: number;
  readonly #store: Rows;
  readonly #recent: RecentTable;
  readonly #room: WaitingRoom;
  readonly #path: string | undefined;
  #urlsExpected: number;
  readonly #bloomBytesLeft: (() => number) | undefined;
  readonly #seenCount: () => number;
  /** Undefined: asleep. */
  #awake: Awake | undefined;
  #unsaved = 0;
  #gathered = 0;
  #saving: Promise<Buffer> | undefined;
  /** Digest of the saved filter that rows of `recent` were erased for. */
  #base: Buffer = noDigest;
  #isForgotten = false;

  /** It is asleep. `path`: file that keeps the Bloom filter across restarts; undefined: none. */
  constructor(options: {
    crawl: number;
    store: Rows;
    recent: RecentTable;
    room: WaitingRoom;
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
    this.#room = options.room;
    this.#path = options.path;
    this.#urlsExpected = options.urlsExpected;
    this.#bloomBytesLeft = options.bloomBytesLeft;
    this.#seenCount = options.seenCount;
  }

  get isAwake(): boolean {
    return this.#awake !== undefined;
  }

  get bloomBytes(): number {
    return this.#awake?.bloom.bytes ?? 0;
  }

  /** The same, with the expected keys; 0: it is asleep. */
  get bloomBytesExpected(): number {
    if (this.#awake === undefined) return 0;
    return Math.max(this.bloomBytes, this.bloomBytesAwake);
  }

  /** Bytes that its Bloom filter takes when it wakes, if no more keys come than expected. */
  get bloomBytesAwake(): number {
    return this.#isForgotten ? 0 : bloomBytesFor(this.#urlsExpected);
  }

  /** Reads what is on the disk, if it is asleep. */
  wake(): Awake {
    if (this.#awake !== undefined) return this.#awake;
    this.#unsaved = 0;
    this.#gathered = 0;
    this.#awake = this.#isForgotten ? this.#nothing() : this.#load();
    if (!this.#isForgotten) this.#room.enter(this.#awake.seen);
    return this.#awake;
  }

  /** True: its next sleep would lose so many keys that it is to be saved before. */
  get wantsSaveToSleep(): boolean {
    return this.#awake !== undefined && this.#unsaved >= sleepUnsavedMax;
  }

  /** Frees its memory. Nothing of it may be on the way to the disk. */
  sleep(): void {
    if (this.#saving !== undefined || this.#awake === undefined) return;
    this.#room.leave(this.#awake.seen);
    this.#awake = undefined;
  }

  /** The crawl has ended permanently: frees its memory. Resolves when it will neither write a file
   *  nor return changes any more. */
  async forget(): Promise<void> {
    this.#isForgotten = true;
    this.#urlsExpected = 0;
    if (this.#awake !== undefined) this.#room.leave(this.#awake.seen);
    this.#awake = undefined;
    while (this.#saving !== undefined) await this.#saving.catch(() => {});
  }

  /** Returns whether the fingerprint was admitted before, or settled. */
  knows(words: Uint32Array, at: number): boolean {
    return this.#recent.has(words, at) || this.hasAdmitted(words, at);
  }

  /** Returns whether it was admitted before. */
  hasAdmitted(words: Uint32Array, at: number): boolean {
    const { bloom, seen } = this.#awake ?? this.wake();
    const found = bloom.find(words, at);
    if (found < 0 || !seen.has(words, at, found)) return false;
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

  /** Counts it as known from now on; it is in the commit that is being gathered. */
  admit(words: Uint32Array, at: number): void {
    const { bloom, seen } = this.#awake ?? this.wake();
    seen.add(words, at);
    bloom.add(words, at);
    // The next pages link to the newest URLs.
    this.#recent.add(words, at);
    this.#gathered++;
  }

  /** Returns the changes that store what was admitted. `commit` numbers the commit within the
   *  crawl. */
  changes(commit: number): Change[] {
    this.#unsaved += this.#gathered;
    this.#gathered = 0;
    return this.#awake?.seen.changes(commit) ?? [];
  }

  /** To be called when the changes of a commit were taken. Returns what is to be called when they
   *  are on the disk. */
  seal(): () => void {
    return this.#awake?.seen.seal() ?? (() => {});
  }

  /** True: so many keys are new that a restart would read for long. */
  get wantsSave(): boolean {
    if (this.#path === undefined || this.#saving !== undefined) return false;
    return this.#unsaved >= Math.max(unsavedMax, this.#seenCount() * unsavedShare);
  }

  /** Saves the Bloom filter. Returns the change that records its digest, and that it has the keys
   *  of commits up to `commit`: without this file, or one based on it, those would be missing. */
  async save(commit: number): Promise<Change[]> {
    while (this.#saving !== undefined) await this.#saving;
    if (this.#path === undefined || this.#awake === undefined || this.#isForgotten) return [];
    const unsaved = this.#unsaved;
    const { bloom, seen } = this.#awake;
    this.#unsaved = 0;
    try {
      this.#saving = writeBloom(this.#path, bloom, this.#base);
      this.#base = await this.#saving;
    } catch (error) {
      this.#unsaved += unsaved;
      throw error;
    } finally {
      this.#saving = undefined;
    }
    if (this.#isForgotten) return [];
    seen.saved(commit);
    const value = Buffer.alloc(digestBytes + commitBytes);
    value.set(this.#base);
    value.writeUIntBE(commit, digestBytes, commitBytes);
    return [{ table: 'recent', key: commitKey(this.#crawl, 0), value }];
  }

  #load(): Awake {
    const row = this.#store.get('recent', commitKey(this.#crawl, 0)) ?? noDigest;
    this.#base = row.subarray(0, digestBytes);
    // Format 3 had the digest alone, and no row of what was saved.
    const saved = row.length > digestBytes ? row.readUIntBE(digestBytes, commitBytes) : 0;
    const path = this.#path;
    const kept = path === undefined ? undefined : readBloom(path, this.#base, this.#bloomBytesLeft);
    const isComplete = kept !== undefined || this.#base.equals(noDigest);
    const bloom = kept ?? new Bloom(this.#urlsExpected, { bytesLeft: this.#bloomBytesLeft });
    const visit = (words: Uint32Array, at: number) => {
      bloom.add(words, at);
      this.#unsaved++;
    };
    const seen = this.#read({ saved, visit, spanOf: (found) => bloom.span(found) });
    // The saved filter is gone, damaged or an old one. A filter that lacks a key would fetch its
    // page twice.
    if (!isComplete || bloom.count < this.#seenCount()) {
      for (const words of seen.stored()) {
        for (let at = 0; at < words.length; at += 4) bloom.add(words, at);
        this.#unsaved += words.length / 4;
      }
    }
    return { bloom, seen };
  }

  #nothing(): Awake {
    const seen = this.#read({ saved: 0, visit: () => {}, isForgotten: true });
    return { bloom: new Bloom(0), seen };
  }

  #read(what: Pick<SeenSetOptions, 'saved' | 'visit' | 'spanOf' | 'isForgotten'>): SeenSet {
    const { freezeKeys } = this.#room;
    return new SeenSet({ crawl: this.#crawl, store: this.#store, freezeKeys, ...what });
  }
}

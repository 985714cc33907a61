/**
 * The seam between the master and what keeps its state: ordered tables of bytes and one atomic,
 * durable commit. `records.ts` says what the bytes mean; an engine only orders and keeps them.
 *
 * Reads see what was committed, not what is being committed: the frontier keeps the difference
 * itself. Every engine passes the contract suite in test/store.
 */

export const tables = [
  /** Format version and the like. */
  'meta',
  'crawls',
  /** crawl -> its record, some commits old: another page may be lost. For repair. */
  'spares',
  /** crawl -> hosts of its seeds. */
  'seeds',
  /** crawl, run, bucket -> fingerprints: every URL and image that was ever admitted. */
  'runs',
  /** crawl, fingerprint -> nothing: the same up to format 3. */
  'seen',
  /** crawl, commit -> fingerprints of that commit: the journal of `runs` and the Bloom filter. */
  'recent',
  /** crawl, host, rank, sequence -> task. */
  'tasks',
  /** crawl, shelf, sequence, host, rank -> task: new ones of many hosts, not yet in `tasks`. */
  'unsorted',
  /** crawl, number of the last -> URLs of the tasks of a commit that led to others. */
  'sources',
  /** The key of a task -> what an earlier crawl knew of its URL. */
  'earlier',
  /** The key of a task that is tried again -> its last failure. */
  'faults',
  /** crawl, commit -> findings that a sink has not written yet. */
  'results',
  'buried',
  /** host -> what is known of its robots.txt, and the file. */
  'robots',
  /** host -> its circuit breaker. */
  'breakers',
  /** politeness group -> its pace. */
  'paces',
  /** user queue, sequence -> item. */
  'items',
  /** crawl, SHA-256 -> an image whose bytes are kept. */
  'contents',
  /** crawl, fingerprint, sequence -> a page that shows an image which waits. */
  'namings',
] as const;
export type Table = (typeof tables)[number];

/** Tables whose keys begin with the number of a crawl; `crawls` itself is not one of them. */
export const crawlTables = [
  'spares',
  'tasks',
  'unsorted',
  'sources',
  'earlier',
  'faults',
  'seen',
  'runs',
  'recent',
  'results',
  'buried',
  'seeds',
  'contents',
  'namings',
] as const satisfies readonly Table[];
export type CrawlTable = (typeof crawlTables)[number];

export function isTable(name: string): name is Table {
  return (tables as readonly string[]).includes(name);
}

/** A `value` of undefined deletes the key. */
export type Change = {
  readonly table: Table;
  readonly key: Uint8Array;
  readonly value: Uint8Array | undefined;
};

export type Row = { readonly key: Buffer; readonly value: Buffer };

export type Range = {
  /** First key, included unless `after` is set. */
  readonly from: Uint8Array;
  /** Leave out `from` itself. */
  readonly after?: boolean;
  /** Keys below this one. */
  readonly to: Uint8Array;
  readonly limit?: number;
};

/** A value in memory of the store: valid until the next read. `length`: its bytes. */
export type Peeked = { readonly bytes: Buffer; readonly length: number };

/** The queries of a store. */
export interface Rows {
  has(table: Table, key: Uint8Array): boolean;
  get(table: Table, key: Uint8Array): Buffer | undefined;
  /** The same without a copy of its own: for many look-ups. */
  peek(table: Table, key: Uint8Array): Peeked | undefined;
  /** Rows in the order of their keys' bytes. */
  range(table: Table, range: Range): Row[];
  /** The keys of such rows: values, which may be large, are not read. */
  keys(table: Table, range: Range): Buffer[];
}

/** A store as it was at one moment, however it goes on. It keeps old pages in the file, so it must
 *  be let go soon. */
export interface Snapshot extends Rows {
  close(): void;
}

/** A store that nobody writes. */
export interface ReadableStore extends Rows {
  /** After the last commit that can be read. */
  snapshot(): Snapshot;
  close(): Promise<void>;
}

export interface Store extends ReadableStore {
  /** All changes or none, in the order given, on disk when the promise resolves. Commits are
   *  applied in the order of the calls. The list belongs to the store from then on, which may empty
   *  it to free memory early; the buffers do until it resolves.
   *  @throws StoreError (as rejection) the state on disk is that of the last commit. */
  commit(changes: Change[]): Promise<void>;
}

/** All rows from `from` up to `to`, in batches of that size. */
export function* batches(
  store: Rows,
  table: Table,
  { from, to }: Pick<Range, 'from' | 'to'>,
  limit: number,
): Generator<Row[]> {
  for (let range: Range = { from, to, limit }; ; ) {
    const rows = store.range(table, range);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    range = { from: last.key, after: true, to, limit };
  }
}

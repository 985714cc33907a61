/**
 * The result queue: findings that are on the disk in the store and not yet written by the sink.
 * Rows are written in the order of their commits, a batch at a time, and only then deleted.
 */
import { join } from 'node:path';
import { isDiskFull } from '../disk-room.ts';
import type { Crawl } from '../frontier/crawl.ts';
import type { GroupCommit, Room } from '../store/group-commit.ts';
import {
  commitKey,
  commitOf,
  crawlKey,
  decodeLengths,
  encodeLengths,
  type Lengths,
  lengthsKey,
} from '../store/records.ts';
import type { Change, Store } from '../store/store.ts';
import { FileSink, noLengths, refuseForeignFiles } from './files.ts';

type Row = { readonly commit: number; readonly bytes: Buffer };
/** Where the files are. */
type FileRoom = Room & { refused(): void };
type Outlet = { rows: Row[]; sink: FileSink | undefined; writing: Promise<void> | undefined };

/** A sink writes this often while a crawl runs; at its end, at once. */
const writeEveryMs = 200;

export type ResultQueueOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** `<out>`. */
  readonly folder: string;
  /** Bytes that wait for a sink before no more is fetched. */
  readonly waitingBytesMax: () => number;
  readonly onWritten: (crawl: Crawl) => void;
  readonly onError: (error: unknown) => void;
  /** Default: there always is. */
  readonly room?: FileRoom;
};

export class ResultQueue {
  readonly #options: ResultQueueOptions;
  readonly #outlets = new Map<Crawl, Outlet>();
  #waitingBytes = 0;
  #closing = false;

  constructor(options: ResultQueueOptions) {
    this.#options = options;
  }

  get isFull(): boolean {
    const { waitingBytesMax, room } = this.#options;
    return this.#waitingBytes > waitingBytesMax() || room?.isShort === true;
  }

  folderOf(crawlName: string): string {
    return join(this.#options.folder, crawlName);
  }

  /** To be called before a crawl is made.
   *  @throws ConfigError its files would overwrite others, or cannot be written. */
  async prepare(crawlName: string): Promise<void> {
    const folder = this.folderOf(crawlName);
    await refuseForeignFiles(folder);
    await (await FileSink.open(folder, noLengths)).close();
  }

  /** Takes up what an earlier master left unwritten, and opens the files of a running crawl, so
   *  that one that cannot be written is known at the start. */
  async restore(crawl: Crawl): Promise<void> {
    const rows = this.#options.store.range('results', {
      from: crawlKey(crawl.id),
      to: crawlKey(crawl.id + 1),
    });
    if (rows.length === 0 && !crawl.isOpen) return;
    this.#outlet(crawl).sink = await this.#open(crawl);
    for (const { key, value } of rows) this.offer(crawl, commitOf(key), value);
  }

  /** Takes over a row that is on the disk. */
  offer(crawl: Crawl, commit: number, bytes: Buffer): void {
    crawl.unwritten++;
    this.#waitingBytes += bytes.length;
    const outlet = this.#outlet(crawl);
    outlet.rows.push({ commit, bytes });
    outlet.writing ??= this.#writeAll(crawl, outlet).catch(this.#options.onError);
  }

  /** Writes all that waits, then closes the files. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const outlet of this.#outlets.values()) {
      await outlet.writing;
      await outlet.sink?.close();
    }
    this.#outlets.clear();
  }

  #outlet(crawl: Crawl): Outlet {
    let outlet = this.#outlets.get(crawl);
    if (outlet === undefined) {
      outlet = { rows: [], sink: undefined, writing: undefined };
      this.#outlets.set(crawl, outlet);
    }
    return outlet;
  }

  async #writeAll(crawl: Crawl, outlet: Outlet): Promise<void> {
    while (outlet.rows.length > 0) {
      if (!this.#closing && !this.#isLast(crawl)) await pause(writeEveryMs);
      const rows = outlet.rows;
      outlet.rows = [];
      outlet.sink ??= await this.#open(crawl);
      const lengths = await this.#write(outlet.sink, rows);
      await this.#forget(crawl, rows, lengths);
      crawl.unwritten -= rows.length;
      for (const { bytes } of rows) this.#waitingBytes -= bytes.length;
      this.#options.onWritten(crawl);
    }
    outlet.writing = undefined;
  }

  /** A write that finds no room is tried again, at the same place of the files. */
  async #write(sink: FileSink, rows: readonly Row[]): Promise<Lengths> {
    const { room } = this.#options;
    while (true) {
      await room?.room();
      try {
        return await sink.write(rows.map(({ bytes }) => bytes));
      } catch (error) {
        if (room === undefined || !isDiskFull(error)) throw error;
        room.refused();
      }
    }
  }

  /** Nothing but the writing is left to do. */
  #isLast(crawl: Crawl): boolean {
    return crawl.inbox === 0 && crawl.leased === 0 && crawl.counters.waiting === 0;
  }

  #forget(crawl: Crawl, rows: readonly Row[], lengths: Lengths): Promise<void> {
    const changes: Change[] = rows.map(({ commit }) => ({
      table: 'results',
      key: commitKey(crawl.id, commit),
      value: undefined,
    }));
    changes.push({ table: 'meta', key: lengthsKey(crawl.id), value: encodeLengths(lengths) });
    return new Promise((done) => this.#options.commits.submit(changes, done));
  }

  async #open(crawl: Crawl): Promise<FileSink> {
    const saved = this.#options.store.get('meta', lengthsKey(crawl.id));
    const lengths = saved ? decodeLengths(saved) : noLengths;
    return await FileSink.open(this.folderOf(crawl.name), lengths);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

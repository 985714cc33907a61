/**
 * The result queue: findings that are on the disk in the store and not yet written by the sink.
 * Rows are written in the order of their commits, a batch at a time, and only then deleted.
 *
 * A crawl whose files are not what it left is *held*: nothing of it is written, its rows stay in
 * the store alone, and it does not count in what waits, so that other crawls go on.
 *
 *     writing --HeldError--> held --resume: files agree, all that waited is written--> writing
 *        ^                    |
 *        +-- a start looks ---+--given up (its crawl is cancelled)--> its rows are dropped
 */
import { join } from 'node:path';
import { CommandError, messageOf } from '../../shared/errors.ts';
import type { Crawl } from '../frontier/crawl/crawl.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import type { GroupCommit, Room } from '../store/group-commit.ts';
import {
  commitKey,
  commitOf,
  crawlKey,
  decodeLengths,
  encodeLengths,
  type FileMarks,
  lengthsKey,
} from '../store/records.ts';
import { batches, type Change, type Store } from '../store/store.ts';
import { type BegunFile, beginAnew, FileSink, noLengths, refuseForeignFiles } from './files.ts';
import { HeldError } from './out-file.ts';

type Row = { readonly commit: number; readonly bytes: Buffer };
/** Where the files are. */
type FileRoom = Room & { refused(): void };

/** What waits for the files of one crawl. */
type Outlet = {
  state: 'writing' | 'held';
  /** The oldest ones are in the store alone: those in memory are none then. */
  isStored: boolean;
  rows: Row[];
  /** All of them, in memory or not. */
  bytes: number;
  /** The last commit that was offered: later ones may not be on the disk. */
  lastCommit: number;
  sink: FileSink | undefined;
  /** What is done with the files now, if anything is; it never rejects. */
  work: Promise<void> | undefined;
};

/** What a resume has done. */
export type Resumed = { readonly begun: readonly BegunFile[]; readonly cutBytes: number };

/** A sink writes this often while a crawl runs; at its end, at once. */
const writeEveryMs = 200;
/** Rows that are read from the store at once. */
const storedRows = 64;

type ResultQueueOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** `<out>`. */
  readonly folder: string;
  /** Bytes that wait for a sink before no more is fetched. */
  readonly waitingBytesMax: () => number;
  readonly onWritten: (crawl: Crawl) => void;
  readonly onError: (error: unknown) => void;
  /** Its files are not what it left: nothing of it is written. Default: that is an error. */
  readonly onHeld?: (crawl: Crawl, reason: string) => void;
  /** It is cancelled, and so many rows of it could not be written. */
  readonly onDropped?: (crawl: Crawl, rows: number) => void;
  /** Default: there always is. */
  readonly room?: FileRoom;
};

export class ResultQueue {
  readonly #options: ResultQueueOptions;
  readonly #outlets = new Map<Crawl, Outlet>();
  /** Of all crawls that are not held. */
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

  /** Takes up what an earlier master left unwritten, and opens the files of a crawl that is open;
   *  one whose files are not what it left is held. @throws ConfigError the disk fails */
  async restore(crawl: Crawl): Promise<void> {
    const of = { from: crawlKey(crawl.id), to: crawlKey(crawl.id + 1) };
    const outlet = makeOutlet();
    for (const rows of batches(this.#options.store, 'results', of, storedRows)) {
      crawl.open.record(rows.length);
      for (const { value } of rows) outlet.bytes += value.length;
      outlet.lastCommit = commitOf(rows.at(-1)?.key ?? commitKey(crawl.id, 0));
      outlet.isStored = true;
    }
    if (!outlet.isStored && !crawl.isOpen) return;
    this.#outlets.set(crawl, outlet);
    this.#waitingBytes += outlet.bytes;
    try {
      outlet.sink = await FileSink.open(this.folderOf(crawl.name), this.#marks(crawl));
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      await this.#hold(crawl, outlet, error);
    }
    this.#begin(crawl, outlet);
  }

  /** Takes over a row that is on the disk. */
  offer(crawl: Crawl, commit: number, bytes: Buffer): void {
    let outlet = this.#outlets.get(crawl);
    if (outlet === undefined) {
      outlet = makeOutlet();
      this.#outlets.set(crawl, outlet);
    }
    crawl.open.record(1);
    outlet.bytes += bytes.length;
    outlet.lastCommit = commit;
    if (!outlet.isStored) outlet.rows.push({ commit, bytes });
    if (outlet.state === 'held') return;
    this.#waitingBytes += bytes.length;
    this.#begin(crawl, outlet);
  }

  /** Looks whether the files of a crawl are what it left, before it is said to be done. */
  async confirm(crawl: Crawl): Promise<void> {
    const outlet = this.#outlets.get(crawl);
    // While something is written, that looks.
    if (outlet?.sink === undefined || outlet.state === 'held' || outlet.work !== undefined) return;
    const { sink } = outlet;
    await this.#work(outlet, () => this.#holding(crawl, outlet, () => sink.check()));
    this.#begin(crawl, outlet);
  }

  /** Lets a crawl that is held be written again: writes what waited first. With `newFiles` what is
   *  not as it was left is begun anew, and what stands there is moved aside.
   *  @throws CommandError E_BAD_REQUEST its files are still not what it left */
  async resume(crawl: Crawl, newFiles = false): Promise<Resumed> {
    const outlet = this.#outlets.get(crawl);
    if (outlet?.state !== 'held') return { begun: [], cutBytes: 0 };
    if (outlet.work !== undefined) {
      throw new CommandError('E_BAD_REQUEST', `the crawl "${crawl.name}" is being resumed`);
    }
    let outcome: Resumed | CommandError | undefined;
    await this.#work(outlet, async () => {
      try {
        outcome = await this.#reopen(crawl, outlet, newFiles);
      } catch (error) {
        if (!(error instanceof HeldError)) throw error;
        if (crawl.state !== 'cancelled') this.#options.onHeld?.(crawl, messageOf(error));
        const message = `the crawl "${crawl.name}" stays held: ${messageOf(error)}`;
        outcome = new CommandError('E_BAD_REQUEST', message.slice(0, 512));
      }
    });
    this.#begin(crawl, outlet);
    if (outcome instanceof CommandError) throw outcome;
    return outcome ?? { begun: [], cutBytes: 0 };
  }

  /** Its crawl is cancelled: writes what waits if that can be done, and drops it if not. */
  async giveUp(crawl: Crawl): Promise<void> {
    const outlet = this.#outlets.get(crawl);
    if (outlet !== undefined) await idle(outlet);
    if (outlet?.state !== 'held') return;
    try {
      await this.resume(crawl);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      await this.#work(outlet, () => this.#drop(crawl, outlet));
    }
  }

  /** Writes all that waits, but for crawls that are held, and closes the files. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const outlet of this.#outlets.values()) {
      await idle(outlet);
      await outlet.sink?.close();
    }
    this.#outlets.clear();
  }

  /** Writes, unless something is done with the files already, or there is nothing to write. */
  #begin(crawl: Crawl, outlet: Outlet): void {
    const isIdle = outlet.work === undefined && outlet.state === 'writing';
    if (!isIdle || (outlet.rows.length === 0 && !outlet.isStored)) return;
    void this.#work(outlet, () =>
      this.#holding(crawl, outlet, () => this.#writeAll(crawl, outlet)),
    ).then(() => this.#begin(crawl, outlet));
  }

  /** One thing at a time is done with the files of a crawl; after an error, nothing more. */
  #work(outlet: Outlet, work: () => Promise<void>): Promise<void> {
    outlet.work = work().then(() => {
      outlet.work = undefined;
    }, this.#options.onError);
    return outlet.work;
  }

  async #holding(crawl: Crawl, outlet: Outlet, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof HeldError)) throw error;
      await this.#hold(crawl, outlet, error);
    }
  }

  /** The handles stay open: what was removed can be copied from /proc as long as they are. */
  async #hold(crawl: Crawl, outlet: Outlet, error: HeldError): Promise<void> {
    const { onHeld } = this.#options;
    if (onHeld === undefined) throw error;
    this.#waitingBytes -= outlet.bytes;
    outlet.state = 'held';
    outlet.rows = [];
    outlet.isStored = true;
    if (crawl.state === 'cancelled') await this.#drop(crawl, outlet);
    else onHeld(crawl, messageOf(error));
  }

  async #writeAll(crawl: Crawl, outlet: Outlet): Promise<void> {
    while (outlet.rows.length > 0 || outlet.isStored) {
      // When nothing else is left to do, at once.
      if (!this.#closing && !crawl.isFetched) await pause(writeEveryMs);
      outlet.sink ??= await FileSink.open(this.folderOf(crawl.name), this.#marks(crawl));
      const rows = this.#take(crawl, outlet);
      if (rows.length === 0) break;
      const bytes = await this.#write(crawl, outlet, outlet.sink, rows);
      this.#waitingBytes -= bytes;
      this.#options.onWritten(crawl);
    }
  }

  /** The oldest rows. */
  #take(crawl: Crawl, outlet: Outlet): Row[] {
    if (outlet.isStored) {
      const rows = this.#stored(crawl, outlet);
      if (rows.length > 0) return rows;
      outlet.isStored = false;
    }
    const { rows } = outlet;
    outlet.rows = [];
    return rows;
  }

  #stored({ id }: Crawl, { lastCommit }: Outlet): Row[] {
    const of = { from: crawlKey(id), to: commitKey(id, lastCommit + 1), limit: storedRows };
    const rows = this.#options.store.range('results', of);
    return rows.map(({ key, value }) => ({ commit: commitOf(key), bytes: value }));
  }

  /** Writes rows and takes them out of the store; gives their bytes. */
  async #write(
    crawl: Crawl,
    outlet: Outlet,
    sink: FileSink,
    rows: readonly Row[],
  ): Promise<number> {
    await this.#append(sink, rows);
    await this.#forget(crawl, rows, sink.marks);
    return written(crawl, outlet, rows);
  }

  /** A write that finds no room is tried again, at the same place of the files. */
  async #append(sink: FileSink, rows: readonly Row[]): Promise<void> {
    const { room } = this.#options;
    while (true) {
      await room?.room();
      try {
        await sink.write(rows.map(({ bytes }) => bytes));
        return;
      } catch (error) {
        if (room === undefined || !isDiskFull(error)) throw error;
        room.refused();
      }
    }
  }

  /** Opens the files of a crawl that is held, and writes all that waits. */
  async #reopen(crawl: Crawl, outlet: Outlet, newFiles: boolean): Promise<Resumed> {
    const folder = this.folderOf(crawl.name);
    const old = this.#marks(crawl);
    const { marks, begun } = newFiles ? await beginAnew(folder, old) : { marks: old, begun: [] };
    const sink = await FileSink.open(folder, marks);
    try {
      if (begun.length > 0) await this.#forget(crawl, [], marks);
      for (let rows = this.#stored(crawl, outlet); rows.length > 0; ) {
        await this.#write(crawl, outlet, sink, rows);
        rows = this.#stored(crawl, outlet);
      }
      await sink.check();
    } catch (error) {
      await sink.close();
      throw error;
    }
    const { sink: before } = outlet;
    outlet.sink = sink;
    // What came in the meantime is in the store, and is written from there.
    outlet.state = 'writing';
    this.#waitingBytes += outlet.bytes;
    await before?.close();
    return { begun, cutBytes: sink.cutBytes };
  }

  /** Nothing of it will be written any more. */
  async #drop(crawl: Crawl, outlet: Outlet): Promise<void> {
    let dropped = 0;
    for (let rows = this.#stored(crawl, outlet); rows.length > 0; ) {
      await this.#forget(crawl, rows, undefined);
      written(crawl, outlet, rows);
      dropped += rows.length;
      rows = this.#stored(crawl, outlet);
    }
    if (dropped > 0) this.#options.onDropped?.(crawl, dropped);
  }

  /** One transaction: the rows go, and the files have what these marks say. */
  #forget(crawl: Crawl, rows: readonly Row[], marks: FileMarks | undefined): Promise<void> {
    const changes: Change[] = rows.map(({ commit }) => ({
      table: 'results',
      key: commitKey(crawl.id, commit),
      value: undefined,
    }));
    if (marks !== undefined) {
      changes.push({ table: 'meta', key: lengthsKey(crawl.id), value: encodeLengths(marks) });
    }
    return new Promise((done) => this.#options.commits.submit(changes, done));
  }

  #marks(crawl: Crawl): FileMarks {
    const saved = this.#options.store.get('meta', lengthsKey(crawl.id));
    return saved ? decodeLengths(saved) : noLengths;
  }
}

function makeOutlet(): Outlet {
  return {
    state: 'writing',
    isStored: false,
    rows: [],
    bytes: 0,
    lastCommit: 0,
    sink: undefined,
    work: undefined,
  };
}

/** Resolves when nothing is done with the files any more. */
async function idle(outlet: Outlet): Promise<void> {
  for (let work = outlet.work; work !== undefined; ) {
    await work;
    // After an error it stays.
    work = outlet.work === work ? undefined : outlet.work;
  }
}

/** These rows wait no longer; gives their bytes. */
function written(crawl: Crawl, outlet: Outlet, rows: readonly Row[]): number {
  const bytes = rows.reduce((sum, row) => sum + row.bytes.length, 0);
  crawl.open.written(rows.length);
  outlet.bytes -= bytes;
  return bytes;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

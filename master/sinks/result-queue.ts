/**
 * The result queue: records that are on the disk in the store and that not all sinks of their crawl
 * have written. Each sink writes the rows in the order of their commits, a batch at a time, at its
 * own pace; a row is deleted when the slowest sink has it.
 *
 * A sink whose target is not what it left holds its crawl until the operator acts. One that cannot
 * write for now is tried again, later and later; when too much waits for it, its crawl is held
 * until it goes on. Other sinks of the crawl, and other crawls, go on writing: the rows that wait
 * for such a sink stay in the store alone and do not count as waiting.
 */
import { join } from 'node:path';
import { CommandError, messageOf } from '../../shared/errors.ts';
import { isDiskFull } from '../machine/disk-room.ts';
import type { GroupCommit, Room } from '../store/group-commit.ts';
import { commitKey, cursorKey, decodeCursor, encodeCursor } from '../store/records.ts';
import type { SealedRow } from '../store/result-rows.ts';
import type { Change, Store } from '../store/store.ts';
import { Outlet } from './outlet.ts';
import type { ResultEvents } from './result-events.ts';
import {
  type BegunFile,
  type Deleted,
  HeldError,
  type Sink,
  type SinkCrawl,
  type SinkKind,
  UnavailableError,
} from './sink.ts';
import { renameTargets } from './targets.ts';
import { WaitingRows } from './waiting-rows.ts';

/** A crawl, as far as its results go. */
type ResultCrawl = SinkCrawl & {
  readonly id: number;
  readonly state: string;
  /** Neither finished nor cancelled. */
  readonly isOpen: boolean;
  /** Nothing is left to fetch: the sinks write waiting rows at once. */
  readonly isFetched: boolean;
  /** Counts the rows that wait. */
  readonly open: { record(rows: number): void; written(rows: number): void };
};

/** Where the files are. */
type FileRoom = Room & { refused(): void };
type Outlets = { readonly rows: WaitingRows; readonly outlets: readonly Outlet[] };

/** The outcome of a resume. */
export type Resumed = { readonly begun: readonly BegunFile[]; readonly cutBytes: number };

/** A sink writes this often while a crawl runs; at its end, at once. */
const writeEveryMs = 200;
/** Bytes that may wait for a sink which cannot write, before its crawl is held. */
const failingBytesMax = 256 << 20;

export type ResultQueueOptions<C extends ResultCrawl> = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** Every crawl has one of each. */
  readonly sinks: readonly SinkKind[];
  /** `<out>`, for messages. */
  readonly folder: string;
  /** Bytes that wait for sinks before no more is fetched. */
  readonly waitingBytesMax: () => number;
  /** Bytes that may wait for a sink which cannot write. */
  readonly failingBytesMax?: number;
  readonly events: ResultEvents<C>;
  readonly onError: (error: unknown) => void;
  /** Default: there always is. */
  readonly room?: FileRoom;
};

export class ResultQueue<C extends ResultCrawl> {
  readonly #options: ResultQueueOptions<C>;
  readonly #crawls = new Map<C, Outlets>();
  /** Held because too much waits for a sink. */
  readonly #overfull = new Set<C>();
  #closing = false;

  constructor(options: ResultQueueOptions<C>) {
    this.#options = options;
  }

  get isFull(): boolean {
    const { waitingBytesMax, room } = this.#options;
    if (room?.isShort === true) return true;
    let waiting = 0;
    for (const { rows, outlets } of this.#crawls.values()) {
      if (rows.bytes > 0 && outlets.every(isWriting)) waiting += rows.bytes;
    }
    return waiting > waitingBytesMax();
  }

  folderOf(crawlName: string): string {
    return join(this.#options.folder, crawlName);
  }

  /** To be called before a crawl is made.
   *  @throws ConfigError its targets would overwrite others, or cannot be written. */
  async prepare(crawlName: string): Promise<void> {
    for (const kind of this.#options.sinks) await kind.prepare(crawlName);
  }

  /** Takes up what an earlier master left unwritten, and opens the targets of a crawl that is open;
   *  one whose targets are not what was left is held. @throws ConfigError the disk fails */
  async restore(crawl: C): Promise<void> {
    const rows = new WaitingRows(this.#options.store, crawl.id);
    rows.load();
    if (rows.count === 0 && !crawl.isOpen) return;
    crawl.open.record(rows.count);
    const { outlets } = this.#make(crawl, rows);
    for (const outlet of outlets) {
      await this.#guarded(crawl, outlet, async () => {
        outlet.sink = await outlet.kind.open(crawl, outlet.mark);
      });
      this.#begin(crawl, outlet);
    }
  }

  /** Takes over a row that is on the disk. */
  offer(crawl: C, commit: number, row: SealedRow): void {
    const { rows, outlets } = this.#of(crawl);
    crawl.open.record(1);
    rows.add(commit, row, outlets.every(isWriting));
    for (const outlet of outlets) this.#begin(crawl, outlet);
    this.#holdIfOverfull(crawl);
  }

  /** Checks that the targets of a crawl are as its sinks left them, before its end is reported. */
  async confirm(crawl: C): Promise<void> {
    for (const outlet of this.#crawls.get(crawl)?.outlets ?? []) {
      const { sink } = outlet;
      // A write that is under way checks it.
      if (sink === undefined || outlet.state !== 'writing' || outlet.isBusy) continue;
      await this.#work(crawl, outlet, () => sink.check());
      this.#begin(crawl, outlet);
    }
  }

  /** Lets the sinks of a held crawl write again, waiting rows first. With `newFiles` they begin new
   *  targets in place of those that have changed, which are moved aside.
   *  @throws CommandError E_BAD_REQUEST a target is still not as its sink left it */
  async resume(crawl: C, newFiles = false): Promise<Resumed> {
    const begun: BegunFile[] = [];
    let cutBytes = 0;
    for (const outlet of this.#crawls.get(crawl)?.outlets ?? []) {
      if (outlet.state === 'writing') continue;
      if (outlet.isBusy) {
        throw new CommandError('E_BAD_REQUEST', `the crawl "${crawl.name}" is being resumed`);
      }
      const outcome = await this.#resumeOne(crawl, outlet, newFiles);
      begun.push(...outcome.begun);
      cutBytes += outcome.cutBytes;
    }
    return { begun, cutBytes };
  }

  /** Its crawl is cancelled: writes the waiting rows, or drops them if that fails. */
  async giveUp(crawl: C): Promise<void> {
    for (const outlet of this.#crawls.get(crawl)?.outlets ?? []) {
      await outlet.idle();
      if (outlet.state === 'writing') continue;
      try {
        await this.#resumeOne(crawl, outlet, false);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        await outlet.work(() => this.#drop(crawl, outlet), this.#options.onError);
      }
    }
  }

  /** Its crawl is being removed: closes its targets, with `files` to delete them, and without to
   *  write what waits first. Nothing of it is in memory then.
   *  @throws ConfigError a target cannot be deleted */
  async remove(crawl: C, files: boolean): Promise<Deleted> {
    const { rows, outlets } = this.#of(crawl);
    const deleted: string[] = [];
    const kept: string[] = [];
    for (const outlet of outlets) {
      await outlet.idle();
      while (!files && isWriting(outlet) && rows.has(outlet.commit)) {
        this.#begin(crawl, outlet);
        await outlet.idle();
      }
      await outlet.close();
    }
    if (!files && rows.count > 0) this.#options.events.dropped(crawl, rows.count);
    this.#forget(crawl);
    for (const { kind, mark } of files ? outlets : []) {
      const gone = await kind.remove(crawl, mark);
      deleted.push(...gone.deleted);
      kept.push(...gone.kept);
    }
    return { deleted, kept };
  }

  /** Has this name results already? */
  async isTaken(name: string): Promise<boolean> {
    for (const kind of this.#options.sinks) if (await kind.isTaken(name)) return true;
    return false;
  }

  /** Renames the targets of a crawl. In between nothing is written; `renamed` is called when they
   *  have the new name, and resolves when that is on record.
   *  @throws ConfigError a target cannot be renamed; all have the old name */
  async rename(
    crawl: C,
    {
      from,
      to,
      isAgain,
    }: { readonly from: string; readonly to: string; readonly isAgain: boolean },
    renamed: () => Promise<void>,
  ): Promise<void> {
    const outlets = this.#crawls.get(crawl)?.outlets ?? [];
    while (outlets.some(({ isBusy }) => isBusy)) {
      for (const outlet of outlets) await outlet.idle();
    }
    let fault: unknown;
    const work = async () => {
      try {
        await renameTargets(this.#options.sinks, from, to, isAgain);
        await renamed();
      } catch (error) {
        fault = error;
      }
      // Their paths have changed. A held one keeps its files, to be copied from /proc.
      for (const outlet of outlets) if (isWriting(outlet)) await this.#openAgain(crawl, outlet);
    };
    // One thing at a time is done with each.
    const done = work();
    await Promise.all(outlets.map((outlet) => outlet.work(() => done, this.#options.onError)));
    await done;
    for (const outlet of outlets) this.#begin(crawl, outlet);
    if (fault !== undefined) throw fault;
  }

  async #openAgain(crawl: C, outlet: Outlet): Promise<void> {
    const { sink: before } = outlet;
    if (before === undefined) return;
    await this.#guarded(crawl, outlet, async () => {
      outlet.sink = await outlet.kind.open(crawl, outlet.mark);
      await before.close();
    });
  }

  /** Its crawl has finished: closes the targets, which are opened again if it goes on. */
  async rest(crawl: C): Promise<void> {
    const { rows, outlets } = this.#crawls.get(crawl) ?? { rows: undefined, outlets: [] };
    for (const outlet of outlets) await outlet.idle();
    // It may have gone on in the meantime, or wait for a sink.
    if (crawl.isOpen || rows === undefined || rows.count > 0 || !outlets.every(isWriting)) return;
    if (outlets.some(({ isBusy }) => isBusy)) return;
    this.#forget(crawl);
    for (const outlet of outlets) await outlet.close();
  }

  #forget(crawl: C): void {
    this.#crawls.delete(crawl);
    this.#overfull.delete(crawl);
  }

  /** Writes all that waits, but for sinks that cannot write, and closes the targets. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const { outlets } of this.#crawls.values()) {
      for (const outlet of outlets) {
        await outlet.idle();
        await outlet.close();
      }
    }
    this.#crawls.clear();
  }

  #of(crawl: C): Outlets {
    const { store } = this.#options;
    return this.#crawls.get(crawl) ?? this.#make(crawl, new WaitingRows(store, crawl.id));
  }

  #make(crawl: C, rows: WaitingRows): Outlets {
    const { sinks, store } = this.#options;
    const outlets = sinks.map((kind) => {
      const saved = store.get('meta', cursorKey(crawl.id, kind.name));
      return new Outlet(kind, saved && decodeCursor(saved));
    });
    const made = { rows, outlets };
    this.#crawls.set(crawl, made);
    return made;
  }

  /** Writes, unless something is done with the sink already, or there is nothing to write. */
  #begin(crawl: C, outlet: Outlet): void {
    const rows = this.#crawls.get(crawl)?.rows;
    if (
      rows === undefined ||
      outlet.isBusy ||
      outlet.state !== 'writing' ||
      !rows.has(outlet.commit)
    )
      return;
    void this.#work(crawl, outlet, () => this.#writeAll(crawl, outlet)).then(() =>
      this.#begin(crawl, outlet),
    );
  }

  #work(crawl: C, outlet: Outlet, work: () => Promise<void>): Promise<void> {
    return outlet.work(() => this.#guarded(crawl, outlet, work), this.#options.onError);
  }

  /** What keeps a sink from writing is its own business; anything else is the master's. */
  async #guarded(crawl: C, outlet: Outlet, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (error instanceof HeldError) await this.#hold(crawl, outlet, error);
      else if (error instanceof UnavailableError) this.#failed(crawl, outlet, error);
      else throw error;
    }
  }

  /** The target stays open: a removed file can be copied from /proc as long as it is. */
  async #hold(crawl: C, outlet: Outlet, error: HeldError): Promise<void> {
    outlet.state = 'held';
    outlet.reason = messageOf(error);
    this.#of(crawl).rows.forgetKept();
    if (crawl.state === 'cancelled') await this.#drop(crawl, outlet);
    else this.#options.events.held(crawl, outlet.reason);
  }

  #failed(crawl: C, outlet: Outlet, error: UnavailableError): void {
    const reason = messageOf(error);
    const { events } = this.#options;
    if (outlet.state === 'writing') events.unavailable(crawl, outlet.kind.name, reason);
    outlet.state = 'failing';
    outlet.reason = reason;
    this.#of(crawl).rows.forgetKept();
    this.#holdIfOverfull(crawl);
    if (!this.#closing) outlet.retry(() => this.#tryAgain(crawl, outlet));
  }

  #tryAgain(crawl: C, outlet: Outlet): void {
    if (outlet.isBusy || outlet.state !== 'failing' || this.#closing) return;
    void this.#work(crawl, outlet, () => this.#writeAll(crawl, outlet)).then(() =>
      this.#begin(crawl, outlet),
    );
  }

  #holdIfOverfull(crawl: C): void {
    const { rows, outlets } = this.#of(crawl);
    const failing = outlets.find(({ state }) => state === 'failing');
    const bytesMax = this.#options.failingBytesMax ?? failingBytesMax;
    if (failing === undefined || rows.bytes <= bytesMax || this.#overfull.has(crawl)) return;
    this.#overfull.add(crawl);
    this.#options.events.held(crawl, `${failing.kind.name}: ${failing.reason}`);
  }

  /** It has written: its crawl goes on if that was what it waited for. */
  #recovered(crawl: C, outlet: Outlet): void {
    if (outlet.state === 'failing') this.#options.events.available(crawl, outlet.kind.name);
    outlet.recovered();
    const { outlets } = this.#of(crawl);
    if (!outlets.every(isWriting) || !this.#overfull.delete(crawl)) return;
    this.#options.events.released(crawl);
  }

  async #writeAll(crawl: C, outlet: Outlet): Promise<void> {
    const { rows } = this.#of(crawl);
    let isMore = false;
    while (rows.has(outlet.commit) || outlet.state === 'failing') {
      // When nothing else is left to do, or more waits than one write takes, at once.
      if (!this.#closing && !crawl.isFetched && !isMore) await pause(writeEveryMs);
      outlet.sink ??= await outlet.kind.open(crawl, outlet.mark);
      ({ isMore } = await this.#write(crawl, outlet, outlet.sink));
      if (outlet.state === 'failing') this.#recovered(crawl, outlet);
      this.#options.events.written(crawl);
    }
  }

  /** Writes the next rows, and puts on record that it did. */
  async #write(crawl: C, outlet: Outlet, sink: Sink): Promise<{ isAny: boolean; isMore: boolean }> {
    const { rows, isMore } = this.#of(crawl).rows.after(outlet.commit);
    const last = rows.at(-1);
    if (last === undefined) return { isAny: false, isMore: false };
    const records = rows.flatMap(({ sections }) => sections);
    outlet.mark = await this.#append(sink, records);
    outlet.commit = last.commit;
    await this.#passed(crawl, outlet);
    return { isAny: true, isMore };
  }

  /** A write that finds no room is tried again, at the same place of the target. */
  async #append(sink: Sink, records: Parameters<Sink['write']>[0]): Promise<unknown> {
    const { room } = this.#options;
    while (true) {
      await room?.room();
      try {
        return await sink.write(records);
      } catch (error) {
        if (room === undefined || !isDiskFull(error)) throw error;
        room.refused();
      }
    }
  }

  /** One transaction: the cursor, and the end of the rows that all sinks have. */
  async #passed(crawl: C, { kind, commit, mark }: Outlet): Promise<number> {
    const { rows, outlets } = this.#of(crawl);
    const gone = rows.drop(Math.min(...outlets.map((outlet) => outlet.commit)));
    const changes: Change[] = gone.map((row) => ({
      table: 'results',
      key: commitKey(crawl.id, row.commit),
      value: undefined,
    }));
    const key = cursorKey(crawl.id, kind.name);
    changes.push({ table: 'meta', key, value: encodeCursor({ commit, mark }) });
    await this.#options.commits.written(changes);
    crawl.open.written(gone.length);
    return gone.length;
  }

  /** @throws CommandError E_BAD_REQUEST its target is still not as it left it */
  async #resumeOne(crawl: C, outlet: Outlet, newFiles: boolean): Promise<Resumed> {
    let outcome: Resumed | CommandError | undefined;
    await outlet.work(async () => {
      try {
        outcome = await this.#reopen(crawl, outlet, newFiles);
      } catch (error) {
        const isKnown = error instanceof HeldError || error instanceof UnavailableError;
        if (!isKnown) throw error;
        if (crawl.state !== 'cancelled') this.#options.events.held(crawl, messageOf(error));
        const message = `the crawl "${crawl.name}" stays held: ${messageOf(error)}`;
        outcome = new CommandError('E_BAD_REQUEST', message.slice(0, 512));
      }
    }, this.#options.onError);
    this.#begin(crawl, outlet);
    if (outcome instanceof CommandError) throw outcome;
    return outcome ?? { begun: [], cutBytes: 0 };
  }

  /** Opens the target of a sink that is not writing, and writes all that waits. */
  async #reopen(crawl: C, outlet: Outlet, newFiles: boolean): Promise<Resumed> {
    const { mark, begun } = newFiles
      ? await outlet.kind.beginAnew(crawl, outlet.mark)
      : { mark: outlet.mark, begun: [] };
    const sink = await outlet.kind.open(crawl, mark);
    try {
      outlet.mark = mark;
      if (begun.length > 0) await this.#passed(crawl, outlet);
      while ((await this.#write(crawl, outlet, sink)).isAny);
      await sink.check();
    } catch (error) {
      await sink.close();
      throw error;
    }
    const { sink: before } = outlet;
    outlet.sink = sink;
    this.#recovered(crawl, outlet);
    await before?.close();
    return { begun, cutBytes: sink.cutBytes };
  }

  /** Nothing that waits for it will be written any more. */
  async #drop(crawl: C, outlet: Outlet): Promise<void> {
    const { lastCommit } = this.#of(crawl).rows;
    if (lastCommit <= outlet.commit) return;
    outlet.commit = lastCommit;
    const dropped = await this.#passed(crawl, outlet);
    if (dropped > 0) this.#options.events.dropped(crawl, dropped);
  }
}

function isWriting({ state }: Outlet): boolean {
  return state === 'writing';
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

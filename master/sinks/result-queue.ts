/**
 * The result queue: records that are on the disk in the store and that not all sinks of their crawl
 * have written. `CrawlResults` writes those of one crawl; this has all crawls, and does with their
 * results what an operator or the end of a crawl asks for.
 *
 * A crawl does not wait for the sinks of another one. The rows that wait for a sink which cannot
 * write stay in the store alone and do not count as waiting.
 */
import { join } from 'node:path';
import { CommandError, ConfigError, messageOf } from '../../shared/errors.ts';
import type { NamedOutput } from '../../shared/outputs.ts';
import { partsOf } from '../store/parts.ts';
import type { SealedRow } from '../store/result-rows.ts';
import { CrawlResults } from './crawl-results.ts';
import type { CrawlResultsOptions, ResultCrawl } from './crawl-results-options.ts';
import type { Outlet } from './outlet.ts';
import { refuseMisplaced } from './output-places.ts';
import { orNothing } from './result-folder.ts';
import {
  type BegunFile,
  type ClosedTarget,
  type Deleted,
  HeldError,
  type Resumed,
  UnavailableError,
} from './sink.ts';
import { renameTargets } from './targets.ts';

/** A sink of a crawl, for people. */
export type SinkState = {
  readonly name: string;
  /** One of its outputs, which can be given up. */
  readonly isOutput: boolean;
  readonly state: Outlet['state'];
  /** Why it is not writing. */
  readonly reason?: string;
  /** For how long it could not, unless it is held. */
  readonly ms?: number;
  /** Records and bytes that wait for it. */
  readonly records: number;
  readonly bytes: number;
};

export type ResultQueueOptions<C extends ResultCrawl> = CrawlResultsOptions<C> & {
  /** `<out>`, for messages. */
  readonly folder: string;
  /** Bytes that wait for sinks before no more is fetched. */
  readonly waitingBytesMax: () => number;
};

export class ResultQueue<C extends ResultCrawl> {
  readonly #options: ResultQueueOptions<C>;
  readonly #crawls = new Map<C, CrawlResults<C>>();
  #closing = false;

  constructor(options: ResultQueueOptions<C>) {
    this.#options = options;
  }

  get isFull(): boolean {
    const { waitingBytesMax, room } = this.#options;
    if (room?.isShort === true) return true;
    let waiting = 0;
    for (const results of this.#crawls.values()) {
      waiting += results.waitingBytes;
    }
    return waiting > waitingBytesMax();
  }

  folderOf(crawlName: string): string {
    return join(this.#options.folder, crawlName);
  }

  /** To be called before a crawl is made. `next`: if it fails, the files that were made go again.
   *  @throws ConfigError its targets would overwrite others, or cannot be written. */
  async prepare(
    crawlName: string,
    outputs: readonly NamedOutput[] = [],
    { download }: { readonly download?: unknown } = {},
    next: () => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    await refuseMisplaced(this.folderOf(crawlName), outputs, download !== undefined);
    await orNothing(this.folderOf(crawlName), async () => {
      for (const kind of this.#options.sinks) await kind.prepare(crawlName);
      await this.#prepareOutputs(crawlName, outputs);
      await next();
    });
  }

  /** To be called before a crawl has `all` of these outputs, of which some are new.
   *  @throws ConfigError as `prepare` */
  async prepareOutputs(
    crawlName: string,
    outputs: readonly NamedOutput[],
    all: readonly NamedOutput[] = outputs,
    { download }: { readonly download?: unknown } = {},
  ): Promise<void> {
    if (outputs.length === 0) return;
    await refuseMisplaced(this.folderOf(crawlName), all, download !== undefined);
    await this.#prepareOutputs(crawlName, outputs);
  }

  async #prepareOutputs(crawlName: string, outputs: readonly NamedOutput[]): Promise<void> {
    for (const output of outputs) await this.#options.outputs?.(output).prepare(crawlName);
  }

  /** The outputs of a crawl have changed: those that are new begin with the next record. `before`:
   *  those that it had; one of the same name was another, also if the crawl is not in memory. */
  async outputsChanged(crawl: C, before: readonly NamedOutput[]): Promise<void> {
    const results = this.#of(crawl, before);
    await results.alone(() => results.reconcile());
    await this.rest(crawl);
  }

  /** The sinks of a crawl, and what waits for each. */
  sinksOf(crawl: C): SinkState[] {
    const results = this.#crawls.get(crawl) ?? this.#look(crawl);
    const { outlets, rows, outputOutlets } = results;
    return outlets.map((outlet) => {
      const { reason, commit, kind, trouble } = outlet;
      return {
        name: kind.name,
        // A write that hangs will be given up.
        state: trouble === undefined ? outlet.state : 'failing',
        bytes: rows.bytesAfter(commit),
        isOutput: outputOutlets.includes(outlet),
        records: results.recordsAfter(commit),
        ...(trouble ?? (reason !== '' && { reason })),
      };
    });
  }

  /** Its sinks that cannot write for now, and are tried again. */
  failingOf(crawl: C): Pick<Required<SinkState>, 'name' | 'reason' | 'ms'>[] {
    const outlets = this.#crawls.get(crawl)?.outlets ?? [];
    return outlets.flatMap(({ kind: { name }, trouble }) =>
      trouble === undefined ? [] : [{ name, ...trouble }],
    );
  }

  /** Of a crawl that is over. */
  #look(crawl: C): CrawlResults<C> {
    return new CrawlResults(crawl, this.#options);
  }

  /** Takes up what an earlier master left unwritten, and opens the targets of a crawl that is open;
   *  one whose targets are not what was left is held. @throws ConfigError the disk fails */
  async restore(crawl: C): Promise<void> {
    const results = new CrawlResults(crawl, this.#options);
    const { rows } = results;
    rows.load();
    for (const outlet of results.outlets) await results.endRotation(outlet);
    if (rows.count === 0 && !crawl.isOpen) return;
    crawl.open.record(rows.count);
    this.#crawls.set(crawl, results);
    await results.dropWritten();
    for (const outlet of results.outlets) {
      // A database that does not answer holds up no start.
      if (results.outputOutlets.includes(outlet)) {
        void results.work(outlet, () => results.open(outlet)).then(() => results.begin(outlet));
        continue;
      }
      await results.open(outlet);
      results.begin(outlet);
    }
  }

  /** Takes over a row that is on the disk. */
  offer(crawl: C, commit: number, row: SealedRow): void {
    this.#of(crawl).offer(commit, row);
  }

  /** Checks that the targets of a crawl are as its sinks left them, before its end is reported. */
  async confirm(crawl: C): Promise<void> {
    const results = this.#crawls.get(crawl);
    for (const outlet of results?.outlets ?? []) {
      const { sink } = outlet;
      // A write that is under way checks it.
      if (sink === undefined || !outlet.isWriting || outlet.isBusy) continue;
      await outlet.hastily(async () => await results?.work(outlet, () => sink.check()));
      results?.begin(outlet);
    }
  }

  /** Nothing more of a crawl is fetched: what its sinks have gathered is written. */
  end(crawl: C): void {
    const results = this.#crawls.get(crawl);
    for (const outlet of results?.outlets ?? []) {
      if (outlet.isGathering) results?.begin(outlet);
      outlet.stir();
    }
    // The last rows that were written may wait for a commit, and no other comes.
    results?.hurry();
  }

  /** Lets the sinks of a held crawl write again, waiting rows first. With `newFiles` they begin new
   *  targets in place of those that have changed, which are moved aside.
   *  @throws CommandError E_BAD_REQUEST a target is still not as its sink left it */
  async resume(crawl: C, newFiles = false): Promise<Resumed> {
    const begun: BegunFile[] = [];
    let cutBytes = 0;
    const results = this.#crawls.get(crawl);
    for (const outlet of results?.outlets ?? []) {
      if (results === undefined || outlet.isWriting) continue;
      if (outlet.isBusy) {
        throw new CommandError('E_BAD_REQUEST', `the crawl "${crawl.name}" is being resumed`);
      }
      try {
        const outcome = await this.#resumeOne(results, outlet, newFiles);
        begun.push(...outcome.begun);
        cutBytes += outcome.cutBytes;
      } catch (error) {
        // An output that cannot be written for now is tried again, and its crawl goes on.
        if (outlet.state !== 'failing') throw error;
      }
    }
    if (results?.overfull !== undefined) {
      const message = `the crawl "${crawl.name}" stays held, and goes on by itself: ${results.overfull}`;
      throw new CommandError('E_BAD_REQUEST', message.slice(0, 512));
    }
    return { begun, cutBytes };
  }

  /** Its crawl is cancelled: writes the waiting rows, or drops them if that fails. */
  async giveUp(crawl: C): Promise<void> {
    const results = this.#crawls.get(crawl);
    for (const outlet of results?.outlets ?? []) outlet.hasten();
    for (const outlet of results?.outlets ?? []) {
      // A program takes its time, and the operator waits for this.
      if (outlet.kind.isPatient && outlet.isWriting) continue;
      outlet.stir();
      await outlet.idle();
      if (results === undefined) continue;
      if (outlet.isWriting) {
        outlet.isEnding = true;
        results.begin(outlet);
        await outlet.idle();
      }
      if (outlet.isWriting) continue;
      try {
        if (outlet.isHanging) await outlet.work(() => results.drop(outlet), this.#options.onError);
        else await this.#resumeOne(results, outlet, false);
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
        await outlet.work(() => results.drop(outlet), this.#options.onError);
      }
    }
  }

  /** Its crawl is being removed: closes its targets, with `files` to delete them, and without to
   *  write what waits first. Nothing of it is in memory then.
   *  @throws ConfigError a target cannot be deleted */
  async remove(crawl: C, files: boolean): Promise<Deleted> {
    const results = this.#of(crawl);
    const { rows, outlets } = results;
    const deleted: string[] = [];
    const kept: string[] = [];
    for (const outlet of outlets) outlet.hasten();
    for (const outlet of outlets) {
      // Rows that wait for a program are in the result files, too.
      const { isPatient } = outlet.kind;
      if (isPatient) outlet.claim();
      outlet.stir();
      await outlet.idle();
      outlet.isEnding = true;
      while (!files && !isPatient && outlet.isWriting && rows.has(outlet.commit)) {
        results.begin(outlet);
        await outlet.idle();
      }
      await outlet.close();
    }
    for (const outlet of outlets) {
      if (!files && !outlet.kind.isPatient) results.tellLacking(outlet);
    }
    this.#forget(results);
    // The result files last: their folder goes if nothing else is in it.
    for (const { kind, mark } of files ? [...outlets].reverse() : []) {
      const parts = partsOf(this.#options.store, crawl.id, kind.name);
      const gone = await kind.remove(crawl, mark, parts);
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
    const results = this.#crawls.get(crawl);
    let fault: unknown;
    const work = async () => {
      try {
        await renameTargets(this.#options.sinks, from, to, isAgain);
        await renamed();
      } catch (error) {
        fault = error;
      }
      // Their paths have changed. A held one keeps its files, to be copied from /proc.
      for (const outlet of results?.outlets ?? []) {
        if (outlet.isWriting) await results?.openAgain(outlet);
      }
    };
    await (results === undefined ? work() : results.alone(work));
    if (fault !== undefined) throw fault;
  }

  /** Closes what the sinks of a crawl have written under a date, and begins new targets. Rows
   *  that wait are written to these. Returns what was closed; nothing: the targets are empty.
   *  @throws CommandError E_BAD_REQUEST a target is not as it was left, or cannot be closed */
  async rotate(crawl: C): Promise<readonly ClosedTarget[]> {
    if (this.#options.room?.isShort === true) {
      throw new CommandError('E_BAD_REQUEST', 'the disk is full: free space and rotate again');
    }
    const closed: ClosedTarget[] = [];
    let fault: ConfigError | undefined;
    for (let isDone = false; !isDone; ) {
      const results = this.#of(crawl);
      await results.alone(async () => {
        // It may have been put to rest in the meantime.
        isDone = this.#crawls.get(crawl) === results;
        if (!isDone) return;
        try {
          for (const outlet of results.outlets) {
            const rotated = await results.rotate(outlet);
            closed.push(...rotated.closed);
            fault ??= rotated.fault;
          }
        } catch (error) {
          if (!(error instanceof ConfigError)) throw error;
          fault = error;
        }
      });
    }
    await this.rest(crawl);
    if (fault !== undefined) {
      const done = closed.map(({ file, as }) => `${file} is now ${as}`).join(', ');
      const how = closed.length === 0 ? 'was not rotated' : `was rotated in part (${done})`;
      const message = `the crawl "${crawl.name}" ${how}: ${messageOf(fault)}`;
      throw new CommandError('E_BAD_REQUEST', message.slice(0, 512));
    }
    return closed;
  }

  /** Its crawl has finished: closes the targets, which are opened again if it goes on. */
  async rest(crawl: C): Promise<void> {
    const results = this.#crawls.get(crawl);
    // Its sinks go on writing, one of them perhaps to a slow program.
    if (results === undefined || crawl.isOpen) return;
    const { rows, outlets } = results;
    for (const outlet of outlets) await outlet.idle();
    // It may have gone on in the meantime, or wait for a sink.
    if (crawl.isOpen || rows.count > 0 || !results.isWriting) return;
    if (outlets.some(({ isBusy }) => isBusy)) return;
    this.#forget(results);
    for (const outlet of outlets) await outlet.close();
  }

  #forget(results: CrawlResults<C>): void {
    results.forgotten();
    this.#crawls.delete(results.crawl);
  }

  /** Writes all that waits, but for sinks that cannot write, and closes the targets. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const results of this.#crawls.values()) {
      results.closing();
      for (const outlet of results.outlets) {
        outlet.kind.hurry?.();
        outlet.stir();
      }
    }
    for (const [crawl, results] of this.#crawls) {
      for (const outlet of results.outlets) {
        await outlet.idle();
        await outlet.close();
        const { kind, state, commit } = outlet;
        // A program that reads the records has left: it knows.
        const records =
          state === 'failing' && kind.isPatient !== true ? results.recordsAfter(commit) : 0;
        if (records > 0) this.#options.events.left(crawl, kind.name, records);
      }
    }
    this.#crawls.clear();
  }

  #of(crawl: C, before?: readonly NamedOutput[]): CrawlResults<C> {
    const known = this.#crawls.get(crawl);
    if (known !== undefined) return known;
    const results = new CrawlResults(crawl, this.#options, before);
    if (this.#closing) results.closing();
    this.#crawls.set(crawl, results);
    return results;
  }

  /** @throws CommandError E_BAD_REQUEST its target is still not as it left it */
  async #resumeOne(results: CrawlResults<C>, outlet: Outlet, newFiles: boolean): Promise<Resumed> {
    const { crawl } = results;
    let outcome: Resumed | CommandError | undefined;
    const reopen = async () => {
      try {
        outcome = await results.reopen(outlet, newFiles);
      } catch (error) {
        const isKnown = error instanceof HeldError || error instanceof UnavailableError;
        if (!isKnown) throw error;
        if (error instanceof HeldError) outlet.held(messageOf(error));
        const isHeld = outlet.state === 'held' && crawl.state !== 'cancelled';
        if (isHeld) this.#options.events.held(crawl, messageOf(error));
        const message = `the crawl "${crawl.name}" stays held: ${messageOf(error)}`;
        outcome = new CommandError('E_BAD_REQUEST', message.slice(0, 512));
      }
    };
    await outlet.hastily(() => outlet.work(reopen, this.#options.onError));
    results.goOn(outlet);
    if (outcome instanceof CommandError) throw outcome;
    return outcome ?? { begun: [], cutBytes: 0 };
  }
}

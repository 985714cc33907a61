/**
 * The life of crawls after they were made: paused and continued by an operator, held and released
 * by their sinks, cancelled, finished, removed. A crawl that has ended for good leaves its rows to
 * the eraser, which takes its time.
 */
import { CommandError, ConfigError } from '../../shared/errors.ts';
import { type Environment, loginFault } from '../../shared/login.ts';
import type { ResultListener } from '../sinks/result-events.ts';
import type { ClosedTarget, Deleted, Resumed } from '../sinks/sink.ts';
import { crawlRows } from '../store/crawl-rows.ts';
import type { Eraser } from '../store/eraser.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import { crawlKey, encodeLastCrawl, lastCrawlKey, trapsKey } from '../store/records.ts';
import { type Change, type CrawlTable, crawlTables } from '../store/store.ts';
import type { ArchivesPort } from './commit/archives.ts';
import type { ImagesPort } from './commit/images-port.ts';
import type { ResultsPort } from './commit/results.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Crawls } from './crawl/crawls.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { FrontierEvents } from './frontier-events.ts';

type LifeCycleOptions = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly commits: GroupCommit;
  readonly results: ResultsPort;
  readonly archives: ArchivesPort | undefined;
  readonly images: ImagesPort | undefined;
  readonly pictures: { rest(crawl: Crawl): void };
  readonly events: FrontierEvents;
  readonly eraser: Eraser;
  /** Variables that the secrets of logins are read from. */
  readonly env: Environment;
  /** Returns the keys of a crawl in `meta`. */
  readonly metaKeysOf: (crawl: number) => Buffer[];
};

/** A cancelled crawl keeps the results that are not written yet. */
const cancelledTables: readonly CrawlTable[] = crawlTables.filter(
  // Kept images stay on record, so that a removal knows their files.
  (table) => table !== 'results' && table !== 'contents' && table !== 'spares',
);
/** How long a crawl that is over keeps its filter after it was asked for. */
const restAfterMs = 1_000;

export class LifeCycle implements ResultListener<Crawl> {
  readonly #options: LifeCycleOptions;
  /** Crawls whose files are checked before they are done. */
  readonly #ending = new Set<Crawl>();
  /** Crawls that an operator has just removed. */
  readonly #removing = new Set<Crawl>();
  /** Crawls whose files are being closed, and the end of that. */
  readonly #rotating = new Map<Crawl, Promise<unknown>>();
  readonly #restless = new Map<Crawl, NodeJS.Timeout>();

  constructor(options: LifeCycleOptions) {
    this.#options = options;
  }

  async pause(crawl: Crawl): Promise<void> {
    if (await this.#move(crawl, 'running', 'paused')) this.#options.events.crawlPaused(crawl);
  }

  /** Leaves a crawl alone until it is resumed, or this master ends. */
  setAside(crawl: Crawl): void {
    crawl.setAside(true);
    this.#turned(crawl);
  }

  /** Lets it go on: ends the reason for which it is held first. With `newFiles`, its sinks begin
   *  new files. @throws CommandError E_BAD_REQUEST its results can still not be written, or a
   *  variable of its login is still not set */
  async resume(crawl: Crawl, newFiles: boolean): Promise<Resumed> {
    const { results, events } = this.#options;
    // Its files may have been moved while it was paused: then this holds it.
    if (crawl.isOpen) await results.confirm?.(crawl);
    const wasHeld = crawl.held !== undefined;
    const how = (await results.resume?.(crawl, newFiles)) ?? { begun: [], cutBytes: 0 };
    const lacks = this.#loginFaultOf(crawl);
    if (lacks !== undefined) {
      throw new CommandError('E_BAD_REQUEST', `the crawl "${crawl.name}" stays held: ${lacks}`);
    }
    this.#release(crawl, true);
    const wasAside = this.#takeBack(crawl);
    const isMoved = (await this.#move(crawl, 'paused', 'running')) || wasAside;
    if (wasHeld) events.crawlReleased(crawl, how);
    if (isMoved) events.crawlContinued(crawl);
    return how;
  }

  #takeBack(crawl: Crawl): boolean {
    if (!crawl.isAside) return false;
    crawl.setAside(false);
    this.#turned(crawl);
    this.settle(crawl);
    return true;
  }

  /** A held crawl stays held. */
  async #move(crawl: Crawl, from: Crawl['state'], to: 'running' | 'paused'): Promise<boolean> {
    if (crawl.held !== undefined || crawl.state !== from) {
      // The same command may have come before, and be on its way to the disk.
      await this.#options.commits.written([]);
      return false;
    }
    crawl.moveTo(to);
    this.#turned(crawl);
    await this.#save(crawl);
    // Its last report may have come in the meantime.
    this.settle(crawl);
    return true;
  }

  /** The crawl's results cannot be written, for that reason: it fetches nothing until `released`.
   *  Reports under way may arrive, and stay in the store. `isPassing`: no operator has to act. */
  held(crawl: Crawl, reason: string, isPassing = false): void {
    const isNew = crawl.held !== reason;
    if (crawl.isOpen) {
      crawl.hold(reason, isPassing);
      this.#turned(crawl);
    }
    if (isNew) this.#options.events.crawlHeld(crawl, reason, isPassing);
  }

  /** The crawl's results can be written again. */
  released(crawl: Crawl): void {
    if (this.#release(crawl)) this.#options.events.crawlReleased(crawl);
  }

  /** A slave could not log in, or a variable is missing: it fetches nothing until an operator
   *  resumes it. */
  loginFailed(crawl: Crawl, why: string): void {
    if (!crawl.isOpen || crawl.login.fault !== undefined) return;
    crawl.login.failed(why);
    this.#turned(crawl);
    this.#options.events.crawlHeld(crawl, crawl.login.fault ?? why);
  }

  /** Its images cannot be written: it fetches nothing until an operator resumes it. */
  imagesFailed(crawl: Crawl, why: string): void {
    if (!crawl.isOpen || crawl.images.fault !== undefined) return;
    crawl.images.failed(why);
    this.#turned(crawl);
    this.#options.events.crawlHeld(crawl, why);
  }

  /** Holds an open crawl whose login names a variable that is not set. */
  checkLogin(crawl: Crawl): void {
    const lacks = this.#loginFaultOf(crawl);
    if (lacks !== undefined) this.loginFailed(crawl, lacks);
  }

  #loginFaultOf({ isOpen, spec }: Crawl): string | undefined {
    const { login } = spec.fetch;
    return isOpen && login !== undefined ? loginFault(login, this.#options.env) : undefined;
  }

  /** `isOperator`: its login is tried again, too. */
  #release(crawl: Crawl, isOperator = false): boolean {
    if (crawl.held === undefined) return false;
    crawl.release();
    if (isOperator) {
      crawl.login.again();
      crawl.images.again();
    }
    if (crawl.held !== undefined) return false;
    this.#turned(crawl);
    this.settle(crawl);
    return true;
  }

  /** The crawl now runs, or no longer runs. */
  #turned(crawl: Crawl): void {
    const { dispatcher, crawls } = this.#options;
    if (!crawl.isRunning) dispatcher.putOffHops(crawl.id);
    crawls.queues.wake(crawl);
    if (!crawl.isRunning) crawls.queues.park(crawl);
    dispatcher.dispatchSoon();
  }

  /** Ends a crawl permanently: it fetches nothing more. Its files stay. */
  async cancel(crawl: Crawl): Promise<void> {
    if (crawl.removal !== undefined) throw removedAlready(crawl);
    const isNew = crawl.state !== 'cancelled';
    if (isNew) crawl.moveTo('cancelled');
    await this.#stop(crawl);
    if (isNew) this.erase(crawl);
    await this.#options.results.giveUp?.(crawl);
    await this.#options.archives?.rest(crawl);
    if (isNew) this.#options.events.crawlEnded(crawl);
  }

  /** Ends a crawl permanently, and forgets it: when this resolves its name is free, and its rows go
   *  by and by. `files`: its result files are deleted, too.
   *  @throws CommandError E_BAD_REQUEST it is being removed */
  async remove(crawl: Crawl, files: boolean): Promise<Deleted> {
    if (this.#removing.has(crawl)) throw removedAlready(crawl);
    if (crawl.renaming !== undefined) throw renamedNow(crawl);
    this.#removing.add(crawl);
    const rotating = this.#rotating.get(crawl);
    if (rotating !== undefined) await rotating;
    crawl.remove(files ? 'deleting' : 'writing');
    await this.#stop(crawl);
    const deleted = await this.endRemoval(crawl);
    this.#removing.delete(crawl);
    return deleted;
  }

  /** Gives its result files a dated name, and begins new ones. A held crawl goes on if another
   *  program has only renamed them. Returns what was closed; nothing: the files are empty.
   *  @throws CommandError E_BAD_REQUEST they cannot be closed */
  async rotate(crawl: Crawl): Promise<readonly ClosedTarget[]> {
    const { events, results } = this.#options;
    if (crawl.removal !== undefined || this.#removing.has(crawl)) throw removedAlready(crawl);
    if (crawl.renaming !== undefined) throw renamedNow(crawl);
    const rotated = results.rotate?.(crawl) ?? Promise.resolve([]);
    const ended = Promise.allSettled([this.#rotating.get(crawl), rotated]);
    this.#rotating.set(crawl, ended);
    try {
      const closed = await rotated;
      if (closed.length > 0) events.crawlRotated(crawl, closed);
      return closed;
    } finally {
      if (this.#rotating.get(crawl) === ended) this.#rotating.delete(crawl);
    }
  }

  /** Goes on with a removal from what is on record. */
  async endRemoval(crawl: Crawl): Promise<Deleted> {
    const { archives, crawls, events, images, results } = this.#options;
    // Before the results: their folder goes when it is empty.
    const kept = await images?.remove(crawl, crawl.removal === 'deleting');
    const archived = await archives?.remove(crawl, crawl.removal === 'deleting');
    const written = await results.remove?.(crawl, crawl.removal === 'deleting');
    crawl.remove('erasing');
    // No later crawl may get its number.
    const last = {
      table: 'meta',
      key: lastCrawlKey,
      value: encodeLastCrawl(crawls.lastId),
    } as const;
    await this.#options.commits.written([...this.#recordOf(crawl), last]);
    crawls.forget(crawl);
    this.#eraseRemoved(crawl.id);
    events.crawlRemoved(crawl);
    return {
      deleted: [written, archived, kept].flatMap((one) => one?.deleted ?? []),
      kept: [written, archived, kept].flatMap((one) => one?.kept ?? []),
    };
  }

  /** Gives a crawl another name. The intent is on record before its folder is moved, so that a
   *  start can end it. @throws CommandError E_BAD_REQUEST it keeps its name */
  async rename(crawl: Crawl, to: string): Promise<void> {
    const { crawls, results } = this.#options;
    if (crawl.removal !== undefined || this.#removing.has(crawl)) throw removedAlready(crawl);
    const refuse = (why: string) => new CommandError('E_BAD_REQUEST', why);
    if (crawl.renaming !== undefined) throw renamedNow(crawl);
    if (crawls.has(to)) throw refuse(`there is a crawl "${to}" already; choose another name`);
    crawls.reserve(crawl, to);
    crawl.renaming = to;
    try {
      if (await results.isTaken?.(to)) {
        throw refuse(`there are results of the name "${to}" already; move them away`);
      }
      await this.#save(crawl);
      await this.endRename(crawl, to, false);
    } catch (error) {
      crawl.renaming = undefined;
      crawls.free(to);
      if (error instanceof CommandError) throw error;
      await this.#save(crawl);
      throw error instanceof ConfigError ? refuse(error.message) : error;
    }
  }

  /** Ends a renaming that is on record. @throws ConfigError a folder cannot be renamed */
  async endRename(crawl: Crawl, to: string, isAgain: boolean): Promise<void> {
    const { archives, crawls, events, images, results } = this.#options;
    const from = crawl.name;
    const renamed = async () => {
      crawl.renamed();
      crawls.free(from);
      await this.#save(crawl);
    };
    const rename = async () => {
      if (results.rename === undefined) await renamed();
      else await results.rename(crawl, { from, to, isAgain }, renamed);
    };
    const apart = async () => await (images === undefined ? rename() : images.alone(crawl, rename));
    if (archives === undefined) await apart();
    else await archives.alone(crawl, apart);
    events.crawlRenamed(crawl, from);
  }

  /** Goes on with renamings of an earlier master, before any result file is opened. */
  async restoreNames(): Promise<void> {
    const { crawls } = this.#options;
    for (const crawl of [...crawls]) {
      const to = crawl.renaming;
      if (to === undefined) continue;
      try {
        if (crawls.has(to)) throw new ConfigError(`there is a crawl "${to}"`);
        crawls.reserve(crawl, to);
        await this.endRename(crawl, to, true);
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        // Somebody has made a folder of that name: the crawl keeps its own.
        if (crawls.has(to) && crawls.named(to) === crawl) crawls.free(to);
        crawl.renaming = undefined;
        await this.#save(crawl);
      }
    }
  }

  /** Goes on with what an earlier master did not end. */
  async restore(): Promise<void> {
    const { crawls } = this.#options;
    for (const id of crawls.removedIds) this.#eraseRemoved(id);
    for (const crawl of [...crawls]) {
      if (crawl.removal !== undefined) await this.endRemoval(crawl);
      else if (crawl.state === 'cancelled' && crawl.counters.seen > 0) this.erase(crawl);
    }
  }

  /** Nothing of the crawl is fetched or admitted from now on. Commits end in order: when this
   *  resolves, all that was gathered for it is on the disk. */
  async #stop(crawl: Crawl): Promise<void> {
    const { crawls, dispatcher } = this.#options;
    crawl.release();
    dispatcher.cancel(crawl.id);
    crawls.queues.leaveAll(crawl);
    const forgotten = crawl.filter.forget();
    await this.#save(crawl);
    await forgotten;
  }

  /** Erases the rows of a cancelled crawl, but for results that are to be written. */
  erase(crawl: Crawl): void {
    const { eraser, crawls } = this.#options;
    eraser.add({
      crawl: crawl.id,
      tables: cancelledTables,
      last: () => {
        if (crawl.removal === undefined) crawl.books.erased();
        const traps = { table: 'meta', key: trapsKey(crawl.id), value: undefined } as const;
        // Its removal may have come since: that has its own record.
        return crawl.removal === undefined ? [traps, ...this.#recordOf(crawl)] : [traps];
      },
      done: () => {
        if (crawl.removal === undefined) crawls.erased(crawl.id);
      },
    });
  }

  #eraseRemoved(id: number): void {
    const { eraser, crawls, metaKeysOf } = this.#options;
    eraser.add({
      crawl: id,
      tables: crawlTables,
      last: () => [
        ...metaKeysOf(id).map((key): Change => ({ table: 'meta', key, value: undefined })),
        { table: 'crawls', key: crawlKey(id), value: undefined },
      ],
      done: () => crawls.erased(id),
    });
  }

  written(crawl: Crawl): void {
    this.settle(crawl);
  }

  /** Checks whether a crawl has ended, after a write of a sink or a commit. */
  settle(crawl: Crawl): void {
    if (!crawl.isOpen) this.#restSoon(crawl);
    if (crawl.open.unwritten > 0 && (crawl.isFetched || !crawl.isOpen)) {
      this.#options.results.end?.(crawl);
    }
    if (!crawl.isDone || this.#ending.has(crawl)) return;
    const confirmed = this.#options.results.confirm?.(crawl);
    if (confirmed === undefined) {
      void this.#finish(crawl);
      return;
    }
    this.#ending.add(crawl);
    void confirmed.then(() => {
      this.#ending.delete(crawl);
      // A seed may have come since, or its files are gone.
      if (crawl.isDone) void this.#finish(crawl);
    });
  }

  async #finish(crawl: Crawl): Promise<void> {
    const { crawls, commits, events, images } = this.#options;
    crawl.moveTo('finished');
    // With a page limit it may have tasks.
    crawls.queues.park(crawl);
    // Before that is on record: a start after a kill ends the crawl, and sweeps, again.
    await images?.rest(crawl);
    await commits.written([...crawl.trapChanges(true), ...this.#recordOf(crawl)]);
    events.crawlEnded(crawl);
    await this.#rest(crawl);
  }

  /** Something of a crawl that is over was asked for, such as a link that it may know. */
  #restSoon(crawl: Crawl): void {
    if (!crawl.filter.isAwake || this.#restless.has(crawl)) return;
    const timer = setTimeout(() => {
      this.#restless.delete(crawl);
      void this.#rest(crawl);
    }, restAfterMs);
    this.#restless.set(crawl, timer);
  }

  /** A crawl that is over frees its memory, unless it has work again. */
  async #rest(crawl: Crawl): Promise<void> {
    const { archives, commits, crawls, pictures, results } = this.#options;
    if (!crawl.isAtRest) return;
    await archives?.rest(crawl);
    if (crawl.filter.wantsSaveToSleep) {
      // If it fails, the rows that it would have replaced are still there.
      const changes = await crawl.filter.save(crawl.lastCommit).catch(() => []);
      if (changes.length > 0) await commits.written(changes);
    }
    await results.rest?.(crawl);
    if (!crawl.isAtRest) return;
    crawl.rest();
    pictures.rest(crawl);
    crawls.queues.rest(crawl);
  }

  /** Ends its timers. */
  close(): void {
    for (const timer of this.#restless.values()) clearTimeout(timer);
  }

  #recordOf(crawl: Crawl): Change[] {
    return crawlRows(crawl.record());
  }

  async #save(crawl: Crawl): Promise<void> {
    await this.#options.commits.written(this.#recordOf(crawl));
  }
}

function removedAlready({ name }: Crawl): CommandError {
  return new CommandError('E_BAD_REQUEST', `the crawl "${name}" is being removed already`);
}

function renamedNow({ name }: Crawl): CommandError {
  return new CommandError('E_BAD_REQUEST', `the crawl "${name}" is being renamed; try again`);
}

/**
 * The life of crawls after they were made: paused and continued by an operator, held and released
 * by their sinks, cancelled, finished.
 */
import type { ResultListener } from '../sinks/result-events.ts';
import type { Resumed } from '../sinks/result-queue.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import { crawlKey, encodeCrawl } from '../store/records.ts';
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
  readonly events: FrontierEvents;
};

export class LifeCycle implements ResultListener<Crawl> {
  readonly #options: LifeCycleOptions;
  /** Crawls whose files are checked before they are done. */
  readonly #ending = new Set<Crawl>();

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

  /** Lets it go on: ends the reason for which it is held first. With `newFiles`, its sinks begin new
   *  files. @throws CommandError E_BAD_REQUEST its results can still not be written */
  async resume(crawl: Crawl, newFiles: boolean): Promise<Resumed> {
    const { results, events } = this.#options;
    // Its files may have been moved while it was paused: then this holds it.
    if (crawl.isOpen) await results.confirm?.(crawl);
    const wasHeld = crawl.held !== undefined;
    const how = (await results.resume?.(crawl, newFiles)) ?? { begun: [], cutBytes: 0 };
    this.#release(crawl);
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
    if (crawl.held !== undefined || crawl.state !== from) return false;
    crawl.moveTo(to);
    this.#turned(crawl);
    await this.#save(crawl);
    // Its last report may have come in the meantime.
    this.settle(crawl);
    return true;
  }

  /** The crawl's results cannot be written, for that reason: it fetches nothing until `released`.
   *  Reports under way may arrive, and stay in the store. */
  held(crawl: Crawl, reason: string): void {
    const isNew = crawl.held !== reason;
    if (crawl.isOpen) {
      crawl.hold(reason);
      this.#turned(crawl);
    }
    if (isNew) this.#options.events.crawlHeld(crawl, reason);
  }

  /** The crawl's results can be written again. */
  released(crawl: Crawl): void {
    if (this.#release(crawl)) this.#options.events.crawlReleased(crawl);
  }

  #release(crawl: Crawl): boolean {
    if (crawl.held === undefined) return false;
    crawl.release();
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
    const { crawls, dispatcher, results, events } = this.#options;
    if (crawl.state !== 'cancelled') crawl.moveTo('cancelled');
    crawl.release();
    dispatcher.cancel(crawl.id);
    crawls.queues.leaveAll(crawl);
    // Commits end in order: with this one, all that was gathered for the crawl is on the disk.
    await this.#save(crawl);
    await this.erase(crawl);
    await results.giveUp?.(crawl);
    events.crawlEnded(crawl);
  }

  /** Removes the rows of a cancelled crawl from the store. A crash may have come in the middle. */
  async erase(crawl: Crawl): Promise<void> {
    await this.#options.crawls.erase(crawl, this.#options.commits);
    await this.#save(crawl);
  }

  written(crawl: Crawl): void {
    this.settle(crawl);
  }

  /** Checks whether a crawl has ended, after a write of a sink or a commit. */
  settle(crawl: Crawl): void {
    if (!crawl.isDone || this.#ending.has(crawl)) return;
    const confirmed = this.#options.results.confirm?.(crawl);
    if (confirmed === undefined) {
      this.#finish(crawl);
      return;
    }
    this.#ending.add(crawl);
    void confirmed.then(() => {
      this.#ending.delete(crawl);
      // A seed may have come since, or its files are gone.
      if (crawl.isDone) this.#finish(crawl);
    });
  }

  #finish(crawl: Crawl): void {
    const { crawls, events } = this.#options;
    crawl.moveTo('finished');
    // With a page limit it may have tasks.
    crawls.queues.park(crawl);
    void this.#save(crawl).then(() => events.crawlEnded(crawl));
  }

  async #save(crawl: Crawl): Promise<void> {
    const value = encodeCrawl(crawl.record());
    await this.#options.commits.written([{ table: 'crawls', key: crawlKey(crawl.id), value }]);
  }
}

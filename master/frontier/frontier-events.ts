/**
 * The events of the frontier, as one typed stream. Each event is a method of the
 * listeners, called in the order of events, after the change of the crawl or task is on the
 * disk. None is called for each page: reports and leases are counted, and `counted` tells the
 * counts.
 */
import type { ChangedField } from '../../shared/protocol.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import type { ClosedTarget, Resumed } from '../sinks/sink.ts';
import type { CrawlView } from './crawl/crawl-view.ts';
import type { SeedsFound } from './crawl/seed-hosts.ts';

/** `isReopened`: it had ended, and goes on. */
export type CrawlChange = {
  readonly changed: readonly ChangedField[];
  readonly isReopened: boolean;
};

export interface FrontierEvents {
  /** A crawl was made, with these first seeds. */
  crawlMade(crawl: CrawlView, seeds: readonly string[]): void;
  /** Hosts of its seeds were looked up, and the result is new. */
  seedsFound(crawl: CrawlView, found: SeedsFound): void;
  /** A seed redirects to a host of its site, which joined the scope. */
  seedFollowed(crawl: CrawlView, hop: { readonly from: string; readonly to: string }): void;
  /** A seed brought no page: one of the first of its crawl. */
  seedFaulted(crawl: CrawlView, fault: { readonly url: string; readonly why: string }): void;
  /** An operator paused it, or let it go on. */
  crawlPaused(crawl: CrawlView): void;
  crawlContinued(crawl: CrawlView): void;
  /** Its results cannot be written, for this reason: it fetches nothing until it is resumed, or,
   *  `isPassing`, until enough is written. */
  crawlHeld(crawl: CrawlView, reason: string, isPassing?: boolean): void;
  /** It was held, and its results can be written again; `how`: an operator resumed it. */
  crawlReleased(crawl: CrawlView, how?: Resumed): void;
  /** It is finished or cancelled. */
  crawlEnded(crawl: CrawlView): void;
  /** An operator removed it: its name is free. */
  crawlRemoved(crawl: CrawlView): void;
  /** Its options have changed. */
  crawlChanged(crawl: CrawlView, change: CrawlChange): void;
  /** It has another name than `from` now. */
  crawlRenamed(crawl: CrawlView, from: string): void;
  /** Its result files were closed under dated names. */
  crawlRotated(crawl: CrawlView, closed: readonly ClosedTarget[]): void;
  /** About once a second: where the crawls stand. Two of these make a rate. */
  counted(crawls: Iterable<CrawlView>): void;
  /** A URL was given up, and is kept for inspection. */
  taskBuried(
    crawl: CrawlView,
    task: { readonly url: string; readonly error: FetchErrorBody },
  ): void;
  /** A host does not answer, and is not asked for this time. `hostKey`: scheme, host and port. */
  hostSlept(hostKey: string, forMs: number): void;
  /** A host that slept has answered. */
  hostWoke(hostKey: string): void;
  /** Pages wait for a robots.txt, and no holder takes such tasks. */
  robotsWanted(): void;
}

/** Hears the events that it has methods for. */
export type FrontierListener = Partial<FrontierEvents>;

/** Passes each event to all subscribers, in the order of their subscription. */
export class EventStream implements FrontierEvents {
  #listeners: FrontierListener[] = [];

  subscribe(listener: FrontierListener): void {
    this.#listeners.push(listener);
  }

  /** Passes no more events on. */
  end(): void {
    this.#listeners = [];
  }

  crawlMade(...told: Parameters<FrontierEvents['crawlMade']>): void {
    for (const listener of this.#listeners) listener.crawlMade?.(...told);
  }

  seedsFound(...told: Parameters<FrontierEvents['seedsFound']>): void {
    for (const listener of this.#listeners) listener.seedsFound?.(...told);
  }

  seedFollowed(...told: Parameters<FrontierEvents['seedFollowed']>): void {
    for (const listener of this.#listeners) listener.seedFollowed?.(...told);
  }

  seedFaulted(...told: Parameters<FrontierEvents['seedFaulted']>): void {
    for (const listener of this.#listeners) listener.seedFaulted?.(...told);
  }

  crawlPaused(...told: Parameters<FrontierEvents['crawlPaused']>): void {
    for (const listener of this.#listeners) listener.crawlPaused?.(...told);
  }

  crawlContinued(...told: Parameters<FrontierEvents['crawlContinued']>): void {
    for (const listener of this.#listeners) listener.crawlContinued?.(...told);
  }

  crawlHeld(...told: Parameters<FrontierEvents['crawlHeld']>): void {
    for (const listener of this.#listeners) listener.crawlHeld?.(...told);
  }

  crawlReleased(...told: Parameters<FrontierEvents['crawlReleased']>): void {
    for (const listener of this.#listeners) listener.crawlReleased?.(...told);
  }

  crawlEnded(...told: Parameters<FrontierEvents['crawlEnded']>): void {
    for (const listener of this.#listeners) listener.crawlEnded?.(...told);
  }

  crawlRemoved(...told: Parameters<FrontierEvents['crawlRemoved']>): void {
    for (const listener of this.#listeners) listener.crawlRemoved?.(...told);
  }

  crawlChanged(...told: Parameters<FrontierEvents['crawlChanged']>): void {
    for (const listener of this.#listeners) listener.crawlChanged?.(...told);
  }

  crawlRotated(...told: Parameters<FrontierEvents['crawlRotated']>): void {
    for (const listener of this.#listeners) listener.crawlRotated?.(...told);
  }

  crawlRenamed(...told: Parameters<FrontierEvents['crawlRenamed']>): void {
    for (const listener of this.#listeners) listener.crawlRenamed?.(...told);
  }

  counted(...told: Parameters<FrontierEvents['counted']>): void {
    for (const listener of this.#listeners) listener.counted?.(...told);
  }

  taskBuried(...told: Parameters<FrontierEvents['taskBuried']>): void {
    for (const listener of this.#listeners) listener.taskBuried?.(...told);
  }

  hostSlept(...told: Parameters<FrontierEvents['hostSlept']>): void {
    for (const listener of this.#listeners) listener.hostSlept?.(...told);
  }

  hostWoke(...told: Parameters<FrontierEvents['hostWoke']>): void {
    for (const listener of this.#listeners) listener.hostWoke?.(...told);
  }

  robotsWanted(...told: Parameters<FrontierEvents['robotsWanted']>): void {
    for (const listener of this.#listeners) listener.robotsWanted?.(...told);
  }
}

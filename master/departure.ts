/**
 * When a master with `--exit-when-done` leaves by itself: in order when all of its crawls have
 * ended, with an error when the rest are held and the operator does not act.
 */
import { exitCodes } from '../shared/errors.ts';
import type { Notices } from './cli/notices.ts';
import type { CrawlView } from './frontier/crawl/crawl-view.ts';
import type { FrontierListener } from './frontier/frontier-events.ts';
import { heldError } from './refusals.ts';

/** A master that may be left: `Master`. */
export interface Leaver {
  readonly isServing: boolean;
  /** Ends in order; `why`: with this error. */
  stop(why?: Error): Promise<void>;
  /** Ends in order, and slaves need not wait for another master. The code is asked for at its
   *  end. */
  leave(exitCode: () => number): void;
}

/** How long crawls that are held keep a master that would leave: to be resumed, or cancelled. */
const heldMs = 10_000;

export class Departure implements FrontierListener {
  readonly #master: Leaver;
  readonly #crawls: Iterable<CrawlView>;
  readonly #notices: Notices;
  readonly #leaves: boolean;
  readonly #isScheduled: () => boolean;
  /** Until then a crawl that has ended may get further seeds. */
  #hasBegun = false;
  /** There was a crawl: it may have been removed since. */
  #hadCrawl = false;
  #heldTimer: NodeJS.Timeout | undefined;
  #exitCode: number = exitCodes.done;

  /** `leaves`: with `--exit-when-done`; otherwise it never does anything. `isScheduled`: a crawl
   *  that has ended will get further seeds. */
  constructor(
    master: Leaver,
    crawls: Iterable<CrawlView>,
    notices: Notices,
    { leaves, isScheduled }: { readonly leaves: boolean; readonly isScheduled: () => boolean },
  ) {
    this.#isScheduled = isScheduled;
    this.#master = master;
    this.#crawls = crawls;
    this.#notices = notices;
    this.#leaves = leaves;
  }

  /** All seeds are in. An earlier master may have left nothing to do. */
  begin(): void {
    this.#hasBegun = true;
    this.#look();
  }

  #look(): void {
    this.#leaveIfDone();
    this.#leaveIfHeld();
  }

  /** Something else that it waited for is done. */
  idle(): void {
    setImmediate(() => this.#look());
  }

  crawlEnded({ ending }: CrawlView): void {
    if (ending?.why === 'unanswered') this.#exitCode = exitCodes.unanswered;
    // The client that cancelled it gets the answer first.
    setImmediate(() => this.#look());
  }

  crawlRemoved(): void {
    this.#hadCrawl = true;
    // As above.
    setImmediate(() => this.#look());
  }

  crawlHeld(): void {
    this.#leaveIfHeld();
  }

  crawlReleased(): void {
    this.#leaveIfHeld();
  }

  /** The master leaves, for whatever reason. */
  close(): void {
    clearTimeout(this.#heldTimer);
  }

  #leaveIfDone(): void {
    if (!this.#leaves || !this.#hasBegun || !this.#master.isServing) return;
    const crawls = [...this.#crawls];
    this.#hadCrawl ||= crawls.length > 0;
    if (this.#hadCrawl && !crawls.some(isWaitedFor) && !this.#isScheduled()) {
      this.#master.leave(() => this.#exitCode);
    }
  }

  /** A master that leaves when all is done would wait for ever for crawls that are held. */
  #leaveIfHeld(): void {
    const open = [...this.#crawls].filter(isWaitedFor);
    const isStuck = open.length > 0 && open.every((crawl) => crawl.isStuck);
    const leaves = this.#leaves && this.#master.isServing && isStuck;
    if (leaves === (this.#heldTimer !== undefined)) return;
    clearTimeout(this.#heldTimer);
    this.#heldTimer = undefined;
    if (!leaves) return;
    this.#notices.leavesHeld(heldMs);
    this.#heldTimer = setTimeout(() => void this.#master.stop(heldError(open)), heldMs);
  }
}

function isWaitedFor({ isOpen, isAside, removal }: CrawlView): boolean {
  return (isOpen && !isAside) || removal !== undefined;
}

/**
 * Changes of the options of crawls that are there. A change is in force in memory at once, for all
 * that is judged from then on; it is on the disk, and slaves have it, when it is answered. A crawl
 * that ended at its page limit goes on when the limit lets it.
 */
import { isDeepStrictEqual } from 'node:util';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError, ConfigError } from '../../shared/errors.ts';
import { isSameTarget, namedOutputs } from '../../shared/outputs.ts';
import type { Replies } from '../../shared/replies.ts';
import { crawlRows } from '../store/crawl-rows.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import type { ResultsPort } from './commit/results.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { Crawls } from './crawl/crawls.ts';
import { refusePatterns, refuseVain } from './crawl/patterns.ts';
import {
  changeOf,
  markOf,
  type PartialSpec,
  type SpecChange,
  wholePart,
} from './crawl/spec-change.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { FrontierEvents } from './frontier-events.ts';
import type { LifeCycle } from './life-cycle.ts';

type SpecChangesOptions = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly commits: GroupCommit;
  readonly lifeCycle: LifeCycle;
  readonly events: Pick<FrontierEvents, 'crawlChanged'>;
  readonly results: Pick<ResultsPort, 'outputsChanged' | 'prepareOutputs'>;
  /** Looks up hosts of a crawl's seeds that it may need to know now. */
  readonly resolve: (crawl: Crawl) => void;
};

export class SpecChanges {
  readonly #options: SpecChangesOptions;

  constructor(options: SpecChangesOptions) {
    this.#options = options;
  }

  /** Changes these fields of a crawl's options; null: the default of that field. Resolves when it
   *  is on the disk and all slaves were told. A crawl that no seed answered may change in all of
   *  them. `isStart`: these are the options of a start.
   *  @throws CommandError E_BAD_REQUEST it is cancelled, or a field is wrong or cannot change ·
   *  E_LIMIT there is no memory for it to go on */
  async change(crawl: Crawl, part: PartialSpec, isStart = false): Promise<Replies['crawl.set']> {
    let change = wantedChange(crawl, part);
    const isOther = change.changed.some(({ field }) => field === 'outputs');
    if (isOther) {
      await this.#prepareOutputs(crawl, change);
      // Others may have changed or ended it meanwhile.
      change = wantedChange(crawl, part);
    }
    const { changed } = change;
    const goesOn = crawl.state === 'finished' && crawl.open.waiting > 0 && isBelow(crawl, change);
    if (goesOn) this.#options.crawls.refuseAgain(crawl);
    const isReopened = goesOn && changed.length > 0;
    const wasOpen = crawl.isOpen;
    const outputs = namedOutputs(crawl.spec.outputs ?? []);
    if (changed.length > 0) {
      this.#apply(crawl, change, isStart);
      if (isReopened) {
        // So that its memory counts for the next crawl.
        crawl.filter.wake();
        crawl.moveTo('running');
      }
      // Until their hosts are known, its seeds at private addresses would be refused.
      if (crawl.isOpen) this.#options.resolve(crawl);
      await this.#save(crawl);
      if (isOther) await this.#options.results.outputsChanged?.(crawl, outputs);
      this.#options.lifeCycle.checkLogin(crawl);
      this.#options.events.crawlChanged(crawl, { changed, isReopened });
      this.#wake(crawl);
    } else {
      // The same change may have come before, and be on its way to the disk.
      await this.#options.commits.written([]);
    }
    return answerOf(crawl, change, { isReopened, ends: wasOpen && crawl.isFull });
  }

  /** A start names the crawl, with these options: it takes another login, a higher page limit, if
   *  it `isLimited`, and all of them if no seed was answered. The same start again takes no other
   *  change back. */
  async startAgain(crawl: Crawl, spec: CrawlSpec, isLimited: boolean): Promise<void> {
    if (crawl.state === 'cancelled') return;
    const { asStarted, isUnanswered } = crawl;
    const { maxPages } = spec;
    const none = Number.POSITIVE_INFINITY;
    const limit = Math.max(asStarted.maxPages ?? none, crawl.spec.maxPages ?? none);
    if (isUnanswered) {
      if (markOf(spec).digest === asStarted.digest) return;
      await this.change(crawl, wholePart(crawl.spec, spec), true);
      return;
    }
    const { login } = spec.fetch;
    if (login !== undefined && !isDeepStrictEqual(login, crawl.spec.fetch.login)) {
      await this.change(crawl, { fetch: { login } }, true);
    }
    if (isLimited && maxPages !== undefined && maxPages > limit) {
      await this.change(crawl, { maxPages }, true);
    }
  }

  #apply(crawl: Crawl, { spec, wider, isNarrower }: SpecChange, isStart: boolean): void {
    const { crawls, dispatcher } = this.#options;
    const longerMs = spec.fetch.timeoutMs - crawl.spec.fetch.timeoutMs;
    crawls.respec(crawl, spec, { isNarrower, isStart });
    // Links that were settled as skipped may belong to the crawl now.
    if (wider.length > 0) crawl.filter.unsettle();
    if (longerMs > 0) dispatcher.prolong(crawl.id, longerMs);
    crawls.queues.respec(crawl);
    dispatcher.recallHasty();
  }

  /** @throws CommandError E_BAD_REQUEST an output that is new cannot be written */
  async #prepareOutputs(crawl: Crawl, { spec }: SpecChange): Promise<void> {
    const kept = crawl.spec.outputs ?? [];
    const all = namedOutputs(spec.outputs ?? []);
    const added = all.filter(
      (output) => !kept.some((one) => one.name === output.name && isSameTarget(one, output)),
    );
    try {
      await this.#options.results.prepareOutputs?.(crawl.name, added, all, spec.fetch);
    } catch (error) {
      if (error instanceof ConfigError) throw new CommandError('E_BAD_REQUEST', error.message);
      throw error;
    }
  }

  /** Tasks that wait may have their turn now, or the crawl be done. */
  #wake(crawl: Crawl): void {
    const { crawls, dispatcher, lifeCycle } = this.#options;
    if (crawl.state === 'cancelled') return;
    // Pages that slaves hold could not be taken any more, and the crawl would wait for them.
    if (crawl.isFull) dispatcher.takeBack(({ task }) => task.queue.crawl === crawl.id);
    crawls.queues.wake(crawl);
    dispatcher.dispatchSoon();
    lifeCycle.settle(crawl);
  }

  async #save(crawl: Crawl): Promise<void> {
    await this.#options.commits.written(crawlRows(crawl.record()));
  }
}

/** @throws CommandError E_BAD_REQUEST as `change` */
function wantedChange(crawl: Crawl, part: PartialSpec): SpecChange {
  if (crawl.state === 'cancelled') throw isOver(crawl);
  const change = changeOf(crawl.spec, part, crawl.isUnanswered);
  refuseNewPatterns(crawl, change);
  return change;
}

/** May it have more pages than it has? */
function isBelow({ counters }: Crawl, { spec: { maxPages } }: SpecChange): boolean {
  return maxPages === undefined || counters.pages < maxPages;
}

/** A crawl of an older version may keep patterns that no other may have. @throws CommandError */
function refuseNewPatterns({ spec }: Crawl, { spec: { include, exclude } }: SpecChange): void {
  const news = (before: readonly string[], after: readonly string[]) =>
    after.every((pattern) => before.includes(pattern)) ? [] : [...after];
  refusePatterns({ include: news(spec.include, include), exclude: news(spec.exclude, exclude) });
  refuseVain({ include, exclude }, spec);
}

function answerOf(
  crawl: Crawl,
  { changed, wider, isNarrower }: SpecChange,
  { isReopened, ends }: { readonly isReopened: boolean; readonly ends: boolean },
): Replies['crawl.set'] {
  const { counters, open } = crawl;
  const skipped = wider.flatMap((reason) => {
    const count = counters.skipped[reason] ?? 0;
    return count === 0 ? [] : [[reason, count] as const];
  });
  return {
    state: crawl.status().state,
    changed: [...changed],
    waiting: open.waiting,
    ...(isReopened && { reopened: true }),
    ...(isNarrower && { narrower: true }),
    ...(ends && { full: true }),
    ...(skipped.length > 0 && { skipped: Object.fromEntries(skipped) }),
  };
}

function isOver({ name, removal }: Crawl): CommandError {
  const what = removal === undefined ? 'was cancelled' : 'is being removed';
  return new CommandError('E_BAD_REQUEST', `the crawl "${name}" ${what}: nothing of it can change`);
}

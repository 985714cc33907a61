/**
 * The numbers of one crawl: the outcomes of its URLs, and the sum of the names that it has seen.
 * Each verb is an event of a commit; no other code changes a number. The numbers are written with
 * the crawl's record in every commit, so that they agree with the rows of the store.
 */

import type { FetchErrorKind, SkipReason } from '../../../shared/protocol.ts';
import type { CrawlCounters } from '../../store/records.ts';
import { addToSum } from '../../store/sums.ts';
import { OpenWork } from './open-work.ts';

const none: CrawlCounters = {
  waiting: 0,
  pages: 0,
  images: 0,
  others: 0,
  failed: 0,
  buried: 0,
  unchanged: 0,
  earlier: 0,
  excluded: 0,
  skipped: {},
  errors: {},
  known: 0,
  bytes: 0,
  seen: 0,
  sitemaps: 0,
};

export class Books {
  readonly open: OpenWork;
  readonly #counters: CrawlCounters;
  readonly #seenSum: Uint32Array;

  /** From a crawl's record; a number missing in an older record is 0. */
  constructor(counters: Partial<CrawlCounters> = {}, seenSum: readonly number[] = [0, 0, 0, 0]) {
    const { skipped, errors } = counters;
    this.#counters = { ...none, ...counters, skipped: { ...skipped }, errors: { ...errors } };
    this.#seenSum = new Uint32Array(seenSum);
    this.open = new OpenWork(this.#counters.waiting);
  }

  /** The live counters, not a copy. */
  get counters(): Readonly<CrawlCounters> {
    this.#counters.waiting = this.open.waiting;
    return this.#counters;
  }

  /** The XOR of its keys in `seen`: four words. */
  get seenSum(): number[] {
    return [...this.#seenSum];
  }

  /** A name has entered `seen`; `at` is the first word of its fingerprint. */
  seen(words: Uint32Array, at: number): void {
    this.#counters.seen++;
    addToSum(this.#seenSum, words, at);
  }

  /** A URL became a task; `hasEarlier`: with an earlier crawl's record of it. */
  admitted({ hasEarlier = false } = {}): void {
    this.#counters.known++;
    if (hasEarlier) this.#counters.earlier++;
    this.open.admit();
  }

  /** A page counts under a URL that no task had. */
  named(): void {
    this.#counters.known++;
  }

  /** Returns how often this happened before. */
  skipped(reason: SkipReason): number {
    const before = this.#counters.skipped[reason] ?? 0;
    this.#counters.skipped[reason] = before + 1;
    return before;
  }

  image(): void {
    this.#counters.images++;
  }

  sitemap(): void {
    this.#counters.sitemaps++;
  }

  /** Bytes of a body that a slave read. */
  received(bytes: number): void {
    this.#counters.bytes += bytes;
  }

  page({ unchanged }: { readonly unchanged: boolean }): void {
    this.#counters.pages++;
    if (unchanged) this.#counters.unchanged++;
  }

  /** An answer that is neither a page nor a failure. */
  other(): void {
    this.#counters.others++;
  }

  excluded(): void {
    this.#counters.excluded++;
  }

  /** A URL that was fetched and failed permanently. */
  failed(kind: FetchErrorKind): void {
    this.#countFailed(kind, 1);
  }

  /** A URL that was given up and is kept for inspection. */
  buried(kind: FetchErrorKind): void {
    this.#countFailed(kind, 1);
    this.#counters.buried++;
  }

  /** A buried URL is about to be admitted again. */
  unburied(kind: FetchErrorKind): void {
    this.#countFailed(kind, -1);
    this.#counters.buried--;
    this.#counters.known--;
  }

  /** A guessed URL that does not exist, as if it had never been known. */
  forgotten(): void {
    this.#counters.known--;
  }

  /** The crawl's tasks and names were erased. */
  erased(): void {
    this.open.drop();
    this.#counters.seen = 0;
    this.#seenSum.fill(0);
  }

  #countFailed(kind: FetchErrorKind, by: 1 | -1): void {
    const { errors } = this.#counters;
    this.#counters.failed += by;
    const count = (errors[kind] ?? 0) + by;
    if (count > 0) errors[kind] = count;
    else delete errors[kind];
  }
}

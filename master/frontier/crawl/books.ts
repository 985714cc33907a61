/**
 * The numbers of one crawl: the outcomes of its URLs, and the sum of the names that it has seen.
 * Each verb is an event of a commit; no other code changes a number. The numbers are written with
 * the crawl's record in every commit, so that they agree with the rows of the store.
 */

import type { PageItems } from '../../../shared/page-items.ts';
import type { FetchErrorBody, FetchErrorKind, SkipReason } from '../../../shared/protocol.ts';
import type { CrawlCounters, CrawlRecord } from '../../store/records.ts';
import { addToSum } from '../../store/sums.ts';
import { Ledger, type Outcome } from './ledger.ts';
import { OpenWork } from './open-work.ts';
import { RuleBooks } from './rule-books.ts';
import { SeedAnswers } from './seed-answers.ts';

const exampleCharsMax = 200;
/** Above the longest back-off. */
const toldWaitMs = 600_000;
const hourMs = 3_600_000;

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
  statuses: {},
  aliases: 0,
  malformed: 0,
  known: 0,
  bytes: 0,
  seen: 0,
  sitemaps: 0,
};

type Kept = Partial<
  Pick<CrawlRecord, 'counters' | 'seenSum' | 'ledger' | 'seeds' | 'rules' | 'downloads'>
>;

export class Books {
  readonly open: OpenWork;
  /** Undefined: the crawl is of a version that kept none. */
  readonly ledger: Ledger | undefined;
  readonly seeds: SeedAnswers;
  /** Of its rules; empty for a crawl without items. */
  readonly rules: RuleBooks;
  /** The last failure of each kind since the start of the master, tried again or not. */
  readonly examples: Partial<Record<FetchErrorKind, string>> = {};
  #downloads: CrawlRecord['downloads'];
  readonly #counters: CrawlCounters;
  readonly #seenSum: Uint32Array;

  /** From a crawl's record; a number missing in an older record is 0. */
  constructor(kept: Kept = {}) {
    const { counters = none, seenSum = [0, 0, 0, 0], ledger, seeds, rules, downloads } = kept;
    this.#downloads = downloads;
    const { skipped, errors, statuses } = counters;
    const copies = { skipped: { ...skipped }, errors: { ...errors }, statuses: { ...statuses } };
    this.#counters = { ...none, ...counters, ...copies };
    this.#seenSum = new Uint32Array(seenSum);
    this.open = new OpenWork(this.#counters.waiting);
    this.ledger = ledger || this.#counters.known === 0 ? new Ledger(ledger) : undefined;
    this.seeds = new SeedAnswers(seeds);
    this.rules = new RuleBooks(rules);
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
  admitted(kind: number, { hasEarlier = false } = {}): void {
    this.#counters.known++;
    this.ledger?.admit(kind);
    if (hasEarlier) this.#counters.earlier++;
    this.open.admit();
  }

  /** A page counts under a URL that no task had. */
  named(): void {
    this.#counters.known++;
    this.#counters.aliases++;
  }

  /** A link that is no URL. Returns how often this happened before. */
  malformed(): number {
    return this.#counters.malformed++;
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

  /** The bytes of an image are kept. */
  kept(bytes: number): void {
    const { stored = 0, bytes: before = 0 } = this.#downloads ?? {};
    this.#downloads = { stored: stored + 1, bytes: before + bytes };
  }

  /** Images whose bytes are kept; undefined: none. */
  get downloads(): CrawlRecord['downloads'] {
    return this.#downloads;
  }

  sitemap(): void {
    this.#counters.sitemaps++;
  }

  /** Bytes of a body that a slave read. */
  received(bytes: number): void {
    this.#counters.bytes += bytes;
  }

  page(kind: number, { unchanged }: { readonly unchanged: boolean }): void {
    this.ledger?.end(kind, 'pages');
    this.#counters.pages++;
    if (unchanged) this.#counters.unchanged++;
  }

  /** The rows that rules made of a page: see `PageItems`. */
  ruled(counts: PageItems['counts']): void {
    this.rules.add(counts);
  }

  /** An answer that is neither a page nor a failure. */
  other(kind: number, outcome: Outcome): void {
    this.ledger?.end(kind, outcome);
    this.#counters.others++;
  }

  excluded(kind: number): void {
    this.ledger?.end(kind, 'excluded');
    this.#counters.excluded++;
  }

  /** A URL that was fetched and failed permanently. */
  failed(kind: number, error: FetchErrorBody, url: string, status: number): void {
    this.ledger?.end(kind, 'failed');
    this.#countFailed(error.kind, status, 1);
    this.tried(error, url);
  }

  /** A URL that was given up and is kept for inspection. */
  buried(kind: number, error: FetchErrorBody, url: string): void {
    this.ledger?.end(kind, 'buried');
    this.#countFailed(error.kind, statusOf(error), 1);
    this.#counters.buried++;
    this.tried(error, url);
  }

  /** A fetch failed, and may be tried again, after `waitMs`. A wait beyond the back-off is what the
   *  host has asked for, and nobody would expect it. */
  tried({ kind, message }: FetchErrorBody, url: string, waitMs = 0): void {
    const hours = waitMs < toldWaitMs ? '' : `, so it waits for ${(waitMs / hourMs).toFixed(1)} h`;
    this.examples[kind] = `${url.slice(0, exampleCharsMax)}: ${message || kind}${hours}`;
  }

  /** A buried URL is about to be admitted again. */
  unburied(kind: number, error: FetchErrorBody): void {
    this.ledger?.replay(kind);
    this.#countFailed(error.kind, statusOf(error), -1);
    this.#counters.buried--;
    this.#counters.known--;
  }

  /** A guessed URL that does not exist, as if it had never been known. */
  forgotten(kind: number): void {
    this.ledger?.forget(kind);
    this.#counters.known--;
  }

  /** The crawl was cancelled: what waits is dropped. */
  dropped(): void {
    this.ledger?.drop();
    this.open.drop();
  }

  /** The crawl's tasks and names were erased. */
  erased(): void {
    this.open.drop();
    this.#counters.seen = 0;
    this.#seenSum.fill(0);
  }

  #countFailed(kind: FetchErrorKind, status: number, by: 1 | -1): void {
    const { errors, statuses } = this.#counters;
    this.#counters.failed += by;
    add(errors, kind, by);
    if (kind === 'status' && status > 0) add(statuses, String(status), by);
  }
}

/** The status of an answer that is a failure: its message begins with it. */
function statusOf({ kind, message }: FetchErrorBody): number {
  return kind === 'status' ? Number.parseInt(message, 10) || 0 : 0;
}

function add<K extends string>(counts: Partial<Record<K, number>>, name: K, by: 1 | -1): void {
  const count = (counts[name] ?? 0) + by;
  if (count > 0) counts[name] = count;
  else delete counts[name];
}

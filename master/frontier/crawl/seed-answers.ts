/**
 * The outcome of a crawl's seeds: how many there were, how many were answered, and why the others
 * were not. A crawl of which no seed was answered has fetched nothing that its operator wanted, so
 * the master says why, and lets it be started again.
 */
import type { SeedRecord } from '../../store/records.ts';

/** Faults on record, so that a list of ten thousand seeds does not grow each commit. */
const faultsMax = 5;
const urlCharsMax = 512;
/** Answers that are kept over a start: one of more seeds that redirect is not worth the memory. */
const againMax = 10_000;

export class SeedAnswers {
  #admitted: number;
  #answered: number;
  readonly #faults: Map<string, string>;
  /** None was answered, and they are tried again: what was admitted since. */
  #since: Set<string> | undefined;

  constructor({ admitted, answered, faults }: Partial<SeedRecord> = {}) {
    this.#admitted = admitted ?? 0;
    this.#answered = answered ?? 0;
    this.#faults = new Map(faults?.map(({ url, why }) => [url, why]));
  }

  admit(): void {
    // Those before it were refused: the crawl has a seed now.
    if (this.#admitted === 0) this.#faults.clear();
    this.#admitted++;
  }

  answer(): void {
    this.#answered++;
    this.#since = undefined;
  }

  /** A URL of the crawl is admitted. */
  asks(url: string): void {
    this.#since?.add(url);
    if ((this.#since?.size ?? 0) > againMax) this.#since = undefined;
  }

  /** A known URL is not open, and a seed that is tried again leads there. */
  isToBeAskedAgain(url: string): boolean {
    return this.#since !== undefined && !this.#since.has(url);
  }

  /** A seed brought no page. Returns whether that is one of the first, which are on record. */
  fault(url: string, why: string): boolean {
    const short = url.slice(0, urlCharsMax);
    if (!this.#faults.has(short) && this.#faults.size >= faultsMax) return false;
    this.#faults.set(short, why);
    return true;
  }

  /** The crawl's options leave this seed out. It is on record as long as there is no other. */
  refuse(url: string, why: string): void {
    if (this.#admitted === 0) this.fault(url, `is ${why}`);
  }

  /** None was answered, and they are tried again: what was said of them no longer holds. */
  clear(): void {
    this.#admitted = 0;
    this.#faults.clear();
    this.#since = new Set();
  }

  /** True: there were seeds, all have ended or were refused, and none was answered. */
  get isUnanswered(): boolean {
    return (this.#admitted > 0 || this.#faults.size > 0) && this.#answered === 0;
  }

  get record(): SeedRecord {
    const faults = [...this.#faults].map(([url, why]) => ({ url, why }));
    return { admitted: this.#admitted, answered: this.#answered, faults };
  }
}

/**
 * How fast crawls go, over the last minute, and when they will have ended. Sampled with each
 * `counted` of the frontier. Pure but for its default clock.
 */

type Counts = {
  readonly pages: number;
  readonly others: number;
  readonly failed: number;
  readonly excluded: number;
  readonly bytes: number;
  readonly waiting: number;
};
type Sampled = { readonly id: number; readonly isOpen: boolean; readonly counters: Counts };
type Estimated = Sampled & {
  readonly isRunning: boolean;
  readonly spec: { readonly maxPages?: number | undefined };
  /** The time that the delay of its slowest host takes for the URLs that wait there. */
  readonly slowestHostMs: number;
};

/** Each a second; `etaMs` is missing where nothing can be said. */
type CrawlRates = { pagesPerS: number; bytesPerS: number; etaMs?: number };

type Sample = {
  readonly at: number;
  readonly pages: number;
  readonly done: number;
  readonly bytes: number;
  readonly waiting: number;
};

const windowMs = 60_000;
const sampleEveryMs = 5_000;
/** Of less time no rate can be told. */
const spanMsMin = 1_000;

export class Rates {
  readonly #samples = new Map<number, Sample[]>();
  readonly #now: () => number;

  /** `now` returns ms, of a clock that does not jump. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Where the crawls stand: about once a second. */
  counted(crawls: Iterable<Sampled>): void {
    const now = this.#now();
    const open = new Set<number>();
    for (const crawl of crawls) {
      if (!crawl.isOpen) continue;
      open.add(crawl.id);
      this.#sample(crawl, now);
    }
    for (const id of this.#samples.keys()) if (!open.has(id)) this.#samples.delete(id);
  }

  /** Undefined: it has not been open for long enough. */
  of(crawl: Estimated): CrawlRates | undefined {
    const samples = this.#samples.get(crawl.id) ?? [];
    const [first] = samples;
    const now = sampleOf(crawl, this.#now());
    if (first === undefined || now.at - first.at < spanMsMin) return undefined;
    const seconds = (now.at - first.at) / 1000;
    const pagesPerS = Math.max(0, now.pages - first.pages) / seconds;
    const bytesPerS = Math.max(0, now.bytes - first.bytes) / seconds;
    const donePerS = Math.max(0, now.done - first.done) / seconds;
    // The first pages of a crawl bring more than those after them.
    const recent = samples.findLast(({ at }) => now.at - at >= sampleEveryMs) ?? first;
    const isGrowing = now.waiting > recent.waiting;
    const etaMs = crawl.isRunning ? etaOf(crawl, { pagesPerS, donePerS, isGrowing }) : undefined;
    return { pagesPerS, bytesPerS, ...(etaMs !== undefined && { etaMs }) };
  }

  #sample(crawl: Sampled, now: number): void {
    let samples = this.#samples.get(crawl.id);
    if (samples === undefined) {
      samples = [];
      this.#samples.set(crawl.id, samples);
    }
    const last = samples.at(-1);
    if (last !== undefined && now - last.at < sampleEveryMs) return;
    samples.push(sampleOf(crawl, now));
    while (samples.length > 1 && now - (samples[0]?.at ?? now) > windowMs) samples.shift();
  }
}

/** A queue that grows may bring any number of URLs; a page limit ends the crawl all the same. */
function etaOf(
  { counters, spec, slowestHostMs }: Estimated,
  rates: { readonly pagesPerS: number; readonly donePerS: number; readonly isGrowing: boolean },
): number | undefined {
  const { pagesPerS, donePerS, isGrowing } = rates;
  const ends: number[] = [];
  if (!isGrowing && donePerS > 0) {
    ends.push(Math.max((counters.waiting / donePerS) * 1000, slowestHostMs));
  }
  if (spec.maxPages !== undefined && pagesPerS > 0) {
    ends.push((Math.max(0, spec.maxPages - counters.pages) / pagesPerS) * 1000);
  }
  return ends.length === 0 ? undefined : Math.round(Math.min(...ends));
}

function sampleOf({ counters }: Sampled, at: number): Sample {
  const { pages, others, failed, excluded, bytes, waiting } = counters;
  return { at, pages, done: pages + others + failed + excluded, bytes, waiting };
}

/**
 * The rules of the crawls that a slave works for. Their pages wait here for the child process, one
 * after the other, outside the slots: a page that takes long holds back no other fetch until too
 * much waits.
 */
import { isDeepStrictEqual } from 'node:util';
import type { FetchSpec } from '../../shared/crawl.ts';
import { ruleLimits } from '../../shared/items.ts';
import type { PageInput } from '../../shared/rule-results.ts';
import { type Evaluated, failedItems, fitted } from './fit.ts';
import { pageRule } from './page-rule.ts';
import { RuleProcess } from './rule-process.ts';
import { rulesFor } from './targets.ts';

type Learned = { readonly set: number } | { readonly fault: string };
type Known = { readonly spec: FetchSpec; readonly learned: Promise<Learned> };

/** Above these no fetch should begin: bytes of text, pages, and the time for which they will wait,
 *  since their leases end. */
const bytesMax = 64 << 20;
const pagesMax = 1_024;
const waitMsMax = 10_000;
/** Part of the mean time of a page that remains after each. */
const decay = 0.8;

export class CrawlRules {
  readonly #process: RuleProcess;
  readonly #crawls = new Map<number, Known>();
  /** What the page function is called. */
  readonly #own: readonly string[];
  #waiting = 0;
  #bytes = 0;
  /** Of one page, about. */
  #meanMs = 0;

  /** `page`: file of a page function, absolute. */
  constructor(options: { onKilled: (why: string) => void; page: string | undefined }) {
    this.#process = new RuleProcess(options);
    this.#own = options.page === undefined ? [] : [pageRule];
  }

  /** Loads the page function. Returns what is wrong with it. */
  load(): Promise<string | undefined> {
    return this.#process.load();
  }

  /** True: too much waits. */
  get isFull(): boolean {
    if (this.#waiting === 0) return false;
    const waitMs = this.#waiting * this.#meanMs;
    return this.#waiting >= pagesMax || this.#bytes >= bytesMax || waitMs >= waitMsMax;
  }

  /** The crawl has this spec from now on. */
  learn(crawl: number, spec: FetchSpec): void {
    const { items, follow } = spec;
    const before = this.#crawls.get(crawl);
    const isSame = (one: FetchSpec) =>
      isDeepStrictEqual(one.items, items) && isDeepStrictEqual(one.follow, follow);
    if (before !== undefined && isSame(before.spec)) {
      this.#crawls.set(crawl, { ...before, spec });
      return;
    }
    this.forget(crawl);
    if (items === undefined && follow === undefined) return;
    const learned = this.#process.learn(items ?? {}, follow).then((said): Learned => {
      if (typeof said === 'number') return { set: said };
      const [problem] = said;
      const where = problem?.path.join('.') ?? '';
      return { fault: `the rules are not valid: ${where} ${problem?.message ?? ''}` };
    });
    this.#crawls.set(crawl, { spec, learned });
  }

  forget(crawl: number): void {
    const known = this.#crawls.get(crawl);
    if (!this.#crawls.delete(crawl)) return;
    void known?.learned.then((learned) => {
      if ('set' in learned) this.#process.forget(learned.set);
    });
  }

  /** Evaluates the rules of a crawl on a page. `fault`: why that cannot be. Never rejects. */
  async evaluate(crawl: number, page: PageInput, fault?: string): Promise<Evaluated> {
    const known = this.#crawls.get(crawl);
    const selected = known === undefined ? [] : rulesFor(known.spec, page.finalUrl, page.type);
    const rules = [...selected, ...this.#own];
    const hasFollow = known?.spec.follow !== undefined;
    const fail = (why: string): Evaluated => ({
      items: failedItems(rules, why),
      links: [],
      // Without its rules no link of the page is followed.
      ...(hasFollow && { follow: [] }),
    });
    if (fault !== undefined) return fail(fault);
    const bytes = page.text.length * 2;
    this.#waiting++;
    this.#bytes += bytes;
    try {
      const learned = (await known?.learned) ?? { set: 0 };
      if ('fault' in learned) return fail(learned.fault);
      const jsonBytesMax = known?.spec.ruleBytes ?? ruleLimits.jsonBytes;
      const outcome = await this.#process.evaluate(learned.set, page, jsonBytesMax, (ms) => {
        this.#meanMs = this.#meanMs * decay + ms * (1 - decay);
      });
      if ('failed' in outcome) return fail(outcome.failed);
      const { links = [], follow } = outcome.result;
      return { items: fitted(outcome.result), links, ...(follow && { follow }) };
    } finally {
      this.#waiting--;
      this.#bytes -= bytes;
    }
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}

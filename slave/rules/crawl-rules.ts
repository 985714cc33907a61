/**
 * The rules of the crawls that a slave works for. Their pages wait here for the child process, one
 * after the other, outside the slots: a page that takes long holds back no other fetch until too
 * much waits.
 */
import { isDeepStrictEqual } from 'node:util';
import type { FetchSpec } from '../../shared/crawl.ts';
import { hasArticle, type ItemRules, ruleLimits } from '../../shared/items.ts';
import type { PageInput, RuleOutcome } from '../../shared/rule-results.ts';
import type { Lacks } from '../lack.ts';
import { findArticlePackages } from './article-packages.ts';
import { type Evaluated, failedItems, fitted } from './fit.ts';
import { pageRule } from './page-rule.ts';
import { RuleProcess } from './rule-process.ts';
import { rulesFor } from './targets.ts';

/** `missing`: the packages that this machine lacks. */
type Learned = { readonly set: number } | { readonly fault: string; readonly missing?: string };
type CrawlRulesOptions = {
  readonly onKilled: (why: string) => void;
  /** The rules of a crawl cannot be evaluated here: it gets no tasks of it. */
  readonly onMissing?: (crawl: string, why: string) => void;
  /** File of a page function, absolute. */
  readonly page: string | undefined;
  readonly lacks?: Lacks;
};
type Known = { readonly spec: FetchSpec; readonly learned: Promise<Learned> };

/** Above these no fetch should begin: bytes of text, pages, and the time for which they will wait,
 *  since their leases end. */
const bytesMax = 64 << 20;
const pagesMax = 1_024;
const waitMsMax = 10_000;
/** Part of the mean time of a page that remains after each. */
const decay = 0.8;

export class CrawlRules {
  readonly #options: CrawlRulesOptions;
  readonly #process: RuleProcess;
  readonly #crawls = new Map<number, Known>();
  /** Name of the page function. */
  readonly #own: readonly string[];
  #waiting = 0;
  #bytes = 0;
  /** Of one page, about. */
  #meanMs = 0;

  constructor(options: CrawlRulesOptions) {
    this.#options = options;
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
  learn(crawl: number, spec: FetchSpec, name = ''): void {
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
    const learned = this.#learn(items ?? {}, follow);
    this.#crawls.set(crawl, { spec, learned });
    void learned.then((is) => {
      if ('missing' in is && is.missing !== undefined) this.#options.onMissing?.(name, is.missing);
    });
  }

  async #learn(items: ItemRules, follow: FetchSpec['follow']): Promise<Learned> {
    // No child is started for what it cannot do.
    const packages = hasArticle(items) ? findArticlePackages() : undefined;
    if (packages !== undefined && 'missing' in packages) {
      return { fault: `article: ${packages.missing}`, missing: packages.missing };
    }
    const said = await this.#process.learn(items, follow);
    if (typeof said === 'number') return { set: said };
    const [problem] = said;
    const where = problem?.path.join('.') ?? '';
    const isWrong = problem?.isMissing === true ? '' : 'the rules are not valid: ';
    return { fault: `${isWrong}${where} ${problem?.message ?? ''}` };
  }

  /** The faults of a crawl's rules. */
  async fault(crawl: number): Promise<string | undefined> {
    const learned = await this.#crawls.get(crawl)?.learned;
    return learned !== undefined && 'fault' in learned ? learned.fault : undefined;
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
    // The page function may have the name of a rule.
    const rules = [...new Set([...selected, ...this.#own])];
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

  /** Evaluates rules that are no crawl's on one page. Never rejects. */
  async examine(items: ItemRules, page: PageInput): Promise<RuleOutcome> {
    const set = await this.#process.learn(items);
    if (typeof set !== 'number') {
      const [problem] = set;
      return { failed: `${problem?.path[0] ?? ''}: ${problem?.message ?? 'is not valid'}` };
    }
    const { jsonBytes } = ruleLimits;
    const outcome = await this.#process.evaluate(set, page, jsonBytes, undefined, true);
    this.#process.forget(set);
    return outcome;
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}

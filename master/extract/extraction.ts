/**
 * Rules over an archive: the rows of its pages, as the crawl would have written them, in the order
 * of the archive. No request is made and no master runs. Programs beside this one evaluate the
 * rules; here it is decided which pages count.
 *
 *     archive --answers in order--> evaluators, some ahead --pages in order--> files
 */
import type { CrawlSpec } from '../../shared/crawl.ts';
import { decodeValue } from '../../shared/frame.ts';
import { isPageItems, type PageItems } from '../../shared/page-items.ts';
import { limits } from '../../shared/protocol.ts';
import type { ArchivedAnswer, ReplayedPage } from '../../shared/rule-results.ts';
import { visibleJson } from '../../shared/visible.ts';
import { pageName, preferredUrl } from '../frontier/filter/seen-names.ts';
import { type ArchivedAnswers, hashOf, type Step } from './archived-answers.ts';
import type { ExtractFiles } from './extract-files.ts';
import type { ExtractOutputs } from './extract-outputs.ts';

type Evaluator = (answer: ArchivedAnswer) => Promise<ReplayedPage>;

/** Answers with each evaluator, enough for the time of a commit, and bytes of bodies with all. */
const aheadMax = 32;
const aheadBytesMax = 64 << 20;
const commitEveryMs = 250;
const waitingCharsMax = 4 << 20;

type Ahead = { readonly step: Step; readonly page: Promise<ReplayedPage> | undefined };

export class Extraction {
  readonly #archive: ArchivedAnswers;
  readonly #files: ExtractFiles;
  readonly #outputs: ExtractOutputs;
  readonly #spec: CrawlSpec;
  readonly #evaluators: readonly { readonly evaluate: Evaluator; busy: number }[];
  /** Hashes of the names that pages have. */
  #names = new Set<string>();
  #bytes = 0;

  constructor(options: {
    archive: ArchivedAnswers;
    files: ExtractFiles;
    outputs: ExtractOutputs;
    spec: CrawlSpec;
    evaluators: readonly Evaluator[];
  }) {
    this.#archive = options.archive;
    this.#files = options.files;
    this.#outputs = options.outputs;
    this.#spec = options.spec;
    this.#evaluators = options.evaluators.map((evaluate) => ({ evaluate, busy: 0 }));
  }

  /** Goes on to the end of the archive. @throws ConfigError what was written until then counts */
  async run(): Promise<void> {
    this.#names = await this.#files.names();
    const ahead: Ahead[] = [];
    const most = aheadMax * this.#evaluators.length;
    let committed = performance.now();
    const settle = async (): Promise<void> => {
      const next = ahead.shift();
      if (next !== undefined) await this.#take(next.step, await next.page);
      const now = performance.now();
      const isDue = now - committed >= commitEveryMs || this.#files.waiting > waitingCharsMax;
      if (!isDue) return;
      await this.#files.commit();
      await this.#outputs.write(false);
      committed = performance.now();
    };
    const steps = this.#archive.from(this.#files.place);
    let fault: unknown;
    for (;;) {
      const next = await steps.next().catch((error: unknown) => {
        fault = error;
        return undefined;
      });
      if (next === undefined || next.done === true) break;
      ahead.push({ step: next.value, page: this.#begin(next.value) });
      while (ahead.length > most || (this.#bytes > aheadBytesMax && ahead.length > 0)) {
        await settle();
      }
    }
    // Records before a damaged one count.
    while (ahead.length > 0) await settle();
    await this.#files.commit();
    await this.#outputs.write(true);
    if (fault !== undefined) throw fault;
  }

  /** Gives an answer to the evaluator that has least to do. */
  #begin({ answer }: Step): Promise<ReplayedPage> | undefined {
    if (typeof answer === 'string') return undefined;
    const [first, ...others] = this.#evaluators;
    if (first === undefined) throw new Error('nobody evaluates');
    const one = others.reduce((least, other) => (other.busy < least.busy ? other : least), first);
    const bytes = answer.body.length;
    one.busy++;
    this.#bytes += bytes;
    const page = one.evaluate(answer).finally(() => {
      one.busy--;
      this.#bytes -= bytes;
    });
    // It is awaited in its turn.
    page.catch(() => {});
    return page;
  }

  async #take({ answer, date, next }: Step, page: ReplayedPage | undefined): Promise<void> {
    const { counts } = this.#files;
    counts.answers++;
    const why =
      typeof answer === 'string' ? answer : page && (await this.#passedOver(answer, page));
    if (why !== undefined) counts.passed[why] = (counts.passed[why] ?? 0) + 1;
    else if (typeof answer !== 'string' && page !== undefined) {
      counts.pages++;
      this.#write(answer.task, date, page);
    }
    this.#files.place = next;
  }

  /** Why a crawl would not count the page. The order is that of `kinds/page.ts`. */
  async #passedOver(answer: ArchivedAnswer, page: ReplayedPage): Promise<string | undefined> {
    const { isPage, isNoindex, finalUrl, canonical } = page;
    const { task } = answer;
    if (finalUrl !== task) {
      const isKnown = this.#names.has(hashOf(finalUrl)) || (await this.#archive.isTask(finalUrl));
      if (isKnown) return 'redirected';
    }
    if (!isPage) return 'other';
    if (!this.#name(finalUrl)) return 'redirected';
    if (isNoindex && this.#spec.fetch.obey.includes('noindex')) return 'noindex';
    if (!this.#spec.canonical) return undefined;
    const name = preferredUrl({ url: task }, { canonical })?.href ?? finalUrl;
    return this.#name(pageName(name)) ? undefined : 'canonical';
  }

  /** Takes a name; false: a page has it. */
  #name(name: string): boolean {
    const hash = hashOf(name);
    if (this.#names.has(hash)) return false;
    this.#names.add(hash);
    this.#files.add('names', `${hash}\n`);
    return true;
  }

  #write(url: string, at: string, page: ReplayedPage): void {
    const { counts } = this.#files;
    const items = itemsOf(page);
    if (items === undefined) return;
    for (const [rule, item] of items.rows) {
      this.#files.add('items', lineOf({ url, rule, item, at }));
      counts.rows++;
    }
    for (const [rule, item, why] of items.rejected) {
      this.#files.add('rejected', lineOf({ url, rule, item, why, at }));
      counts.rejected++;
    }
    for (const [rule, why] of items.failures) {
      this.#files.add('rejected', lineOf({ url, rule, why, at }));
    }
    for (const [name, numbers] of Object.entries(items.counts)) {
      const before = counts.rules[name] ?? [];
      counts.rules[name] = numbers.map((number, i) => number + (before[i] ?? 0));
    }
  }
}

/** As the master reads them from a report. */
function itemsOf({ items }: ReplayedPage): PageItems | undefined {
  if (items === undefined) return undefined;
  const value = decodeValue(items, limits.messageValuesMax);
  if (!isPageItems(value)) throw new Error('slave.js gave items that no report can have');
  return value;
}

/** As `result-lines.ts` writes it. */
function lineOf(line: Record<string, unknown>): string {
  return `${visibleJson(JSON.stringify(line))}\n`;
}

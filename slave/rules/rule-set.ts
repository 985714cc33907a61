/**
 * The rules of a crawl, compiled once, and what comes of them on a page: rows, rejected rows, and
 * counts of each rule (`book`) and of each field (`book.price`). A fault of one rule does not touch
 * the others. Source: docs/rules.md.
 */
import { type FollowRule, followCount } from '../../shared/follow.ts';
import type { ItemRules } from '../../shared/items.ts';
import { isJsonType } from '../../shared/media-types.ts';
import type { PageInput, RuleProblem, RuleResult } from '../../shared/rule-results.ts';
import { ArticleFinder } from './article.ts';
import { Compiler, closeItem, type Item } from './compile.ts';
import { Evaluation, noCounts } from './evaluation.ts';
import { RuleFault } from './fault.ts';
import { Follow } from './follow.ts';
import type { ArticlePackages } from './messages.ts';
import { RulePage } from './rule-page.ts';

export class RuleSet {
  readonly #items: readonly Item[];
  readonly #follow: Follow | undefined;

  private constructor(items: readonly Item[], follow: Follow | undefined) {
    this.#items = items;
    this.#follow = follow;
  }

  /** Compiles all rules, or returns what is wrong with them. `packages`: for articles. */
  static compile(
    items: ItemRules,
    rules?: readonly FollowRule[],
    packages?: ArticlePackages,
  ): RuleSet | readonly RuleProblem[] {
    let finder: ArticleFinder | undefined;
    const compiler = new Compiler(() => {
      finder ??= new ArticleFinder(packages);
      return finder;
    });
    const compiled = Object.entries(items).map(([name, item]) => compiler.item(name, item));
    const follow = rules === undefined ? undefined : Follow.compile(rules);
    const problems = follow === undefined || follow instanceof Follow ? [] : follow;
    if (compiler.problems.length + problems.length > 0) return [...compiler.problems, ...problems];
    return new RuleSet(compiled, follow instanceof Follow ? follow : undefined);
  }

  /** Frees the expressions. */
  close(): void {
    for (const item of this.#items) closeItem(item);
    this.#follow?.close();
  }

  /** Evaluates the rules that select the page. `jsonBytesMax`: longer JSON is refused. */
  evaluate(input: PageInput, jsonBytesMax: number): RuleResult {
    const result: RuleResult = { rows: [], rejected: [], failures: [], counts: {} };
    const page = new RulePage(input, jsonBytesMax);
    try {
      for (const item of this.#items) {
        const { url, content } = item;
        if (url !== undefined && !url.isIn(input.finalUrl)) continue;
        if (content !== undefined && !content.isIn(input.text)) continue;
        new Evaluation(item, page, result).run();
      }
      if (this.#follow !== undefined) follow(this.#follow, page, result);
    } finally {
      page.close();
    }
    return result;
  }
}

/** Counts as a rule of that name, so that a page without any link to follow is seen. */
function follow(rules: Follow, page: RulePage, result: RuleResult): void {
  if (isJsonType(page.input.type)) return;
  const counts = { ...noCounts(), pages: 1 };
  result.counts['follow'] = counts;
  result.follow = [];
  try {
    result.follow = rules.links(page, (index, isFound) => {
      const ofRule = { ...noCounts(), pages: 1 };
      ofRule[isFound ? 'matched' : 'empty']++;
      result.counts[followCount(index)] = ofRule;
    });
    const isFound = result.follow.some(({ urls }) => urls.length > 0);
    counts[isFound ? 'matched' : 'empty']++;
  } catch (error) {
    if (!(error instanceof RuleFault || error instanceof RangeError)) throw error;
    counts.failed++;
    result.failures.push({ rule: 'follow', message: error.message });
  }
}

/**
 * The rules of a crawl, compiled once, and what comes of them on a page: rows, rejected rows, and
 * counts of each rule (`book`) and of each field (`book.price`). A fault of one rule does not touch
 * the others. Source: docs/rules.md.
 */
import type { ItemRules } from '../../shared/items.ts';
import type { PageInput, RuleProblem, RuleResult } from '../../shared/rule-results.ts';
import { Compiler, closeItem, type Item } from './compile.ts';
import { Evaluation } from './evaluation.ts';
import { RulePage } from './rule-page.ts';

export class RuleSet {
  readonly #items: readonly Item[];

  private constructor(items: readonly Item[]) {
    this.#items = items;
  }

  /** Compiles all rules, or returns what is wrong with them. */
  static compile(items: ItemRules): RuleSet | readonly RuleProblem[] {
    const compiler = new Compiler();
    const compiled = Object.entries(items).map(([name, item]) => compiler.item(name, item));
    return compiler.problems.length > 0 ? compiler.problems : new RuleSet(compiled);
  }

  /** Frees the expressions. */
  close(): void {
    for (const item of this.#items) closeItem(item);
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
    } finally {
      page.close();
    }
    return result;
  }
}

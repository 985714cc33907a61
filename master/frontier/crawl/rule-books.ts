/** The numbers of a crawl's rules: what each rule (`book`) and field (`book.price`) found on how many
 *  pages. They are written with the crawl's record in every commit. */
import { countNames, type PageItems } from '../../../shared/page-items.ts';
import { limits } from '../../../shared/protocol.ts';
import type { RuleCounts } from '../../../shared/rule-results.ts';

type KeptRules = { readonly [name: string]: readonly number[] };

/** A page function may name its rows without end. Those of names that are too many count here, so
 *  that the sums are those of the files. */
const others = 'others';

export class RuleBooks {
  readonly #counts = new Map<string, number[]>();

  constructor(kept: KeptRules = {}) {
    for (const [name, counts] of Object.entries(kept)) this.#counts.set(name, [...counts]);
  }

  /** Of one page. Slaves say the names: no more are kept than a crawl can have. */
  add(counts: PageItems['counts']): void {
    for (const name in counts) {
      const numbers = counts[name] ?? [];
      const hasRoom = this.#counts.has(name) || this.#counts.size < limits.ruleCountsMax;
      if (hasRoom) this.#addTo(name, numbers);
      else if (!name.includes('.')) this.#addTo(others, numbers);
    }
  }

  #addTo(name: string, numbers: readonly number[]): void {
    const sums = this.#counts.get(name);
    if (sums === undefined) this.#counts.set(name, [...numbers]);
    else for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] ?? 0) + (numbers[i] ?? 0);
  }

  /** For the record; undefined: there are none. */
  get kept(): KeptRules | undefined {
    return this.#counts.size === 0 ? undefined : Object.fromEntries(this.#counts);
  }

  /** By the names of rules and fields; undefined: there are none. */
  get named(): Record<string, RuleCounts> | undefined {
    if (this.#counts.size === 0) return undefined;
    const named = [...this.#counts].map(([name, numbers]) => {
      const counts = countNames.map((one, i) => [one, numbers[i] ?? 0]);
      return [name, Object.fromEntries(counts) as RuleCounts];
    });
    return Object.fromEntries(named) as Record<string, RuleCounts>;
  }

  /** Pages on which a rule failed, once for each rule. */
  get failed(): number {
    return this.#sum('failed');
  }

  /** Rows, and rows and failures that were rejected: the lines of the two files. */
  get rows(): { readonly items: number; readonly rejected: number } {
    return { items: this.#sum('rows'), rejected: this.#sum('rejected') + this.#sum('failed') };
  }

  /** Of all rules, without their fields. */
  #sum(what: keyof RuleCounts): number {
    const at = countNames.indexOf(what);
    let sum = 0;
    for (const [name, counts] of this.#counts) if (!name.includes('.')) sum += counts[at] ?? 0;
    return sum;
  }
}

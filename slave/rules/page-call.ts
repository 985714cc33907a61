/**
 * A page function, called with a page: its rows and links are added to what the rules found. One
 * that throws is a failure, and nothing of it counts. Source: docs/page-function.md.
 */
import { messageOf } from '../../shared/errors.ts';
import { isJsonType } from '../../shared/media-types.ts';
import type { PageContext, PageFunction } from '../../shared/page-function.ts';
import type { Json, PageInput, RuleCounts, RuleResult, Values } from '../../shared/rule-results.ts';
import { parseUrl } from '../../shared/url.ts';
import { pageRule } from './page-rule.ts';
import { RulePage } from './rule-page.ts';
import { Elements } from './selection.ts';

/** Rows and links of one page. */
const rowsMax = 10_000;
const linksMax = 100_000;
const namePattern = /^(?!__proto__$)[A-Za-z_][\w-]{0,63}$/;
const none = { pages: 1, matched: 0, empty: 0, wrong: 0, failed: 0, rows: 0, rejected: 0 };

/** The function that a module exports. @throws Error it exports none */
export function functionOf(module: unknown): PageFunction {
  const named = module as { readonly default?: unknown };
  if (typeof named.default === 'function') return named.default as PageFunction;
  throw new Error('its default export is not a function');
}

/** Adds what the function makes of the page to a result. Rejects never. */
export async function callWith(
  page: PageFunction,
  input: PageInput,
  jsonBytesMax: number,
  result: RuleResult,
): Promise<void> {
  const made: { rule: string; values: Values }[] = [];
  const links: string[] = [];
  const tree = new RulePage(input, jsonBytesMax);
  try {
    await page(contextOf(input, tree, made, links));
    for (const row of made) count(result, row.rule);
    if (made.length === 0) result.counts[pageRule] ??= { ...none, empty: 1 };
    result.rows.push(...made);
    if (links.length > 0) result.links = [...(result.links ?? []), ...links];
  } catch (error) {
    countsOf(result, pageRule).failed++;
    result.failures.push({ rule: pageRule, message: messageOf(error) });
  } finally {
    tree.close();
  }
}

function contextOf(
  input: PageInput,
  tree: RulePage,
  made: { rule: string; values: Values }[],
  links: string[],
): PageContext {
  const { url, finalUrl, depth, status, headers, text, type } = input;
  const isJson = isJsonType(type);
  return {
    url,
    finalUrl,
    depth,
    status,
    headers,
    html: text,
    // JSON has no elements.
    $: (selector) => (isJson ? Elements.none : Elements.in(tree.tree, selector)),
    // Of an answer that is not JSON it is not asked for: destructuring reads every property.
    get json() {
      return isJson ? tree.jsonOf(text) : undefined;
    },
    follow(target) {
      // The attribute of a link that is not there.
      if (target === undefined || target === null) return;
      const to = addressOf(target);
      if (links.length < linksMax && URL.canParse(to, tree.base)) {
        links.push(parseUrl(to, tree.base).href);
      }
    },
    emit(item, rule = pageRule) {
      if (made.length >= rowsMax) throw new Error(`emit: ${rowsMax} rows are allowed on one page`);
      // A pattern takes null, and a list of one name, for texts.
      if (typeof rule !== 'string' || !namePattern.test(rule)) {
        throw new Error(`emit: ${JSON.stringify(rule)} is no name`);
      }
      made.push({ rule, values: valuesOf(item) });
    },
  };
}

/** @throws Error it is no text: an object would be the link `/[object Object]`. `target`: of a module
 *  that no compiler has checked. */
function addressOf(target: unknown): string {
  if (typeof target === 'string') return target;
  if (target instanceof URL) return target.href;
  const what = Array.isArray(target) ? 'an array' : `of type ${typeof target}`;
  const isElements = target instanceof Elements;
  const instead = isElements ? "an element's is .attr('href')" : "such as '/page/2'";
  throw new Error(`follow: a link is a text, ${instead}; this one is ${what}`);
}

/** As JSON has it: dates are texts, and what is undefined is left out. */
function valuesOf(item: unknown): Values {
  const values = JSON.parse(JSON.stringify(item) ?? 'null') as Json;
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new Error('emit: an item is an object, such as {title: "…"}');
  }
  const wrong = Object.keys(values).find((name) => !namePattern.test(name));
  if (wrong === undefined) return values;
  throw new Error(`emit: ${JSON.stringify(wrong.slice(0, 64))} is not the name of a field`);
}

/** One more row. */
function count(result: RuleResult, rule: string): void {
  const numbers = countsOf(result, rule);
  numbers.rows++;
  numbers.matched = 1;
  numbers.empty = 0;
}

/** A rule of the crawl may have the same name: the function adds to its numbers. */
function countsOf({ counts }: RuleResult, rule: string): RuleCounts {
  const known = Object.hasOwn(counts, rule) ? counts[rule] : undefined;
  const numbers = known ?? { ...none };
  counts[rule] = numbers;
  return numbers;
}

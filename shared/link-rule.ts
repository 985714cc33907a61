/**
 * `records=links`: the links of each page, as rows of a rule that its crawl gets. So they cost what
 * rules cost, and a crawl without such an output has nothing of it.
 */
import { isDeepStrictEqual } from 'node:util';
import type { CrawlSpec } from './crawl.ts';
import { type ItemRule, type ItemRules, itemsSchema } from './items.ts';
import type { Output } from './outputs.ts';

/** The name of the rule, and of the rows. */
export const linkRuleName = 'links';
const others = ['mailto:', 'javascript:', 'tel:', 'data:'].map((scheme) => `[href^="${scheme}" i]`);

let made: ItemRule | undefined;
/** `from` is the page, `to` the address as it is written, made absolute. Most crawls need it
 *  not. */
export function linkRule(): ItemRule {
  made ??= itemsSchema.parse({
    [linkRuleName]: {
      each: `a[href]:not(${others.join(',')}), area[href]:not(${others.join(',')})`,
      fields: {
        from: { value: 'finalUrl' },
        to: { css: '::attr(href)', type: 'url' },
        text: ':scope',
        rel: '::attr(rel)',
      },
    },
  })[linkRuleName] as ItemRule;
  return made;
}

function wantsLinks(outputs: readonly Output[] = []): boolean {
  return outputs.some(({ records }) => records === 'links');
}

/** The rules of a crawl without this one, which is of outputs of links alone. */
export function ownRules(items: ItemRules = {}): ItemRules {
  const own = items[linkRuleName];
  if (own === undefined || !isDeepStrictEqual(own, linkRule())) return items;
  return Object.fromEntries(Object.entries(items).filter(([name]) => name !== linkRuleName));
}

/** Has the crawl rules besides this one? */
export function hasOwnRules({ items }: CrawlSpec['fetch']): boolean {
  return Object.keys(ownRules(items)).length > 0;
}

/** The crawl with that rule, if one of its outputs takes links. */
export function withLinkRule(spec: CrawlSpec): CrawlSpec {
  const { items = {} } = spec.fetch;
  if (!wantsLinks(spec.outputs) || items[linkRuleName] !== undefined) return spec;
  return { ...spec, fetch: { ...spec.fetch, items: { ...items, [linkRuleName]: linkRule() } } };
}

/** The fault of an output of links in a crawl with these rules. */
export function linkMisfit(output: Output, items: CrawlSpec['fetch']['items']): string | undefined {
  const own = items?.[linkRuleName];
  if (output.records !== 'links' || own === undefined || isDeepStrictEqual(own, linkRule())) {
    return undefined;
  }
  return 'must not have records links: the crawl has a rule of that name; give rule=links';
}

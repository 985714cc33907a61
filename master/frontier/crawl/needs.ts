/** Abilities that a crawl needs and not each slave has, and those of a slave: bits, since they are
 *  compared for each lease. */
import type { FetchSpec } from '../../../shared/crawl.ts';
import { mustBeDecoded } from '../../../shared/images.ts';
import { hasArticle, type ItemRules } from '../../../shared/items.ts';
import { keepsViews } from '../../../shared/render.ts';

export const needs = {
  nothing: 0,
  archive: 1,
  login: 2,
  articles: 4,
  browser: 16,
  images: 64,
  pixels: 128,
} as const;

/** The rules of a crawl never change, and are looked at for each lease. */
const articles = new WeakMap<ItemRules, number>();

export function needsOf(fetch: FetchSpec): number {
  const { archive, login, save, items, render, download } = fetch;
  return (
    ((archive ?? save) === undefined && !keepsViews(fetch) ? 0 : needs.archive) |
    (login === undefined ? 0 : needs.login) |
    (items === undefined ? 0 : articlesOf(items)) |
    (render === undefined ? 0 : needs.browser) |
    (download === undefined ? 0 : needs.images) |
    (mustBeDecoded(download) ? needs.pixels : 0)
  );
}

function articlesOf(items: ItemRules): number {
  let need = articles.get(items);
  if (need === undefined) {
    need = hasArticle(items) ? needs.articles : 0;
    articles.set(items, need);
  }
  return need;
}

/** The needs of a crawl that no slave meets, as its status says them. */
export function wantsOf(fetch: FetchSpec, able: Able) {
  const needed = needsOf(fetch);
  const missing = needed & ~nearest(needed, able);
  return {
    ...((missing & needs.login) !== 0 && { wantsLogin: true as const }),
    ...((missing & needs.articles) !== 0 && { wantsArticles: true as const }),
    ...((missing & needs.browser) !== 0 && { wantsBrowser: true as const }),
  };
}

/** The abilities of slaves: those of each, without repetition. */
export type Able = { readonly abilities: readonly number[] };

/** Returns the abilities of the slave that meets most of the needs. One slave must meet all of
 *  them: the abilities of another do not add to its own. */
export function nearest(needed: number, { abilities }: Able): number {
  let best: number = needs.nothing;
  for (const one of abilities) {
    if (bitsOf(needed & one) > bitsOf(needed & best)) best = one;
  }
  return best;
}

function bitsOf(value: number): number {
  let count = 0;
  for (let rest = value; rest !== 0; rest &= rest - 1) count++;
  return count;
}

/** Is all that is needed among what can be done? */
export function isMet(needed: number, abilities: number): boolean {
  return (needed & ~abilities) === 0;
}

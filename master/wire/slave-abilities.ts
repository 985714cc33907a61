/** The abilities that a slave declares beyond those of all slaves. Source: PROTOCOL.md [T-80],
 *  [T-91], [T-93], [T-105], [T-110], [T-113], [T-130], [T-131], [T-140], [T-146]. */
import { needs } from '../frontier/crawl/needs.ts';

type SlaveAbilities = {
  readonly hasRules: boolean;
  readonly sendsBodies: boolean;
  readonly hasTrains: boolean;
  /** Bits of `needs`. */
  readonly abilities: number;
  /** It knows rules with articles, but lacks the packages. */
  readonly lacksArticles: boolean;
};

/** By the names on the wire. Those of the second list are of use only with rules. */
const plain = { archive: needs.archive, images: needs.images, pixels: needs.pixels };
const ruled = { login: needs.login, browser: needs.browser, article: needs.articles };

/** Names that are not known are ignored. */
export function slaveAbilities(what: readonly string[]): SlaveAbilities {
  const hasRules = what.includes('rules');
  let abilities: number = needs.nothing;
  for (const [name, bit] of Object.entries(hasRules ? { ...plain, ...ruled } : plain)) {
    if (what.includes(name)) abilities |= bit;
  }
  const lacksArticles = hasRules && what.includes('no-article');
  const sendsBodies = what.includes('post');
  return { hasRules, sendsBodies, hasTrains: what.includes('trains'), abilities, lacksArticles };
}

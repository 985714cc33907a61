/** The rules that decide about a crawl's links, made of its spec and its rows in the store. */
import { trapLimitsSchema } from '../../../shared/crawl.ts';
import { rarely } from '../../../shared/flags.ts';
import type { CrawlRecord, KeptHosts, TrapCounts } from '../../store/records.ts';
import type { PatternBudget } from './patterns.ts';
import { Scope } from './scope.ts';
import { SeedHosts } from './seed-hosts.ts';
import { Traps } from './traps.ts';

/** The hosts of its seeds, with their ports, and the blocks of those that were resolved. */
export type KeptSeeds = {
  readonly hosts: KeptHosts;
  readonly seedBlocks: readonly (readonly [host: string, blocks: readonly string[]])[];
};

/** The parts of a crawl that are in rows of their own. */
export type Kept = Partial<KeptSeeds> & { readonly trapCounts?: TrapCounts };

/** The rules for its links. A crawl that is over takes no memory for them. */
export type UrlRules = {
  readonly scope: Scope;
  readonly seedHosts: SeedHosts;
  readonly traps: Traps;
};

export function urlRulesOf(
  spec: CrawlRecord['spec'],
  kept: Kept,
  patternBudget: PatternBudget | undefined,
): UrlRules {
  const scope = new Scope(spec, kept.hosts ?? {}, patternBudget);
  const seedHosts = new SeedHosts(spec, kept.seedBlocks);
  // Those that no look-up is needed for are not on record.
  for (const url of scope.seedUrls) seedHosts.settle(url, new Map());
  const traps = new Traps(trapLimitsSchema.parse(spec.traps ?? {}, rarely), kept.trapCounts ?? []);
  return { scope, seedHosts, traps };
}

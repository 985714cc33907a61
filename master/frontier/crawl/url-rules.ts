/** What decides about the links of a crawl, made of its spec and of what the store has of it. */
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

/** What of a crawl is in rows of its own. */
export type Kept = Partial<KeptSeeds> & { readonly trapCounts?: TrapCounts };

/** What decides about its links. A crawl that is over takes no memory for it. */
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

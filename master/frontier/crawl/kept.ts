/** The parts of a crawl that are in rows of their own: hosts of its seeds, and counts of its trap
 *  rules. */
import {
  crawlKey,
  decodeBlocks,
  decodeSeedHosts,
  decodeTrapCounts,
  type KeptHosts,
  seedHostOf,
  trapsKey,
} from '../../store/records.ts';
import type { Rows } from '../../store/store.ts';
import type { Kept, KeptSeeds } from './url-rules.ts';

export function keptOf(store: Rows, crawl: number): Kept {
  const counts = store.get('meta', trapsKey(crawl));
  return { ...seedsOf(store, crawl), ...(counts && { trapCounts: decodeTrapCounts(counts) }) };
}

function seedsOf(store: Rows, crawl: number): KeptSeeds {
  let hosts: KeptHosts = { named: [], followed: [] };
  const seedBlocks: [string, string[]][] = [];
  const all = { from: crawlKey(crawl), to: crawlKey(crawl + 1) };
  for (const { key, value } of store.range('seeds', all)) {
    const host = seedHostOf(key);
    if (host === undefined) hosts = decodeSeedHosts(value);
    else seedBlocks.push([host, decodeBlocks(value)]);
  }
  return { hosts, seedBlocks };
}

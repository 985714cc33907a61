/** The store's rows of the hosts of seeds: which they are, and where their names were found. */
import { crawlKey, encodeBlocks, encodeSeedHosts, seedHostKey } from '../../store/records.ts';
import type { Change } from '../../store/store.ts';
import type { Crawl } from '../crawl/crawl.ts';

/** Returns the changes that store where the host of a seed was found. */
export function seedHostChanges(
  crawl: number,
  { host }: URL,
  blocks: readonly string[] | undefined,
): Change[] {
  if (blocks === undefined) return [];
  return [{ table: 'seeds', key: seedHostKey(crawl, host), value: encodeBlocks(blocks) }];
}

/** The hosts in the scope of a crawl. */
export function hostsChange({ id, scope }: Crawl): Change {
  return { table: 'seeds', key: crawlKey(id), value: encodeSeedHosts(scope.kept) };
}

/** Adds a host where a seed redirects to; it opens no private addresses, whatever its name says. */
export function followChanges(crawl: Crawl, url: URL): Change[] {
  const { id, scope, seedHosts, filter } = crawl;
  if (scope.follow(url)) filter.unsettle();
  const blocks = seedHosts.settle(url, new Map([[url.hostname, []]]));
  return [...seedHostChanges(id, url, blocks), hostsChange(crawl)];
}

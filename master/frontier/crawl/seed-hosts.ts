/**
 * Where the hosts of a crawl's seeds were when they were added: the private blocks of each, [] for
 * one that was at public addresses alone. Whatever its name says later opens nothing more. A host
 * that could not be resolved is not here and opens nothing until it is.
 *
 *     added --digits, localhost--> settled
 *       +--looked up--> settled, on record | not resolved --added again, restart--> looked up
 *
 * A crawl that goes through proxies asks for no name, since the proxies resolve them; nor does one
 * that may go anywhere. Pure; owned by the crawl.
 */
import { blocksOfAddresses, blocksOfHost } from '../../../shared/address.ts';
import type { CrawlSpec } from '../../../shared/crawl.ts';

/** Addresses of the hosts of seeds, as far as they were looked up and could be. */
export type FoundAddresses = ReadonlyMap<string, readonly string[]>;

/** What a look-up of seeds came to, for the operator. */
export type SeedsFound = {
  /** Names that could not be resolved. */
  readonly unresolved: readonly string[];
  /** Those at private addresses, and what they open. */
  readonly inside: readonly { readonly hostname: string; readonly blocks: readonly string[] }[];
};

/** No name is longer. Source: RFC 1035, 2.3.4. */
const nameCharsMax = 254;
const toldMax = 10_000;

export class SeedHosts {
  readonly #asks: boolean;
  /** By host and port, as in a URL. */
  readonly #blocks = new Map<string, readonly string[]>();
  /** Names that the operator knows about. */
  readonly #told = new Set<string>();

  /** `kept`: what is on record. */
  constructor(
    { fetch: { allowPrivate, proxies } }: Pick<CrawlSpec, 'fetch'>,
    kept: Iterable<readonly [host: string, blocks: readonly string[]]> = [],
  ) {
    this.#asks = allowPrivate !== 'all' && proxies.length === 0;
    for (const [host, blocks] of kept) this.#blocks.set(host, blocks);
  }

  /** The private blocks where a seed's host may be; [] for a host that is no seed's. */
  blocksOf(hostKey: string): readonly string[] {
    return this.#blocks.get(hostKey.slice(hostKey.indexOf('//') + 2)) ?? [];
  }

  /** The names that have to be looked up before these hosts are settled. */
  wanted(urls: Iterable<URL>): Set<string> {
    const names = new Set<string>();
    if (!this.#asks) return names;
    for (const { host, hostname } of urls) {
      if (this.#blocks.has(host) || names.has(hostname)) continue;
      if (hostname.length <= nameCharsMax && blocksOfHost(hostname) === undefined) {
        names.add(hostname);
      }
    }
    return names;
  }

  /** Settles the host of a seed, once. Gives what has to be on record: the blocks of a name. */
  settle({ host, hostname }: URL, found: FoundAddresses): readonly string[] | undefined {
    if (this.#blocks.has(host)) return undefined;
    const fixed = blocksOfHost(hostname);
    const addresses = found.get(hostname);
    const blocks = fixed ?? (addresses && blocksOfAddresses(addresses));
    if (blocks === undefined) return undefined;
    this.#blocks.set(host, blocks);
    return fixed === undefined ? blocks : undefined;
  }

  /** What of a look-up is news to the operator. */
  news(names: Iterable<string>, found: FoundAddresses): SeedsFound {
    const unresolved: string[] = [];
    const inside: { hostname: string; blocks: readonly string[] }[] = [];
    for (const hostname of names) {
      const addresses = found.get(hostname);
      const blocks = addresses && blocksOfAddresses(addresses);
      if (blocks?.length === 0 || this.#told.has(hostname)) continue;
      if (this.#told.size >= toldMax) this.#told.clear();
      this.#told.add(hostname);
      if (blocks === undefined) unresolved.push(hostname);
      else inside.push({ hostname, blocks });
    }
    return { unresolved, inside };
  }
}

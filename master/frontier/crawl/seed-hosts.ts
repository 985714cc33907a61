/**
 * The private blocks where the hosts of a crawl's seeds were when they were added; [] for a host
 * with public addresses only. Later changes of its name open nothing more. A host that could not be
 * resolved is missing and opens nothing until it is.
 *
 *     added --digits, localhost--> settled
 *       +--looked up--> settled, on record | not resolved --added again, restart--> looked up
 *
 * A crawl through proxies resolves no names, since the proxies do; nor does a crawl that may
 * connect to any address. Pure; owned by the crawl.
 */
import { blocksOfAddresses, blocksOfHost } from '../../../shared/address.ts';
import type { CrawlSpec } from '../../../shared/crawl.ts';

/** Addresses of the seeds' hosts that could be resolved. */
export type FoundAddresses = ReadonlyMap<string, readonly string[]>;

/** The result of a look-up of seeds, for the operator. */
export type SeedsFound = {
  /** Names that could not be resolved. */
  readonly unresolved: readonly string[];
  /** Hosts at private addresses, and the blocks that they open. */
  readonly inside: readonly { readonly hostname: string; readonly blocks: readonly string[] }[];
};

/** No name is longer. Source: RFC 1035, 2.3.4. */
const nameCharsMax = 254;
const toldMax = 10_000;

export class SeedHosts {
  #asks: boolean;
  /** By host and port, as in a URL. */
  readonly #blocks = new Map<string, readonly string[]>();
  /** Names that were reported to the operator. */
  readonly #told = new Set<string>();

  /** `kept`: the stored blocks. */
  constructor(
    spec: Pick<CrawlSpec, 'fetch'>,
    kept: Iterable<readonly [host: string, blocks: readonly string[]]> = [],
  ) {
    this.#asks = asksNames(spec);
    for (const [host, blocks] of kept) this.#blocks.set(host, blocks);
  }

  /** Its crawl has other options now. Hosts that are settled stay. */
  respec(spec: Pick<CrawlSpec, 'fetch'>): void {
    this.#asks = asksNames(spec);
  }

  /** Returns the private blocks where a seed's host may be; [] for other hosts. */
  blocksOf(hostKey: string): readonly string[] {
    return this.#blocks.get(hostKey.slice(hostKey.indexOf('//') + 2)) ?? [];
  }

  /** Returns the names to look up before these hosts are settled. */
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

  /** Settles the host of a seed, once. Returns the blocks to store, for a name. */
  settle({ host, hostname }: URL, found: FoundAddresses): readonly string[] | undefined {
    if (this.#blocks.has(host)) return undefined;
    const fixed = blocksOfHost(hostname);
    const addresses = found.get(hostname);
    const blocks = fixed ?? (addresses && blocksOfAddresses(addresses));
    if (blocks === undefined) return undefined;
    this.#blocks.set(host, blocks);
    return fixed === undefined ? blocks : undefined;
  }

  /** Returns the part of a look-up that is new to the operator. */
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

function asksNames({ fetch: { allowPrivate, proxies } }: Pick<CrawlSpec, 'fetch'>): boolean {
  return allowPrivate !== 'all' && proxies.length === 0;
}

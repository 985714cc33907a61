/**
 * What belongs to a crawl: pure decisions about one URL.
 * `host`: a seed's hostname and port, http and https on their default ports being one host.
 * `domain`: the registrable domain of a seed by the Public Suffix List, its private part included
 * (user.github.io is a domain); an address or a name without one stands for itself.
 */
import { getDomain } from 'tldts';
import type { CrawlSpec } from '../../shared/crawl.ts';

export type OutOfScope = 'host' | 'include' | 'exclude';

export class Scope {
  readonly #kind: CrawlSpec['scope'];
  readonly #include: readonly RegExp[];
  readonly #exclude: readonly RegExp[];
  readonly #hosts = new Set<string>();
  readonly #domains = new Map<string, string>();

  constructor(spec: Pick<CrawlSpec, 'scope' | 'include' | 'exclude'>, seedHosts: Iterable<string>) {
    this.#kind = spec.scope;
    this.#include = spec.include.map((source) => new RegExp(source, 'u'));
    this.#exclude = spec.exclude.map((source) => new RegExp(source, 'u'));
    for (const host of seedHosts) this.#hosts.add(host);
  }

  get seedHosts(): string[] {
    return [...this.#hosts];
  }

  /** Opens the scope for a seed; false when it was open for its host already. */
  addSeed(url: URL): boolean {
    const host = this.#hostOf(url);
    if (this.#hosts.has(host)) return false;
    this.#hosts.add(host);
    return true;
  }

  /** Why a canonical URL is left out; undefined when it belongs to the crawl. */
  refuses(url: URL): OutOfScope | undefined {
    if (this.#kind !== 'any' && !this.#hosts.has(this.#hostOf(url))) return 'host';
    const { href } = url;
    if (this.#include.length > 0 && !this.#include.some((pattern) => pattern.test(href))) {
      return 'include';
    }
    if (this.#exclude.some((pattern) => pattern.test(href))) return 'exclude';
    return undefined;
  }

  #hostOf(url: URL): string {
    // The port is empty on the default port of either scheme.
    return this.#kind === 'domain' ? this.#domainOf(url.hostname) : url.host;
  }

  #domainOf(hostname: string): string {
    let domain = this.#domains.get(hostname);
    if (domain === undefined) {
      domain = getDomain(hostname, { allowPrivateDomains: true }) ?? hostname;
      if (this.#domains.size > 10_000) this.#domains.clear();
      this.#domains.set(hostname, domain);
    }
    return domain;
  }
}

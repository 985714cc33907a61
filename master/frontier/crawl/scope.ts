/**
 * Decides whether a URL belongs to a crawl. Pure. `host`: a seed's hostname and port, http and
 * https on their default ports being one host. `domain`: the registrable domain of a seed by the
 * Public Suffix List, its private part included (user.github.io is a domain); an address or a name
 * without one stands for itself.
 */
import { getDomain } from 'tldts';
import type { CrawlSpec } from '../../../shared/crawl.ts';
import type { KeptHosts } from '../../store/records.ts';
import { PatternBudget, Patterns } from './patterns.ts';

type ScopeSpec = Pick<CrawlSpec, 'scope' | 'include' | 'exclude'>;
type OutOfScope = 'host' | 'include' | 'exclude';

/** Memory for the patterns of one crawl, outside of a master. */
const patternBytes = 4 << 20;

export class Scope {
  #kind: CrawlSpec['scope'];
  #include: Patterns;
  #exclude: Patterns;
  /** Host and port of every seed; the port is empty on the default port of either scheme. */
  readonly #hosts = new Set<string>();
  /** The same of hosts where seeds redirect to. */
  readonly #followed = new Set<string>();
  /** The names to compare a URL's host with: the hosts, or in a scope of `domain` their domains. */
  readonly #open = new Set<string>();
  readonly #domains = new Map<string, string>();
  readonly #budget: PatternBudget;

  constructor(spec: ScopeSpec, kept: Partial<KeptHosts>, budget = new PatternBudget(patternBytes)) {
    this.#kind = spec.scope;
    this.#budget = budget;
    this.#include = new Patterns(spec.include, budget);
    this.#exclude = new Patterns(spec.exclude, budget);
    for (const host of kept.named ?? []) this.addSeed(urlOf(host));
    for (const host of kept.followed ?? []) this.follow(urlOf(host));
  }

  /** Its crawl has other options now; the hosts stay. */
  respec(spec: ScopeSpec): void {
    this.close();
    this.#kind = spec.scope;
    this.#include = new Patterns(spec.include, this.#budget);
    this.#exclude = new Patterns(spec.exclude, this.#budget);
    this.#open.clear();
    for (const host of [...this.#hosts, ...this.#followed]) {
      this.#open.add(this.#hostOf(urlOf(host)));
    }
  }

  /** Frees the memory of its patterns. */
  close(): void {
    this.#include.close();
    this.#exclude.close();
  }

  get seedHostCount(): number {
    return this.#hosts.size;
  }

  /** The options that make the same scope again. */
  get kept(): KeptHosts {
    return { named: [...this.#hosts], followed: [...this.#followed] };
  }

  /** The seeds' hosts as URLs. */
  get seedUrls(): URL[] {
    return [...this.#hosts].map(urlOf);
  }

  /** Adds the host of a seed to the scope; returns false if it was there already. */
  addSeed(url: URL): boolean {
    const host = this.#hostOf(url);
    const isNew = !this.#open.has(host);
    this.#hosts.add(url.host);
    this.#open.add(host);
    return isNew;
  }

  /** Adds the host of a URL where a seed redirects to; returns false if it was there already. */
  follow(url: URL): boolean {
    const host = this.#hostOf(url);
    const isNew = !this.#open.has(host);
    this.#followed.add(url.host);
    this.#open.add(host);
    return isNew;
  }

  /** Did the operator name the host and port of this host key? */
  isSeedHost(hostKey: string): boolean {
    return this.#hosts.has(hostKey.slice(hostKey.indexOf('//') + 2));
  }

  /** Is it on a seed's host, or on a host of its domain? */
  owns(url: URL): boolean {
    return this.#open.has(this.#hostOf(url));
  }

  /** Returns why a canonical URL is left out; undefined if it belongs to the crawl. */
  refuses(url: URL): OutOfScope | undefined {
    return this.isElsewhere(url) ? 'host' : this.refusesText(url.href);
  }

  /** Is it on a host to which links are not followed? */
  isElsewhere(url: URL): boolean {
    return this.#kind !== 'any' && !this.owns(url);
  }

  /** Returns which list of patterns leaves a canonical URL out, whatever its host is. */
  refusesText(href: string): 'include' | 'exclude' | undefined {
    if (!this.#include.isEmpty && !this.#include.match(href)) return 'include';
    return this.#exclude.match(href) ? 'exclude' : undefined;
  }

  /** Is an image taken from there? `where`: the hosts of seeds, or their domains, or any. */
  takesImage(url: URL, where: 'any' | 'host' | 'domain'): boolean {
    if (this.#exclude.match(url.href)) return false;
    if (where === 'any') return true;
    const hosts = [...this.#hosts, ...this.#followed];
    if (where === 'host') return hosts.includes(url.host);
    const domain = this.#domainOf(url.hostname);
    return hosts.some((host) => this.#domainOf(urlOf(host).hostname) === domain);
  }

  /** Returns the pattern of --exclude that leaves a canonical URL out. */
  excludedBy(href: string): string | undefined {
    return this.#exclude.first(href);
  }

  #hostOf(url: URL): string {
    return this.#kind === 'domain' ? this.#domainOf(url.hostname) : url.host;
  }

  #domainOf(hostname: string): string {
    let domain = this.#domains.get(hostname);
    if (domain === undefined) {
      domain = registrableDomain(hostname);
      if (this.#domains.size > 10_000) this.#domains.clear();
      this.#domains.set(hostname, domain);
    }
    return domain;
  }
}

/** A URL of a host and port. */
function urlOf(host: string): URL {
  return new URL(`http://${host}/`);
}

/** The registrable domain of a name; an address or a name without one stands for itself. */
export function registrableDomain(hostname: string): string {
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname;
}

/** Returns whether two URLs are of one site: one registrable domain and one port, http and https on
 *  their default ports being one. */
export function isSameSite(a: URL, b: URL): boolean {
  return a.port === b.port && registrableDomain(a.hostname) === registrableDomain(b.hostname);
}

/**
 * Which hosts share one politeness: each by itself, those of a registrable domain, or those of an
 * address. robots.txt stays each host's own. Owned by the frontier.
 *
 * The address is the master's own finding, by the DNS alone, and of several the first in order, so
 * that a name whose addresses take turns keeps its group. A name that the DNS does not know is a
 * group of its own.
 */
import { Resolver } from 'node:dns/promises';
import { registrableDomain } from '../crawl/scope.ts';

export const groupings = ['host', 'domain', 'ip'] as const;
export type GroupingKind = (typeof groupings)[number];

/** All addresses of a name. Rejects when there is none. */
export type LookUp = (hostname: string) => Promise<readonly string[]>;

/** Look-ups under way at once, and how long an answer is kept. */
const lookUpsMax = 64;
const keptMs = 600_000;
const keptMax = 10_000;

export class Grouping {
  readonly #kind: GroupingKind;
  readonly #lookUp: LookUp;
  readonly #known = new Map<string, { readonly group: string; readonly until: number }>();
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;

  constructor(kind: GroupingKind, lookUp: LookUp = dnsLookUp()) {
    this.#kind = kind;
    this.#lookUp = lookUp;
  }

  /** The group of a host (scheme, name and port); undefined: `find` has to ask for it. */
  groupOf(hostKey: string, now: number): string | undefined {
    if (this.#kind === 'host') return hostKey;
    const name = new URL(hostKey).hostname.replace(/^\[|\]$/g, '');
    if (this.#kind === 'domain') return `domain ${registrableDomain(name)}`;
    if (isAddress(name)) return `ip ${name}`;
    const known = this.#known.get(hostKey);
    return known !== undefined && known.until > now ? known.group : undefined;
  }

  /** Asks for the address of a host; never rejects. */
  async find(hostKey: string, now: number): Promise<string> {
    if (this.#underWay >= lookUpsMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#underWay++;
    const addresses = await this.#lookUp(new URL(hostKey).hostname).catch(() => []);
    this.#underWay--;
    this.#waiting.shift()?.();
    const first = [...addresses].sort()[0];
    const group = first === undefined ? hostKey : `ip ${first}`;
    if (this.#known.size >= keptMax) this.#known.clear();
    this.#known.set(hostKey, { group, until: now + keptMs });
    return group;
  }
}

/** By c-ares: getaddrinfo would hold the threads that the store commits on. */
function dnsLookUp(): LookUp {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  return (hostname) => resolver.resolve4(hostname).catch(() => resolver.resolve6(hostname));
}

/** Of a canonical URL: every spelling of an address has become one of these. */
function isAddress(hostname: string): boolean {
  return hostname.includes(':') || /^\d+(\.\d+){3}$/.test(hostname);
}

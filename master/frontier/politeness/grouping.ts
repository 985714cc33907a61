/**
 * The hosts that share one politeness: each host alone, those of a registrable domain, or those of
 * an address. robots.txt is always per host. Owned by the frontier.
 *
 * The master itself finds the address, only by the DNS. Of several it takes the first in order, so
 * that a name with rotating addresses keeps its group. A name unknown to the DNS is a group of its
 * own. While name servers do not answer, a host waits: alone it would be asked besides all others
 * of its address, for as long as it is in memory.
 */
import { Resolver } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isUnknownName } from '../../../shared/resolver.ts';
import { registrableDomain } from '../crawl/scope.ts';

export const groupings = ['host', 'domain', 'ip'] as const;
export type GroupingKind = (typeof groupings)[number];

/** All addresses of a name. Rejects when there is none, with Node's DNS errors. */
type LookUp = (hostname: string) => Promise<readonly string[]>;

/** Look-ups under way at once, and the time for which an answer is kept. */
const lookUpsMax = 64;
const keptMs = 600_000;
const keptMax = 10_000;
/** Pauses before further tries of a look-up that got no answer; then the host stays alone. */
const pausesMs = [1_000, 4_000, 16_000, 60_000, 60_000];

export class Grouping {
  readonly #kind: GroupingKind;
  readonly #lookUp: LookUp;
  readonly #pausesMs: readonly number[];
  readonly #known = new Map<string, { readonly group: string; readonly until: number }>();
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;

  constructor(
    kind: GroupingKind,
    lookUp: LookUp = dnsLookUp,
    pauses: readonly number[] = pausesMs,
  ) {
    this.#kind = kind;
    this.#lookUp = lookUp;
    this.#pausesMs = pauses;
  }

  /** Returns the group of a host (scheme, name and port); undefined: `find` must look it up. */
  groupOf(hostKey: string, now: number): string | undefined {
    if (this.#kind === 'host') return hostKey;
    const name = new URL(hostKey).hostname.replace(/^\[|\]$/g, '');
    if (this.#kind === 'domain') return `domain ${registrableDomain(name)}`;
    if (isAddress(name)) return `ip ${name}`;
    const known = this.#known.get(hostKey);
    return known !== undefined && known.until > now ? known.group : undefined;
  }

  /** Looks up the address of a host; never rejects. */
  async find(hostKey: string, now: number): Promise<string> {
    const { hostname } = new URL(hostKey);
    let addresses = await this.#addresses(hostname);
    for (const ms of this.#pausesMs) {
      if (addresses !== undefined) break;
      await sleep(ms, undefined, { ref: false });
      addresses = await this.#addresses(hostname);
    }
    const first = [...(addresses ?? [])].sort()[0];
    const group = first === undefined ? hostKey : `ip ${first}`;
    if (this.#known.size >= keptMax) this.#known.clear();
    if (addresses !== undefined) this.#known.set(hostKey, { group, until: now + keptMs });
    return group;
  }

  /** Undefined: no name server answers. */
  async #addresses(hostname: string): Promise<readonly string[] | undefined> {
    if (this.#underWay >= lookUpsMax) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#underWay++;
    try {
      return await this.#lookUp(hostname);
    } catch (error) {
      return isUnknownName(error) ? [] : undefined;
    } finally {
      this.#underWay--;
      this.#waiting.shift()?.();
    }
  }
}

/** By c-ares: getaddrinfo would block the threads that the store commits on. A new resolver for
 *  each name: see `systemResolve`. */
async function dnsLookUp(hostname: string): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  try {
    return await resolver.resolve4(hostname);
  } catch (error) {
    if (!isUnknownName(error)) throw error;
    return await resolver.resolve6(hostname);
  }
}

/** Of a canonical URL: every spelling of an address has become one of these. */
function isAddress(hostname: string): boolean {
  return hostname.includes(':') || /^\d+(\.\d+){3}$/.test(hostname);
}

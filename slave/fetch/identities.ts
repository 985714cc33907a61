/**
 * The identities under which one slave process fetches for a crawl. An identity is a user agent, a
 * proxy and the cookies that were given to the two together; hosts never see the cookies of one
 * with the address or the name of another. There are as many as the longer list of agents and
 * proxies has entries, one at least, and they fetch in turn. The worker owns them, a set for each
 * crawl.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FetchSpec } from '../../shared/crawl.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import { CookieJar } from './cookies.ts';
import type { FailedOutcome } from './outcome.ts';
import type { Proxies, ProxyServer } from './proxies.ts';

export type Identity = {
  readonly userAgent: string;
  readonly proxy: ProxyServer | undefined;
  readonly cookies: CookieJar;
};

type Outcome = { readonly ok: true } | FailedOutcome;

export class Identities {
  readonly #identities: readonly Identity[];
  readonly #waitMsMax: number;
  #turn: number;

  /** `turn`: who begins. Different in each process, so that they do not all go the same way.
   *  `before`: those of the crawl until now. The cookies of a user agent and a proxy that stay
   *  together stay, too. */
  constructor(spec: FetchSpec, proxies: Proxies, turn: number, before?: Identities) {
    const agents = [spec.userAgent, ...spec.otherUserAgents];
    const count = Math.max(agents.length, spec.proxies.length);
    this.#turn = turn % count;
    this.#waitMsMax = spec.timeoutMs;
    this.#identities = Array.from({ length: count }, (_, i) => {
      const url = spec.proxies[i % spec.proxies.length];
      const proxy = url === undefined ? undefined : proxies.of(url);
      const userAgent = agents[i % agents.length] ?? spec.userAgent;
      const same = before?.identityOf(userAgent, proxy);
      const cookies = same?.cookies ?? new CookieJar();
      cookies.give(spec.cookies, CookieJar.totalCharsMax / count);
      return { userAgent, proxy, cookies };
    });
  }

  /** Returns the identity of these two. */
  identityOf(userAgent: string, proxy: ProxyServer | undefined): Identity | undefined {
    return this.#identities.find((one) => one.userAgent === userAgent && one.proxy === proxy);
  }

  /**
   * Fetches as the next identity, and as the one after it while the fault is a proxy's. While all
   * proxies are set aside it waits, as long as a fetch may take; what then fails with kind `proxy`
   * says when to come back. Rejects as `fetch` does, and when `signal` fires.
   */
  async through<O extends Outcome>(
    fetch: (identity: Identity) => Promise<O>,
    signal: AbortSignal,
  ): Promise<O | FailedOutcome> {
    let error: FetchErrorBody = { kind: 'proxy', message: 'every proxy is set aside' };
    const began = performance.now();
    for (let i = 0; i < this.#identities.length; i++) {
      // Its lease does not last as long as all of them could take.
      if (i > 0 && performance.now() - began > this.#waitMsMax) break;
      const identity = await this.#next(signal);
      if (identity === undefined) break;
      const outcome = await fetch(identity);
      if (outcome.ok || outcome.error.kind !== 'proxy') return outcome;
      error = outcome.error;
    }
    const retryAfterMs = Math.ceil(Math.max(this.#backAt - performance.now(), 0));
    return { ok: false, error, retryAfterMs };
  }

  /** The next whose proxy is in use; undefined if there is none for too long. */
  async #next(signal: AbortSignal): Promise<Identity | undefined> {
    const waitMs = this.#backAt - performance.now();
    if (waitMs > this.#waitMsMax) return undefined;
    if (waitMs > 0) await sleep(waitMs, undefined, { signal });
    const now = performance.now();
    for (let i = 0; i < this.#identities.length; i++) {
      const identity = this.#identities[this.#turn];
      this.#turn = (this.#turn + 1) % this.#identities.length;
      if (identity !== undefined && asideUntil(identity) <= now) return identity;
    }
    return undefined;
  }

  /** When the first of the proxies may be used. */
  get #backAt(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const identity of this.#identities) first = Math.min(first, asideUntil(identity));
    return first;
  }
}

function asideUntil({ proxy }: Identity): number {
  return proxy?.asideUntil ?? 0;
}

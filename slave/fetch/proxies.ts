/**
 * The proxies of a slave process: which are in use, and which are set aside because they failed.
 *
 *     in use --failed, or refused thrice in a row--> aside --time is over--> in use …
 *
 * The time doubles with every failure that follows, and one answer through the proxy forgets them.
 * Pure: time is an argument (ms). The visitors choose, the fetcher tells what became of it.
 */
import type { ProxyTrouble } from '../../shared/protocol.ts';
import { basicAuth, decodedUser } from './basic-auth.ts';

const asideFirstMs = 5_000;
const asideMsMax = 600_000;
/** Tunnels refused in a row; one alone may be the fault of the host that it should lead to. */
const refusalsMax = 3;

/** What became of a proxy: set aside for so long (ms), or in use again. */
export type ProxyEvents = {
  readonly onAside: (proxy: ProxyServer, reason: string, ms: number) => void;
  readonly onBack?: (proxy: ProxyServer) => void;
};

export class ProxyServer {
  readonly url: URL;
  readonly #events: ProxyEvents;
  /** Why it was set aside; undefined since it worked. */
  #reason: string | undefined;
  #failures = 0;
  #refusals = 0;
  #asideUntil = 0;

  constructor(url: string, events: ProxyEvents) {
    this.url = new URL(url);
    this.#events = events;
  }

  get reason(): string | undefined {
    return this.#reason;
  }

  /** Scheme, host and port: what may be shown. */
  get name(): string {
    return `${this.url.protocol}//${this.url.host}`;
  }

  /** When it may be used again; the past for one in use. */
  get asideUntil(): number {
    return this.#asideUntil;
  }

  /** Who we are to it, '' and '' for nobody. */
  get user(): { readonly username: string; readonly password: string } {
    return decodedUser(this.url);
  }

  /** Value of Proxy-Authorization, undefined without a user. Source: RFC 9110, 11.7; RFC 7617. */
  get authorization(): string | undefined {
    return this.url.username === '' && this.url.password === '' ? undefined : basicAuth(this.url);
  }

  /** It cannot be reached, or does not take us. */
  failed(reason: string, now: number): void {
    // Fetches that began together fail together: that is one failure.
    if (now < this.#asideUntil) return;
    const ms = Math.min(asideFirstMs * 2 ** this.#failures++, asideMsMax);
    this.#asideUntil = now + ms;
    this.#reason = reason;
    this.#events.onAside(this, reason, ms);
  }

  /** It did not make a tunnel to some host. */
  refused(reason: string, now: number): void {
    if (++this.#refusals >= refusalsMax) this.failed(reason, now);
  }

  /** An answer came through it. */
  worked(): void {
    this.#failures = 0;
    this.#refusals = 0;
    if (this.#reason === undefined) return;
    this.#reason = undefined;
    this.#events.onBack?.(this);
  }
}

/** A proxy by its URL: crawls that share one share what is known of it. */
export class Proxies {
  readonly #known = new Map<string, ProxyServer>();
  readonly #events: ProxyEvents;

  constructor(events: ProxyEvents) {
    this.#events = events;
  }

  /** Those that did not work when they were last asked, `forMs` from `now` set aside. */
  troubles(now: number): ProxyTrouble[] {
    return [...this.#known.values()].flatMap(({ name, reason, asideUntil }) =>
      reason === undefined
        ? []
        : [{ name, reason, forMs: Math.ceil(Math.max(0, asideUntil - now)) }],
    );
  }

  of(url: string): ProxyServer {
    const known = this.#known.get(url);
    if (known !== undefined) return known;
    const proxy = new ProxyServer(url, this.#events);
    this.#known.set(url, proxy);
    return proxy;
  }
}

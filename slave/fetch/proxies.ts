/**
 * The proxies of a slave process: those in use, and those set aside after failures.
 *
 *     in use --failed, or refused thrice in a row--> aside --time is over--> in use …
 *
 * The time doubles with every further failure, and one answer through the proxy resets it; of one
 * that answers and refuses it stays short: the last hosts of a crawl may all be dead. Pure: time is
 * an argument (ms). The identities choose a proxy, the fetcher reports the outcome.
 */
import type { ProxyTrouble } from '../../shared/protocol.ts';
import { basicAuth, decodedUser } from './basic-auth.ts';

const asideFirstMs = 5_000;
const asideMsMax = 600_000;
const refusedMsMax = 10_000;
/** Refused tunnels in a row; a single one may be the fault of the host. */
const refusalsMax = 3;

type ProxyEvents = {
  /** It is set aside for some ms. */
  readonly onAside: (proxy: ProxyServer, reason: string, ms: number) => void;
  /** It is in use again. */
  readonly onBack?: (proxy: ProxyServer) => void;
  /** A proxy that did not work is forgotten. */
  readonly onForgotten?: () => void;
};

export class ProxyServer {
  readonly url: URL;
  readonly #events: ProxyEvents;
  /** The reason why it was set aside; undefined once it works. */
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

  /** Scheme, host and port, without the user. */
  get name(): string {
    return `${this.url.protocol}//${this.url.host}`;
  }

  /** The time when it may be used again; in the past for one in use. */
  get asideUntil(): number {
    return this.#asideUntil;
  }

  /** User and password for the proxy; '' and '' without. */
  get user(): { readonly username: string; readonly password: string } {
    return decodedUser(this.url);
  }

  /** Value of Proxy-Authorization, undefined without a user. Source: RFC 9110, 11.7; RFC 7617. */
  get authorization(): string | undefined {
    return this.url.username === '' && this.url.password === '' ? undefined : basicAuth(this.url);
  }

  /** The proxy cannot be reached, or refuses us. */
  failed(reason: string, now: number): void {
    this.#setAside(reason, now, asideMsMax);
  }

  /** The proxy made no tunnel to a host. */
  refused(reason: string, now: number): void {
    if (++this.#refusals >= refusalsMax) this.#setAside(reason, now, refusedMsMax);
  }

  #setAside(reason: string, now: number, msMax: number): void {
    // Fetches that started together fail together and count as one failure.
    if (now < this.#asideUntil) return;
    const ms = Math.min(asideFirstMs * 2 ** this.#failures, msMax);
    // However often it refused: if it then fails once, that is no reason for ten minutes.
    if (ms < msMax) this.#failures++;
    this.#asideUntil = now + ms;
    this.#reason = reason;
    this.#events.onAside(this, reason, ms);
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

/** Proxies by URL: crawls that share a proxy share its state. */
export class Proxies {
  readonly #known = new Map<string, ProxyServer>();
  readonly #events: ProxyEvents;

  constructor(events: ProxyEvents) {
    this.#events = events;
  }

  /** Returns the proxies that did not work at their last use, set aside for `forMs` from `now`. */
  troubles(now: number): ProxyTrouble[] {
    return [...this.#known.values()].flatMap(({ name, reason, asideUntil }) =>
      reason === undefined
        ? []
        : [{ name, reason, forMs: Math.ceil(Math.max(0, asideUntil - now)) }],
    );
  }

  /** Forgets the others: the crawls that had them have ended, or have other ones. */
  keep(urls: ReadonlySet<string>): void {
    const others = [...this.#known].filter(([url]) => !urls.has(url));
    for (const [url] of others) this.#known.delete(url);
    if (others.some(([, { reason }]) => reason !== undefined)) this.#events.onForgotten?.();
  }

  of(url: string): ProxyServer {
    const known = this.#known.get(url);
    if (known !== undefined) return known;
    const proxy = new ProxyServer(url, this.#events);
    this.#known.set(url, proxy);
    return proxy;
  }
}

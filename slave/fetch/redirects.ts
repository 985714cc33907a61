/**
 * The redirects of one fetch: where the next hop leads, when the chain must end, and the cookies
 * that it needs on the way (a page that sets a cookie and redirects to itself must work). Pure; a
 * chain never leaves its politeness group, the origin of its first URL.
 * Source: RFC 9110, 15.4.
 */
import { limits } from '../../shared/protocol.ts';

export type RedirectStep =
  | { kind: 'follow' }
  /** `target`: canonical, without fragment. */
  | { kind: 'leave'; target: string }
  | { kind: 'end'; message: string };

const statuses = new Set([301, 302, 303, 307, 308]);
const cookiesMax = 32;
const cookieCharsMax = 4096;

/** True if an answer with this status and a Location leads on. */
export function isRedirect(status: number): boolean {
  return statuses.has(status);
}

export class RedirectChain {
  readonly #hopsMax: number;
  readonly #cookies = new Map<string, string>();
  /** States that led on already: the URL and the cookies that it was asked with. */
  readonly #visited = new Set<string>();
  #url: URL;
  #hops = 0;

  /** `url`: absolute http(s). Throws if it is not a URL. */
  constructor(url: string, hopsMax: number) {
    this.#url = new URL(url);
    this.#url.hash = '';
    this.#hopsMax = hopsMax;
  }

  /** The current hop, canonical, without fragment. */
  get url(): string {
    return this.#url.href;
  }

  get origin(): string {
    return this.#url.origin;
  }

  get path(): string {
    return this.#url.pathname + this.#url.search;
  }

  /** Value of the Cookie header, '' without cookies. */
  get cookies(): string {
    return [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  /** Take one redirect answer; after `follow` the chain stands on the next hop. */
  next(location: string, setCookies: readonly string[]): RedirectStep {
    this.#visited.add(`${this.url} ${this.cookies}`);
    for (const header of setCookies) this.#keepCookie(header);
    const target = resolveLocation(location, this.#url);
    if (target === undefined) return { kind: 'end', message: 'redirect to no http address' };
    if (target.origin !== this.#url.origin) return { kind: 'leave', target: target.href };
    if (this.#visited.has(`${target.href} ${this.cookies}`))
      return { kind: 'end', message: 'redirect loop' };
    if (this.#hops >= this.#hopsMax)
      return { kind: 'end', message: `more than ${this.#hopsMax} redirects` };
    this.#hops++;
    this.#url = target;
    return { kind: 'follow' };
  }

  #keepCookie(header: string): void {
    const end = header.indexOf(';');
    const pair = (end < 0 ? header : header.slice(0, end)).trim();
    const equals = pair.indexOf('=');
    // Only what is fit to stand in a header again; what is too long or too many is forgotten.
    if (equals < 1 || pair.length > cookieCharsMax || !/^[\x20-\x7e]+$/.test(pair)) return;
    const name = pair.slice(0, equals).trim();
    if (!this.#cookies.has(name) && this.#cookies.size >= cookiesMax) return;
    this.#cookies.set(name, pair.slice(equals + 1).trim());
  }
}

function resolveLocation(location: string, base: URL): URL | undefined {
  try {
    const url = new URL(asUtf8(location), base);
    url.hash = '';
    const fits = url.href.length <= limits.urlChars;
    return fits && (url.protocol === 'http:' || url.protocol === 'https:') ? url : undefined;
  } catch {
    return undefined;
  }
}

/** Header bytes arrive as latin1; servers that send more than ASCII mean UTF-8, as browsers do. */
function asUtf8(header: string): string {
  if (!/[\x80-\xff]/.test(header)) return header;
  const text = Buffer.from(header, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? header : text;
}

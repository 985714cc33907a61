/**
 * The redirects of one fetch: the next hop, and the end of the chain. A page that sets a cookie and
 * redirects to itself is not a loop, so cookies are a part of the state. A chain stays on the
 * origin of its first URL, which is its politeness group, unless its kind of task lets it lead
 * anywhere. Pure.
 * Source: RFC 9110, 15.4.
 */
import { limits } from '../../shared/protocol.ts';
import { parseUrl } from '../../shared/url.ts';
import { asUtf8 } from './content.ts';

export type RedirectStep =
  /** `isElsewhere`: to another origin than the last. */
  | { kind: 'follow'; isElsewhere: boolean }
  /** `target`: canonical, without fragment. */
  | { kind: 'leave'; target: string }
  | { kind: 'end'; message: string };

const statuses = new Set([301, 302, 303, 307, 308]);

/** Returns whether an answer with this status and a Location is a redirect. */
export function isRedirect(status: number): boolean {
  return statuses.has(status);
}

/** Is the same request sent again, with its body? Else a GET follows, as browsers do for 301 and
 *  302, too. Source: RFC 9110, 15.4. */
export function keepsMethod(status: number): boolean {
  return status === 307 || status === 308;
}

type ChainOptions = {
  readonly hopsMax: number;
  /** To other origins, too; false by default. */
  readonly leadsAnywhere?: boolean | undefined;
};

export class RedirectChain {
  /** States that have redirected: a URL and the cookies sent with it. */
  readonly #visited = new Set<string>();
  readonly #origin: string;
  readonly #hopsMax: number;
  readonly #leadsAnywhere: boolean;
  #url: URL;
  #hops = 0;

  /** `url`: absolute http(s). Throws if it is not a URL. */
  constructor(url: string, { hopsMax, leadsAnywhere = false }: ChainOptions) {
    // A master of before may name it otherwise, and links start from here.
    this.#url = parseUrl(url);
    this.#url.hash = '';
    this.#origin = this.#url.origin;
    this.#hopsMax = hopsMax;
    this.#leadsAnywhere = leadsAnywhere;
  }

  /** The current hop, canonical, without fragment. */
  get url(): string {
    return this.#url.href;
  }

  /** The same, parsed; not to be changed. */
  get target(): URL {
    return this.#url;
  }

  /** Is the chain at the origin where it began? */
  get isAtHome(): boolean {
    return !this.#leadsAnywhere || this.#url.origin === this.#origin;
  }

  /** Takes one redirect; after `follow` the chain is at the next hop. `before`: the cookies that
   *  were sent; `after`: returns those for the next URL. */
  next(location: string, before: string, after: (url: URL) => string): RedirectStep {
    this.#visited.add(`${this.url} ${before}`);
    const target = resolveLocation(location, this.#url);
    if (target === undefined) return { kind: 'end', message: 'redirect to no http address' };
    const { urlChars } = limits;
    if (target.href.length > urlChars)
      return { kind: 'end', message: `redirect to a URL of more than ${urlChars} characters` };
    const isElsewhere = target.origin !== this.#url.origin;
    if (isElsewhere && !this.#leadsAnywhere) return { kind: 'leave', target: target.href };
    if (this.#visited.has(`${target.href} ${after(target)}`))
      return { kind: 'end', message: 'redirect loop' };
    if (this.#hops >= this.#hopsMax)
      return { kind: 'end', message: `more than ${this.#hopsMax} redirects` };
    this.#hops++;
    this.#url = target;
    return { kind: 'follow', isElsewhere };
  }
}

function resolveLocation(location: string, base: URL): URL | undefined {
  try {
    const url = parseUrl(asUtf8(location), base.href);
    url.hash = '';
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
  } catch {
    return undefined;
  }
}

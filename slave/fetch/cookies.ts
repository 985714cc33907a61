/**
 * The cookies of one crawl in one slave, kept as a browser keeps them for a session: host-only and
 * domain cookies, paths, Secure, expiry, the name prefixes; none for a public suffix. Bounded, in
 * memory only. Pure: time is an argument. Source: RFC 6265, 5; draft-ietf-httpbis-rfc6265bis.
 */
import { isIP } from 'node:net';
import { getPublicSuffix } from 'tldts';
import { parseDate } from 'tough-cookie';
import type { GivenCookie } from '../../shared/crawl.ts';
import { isLoopback } from '../../shared/url.ts';

type Cookie = {
  readonly name: string;
  readonly value: string;
  readonly domain: string;
  readonly hostOnly: boolean;
  readonly path: string;
  readonly secure: boolean;
  readonly expiresAt: number;
  /** The host whose answer set it. */
  readonly setBy: string;
};

const perDomainMax = 50;
const domainsMax = 3_000;
/** Of a cookie: of its name and value, and of its path. */
const charsMax = 4_096;
/** Limit of a Cookie header. Many servers, such as nginx and Apache, accept 8 KiB per line; one
 *  host could fill it for all others of its domain. */
const headerCharsMax = 8_000;
/** Maximum number of hosts that get no cookies of others. */
const refusersMax = 3_000;
/** Maximum number of cookies of the operator that hosts have replaced. */
const replacedMax = 3_000;
/** A longer lifetime is cut to this. Source: rfc6265bis, 5.5. */
const lifeMsMax = 400 * 86_400_000;

export class CookieJar {
  /** Limit of all names, values and paths by default; otherwise hostile domains could fill the
   *  memory. */
  static readonly totalCharsMax = 4 << 20;
  /** By domain, then by name and path, in the order of creation. */
  readonly #domains = new Map<string, Map<string, Cookie>>();
  /** Hosts that get only their own cookies; the oldest entry is dropped first. */
  readonly #refusers = new Set<string>();
  #totalCharsMax = CookieJar.totalCharsMax;
  /** The operator's, for the hosts of seeds; and for domains. They are never dropped. */
  #ofSeeds: readonly Cookie[] = [];
  readonly #given = new Map<string, Cookie[]>();
  /** Those of the operator that a host has set or deleted itself: `keyOf` each. */
  readonly #replaced = new Set<string>();
  #chars = 0;

  /** `given`: the cookies of the operator; `totalCharsMax`: of all others together. */
  constructor(given: readonly GivenCookie[] = [], totalCharsMax = CookieJar.totalCharsMax) {
    this.give(given, totalCharsMax);
  }

  /** The operator gives these from now on, in place of those before. One that is new counts, even
   *  where a host has set a cookie of its name. */
  give(given: readonly GivenCookie[] = [], totalCharsMax = CookieJar.totalCharsMax): void {
    this.#totalCharsMax = totalCharsMax;
    const before = new Set([this.#ofSeeds, ...this.#given.values()].flat().map(textOf));
    const all = given.map(ownCookie);
    this.#ofSeeds = all.filter(({ domain }) => domain === '');
    this.#given.clear();
    for (const cookie of all.filter(({ domain }) => domain !== '')) {
      this.#given.set(cookie.domain, [...(this.#given.get(cookie.domain) ?? []), cookie]);
    }
    for (const cookie of all) {
      if (!before.has(textOf(cookie))) this.#forgetSet(cookie);
    }
  }

  /** Forgets what hosts have set under the name and path of a cookie that is given anew. */
  #forgetSet({ domain, name, path }: Cookie): void {
    const domains = domain === '' ? [...this.#domains.keys()] : [domain];
    for (const one of domains) this.#delete(one, `${name} ${path}`);
    for (const key of this.#replaced) {
      const [of = '', ...rest] = key.split(' ');
      const isSame = rest.join(' ') === `${name} ${path}`;
      if (isSame && (domain === '' || of === domain)) this.#replaced.delete(key);
    }
  }

  /** Returns the Cookie header for `url` at `now` (epoch ms), '' without cookies. If not all fit,
   *  those of the host itself come first. */
  header(url: URL, now: number, isSeedHost = false): string {
    const own = this.#ofOperator(url, now, isSeedHost);
    if (this.#domains.size === 0 && own.length === 0) return '';
    const host = url.hostname;
    const found: Cookie[] = own;
    const isAlone = this.#refusers.has(host);
    for (const domain of domainsOf(host)) {
      for (const [key, cookie] of this.#domains.get(domain) ?? []) {
        if (cookie.expiresAt <= now) this.#delete(domain, key);
        else if (fits(cookie, url) && (!isAlone || cookie.setBy === host)) found.push(cookie);
      }
    }
    // Longer paths first; the sort is stable, so older ones before newer ones.
    found.sort((a, b) => b.path.length - a.path.length);
    return withinLimit(found, host)
      .map(({ name, value }) => (name === '' ? value : `${name}=${value}`))
      .join('; ');
  }

  /** The operator's cookies for `url` that no host has replaced. */
  #ofOperator(url: URL, now: number, isSeedHost: boolean): Cookie[] {
    if (this.#ofSeeds.length === 0 && this.#given.size === 0) return [];
    const host = url.hostname;
    const found = isSeedHost ? this.#ofSeeds.map((cookie) => ({ ...cookie, domain: host })) : [];
    for (const domain of domainsOf(host)) found.push(...(this.#given.get(domain) ?? []));
    return found
      .filter((one) => one.expiresAt > now && fits(one, url) && !this.#replaced.has(keyOf(one)))
      .map((one) => ({ ...one, setBy: host }));
  }

  /** A host sets or deletes a cookie that the operator gave: from now on its own counts. */
  #replace(cookie: Cookie): void {
    if (this.#ofSeeds.length === 0 && this.#given.size === 0) return;
    const isGiven = (one: Cookie) => one.name === cookie.name && one.path === cookie.path;
    const given = [...this.#ofSeeds, ...(this.#given.get(cookie.domain) ?? [])];
    if (!given.some(isGiven)) return;
    this.#replaced.add(keyOf(cookie));
    const [oldest] = this.#replaced;
    if (this.#replaced.size > replacedMax && oldest !== undefined) this.#replaced.delete(oldest);
  }

  /** The host of `url` refuses cookies of other hosts of its domain: it no longer gets them. */
  refuseSiblings({ hostname }: URL): void {
    this.#refusers.delete(hostname);
    this.#refusers.add(hostname);
    const [oldest] = this.#refusers;
    if (this.#refusers.size > refusersMax && oldest !== undefined) this.#refusers.delete(oldest);
  }

  /** Takes a Set-Cookie header of an answer from `url`; a cookie that breaks a rule is ignored. */
  take(header: string, url: URL, now: number): void {
    const cookie = parse(header, url, now);
    if (cookie === undefined || this.#coversSecure(cookie, url, now)) return;
    this.#replace(cookie);
    const { domain, name, path } = cookie;
    const key = `${name} ${path}`;
    const cookies = this.#domains.get(domain) ?? new Map<string, Cookie>();
    if (cookie.expiresAt <= now) {
      this.#delete(domain, key);
      return;
    }
    this.#chars += sizeOf(cookie) - sizeOf(cookies.get(key));
    cookies.set(key, cookie);
    // Moved to the end: the domain unused for longest is dropped first.
    this.#domains.delete(domain);
    this.#domains.set(domain, cookies);
    if (cookies.size > perDomainMax) this.#delete(domain, cookies.keys().next().value ?? '');
    while (this.#domains.size > domainsMax || this.#chars > this.#totalCharsMax) this.#dropOldest();
  }

  /** Would it, of an answer without TLS, be sent in place of a Secure one, or beside it? The server
   *  did not see that one, or is another. Source: rfc6265bis, 5.7, step 16. */
  #coversSecure({ name, path, secure }: Cookie, url: URL, now: number): boolean {
    if (secure || isSecure(url)) return false;
    const isCovered = (one: Cookie): boolean =>
      one.secure && one.name === name && one.expiresAt > now && isBelow(path, one.path);
    for (const domain of domainsOf(url.hostname)) {
      const given = (this.#given.get(domain) ?? []).filter(
        (one) => !this.#replaced.has(keyOf(one)),
      );
      if ([...(this.#domains.get(domain)?.values() ?? []), ...given].some(isCovered)) return true;
    }
    return false;
  }

  #dropOldest(): void {
    const [oldest] = this.#domains;
    if (oldest === undefined) return;
    for (const key of [...oldest[1].keys()]) this.#delete(oldest[0], key);
  }

  #delete(domain: string, key: string): void {
    const cookies = this.#domains.get(domain);
    this.#chars -= sizeOf(cookies?.get(key));
    cookies?.delete(key);
    if (cookies?.size === 0) this.#domains.delete(domain);
  }
}

function keyOf({ domain, name, path }: Cookie): string {
  return `${domain} ${name} ${path}`;
}

/** The same for equal ones. */
function textOf(cookie: Cookie): string {
  return JSON.stringify(cookie);
}

/** A cookie of the operator. One without a domain gets that of each host of a seed. */
function ownCookie(given: GivenCookie): Cookie {
  const { name, value, domain = '', subdomains = false, path = '/' } = given;
  return {
    name,
    value,
    domain,
    hostOnly: !subdomains || isIP(domain) !== 0 || isSuffix(domain),
    path,
    secure: given.secure === true || /^__(secure|host)-/i.test(name),
    expiresAt: given.expiresAt ?? Number.POSITIVE_INFINITY,
    setBy: domain,
  };
}

function parse(header: string, url: URL, now: number): Cookie | undefined {
  const [pair = '', ...rest] = header.split(';');
  const equals = pair.indexOf('=');
  const name = pair.slice(0, Math.max(equals, 0)).trim();
  const value = pair.slice(equals + 1).trim();
  // Without a name it is sent as its value, which must not look like a name with a prefix.
  if (name === '' && (value === '' || /^__(?:secure|host)-/i.test(value))) return undefined;
  // Only what is valid in a request header. Above ASCII the bytes go back as they came.
  if (pair.length > charsMax || !/^[\t\x20-\x7e\x80-\xff]*$/.test(pair)) {
    return undefined;
  }
  const attributes = new Map<string, string>();
  for (const part of rest) {
    const [key = '', text = ''] = part.split(/=(.*)/s);
    attributes.set(key.trim().toLowerCase(), text.trim());
  }
  const secure = attributes.has('secure');
  if (secure && !isSecure(url)) return undefined;
  const given = (attributes.get('domain') ?? '').replace(/^\./, '').toLowerCase();
  const domain = domainOf(given, url.hostname);
  if (domain === undefined) return undefined;
  const path = (attributes.get('path') ?? '').slice(0, charsMax);
  const cookie = {
    name: copyOf(name),
    value: copyOf(value),
    domain: copyOf(domain.domain),
    hostOnly: domain.hostOnly,
    path: copyOf(path.startsWith('/') ? path : defaultPath(url.pathname)),
    secure,
    expiresAt: expiryOf(attributes, now),
    setBy: url.hostname,
  };
  return keepsPrefix(cookie, path) ? cookie : undefined;
}

/** As a part of its header a text would keep the whole head of the answer in memory. */
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}

/** Returns undefined for a domain that is not the host's, or that is a public suffix. */
function domainOf(given: string, host: string): { domain: string; hostOnly: boolean } | undefined {
  if (given === '' || given === host) {
    const isShared = given !== '' && isIP(host) === 0 && !isSuffix(given);
    return { domain: host, hostOnly: !isShared };
  }
  if (!host.endsWith(`.${given}`) || isIP(host) !== 0 || isSuffix(given)) return undefined;
  return { domain: given, hostOnly: false };
}

/** Is it a public suffix? With the dot of the root at its end, too, as the host may be written. */
function isSuffix(domain: string): boolean {
  return getPublicSuffix(domain, { allowPrivateDomains: true }) === domain.replace(/\.$/, '');
}

function keepsPrefix({ name, secure, hostOnly, path }: Cookie, given: string): boolean {
  if (/^__secure-/i.test(name)) return secure;
  if (/^__host-/i.test(name)) return secure && hostOnly && path === '/' && given === '/';
  return true;
}

/** Source: RFC 6265, 5.2.1, 5.2.2 and 5.1.1. */
function expiryOf(attributes: ReadonlyMap<string, string>, now: number): number {
  const maxAge = attributes.get('max-age') ?? '';
  if (/^-?[0-9]+$/.test(maxAge)) return now + Math.min(Number(maxAge) * 1000, lifeMsMax);
  // `0` and `-1` are not dates, so the cookie lasts as long as the session.
  const expires = parseDate(attributes.get('expires') ?? '')?.getTime() ?? Number.POSITIVE_INFINITY;
  return Math.min(expires, now + lifeMsMax);
}

function fits({ domain, hostOnly, path, secure }: Cookie, url: URL): boolean {
  if (hostOnly && domain !== url.hostname) return false;
  return (!secure || isSecure(url)) && isBelow(url.pathname, path);
}

/** As in browsers, a loopback host counts as secure. */
function isSecure({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || isLoopback(hostname);
}

/** Source: RFC 6265, 5.1.4. */
function isBelow(pathname: string, path: string): boolean {
  if (!pathname.startsWith(path)) return false;
  return path.endsWith('/') || pathname.length === path.length || pathname[path.length] === '/';
}

/** Keeps their order; if there are too many, the host's own are preferred. */
function withinLimit(cookies: Cookie[], host: string): Cookie[] {
  const chars = (list: readonly Cookie[]) =>
    list.reduce((sum, { name, value }) => sum + name.length + value.length + 3, 0);
  if (chars(cookies) <= headerCharsMax) return cookies;
  const kept = new Set<Cookie>();
  let left = headerCharsMax;
  for (const isOwn of [true, false]) {
    for (const cookie of cookies) {
      if ((cookie.setBy === host) !== isOwn || chars([cookie]) > left) continue;
      kept.add(cookie);
      left -= chars([cookie]);
    }
  }
  return cookies.filter((cookie) => kept.has(cookie));
}

/** Source: RFC 6265, 5.1.4. */
function defaultPath(pathname: string): string {
  const end = pathname.lastIndexOf('/');
  return end <= 0 ? '/' : pathname.slice(0, end);
}

/** A host and the domains above it; an address has none. */
function* domainsOf(host: string): Generator<string> {
  yield host;
  if (isIP(host) !== 0 || host.startsWith('[')) return;
  for (let domain = parentOf(host); domain !== ''; domain = parentOf(domain)) yield domain;
}

function parentOf(domain: string): string {
  const dot = domain.indexOf('.');
  return dot < 0 ? '' : domain.slice(dot + 1);
}

function sizeOf(cookie: Cookie | undefined): number {
  return cookie === undefined ? 0 : cookie.name.length + cookie.value.length + cookie.path.length;
}

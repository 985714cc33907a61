/**
 * URLs: the canonical form that identifies a page everywhere, and the keys derived from it.
 * Source: WHATWG URL Standard.
 */
import { limits } from './protocol.ts';

/** "." of a path's segment "." or "..". */
const dotSegment = /(?<=\/)\.(?=\.?(?:\/|$))/g;
const mayBeOld = /\/\.|\^/;

/**
 * `new URL`, and the same in each version of Node: that of Node 20 keeps "^" in a path, and "." and
 * ".." behind a segment such as ".a". A name must not depend on who has written it, and a link to
 * `/a/.b/../../c` must not be another page than `/c`, which robots.txt may forbid.
 * Source: URL Standard, "path percent-encode set", "path state".
 */
export function parseUrl(text: string, base?: string): URL {
  const url = new URL(text, base);
  if (!mayBeOld.test(url.href)) return url;
  const { pathname } = url;
  // An escaped dot counts as one, and is always seen.
  const path = pathname.replace(dotSegment, '%2e').replaceAll('^', '%5E');
  if (path !== pathname) url.pathname = path;
  return url;
}

/** Returns the canonical form of an absolute http(s) URL without its fragment, or undefined: not a
 *  URL, another scheme, too long, or no host. */
export function canonicalUrl(text: string): URL | undefined {
  if (text.length > limits.urlChars) return undefined;
  let url: URL;
  try {
    url = parseUrl(text);
  } catch {
    return undefined;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return undefined;
  // Set only when needed: the setter is slow, and an empty fragment has an empty hash.
  if (url.href.includes('#')) url.hash = '';
  return url.href.length > limits.urlChars ? undefined : url;
}

/** Returns the URL if `text` is exactly its canonical form. */
export function parseCanonical(text: string): URL | undefined {
  const url = canonicalUrl(text);
  return url?.href === text ? url : undefined;
}

/** The politeness group of a URL: scheme, host and port. */
export function hostKeyOf(url: URL): string {
  return url.origin;
}

/** True for hosts of this machine, where a crawl disturbs no other site. */
export function isLoopback(hostname: string): boolean {
  return /^(localhost|\[::1\]|::1)$/.test(hostname) || /^127(\.\d{1,3}){3}$/.test(hostname);
}

/** Are these the same host, or is one below the other? Nothing is below a name without a dot. */
export function isRelatedHost(a: string, b: string): boolean {
  const isBelow = (one: string, upper: string) => upper.includes('.') && one.endsWith(`.${upper}`);
  return a === b || isBelow(a, b) || isBelow(b, a);
}

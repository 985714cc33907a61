/**
 * URLs of a page, made absolute against its base. Equal to `new URL(href, base)` for http and
 * https, and undefined for everything else. The most common forms are built without the URL parser
 * (a property test compares both ways). The query is written in the page's own charset where the
 * URL Standard says so. One resolver serves one page; the extractor caches.
 */
import '@exodus/bytes/encoding.js';
import { percentEncodeAfterEncoding } from '@exodus/bytes/whatwg.js';
import { limits } from '../../shared/protocol.ts';
import { parseUrl } from '../../shared/url.ts';

// Paths and queries that the URL parser would not change. "." and ".." are removed, and "%2e"
// counts as a dot in a path; text before a colon in the first segment could be a scheme; "?x" alone
// keeps the base's path, not its folder. Each alternative begins with a different character, so
// that matching is linear.
const rooted = String.raw`(?:[\w~!$&()*+,;=@:-]\.*|%(?!2)\.*|\/)*`;
const firstSegment = String.raw`(?!\?)(?:[\w~!$&()*+,;=@-]\.*|%(?!2)\.*)*`;
const query = String.raw`(?:\?[\w~!$&()*+,;=@:/.%?-]*)?$`;
const plainRooted = new RegExp(rooted + query, 'y');
const plainRelative = new RegExp(`${firstSegment}(?:/${rooted})?${query}`, 'y');

// A last label that begins with a letter is not an IPv4 number; "xn--" needs IDNA's own checks.
const plainAuthority = /^https?:\/\/(?:[a-z0-9][a-z0-9-]*\.)*[a-z][a-z0-9-]*\//;
const otherScheme = /^(?:javascript|mailto|data|tel):/;
const specialQuerySet = ' "#\'<>';

export class Resolver {
  /** The base itself, without fragment. */
  readonly base: string;
  /** Lower-case name of the charset that queries are written in. */
  readonly #encoding: string;
  /** `parents[n]`: the folder of `../` repeated n times, with a final slash. */
  readonly #parents: string[];
  readonly #rootLength: number;
  /** With its colon. */
  readonly #scheme: string;
  /** Scheme and host of the last absolute URL: on most pages many URLs share them. */
  #authority = '?';

  /** `base`: a canonical http(s) URL. `encoding`: any label of the Encoding Standard. */
  constructor(base: string, encoding: string) {
    const hash = base.indexOf('#');
    this.base = hash < 0 ? base : base.slice(0, hash);
    this.#encoding = outputEncoding(encoding);
    const query = this.base.indexOf('?');
    const path = query < 0 ? this.base : this.base.slice(0, query);
    this.#rootLength = path.indexOf('/', path.indexOf('//') + 2) + 1;
    this.#scheme = path.slice(0, path.indexOf(':') + 1);
    this.#parents = [path.slice(0, path.lastIndexOf('/') + 1)];
  }

  /** Returns the absolute canonical URL with its fragment; undefined if it is invalid or not
   *  http(s). */
  resolve(href: string): string | undefined {
    return this.#fast(href) ?? this.#slow(href);
  }

  /** The same without fragment. */
  resolveLink(href: string): string | undefined {
    const url = this.#fast(href) ?? this.#slow(href);
    const hash = url === undefined ? -1 : url.indexOf('#');
    return hash < 0 ? url : url?.slice(0, hash);
  }

  /** The same for one of the common forms; undefined for all others, valid or not. It accepts
   *  printable ASCII without a character that HTML would decode, except "&". */
  resolvePlain(href: string): string | undefined {
    return this.#fast(href);
  }

  #slow(href: string): string | undefined {
    if (otherScheme.test(href)) return undefined;
    try {
      const url = parseUrl(this.#withQueryEncoded(href), this.base);
      return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : undefined;
    } catch {
      return undefined;
    }
  }

  #fast(href: string): string | undefined {
    if (href.length === 0) return undefined;
    let at = 0;
    let folder = this.#parents[0] ?? '';
    let isRooted = false;
    if (href.charCodeAt(0) === 0x2f) {
      if (href.startsWith('//')) return this.#fastAbsolute(this.#scheme + href);
      folder = folder.slice(0, this.#rootLength);
      at = 1;
      isRooted = true;
    } else {
      if (href.charCodeAt(0) === 0x68 && href.startsWith('http')) {
        const url = this.#fastAbsolute(href);
        if (url !== undefined) return url;
      }
      let ups = 0;
      for (; href.startsWith('../', at); at += 3) ups++;
      if (ups > 0) folder = this.#parent(ups);
      isRooted = ups > 0;
    }
    if (!isPlain(href, at, isRooted)) return undefined;
    return folder + (at === 0 ? href : href.slice(at));
  }

  #fastAbsolute(href: string): string | undefined {
    if (!href.startsWith(this.#authority)) {
      const authority = plainAuthority.exec(href)?.[0];
      if (authority === undefined || authority.includes('xn--')) return undefined;
      this.#authority = authority;
    }
    return isPlain(href, this.#authority.length, true) ? href : undefined;
  }

  #parent(ups: number): string {
    // Bounded by the depth of the base: at the root the list stops growing.
    for (let n = this.#parents.length; n <= ups; n++) {
      const below = this.#parents[n - 1] ?? '';
      if (below.length <= this.#rootLength) return below;
      this.#parents.push(below.slice(0, below.lastIndexOf('/', below.length - 2) + 1));
    }
    return this.#parents[ups] ?? '';
  }

  /** Source: URL Standard, "query state": percent-encode after encoding. */
  #withQueryEncoded(href: string): string {
    if (this.#encoding === 'utf-8' || isAscii(href)) return href;
    const text = trimControls(href).replace(/[\t\n\r]/g, '');
    const hash = text.indexOf('#');
    const end = hash < 0 ? text.length : hash;
    const mark = text.indexOf('?');
    if (mark < 0 || mark >= end) return text;
    const query = text.slice(mark + 1, end);
    // The parser handles an ASCII query: only a stateful encoding could change it.
    if (isAscii(query)) return text;
    const encoded = percentEncodeAfterEncoding(this.#encoding, query, specialQuerySet);
    return `${text.slice(0, mark + 1)}${encoded}${text.slice(end)}`;
  }
}

/** Returns whether the URL parser would leave `href` unchanged from `from` on. */
function isPlain(href: string, from: number, isRooted: boolean): boolean {
  // This also bounds the stack of the expressions.
  if (href.length > limits.urlChars) return false;
  const plain = isRooted ? plainRooted : plainRelative;
  plain.lastIndex = from;
  return plain.test(href);
}

/** Source: Encoding Standard, "get an output encoding". */
function outputEncoding(encoding: string): string {
  const name = encoding.toLowerCase();
  return name === 'replacement' || name.startsWith('utf-16') ? 'utf-8' : name;
}

function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 127) return false;
  return true;
}

/** Trims C0 controls and spaces at both ends, the first step of the URL parser. */
function trimControls(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text.charCodeAt(start) <= 0x20) start++;
  while (end > start && text.charCodeAt(end - 1) <= 0x20) end--;
  return text.slice(start, end);
}

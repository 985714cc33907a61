/**
 * Traps: links that a site makes without end. Pure decisions about one new URL by its looks, and
 * two counts of URLs of a kind, for growth that no single URL shows:
 *
 *     queries   three parameters or more: all of a path are one kind. Combinations explode.
 *     similar   far from the seeds, and nearer if dated as a calendar is: URLs that differ in
 *               nothing but numbers are one kind. Every page has a next one, a link deeper.
 *
 * The kinds are counted by the algorithm of Misra and Gries, in bounded memory: with more kinds
 * than it has room for, a count may be too low, never too high, so it errs towards fetching.
 * Source: Heritrix's deciderules TooManyPathSegments and PathologicalPath, and its rule
 * StripSessionIDs; Misra & Gries, "Finding repeated elements" (1982).
 */
import type { TrapLimits } from '../../../shared/crawl.ts';
import type { TrapRule } from '../../../shared/protocol.ts';

const slash = 0x2f;
/** "https://": no slash of a path stands before. */
const schemeChars = 8;
/** Kinds that are counted at once. */
const kindsMax = 4_096;
/** A longer kind counts by its beginning. */
const kindChars = 512;
/** Counted URLs after which the counts go on record again. */
const unsavedMax = 500;
/** Parameters from which combinations of values explode. */
const manyParameters = 3;
/** Links away from a seed beyond which pages only hang on a chain. */
const deepAt = 100;
/** Nearer to a seed no calendar has grown yet. */
const calendarAt = 5;
/** A year and a month at the end of a path, an ISO date, or a word or parameter of calendars. */
const calendarLike =
  /\/[12]\d{3}\/[01]?\d(?:\/[0-3]?\d)?\/?(?:$|\?)|\d{4}-[01]\d|[ck]alend|\/(?:events?|agenda)\/|[?&](?:year|month|week|day|date)=/i;

export class Traps {
  readonly #limits: TrapLimits;
  readonly #counts: Map<string, number>;
  #unsaved = 0;
  /** By what a segment looks like: the number of the path that had one like it last. */
  readonly #lookalikes = new Uint32Array(256);
  #pathNumber = 0;

  /** `counts`: what `unsaved` gave before a restart. */
  constructor(limits: TrapLimits, counts: Iterable<readonly [string, number]> = []) {
    this.#limits = limits;
    this.#counts = new Map(counts);
  }

  /** The rule that keeps a new canonical URL out by its looks alone: the cheapest question, asked
   *  before any pattern of the operator meets the URL. */
  looks(url: URL): TrapRule | undefined {
    const { length, segments, repeats, parameters } = this.#limits;
    const { href } = url;
    if (length > 0 && href.length > length) return 'length';
    // The parts of a URL are made when they are asked for, so the usual one is judged by its text.
    const mark = href.indexOf('?');
    const path = this.#walk(href, mark < 0 ? href.length : mark);
    if (segments > 0 && path.segments > segments) return 'segments';
    if (repeats > 0 && path.lookalikes > repeats && repeatsOf(url.pathname) > repeats) {
      return 'repeats';
    }
    if (parameters === 0 || mark < 0 || parametersOf(href, mark) <= parameters) return undefined;
    return 'parameters';
  }

  /** The rule that keeps a URL out for the number of its kind, found `depth` links away from a seed;
   *  undefined: none, and then it has been counted. */
  count(url: URL, depth: number): TrapRule | undefined {
    const { href } = url;
    const mark = href.indexOf('?');
    if (mark >= 0 && parametersOf(href, mark) >= manyParameters) {
      return this.#count('queries', manyKind(url));
    }
    return depth > calendarAt ? this.#count('similar', similarKind(url, depth)) : undefined;
  }

  /** The same page without its session id; undefined when the URL has none, or none matters. */
  withoutSession(url: URL): string | undefined {
    return this.#limits.session > 0 ? withoutSession(url) : undefined;
  }

  /** The counts, to go on record; undefined while a crash would forget little of them.
   *  `atEnd`: whatever is not on record yet. */
  unsaved(atEnd = false): [string, number][] | undefined {
    if (this.#unsaved < (atEnd ? 1 : unsavedMax)) return undefined;
    this.#unsaved = 0;
    return [...this.#counts];
  }

  /** Segments of the path of a URL, which ends at `end` (an empty last one does not count), and how
   *  many of them look like one before: repeats do, and now and then another one. */
  #walk(href: string, end: number): { segments: number; lookalikes: number } {
    const last = href.charCodeAt(end - 1) === slash ? end - 1 : end;
    let segments = 0;
    let lookalikes = 0;
    this.#pathNumber = (this.#pathNumber + 1) >>> 0;
    for (let at = href.indexOf('/', schemeChars); at >= 0 && at < last; segments++) {
      const next = href.indexOf('/', at + 1);
      const stop = next < 0 || next > last ? last : next;
      const look = (href.charCodeAt(at + 1) * 31 + href.charCodeAt(stop - 1) * 7 + stop - at) & 255;
      if (this.#lookalikes[look] === this.#pathNumber) lookalikes++;
      this.#lookalikes[look] = this.#pathNumber;
      at = next;
    }
    return { segments, lookalikes };
  }

  #count(rule: 'queries' | 'similar', kind: string | undefined): TrapRule | undefined {
    const max = this.#limits[rule];
    if (max === 0 || kind === undefined) return undefined;
    const count = this.#counts.get(kind) ?? 0;
    if (count >= max) return rule;
    // That a kind is full must not be forgotten.
    this.#unsaved += count + 1 === max ? unsavedMax : 1;
    if (count > 0 || this.#counts.size < kindsMax) this.#counts.set(kind, count + 1);
    else this.#lowerAll();
    return undefined;
  }

  /** No room for a kind: it and one URL of every other kind are forgotten together. */
  #lowerAll(): void {
    for (const [kind, count] of this.#counts) {
      if (count > 1) this.#counts.set(kind, count - 1);
      else this.#counts.delete(kind);
    }
  }
}

/** Segments that the path has had before: 4 in /a/b/a/b/a/b. */
function repeatsOf(pathname: string): number {
  const path = pathname.slice(1, pathname.endsWith('/') ? -1 : undefined).split('/');
  return path.length - new Set(path).size;
}

function parametersOf(href: string, mark: number): number {
  if (mark + 1 === href.length) return 0;
  let count = 1;
  for (let at = href.indexOf('&', mark); at >= 0; at = href.indexOf('&', at + 1)) count++;
  return count;
}

function manyKind({ host, pathname }: URL): string {
  return `${host}${withoutNumbers(pathname)}?&`.slice(0, kindChars);
}

function similarKind({ host, pathname, search }: URL, depth: number): string | undefined {
  const target = pathname + search;
  if (!/\d/.test(target) || (depth <= deepAt && !calendarLike.test(target))) return undefined;
  return `${host}${withoutNumbers(target)}`.slice(0, kindChars);
}

function withoutNumbers(text: string): string {
  return text.replace(/\d+/g, '0');
}

/** A path parameter of Java, and the folder of a cookieless ASP.NET session. */
const sessionInPath = /;jsessionid=[^/;]*|\/\((?:[A-Za-z]\([0-9A-Za-z]{24}\))+\)(?=\/)/gi;
/** Parameters of this name are session ids, whatever their value. */
const sessionName = /^(?:j|php)sessid=.|^jsessionid=.|^aspsessionid[a-z]{8}=.|^cftoken=./i;
/** These are, if the value is one: `sid` may be a story, too. */
const sessionToken =
  /^(?:sid|sessid|session_?id|zenid|oscsid|s_id)=(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{24,128}$/i;

/** The URL without what only names the visitor; undefined when it has nothing of that kind. */
function withoutSession(url: URL): string | undefined {
  const { href } = url;
  if (!href.includes('?') && !href.includes(';') && !href.includes('(')) return undefined;
  const { pathname, search } = url;
  const path = pathname.replace(sessionInPath, '');
  const all = search.slice(1).split('&');
  const kept = all.filter((part) => !sessionName.test(part) && !sessionToken.test(part));
  if (path.length === pathname.length && kept.length === all.length) return undefined;
  // ColdFusion's pair goes together; CFID alone may name anything.
  const rest = search.match(/[?&]cftoken=/i) ? kept.filter((p) => !/^cfid=/i.test(p)) : kept;
  const query = rest.join('&');
  const origin = href.slice(0, href.length - pathname.length - search.length);
  return `${origin}${path}${query === '' ? '' : `?${query}`}`;
}

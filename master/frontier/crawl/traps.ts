/**
 * Traps: links of which a site makes endlessly many. Decides about one new URL by its form, and by
 * two counts of URLs of a kind, for growth that a single URL does not show. Pure.
 *
 *     queries   three parameters or more: all of a path are one kind. Combinations explode.
 *     similar   far from the seeds, and nearer if dated as a calendar is: URLs that differ in
 *               nothing but numbers are one kind. Every page has a next one, a link deeper.
 *
 * The kinds are counted by the algorithm of Misra and Gries, in bounded memory: with more kinds
 * than fit, a count may be too low, never too high, so it errs towards fetching.
 * Source: Heritrix's deciderules TooManyPathSegments and PathologicalPath, and its rule
 * StripSessionIDs; Misra & Gries, "Finding repeated elements" (1982).
 */
import type { TrapLimits } from '../../../shared/crawl.ts';
import type { TrapRule } from '../../../shared/protocol.ts';

const slash = 0x2f;
/** "https://": no slash of a path comes before. */
const schemeChars = 8;
/** Kinds that are counted at once. */
const kindsMax = 4_096;
/** A longer kind is counted by its beginning. */
const kindChars = 512;
/** Counted URLs after which the counts are stored again. */
const unsavedMax = 500;
/** Parameters from which combinations of values explode. */
const manyParameters = 3;
/** Links away from a seed beyond which pages are only parts of a chain. */
const deepAt = 100;
/** Nearer to a seed no link counts as a calendar's. */
const calendarAt = 5;
/** A year and a month at the end of a path, an ISO date, or a word or parameter of calendars. */
const calendarLike =
  /\/[12]\d{3}\/[01]?\d(?:\/[0-3]?\d)?\/?(?:$|\?)|\d{4}-[01]\d|[ck]alend|\/(?:events?|agenda)\/|[?&](?:year|month|week|day|date)=/i;

export class Traps {
  #limits: TrapLimits;
  readonly #counts: Map<string, number>;
  #unsaved = 0;
  /** By the look of a segment: the number of the last path with such a segment. */
  readonly #lookalikes = new Uint32Array(256);
  #pathNumber = 0;

  /** `counts`: the result of `unsaved` before a restart. */
  constructor(limits: TrapLimits, counts: Iterable<readonly [string, number]> = []) {
    this.#limits = limits;
    this.#counts = new Map(counts);
  }

  /** Its crawl has other options now; the counts go on. */
  respec(limits: TrapLimits): void {
    this.#limits = limits;
  }

  /** Returns the rule that excludes a new canonical URL by its form alone. This is the cheapest
   *  check, made before any pattern of the operator. */
  looks(url: URL): TrapRule | undefined {
    const { length, segments, repeats, parameters } = this.#limits;
    const { href } = url;
    if (length > 0 && href.length > length) return 'length';
    // The parts of a URL are computed on access, so a usual URL is judged by its text.
    const mark = href.indexOf('?');
    const path = this.#walk(href, mark < 0 ? href.length : mark);
    if (segments > 0 && path.segments > segments) return 'segments';
    if (repeats > 0 && path.lookalikes > repeats && repeatsOf(url.pathname) > repeats) {
      return 'repeats';
    }
    if (parameters === 0 || mark < 0 || parametersOf(href, mark) <= parameters) return undefined;
    return 'parameters';
  }

  /** Returns the rule that excludes a URL, found `depth` links away from a seed, by the number of
   *  its kind; undefined: none, and the URL is counted. */
  count(url: URL, depth: number): TrapRule | undefined {
    if (isMany(url)) return this.#count('queries', manyKind(url));
    return depth > calendarAt ? this.#count('similar', similarKind(url, depth)) : undefined;
  }

  /** The same for a URL that is not counted. */
  wouldRefuse(url: URL, depth: number): TrapRule | undefined {
    const [rule, kind] = isMany(url)
      ? (['queries', manyKind(url)] as const)
      : (['similar', depth > calendarAt ? similarKind(url, depth) : undefined] as const);
    const max = this.#limits[rule];
    if (max === 0 || kind === undefined) return undefined;
    return (this.#counts.get(kind) ?? 0) >= max ? rule : undefined;
  }

  /** By rule; 0: it is off. */
  get limits(): TrapLimits {
    return this.#limits;
  }

  /** Returns the URL without its session id; undefined if it has none, or the rule is off. */
  withoutSession(url: URL): string | undefined {
    return this.#limits.session > 0 ? withoutSession(url) : undefined;
  }

  /** Returns the counts to store; undefined while a crash would lose little of them. `atEnd`: all
   *  that is not stored yet. */
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
    // A full kind must be stored at once.
    this.#unsaved += count + 1 === max ? unsavedMax : 1;
    if (count > 0 || this.#counts.size < kindsMax) this.#counts.set(kind, count + 1);
    else this.#lowerAll();
    return undefined;
  }

  /** No room for a kind: drops it and one URL of every other kind together. */
  #lowerAll(): void {
    for (const [kind, count] of this.#counts) {
      if (count > 1) this.#counts.set(kind, count - 1);
      else this.#counts.delete(kind);
    }
  }
}

/** Returns the number of repeated segments: 4 in /a/b/a/b/a/b. */
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

function isMany({ href }: URL): boolean {
  const mark = href.indexOf('?');
  return mark >= 0 && parametersOf(href, mark) >= manyParameters;
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
/** Parameters of these names are session ids, with any value. */
const sessionName = /^(?:j|php)sessid=.|^jsessionid=.|^aspsessionid[a-z]{8}=.|^cftoken=./i;
/** These are session ids only with a fitting value: `sid` may be a story, too. */
const sessionToken =
  /^(?:sid|sessid|session_?id|zenid|oscsid|s_id)=(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{24,128}$/i;

/** Returns the URL without session ids; undefined if it has none. */
function withoutSession(url: URL): string | undefined {
  const { href } = url;
  if (!href.includes('?') && !href.includes(';') && !href.includes('(')) return undefined;
  const { pathname, search } = url;
  const path = pathname.replace(sessionInPath, '');
  const all = search.slice(1).split('&');
  const kept = all.filter((part) => !sessionName.test(part) && !sessionToken.test(part));
  if (path.length === pathname.length && kept.length === all.length) return undefined;
  // ColdFusion's pair is removed together; CFID alone may mean anything.
  const rest = search.match(/[?&]cftoken=/i) ? kept.filter((p) => !/^cfid=/i.test(p)) : kept;
  const query = rest.join('&');
  const origin = href.slice(0, href.length - pathname.length - search.length);
  return `${origin}${path}${query === '' ? '' : `?${query}`}`;
}

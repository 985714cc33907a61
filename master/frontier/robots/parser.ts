/**
 * Parses robots.txt. It makes one pass over the bytes, without regular expressions, and keeps only
 * the group for our product token. A hostile file can waste neither time nor memory beyond its own
 * size. `access.ts` decides when to fetch the file and what an answer without one means; `rules.ts`
 * matches. Called by the frontier.
 *
 * Lines are taken in this way:
 *
 * user-agent ──> names a group (again) ──> allow | disallow ──> more rules ──> user-agent: next
 *        ^ └─ another user-agent line joins the group          any other record changes nothing
 */
import { recordOf } from './records.ts';
import {
  allows,
  type DecidingRule,
  encodedQuery,
  normalPath,
  normalPattern,
  RuleSet,
} from './rules.ts';

/** Bytes of a file that are read; the rest is ignored. Source: RFC 9309, section 2.5 (500 KiB). */
export const robotsBytesMax = 500 * 1024;
/** Sitemap records kept of one file; the text sets no bound, a list needs one. */
const sitemapsMax = 1000;
const sitemapCharsMax = 4096;
/** A delay in a file is at most a day; politeness decides how much of it to honour. */
const crawlDelayMsMax = 86_400_000;

/** The rules of one robots.txt for one product token. */
export type Robots = {
  /** May this be fetched? `pathAndQuery` as in a URL, `/a?b=c`. Never throws. Source: RFC 9309,
   *  section 2.2.2. */
  readonly allows: (pathAndQuery: string) => boolean;
  /** Returns the rule that decides about it; undefined: none does, or too many wildcards. */
  readonly deciding: (pathAndQuery: string) => DecidingRule | undefined;
  /** The group's Crawl-delay, 0 to a day, in ms; the longest of several. Not in the RFC. */
  readonly crawlDelayMs?: number;
  /** Sitemap records of the whole file, as written, at most 1000. They belong to no group. */
  readonly sitemaps: readonly string[];
  readonly rules: RuleSet;
};

/** A rule of a group that may be for us, where it stands. */
type FoundRule = {
  /** Place of its pattern in the file, in bytes. */
  readonly at: number;
  /** In both readings: see `encodedQuery`. */
  readonly patterns: readonly [string, string];
  readonly allow: boolean;
  /** It is of a group with our name, or of one for all. */
  readonly isOurs: boolean;
};
type OnRule = (rule: FoundRule) => void;

type Agent = 'us' | 'all' | 'other';
type Group = { named: boolean; rules: RuleSet; delayMs: number | undefined };
/**
 * Read a robots.txt. `productToken` is our name in it: letters, `-` and `_`, in any case. Bytes
 * beyond `bytesMax` and the line that they cut are ignored: half a path would be another rule.
 * `onRule` is called with each rule that may be for us, and its place in the file as UTF-8.
 * Never throws, for any bytes. Source: RFC 9309, sections 2.2 and 2.5.
 */
export function parseRobots(
  written: Uint8Array,
  productToken: string,
  bytesMax: number = robotsBytesMax,
  onRule?: OnRule,
): Robots {
  const bytes = asUtf8(written);
  const file = new File(productToken, onRule);
  // A byte order mark is not part of the first key.
  let start = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  const size = Math.min(bytes.length, bytesMax);
  while (start < size) {
    let end = start;
    while (end < size && bytes[end] !== 0x0a && bytes[end] !== 0x0d) end++;
    if (end === size && size < bytes.length && !isLineEnd(bytes[end])) break;
    if (end > start) file.line(bytes, start, end);
    start = end + 1;
  }
  return file.end();
}

/** Returns the file in UTF-8: one that begins with the mark of UTF-16 is decoded. The RFC wants
 *  UTF-8, but some editors save UTF-16, and their author's rules count. */
export function asUtf8(bytes: Uint8Array): Uint8Array {
  const [first, second] = bytes;
  const isLittle = first === 0xff && second === 0xfe;
  if (!isLittle && !(first === 0xfe && second === 0xff)) return bytes;
  return Buffer.from(new TextDecoder(isLittle ? 'utf-16le' : 'utf-16be').decode(bytes));
}

/** The file while it is read. */
class File {
  readonly #token: string;
  readonly #onRule: OnRule | undefined;
  readonly #us: Group = { named: false, rules: new RuleSet(), delayMs: undefined };
  readonly #all: Group = { named: false, rules: new RuleSet(), delayMs: undefined };
  readonly #sitemaps = new Set<string>();
  /** The groups that the present lines apply to; both may be named at once. */
  readonly #open = new Set<Group>();
  /** Only user-agent lines so far: one more joins the group instead of opening the next. */
  #naming = false;
  #delayMs: number | undefined;

  constructor(productToken: string, onRule: OnRule | undefined) {
    this.#token = productToken.toLowerCase();
    this.#onRule = onRule;
  }

  line(bytes: Uint8Array, start: number, lineEnd: number): void {
    const record = recordOf(bytes, start, lineEnd);
    if (record === undefined) return;
    const { key, from, end } = record;
    switch (key) {
      case 'user-agent':
        this.#agent(agentOf(text(bytes, from, end), this.#token));
        break;
      case 'allow':
      case 'disallow':
        // Even an empty rule ends the list of agents.
        this.#naming = false;
        if (this.#open.size > 0) this.#rule(bytes, from, end, key === 'allow');
        break;
      case 'crawl-delay':
        this.#delay(text(bytes, from, end));
        break;
      case 'sitemap':
        this.#sitemap(text(bytes, from, end));
        break;
      default:
        key satisfies never;
    }
  }

  end(): Robots {
    this.#close();
    const group = this.#us.named ? this.#us : this.#all;
    return robotsOf(group.rules.seal(), group.delayMs, [...this.#sitemaps]);
  }

  #agent(agent: Agent): void {
    if (!this.#naming) this.#close();
    this.#naming = true;
    if (agent === 'other') return;
    const group = agent === 'us' ? this.#us : this.#all;
    group.named = true;
    this.#open.add(group);
  }

  #rule(bytes: Uint8Array, from: number, end: number, allow: boolean): void {
    if (!isPattern(bytes, from, end)) return;
    const pattern = normalPattern(bytes, from, end);
    const encoded = encodedQuery(pattern);
    const hasTwoReadings = encoded !== pattern;
    // A pattern that begins with a literal does so in the other reading, too, which is the longer
    // one.
    const isRedundant = hasTwoReadings && !pattern.includes('*');
    const isOurs = this.#open.has(this.#us);
    this.#onRule?.({ at: from, patterns: [pattern, encoded], allow, isOurs });
    for (const { rules } of this.#open) {
      if (!isRedundant) rules.add(pattern, allow);
      if (hasTwoReadings) rules.add(encoded, allow);
    }
  }

  /** Kept until the group is complete: an agent that is named below the record is in it too. */
  #delay(value: string): void {
    if (!/^\d{1,9}(\.\d{0,9})?$|^\.\d{1,9}$/.test(value)) return;
    const delayMs = Math.min(Math.round(Number(value) * 1000), crawlDelayMsMax);
    this.#delayMs = Math.max(this.#delayMs ?? 0, delayMs);
  }

  #sitemap(value: string): void {
    if (value === '' || value.length > sitemapCharsMax) return;
    if (this.#sitemaps.size < sitemapsMax) this.#sitemaps.add(value);
  }

  #close(): void {
    for (const group of this.#open) {
      if (this.#delayMs !== undefined) group.delayMs = Math.max(group.delayMs ?? 0, this.#delayMs);
    }
    this.#open.clear();
    this.#delayMs = undefined;
  }
}

function robotsOf(
  rules: RuleSet,
  delayMs: number | undefined,
  sitemaps: readonly string[],
): Robots {
  return {
    rules,
    sitemaps,
    ...(delayMs === undefined ? {} : { crawlDelayMs: delayMs }),
    allows: (pathAndQuery) => allowed(rules, pathAndQuery),
    deciding: (pathAndQuery) => deciding(rules, pathAndQuery),
  };
}

function allowed(rules: RuleSet, pathAndQuery: string): boolean {
  const path = pathOf(pathAndQuery);
  // A crawler that must not read the rules cannot follow them. Source: RFC 9309, section 2.2.2.
  if (path === '/robots.txt') return true;
  const encoded = encodedQuery(path);
  const score = rules.score(path);
  return allows(encoded === path ? score : Math.max(score, rules.score(encoded)));
}

function deciding(rules: RuleSet, pathAndQuery: string): DecidingRule | undefined {
  const path = pathOf(pathAndQuery);
  const encoded = encodedQuery(path);
  const isOther = encoded !== path && rules.score(encoded) > rules.score(path);
  return path === '/robots.txt' ? undefined : rules.deciding(isOther ? encoded : path);
}

function pathOf(pathAndQuery: string): string {
  const fragment = pathAndQuery.indexOf('#');
  const bare = fragment < 0 ? pathAndQuery : pathAndQuery.slice(0, fragment);
  return normalPath(bare.startsWith('/') ? bare : `/${bare}`);
}

/**
 * A name ends at the first character that no name can have: `FooBot1`, `FooBot;` and `FooBot/2.0`
 * are FooBot. `*` is alone or before white space. Source: RFC 9309, section 2.2.1;
 * google/robotstxt, `ExtractUserAgent` and `HandleUserAgent`.
 */
function agentOf(value: string, token: string): Agent {
  if (/^\*(?:$|\s)/.test(value)) return 'all';
  const name = /^[A-Za-z_-]*/.exec(value)?.[0].toLowerCase() ?? '';
  return name !== '' && name === token ? 'us' : 'other';
}

/** A pattern begins with `/` (or `*`, as in the RFC's own example) and has no control characters. */
function isPattern(bytes: Uint8Array, from: number, end: number): boolean {
  if (from >= end || (bytes[from] !== 0x2f && bytes[from] !== 0x2a)) return false;
  for (let at = from; at < end; at++) {
    const octet = bytes[at] ?? 0;
    if ((octet < 0x20 && octet !== 0x09) || octet === 0x7f) return false;
  }
  return true;
}

function text(bytes: Uint8Array, from: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, end - from).toString('utf8');
}

function isLineEnd(octet: number | undefined): boolean {
  return octet === 0x0a || octet === 0x0d;
}

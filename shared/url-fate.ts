/** How a URL stands in a crawl: what `crawl.why` answers. Source: PROTOCOL.md, "crawl.why". */
import type { HostRow, SkipReason } from './protocol.ts';
import type { FetchErrorBody } from './requests.ts';

/** How a URL stands in a crawl, as a page, a sitemap or an image that is downloaded. [C-76] */
export type UrlFate = {
  /** `waiting`, `leased` (a slave has it), `reported` (its answer is being stored): open.
   *  `buried`: given up. `done`: it has a line. `skipped`: a link to it was not followed.
   *  `gone`: it was admitted, and nothing is left of it. `unknown`: nobody has offered it. */
  state: 'waiting' | 'leased' | 'reported' | 'buried' | 'done' | 'skipped' | 'gone' | 'unknown';
  /** Absent: a page. */
  kind?: 'sitemap' | 'image';
  /** For people: the answer, then more about it. */
  text: string[];
  depth?: number;
  priority?: number;
  /** The page that first led to it; absent: it is a seed, or unknown. */
  from?: string;
  /** Failed fetches so far, and how many there may be. */
  attempts?: number;
  attemptsMax?: number;
  /** The last failure. */
  error?: FetchErrorBody & { at?: number };
  /** Name of the slave that has it. */
  slave?: string;
  /** URLs of its host that come before it, by the order of the crawl. */
  before?: number;
  /** When it may be fetched, as far as that is known: Unix time in ms. */
  dueAt?: number;
  waitsFor?: UrlWait[];
  host?: HostRow;
  /** The rule that decides against it, now or when a link to it was skipped. */
  rule?: UrlRule;
  /** Its line of a result file, as JSON: without `images` if it is long. */
  line?: string;
  /** Another URL led to it or names it; the line is that of this URL. */
  by?: { url: string; field: 'finalUrl' | 'redirectedTo' | 'canonical' };
};

/** `crawl`: it is paused, held or over. `slaves`: none has room. `queue`: other URLs of its host
 *  come first. */
type UrlWaitReason =
  | ('crawl' | 'max-pages' | 'results' | 'master' | 'slaves')
  | ('blocked' | 'breaker' | 'robots' | 'retry' | 'pace' | 'queue');
/** The condition that an open URL waits for; `until`: Unix time in ms. */
export type UrlWait = {
  what: UrlWaitReason;
  until?: number;
  text: string;
};

/** A rule that leaves a URL out. */
export type UrlRule = {
  by: SkipReason | 'robots' | 'address' | 'blocked' | 'url';
  /** Of --exclude; or a line of robots.txt as it is written, with its number. */
  pattern?: string;
  line?: number;
};

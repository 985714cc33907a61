/**
 * The patterns of a crawl's --include or --exclude. They are matched against URLs from strangers,
 * so they run in linear time (`automaton`), and a pattern that cannot is refused before its crawl
 * is created. A crawl that was created before this rule keeps such a pattern: JavaScript runs it,
 * on the first characters of a URL. Programs are built at their first use, and all crawls share a
 * memory limit for them.
 */
import type { CrawlSpec } from '../../../shared/crawl.ts';
import { CommandError } from '../../../shared/errors.ts';
import { Automaton } from './automaton.ts';
import { faultAt } from './pattern-fault.ts';
import { toRe2 } from './pattern-syntax.ts';

/** Instructions of all patterns of one list: the maximum cost of a step on a hostile URL. */
const stepsMax = 10_000;
/** Memory limit of the states of one list. */
const stateBytesMax = 1 << 20;
/** Characters of a URL against which a pattern in JavaScript is matched. */
export const nativeChars = 512;
const shownChars = 100;

type Verdict =
  | { readonly kind: 'linear'; readonly re2: string; readonly steps: number }
  /** `why` ends a sentence about the pattern. */
  | { readonly kind: 'native' | 'wrong'; readonly why: string };

type Lists = Pick<CrawlSpec, 'include' | 'exclude'>;

/** Memory for the programs of all crawls, and their states. */
export class PatternBudget {
  readonly #bytesMax: number;
  readonly #held = new Map<Patterns, number>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Records the size of a list's program; drops the oldest programs to make room. */
  hold(patterns: Patterns, bytes: number): void {
    this.#bytes += bytes - (this.#held.get(patterns) ?? 0);
    this.#held.set(patterns, bytes);
    for (const [other, size] of this.#held) {
      if (this.#bytes <= this.#bytesMax) break;
      if (other === patterns) continue;
      this.#held.delete(other);
      this.#bytes -= size;
      other.forget();
    }
  }

  /** A list is no longer used. */
  release(patterns: Patterns): void {
    this.#bytes -= this.#held.get(patterns) ?? 0;
    this.#held.delete(patterns);
  }
}

/** Patterns that run together, with one look-up per character for all of them. */
class Group {
  readonly #sources: readonly string[];
  readonly #bytesMax: number;
  readonly automaton: Automaton;

  constructor(sources: readonly string[], bytesMax: number) {
    this.#sources = sources;
    this.#bytesMax = bytesMax;
    this.automaton = new Automaton(sources, bytesMax);
  }

  /** Returns two groups that share its memory, if many patterns together have too many states. */
  halves(): Group[] | undefined {
    const { length } = this.#sources;
    if (this.automaton.forgotten === 0 || length < 2) return undefined;
    const parts = [this.#sources.slice(0, length >> 1), this.#sources.slice(length >> 1)];
    return parts.map((part) => new Group(part, this.#bytesMax >> 1));
  }
}

/** `native`: those that only JavaScript can run. */
type Made = { groups: readonly Group[]; readonly native: readonly RegExp[] };

function make(sources: readonly string[]): Made {
  const { linear, native } = sorted(sources);
  return {
    groups: linear.length > 0 ? [new Group(linear, stateBytesMax)] : [],
    native: native.map(({ source }) => new RegExp(source, 'u')),
  };
}

export class Patterns {
  readonly #sources: readonly string[];
  readonly #budget: PatternBudget;
  #made: Made | undefined;
  #bytes = 0;

  constructor(sources: readonly string[], budget: PatternBudget) {
    this.#sources = sources;
    this.#budget = budget;
  }

  get isEmpty(): boolean {
    return this.#sources.length === 0;
  }

  /** Does a canonical URL match one of them? */
  match(href: string): boolean {
    if (this.#sources.length === 0) return false;
    this.#made ??= make(this.#sources);
    const { groups, native } = this.#made;
    const isMatch = groups.some(({ automaton }) => automaton.matches(href));
    const bytes = groups.reduce((sum, { automaton }) => sum + automaton.bytes, 0);
    if (bytes !== this.#bytes) this.#changed(this.#made, bytes);
    if (isMatch || native.length === 0) return isMatch;
    const begin = href.slice(0, nativeChars);
    return native.some((pattern) => pattern.test(begin));
  }

  /** Returns the first of them that a canonical URL matches. Rare: programs are made for it. */
  first(href: string): string | undefined {
    let sources = this.#sources;
    if (!matchesOne(sources, href)) return undefined;
    while (sources.length > 1) {
      const half = sources.slice(0, sources.length >> 1);
      sources = matchesOne(half, href) ? half : sources.slice(half.length);
    }
    return sources[0];
  }

  #changed(made: Made, bytes: number): void {
    made.groups = made.groups.flatMap((group) => group.halves() ?? group);
    this.#bytes = bytes;
    this.#budget.hold(this, bytes);
  }

  /** Frees its memory, also that in the budget, until its next use. */
  close(): void {
    this.#budget.release(this);
    this.forget();
  }

  /** Frees its memory until its next use. */
  forget(): void {
    this.#made = undefined;
    this.#bytes = 0;
  }
}

function matchesOne(sources: readonly string[], href: string): boolean {
  return new Patterns(sources, new PatternBudget(Number.POSITIVE_INFINITY)).match(href);
}

/** Refuses invalid patterns of a new crawl. `isKept`: a crawl of an older version may have them, so
 *  only invalid syntax is refused.
 *  @throws CommandError E_BAD_REQUEST which, why, and a replacement */
export function refusePatterns(lists: Lists, isKept = false): void {
  for (const name of ['include', 'exclude'] as const) {
    const { wrong, native } = sorted(lists[name]);
    const first = wrong[0] ?? (isKept ? undefined : native[0]);
    if (first === undefined) continue;
    const { source, why } = first;
    throw new CommandError('E_BAD_REQUEST', `--${name} ${shown(source)} ${why}`);
  }
}

/** Refuses patterns that match no URL: an --exclude of that kind leaves nothing out, unnoticed.
 *  `kept`: those of an earlier crawl, which may have them.
 *  @throws CommandError E_BAD_REQUEST which, why, and a replacement */
export function refuseVain(lists: Lists, kept: Lists = { include: [], exclude: [] }): void {
  for (const name of ['include', 'exclude'] as const) {
    for (const source of lists[name]) {
      const why = kept[name].includes(source) ? undefined : vainText(source);
      if (why !== undefined) throw new CommandError('E_BAD_REQUEST', `--${name} ${why}`);
    }
  }
}

/** Says of a pattern that it matches no URL, and why; undefined: it may match one. */
export function vainText(source: string): string | undefined {
  const why = vainWhy(source);
  return why && `${shown(source)} matches no URL, ${why}`;
}

/** Why it matches none: it wants `/` at the start of a URL, or a letter that URLs do not have,
 *  without an alternative that does not. */
function vainWhy(source: string): string | undefined {
  let needed = source.replace(/\\.|\[(?:\\.|[^\]\\])*\]/gsu, '');
  for (let before = ''; before !== needed; ) {
    before = needed;
    needed = needed.replace(/\([^()]*\)/g, '');
  }
  if (needed.includes('|')) return undefined;
  if (/^\^\\?\//.test(source)) {
    const write = shown(source.replace(/^\^\\?/, '^https?://[^/]+'));
    return `as each begins with http; write ${write}`;
  }
  const [letter] = /[^\p{ASCII}\p{Cs}](?![?*{])/u.exec(needed) ?? [];
  if (letter === undefined) return undefined;
  const write = encodeURIComponent(letter);
  return `as they are ASCII; write ${write} for ${letter} (the name of a host begins with xn--)`;
}

/** Returns the patterns of a crawl that JavaScript runs, in words for a warning. */
export function nativePatterns(lists: Lists): string[] {
  return (['include', 'exclude'] as const).flatMap((name) =>
    sorted(lists[name]).native.map(({ source, why }) => `--${name} ${shown(source)} ${why}`),
  );
}

type Refused = { readonly source: string; readonly why: string };

function sorted(sources: readonly string[]) {
  const linear: string[] = [];
  const native: Refused[] = [];
  const wrong: Refused[] = [];
  let steps = 0;
  for (const source of sources) {
    const verdict = verdictOn(source, stepsMax - steps);
    if (verdict.kind === 'linear') {
      linear.push(verdict.re2);
      steps += verdict.steps;
    } else (verdict.kind === 'native' ? native : wrong).push({ source, why: verdict.why });
  }
  return { linear, native, wrong };
}

function verdictOn(source: string, stepsLeft: number): Verdict {
  const isJavaScript = isRegExp(source);
  const kind = isJavaScript ? 'native' : 'wrong';
  const read = toRe2(source, isJavaScript);
  if ('cannot' in read) return { kind, why: `${read.cannot}${placed(read.at)}` };
  if (read.steps > stepsLeft) {
    const why =
      `makes the list too large: with its counts written out it has more than ${stepsMax} steps; ` +
      'lower its counts, or write * or +';
    return { kind, why };
  }
  const problem = Automaton.problem(read.re2);
  if (problem === undefined) return { kind: 'linear', ...read };
  const at = faultAt(read.re2, (pattern) => Automaton.problem(pattern));
  return isJavaScript
    ? { kind, why: `cannot be matched in linear time: ${problem}; rewrite it` }
    : { kind, why: `is not a regular expression: ${problem}${placed(at)}` };
}

function placed(at: number | undefined): string {
  return at === undefined ? '' : `; the fault is at character ${at + 1}`;
}

function isRegExp(source: string): boolean {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
}

function shown(source: string): string {
  return JSON.stringify(source.length > shownChars ? `${source.slice(0, shownChars)}…` : source);
}

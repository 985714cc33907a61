/**
 * The rules of one robots.txt group and the matching of a path against them. A path and a pattern
 * are first converted to one normal form, which is pure ASCII; then strings are compared. A verdict
 * is one number, the *score*: twice the octets of the rule, plus 1 if it allows. So the larger
 * score is the more specific rule, and of two equal patterns the one that allows.
 *
 * Rules without a wildcard are looked up by hash, once for each length that occurs; the others are
 * tried in falling order of score until none can win. There is no backtracking: the cost of a path
 * is at most linear in the path for each rule with a wildcard, and bounded for all of them
 * together.
 * Source: RFC 9309, sections 2.2.2 and 2.2.3. Called by parser.ts.
 */

/** No rule matches. */
const noMatch = -1;
/** Too many wildcards for this path: disallowed, above every rule. */
const overBudget = Number.MAX_SAFE_INTEGER - 1;
/**
 * Octets of a path that all wildcard rules together may walk, about 50 ms. Only a hostile file
 * reaches this (4096 octets against 2000 rules that begin with `*`), and then errs to the polite
 * side.
 */
const stepsMax = 1 << 23;

type WildRule = {
  readonly pattern: string;
  readonly score: number;
  /** The parts between the stars; the first is a prefix. Made at the first use. */
  parts?: readonly string[];
  /** The pattern ends with `$`: the last part is a suffix. */
  readonly anchored: boolean;
};

/** A rule by its normal pattern. */
export type DecidingRule = { readonly pattern: string; readonly allow: boolean };

/** The rules for us on one host. Filled once, then only read. */
export class RuleSet {
  readonly #literal = new Map<string, boolean>();
  readonly #wild: WildRule[] = [];
  #lengths: readonly number[] = [];

  /** Add a normal pattern (`normalPattern`). */
  add(pattern: string, allow: boolean): void {
    const anchored = pattern.endsWith('$');
    if (!anchored && !pattern.includes('*')) {
      if (allow || !this.#literal.has(pattern)) this.#literal.set(pattern, allow);
      return;
    }
    const score = scoreOf(pattern.length, allow);
    this.#wild.push({ pattern, score, anchored });
  }

  /** Everything is allowed. */
  get isEmpty(): boolean {
    return this.#literal.size === 0 && this.#wild.length === 0;
  }

  /** To be called after the last `add`. */
  seal(): this {
    const lengths = new Set<number>();
    for (const pattern of this.#literal.keys()) lengths.add(pattern.length);
    this.#lengths = [...lengths].sort((a, b) => b - a);
    this.#wild.sort((a, b) => b.score - a.score);
    return this;
  }

  /** Returns the rule that decides about a normal path; undefined: none matches, or too many
   *  wildcards. */
  deciding(path: string): DecidingRule | undefined {
    const score = this.score(path);
    if (score === noMatch || score === overBudget) return undefined;
    const literal = path.slice(0, score >> 1);
    const allow = score % 2 === 1;
    if (this.#literal.get(literal) === allow) return { pattern: literal, allow };
    const rule = this.#wild.find((one) => one.score === score && matches(one, { path, steps: 0 }));
    return rule && { pattern: rule.pattern, allow };
  }

  /** Score of the most specific rule that matches a normal path (`normalPath`), or `noMatch`. */
  score(path: string): number {
    let best = noMatch;
    for (const length of this.#lengths) {
      if (length > path.length) continue;
      const allow = this.#literal.get(path.slice(0, length));
      if (allow === undefined) continue;
      best = scoreOf(length, allow);
      break;
    }
    const walk = { path, steps: 0 };
    for (const rule of this.#wild) {
      if (rule.score <= best) break;
      if (matches(rule, walk)) return rule.score;
      if (walk.steps > stepsMax) return overBudget;
    }
    return best;
  }
}

/** Returns the meaning of a score; without a match everything is allowed. Source: RFC 9309, section
 *  2.2.2. */
export function allows(score: number): boolean {
  return score === noMatch || score % 2 === 1;
}

function scoreOf(length: number, allow: boolean): number {
  return length * 2 + (allow ? 1 : 0);
}

/** `**` means the same as `*`, so empty parts are kept only at the two ends. */
function partsOf(pattern: string, anchored: boolean): string[] {
  const parts = (anchored ? pattern.slice(0, -1) : pattern).split('*');
  if (!pattern.includes('**')) return parts;
  return parts.filter((part, at) => at === 0 || at === parts.length - 1 || part !== '');
}

/** One path on its way through the rules, with what it has cost so far. */
type Walk = { readonly path: string; steps: number };

/** Each part is matched at its leftmost position: if any choice of positions fits, the leftmost
 *  does. */
function matches(rule: WildRule, walk: Walk): boolean {
  const { path } = walk;
  const { pattern, anchored } = rule;
  rule.parts ??= partsOf(pattern, anchored);
  const { parts } = rule;
  const first = parts[0] ?? '';
  if (!path.startsWith(first)) return false;
  const last = parts.length - 1;
  if (last === 0) return !anchored || path.length === first.length;
  let at = first.length;
  for (let index = 1; index <= (anchored ? last - 1 : last); index++) {
    const part = parts[index] ?? '';
    const found = find(path, part, at);
    walk.steps += (found < 0 ? path.length : found) - at + 1;
    if (found < 0) return false;
    at = found + part.length;
  }
  const tail = parts[last] ?? '';
  return !anchored || (path.length - tail.length >= at && path.endsWith(tail));
}

/** Up to here `indexOf` is quicker, and its worst case is a small factor of the path's length. */
const shortPart = 16;

/** `indexOf` that is linear in the worst case too (Knuth, Morris, Pratt 1977). */
function find(path: string, part: string, from: number): number {
  if (part.length > path.length - from) return -1;
  if (part.length <= shortPart) return path.indexOf(part, from);
  const fallback = new Uint32Array(part.length);
  for (let at = 1, matched = 0; at < part.length; at++) {
    while (matched > 0 && part.charCodeAt(at) !== part.charCodeAt(matched))
      matched = fallback[matched - 1] ?? 0;
    if (part.charCodeAt(at) === part.charCodeAt(matched)) matched++;
    fallback[at] = matched;
  }
  for (let at = from, matched = 0; at < path.length; at++) {
    while (matched > 0 && path.charCodeAt(at) !== part.charCodeAt(matched))
      matched = fallback[matched - 1] ?? 0;
    if (path.charCodeAt(at) === part.charCodeAt(matched)) matched++;
    if (matched === part.length) return at + 1 - part.length;
  }
  return -1;
}

const percent = 0x25;
const dollar = 0x24;
const star = 0x2a;

/** Octets that stay unencoded; all others are written as %XX. */
const plain = new Uint8Array(256);
/** RFC 3986 unreserved: never encoded. */
const unreserved = new Uint8Array(256);
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~')
  unreserved[char.charCodeAt(0)] = plain[char.charCodeAt(0)] = 1;
// RFC 3986 reserved, less three: `*` and `$` would be read as the special characters (2.2.3), and
// the URL Standard writes `'` as %27 in a query, so that only one spelling may count.
for (const char of ':/?#[]@!&()+,;=') plain[char.charCodeAt(0)] = 1;

const hexValue = new Int8Array(256).fill(-1);
for (let value = 0; value < 16; value++) {
  hexValue[value.toString(16).charCodeAt(0)] = value;
  hexValue[value.toString(16).toUpperCase().charCodeAt(0)] = value;
}
const hexDigit = Buffer.from('0123456789ABCDEF');

/** A path that is normal already: the usual case, which is recognised without reading bytes. */
const normalAlready = /^[A-Za-z0-9\-._~:/?#[\]@!&()+,;=]*$/;

/** Returns the normal form of a path with its query, as in a URL. */
export function normalPath(path: string): string {
  if (normalAlready.test(path)) return path;
  const bytes = Buffer.from(path, 'utf8');
  return normal(bytes, 0, bytes.length, false);
}

/** Returns the normal form of the pattern in `bytes[start, end)`: `*` and a last `$` keep their
 *  meaning. */
export function normalPattern(bytes: Uint8Array, start: number, end: number): string {
  return normal(bytes, start, end, true);
}

let scratch = Buffer.allocUnsafe(4096);

function normal(bytes: Uint8Array, start: number, end: number, pattern: boolean): string {
  if (scratch.length < (end - start) * 3) scratch = Buffer.allocUnsafe((end - start) * 3);
  let length = 0;
  for (let at = start; at < end; at++) {
    let octet = bytes[at] ?? 0;
    let keep = plain[octet] === 1;
    if (!keep && pattern) keep = octet === star || (octet === dollar && at === end - 1);
    if (octet === percent) {
      const value = escaped(bytes, at, end);
      // A percent sign that escapes nothing is itself escaped, so that normal stays normal.
      if (value >= 0) {
        octet = value;
        keep = unreserved[octet] === 1;
        at += 2;
      }
    }
    if (keep) {
      scratch[length++] = octet;
      continue;
    }
    scratch[length++] = percent;
    scratch[length++] = hexDigit[octet >> 4] ?? 0;
    scratch[length++] = hexDigit[octet & 15] ?? 0;
  }
  const text = scratch.toString('latin1', 0, length);
  // One long line must not keep its memory for the life of the process.
  if (scratch.length > 1 << 20) scratch = Buffer.allocUnsafe(4096);
  return text;
}

/** Returns the value of the %XX at `at`, or -1 if there is none. */
function escaped(bytes: Uint8Array, at: number, end: number): number {
  if (at + 2 >= end) return -1;
  const high = hexValue[bytes[at + 1] ?? 0] ?? -1;
  const low = hexValue[bytes[at + 2] ?? 0] ?? -1;
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/**
 * Returns the other reading of a normal path or pattern: `:/?#[]@` behind the first `?`
 * percent-encoded, as in the second row of RFC 9309's figure 4. A rule and a path match in either
 * reading, so that both that example and a pattern `*` + `/admin` against `/x?next=/admin` match as
 * their authors intend.
 */
export function encodedQuery(text: string): string {
  const query = text.indexOf('?') + 1;
  if (query === 0) return text;
  let encoded = '';
  let copied = 0;
  for (let at = query; at < text.length; at++) {
    const code = queryCode[text.charCodeAt(at)];
    if (code === undefined) continue;
    encoded += text.slice(copied, at) + code;
    copied = at + 1;
  }
  return copied === 0 ? text : encoded + text.slice(copied);
}

/** The output of `encodedQuery`, by character code. */
const queryCode: readonly (string | undefined)[] = Array.from({ length: 128 }, (_, code) => {
  return ':/?#[]@'.includes(String.fromCharCode(code))
    ? `%${code.toString(16).toUpperCase()}`
    : undefined;
});

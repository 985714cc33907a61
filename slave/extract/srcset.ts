/**
 * The srcset attribute, read exactly as the standard says: the splitting loop first, then the
 * descriptors of each candidate. Only a candidate whose descriptors break a rule is dropped; the
 * others stay. Pure; called by the extractor for every img[srcset].
 * Source: HTML Standard, "Parsing a srcset attribute" (4.8.4.2.1).
 */

/** One candidate; `width` and `height` in pixels, both ≥ 1; `density` ≥ 0; no descriptor means 1x. */
export type Candidate = {
  url: string;
  width?: number;
  density?: number;
  height?: number;
};

const nonNegativeInteger = /^[0-9]+$/;
// "Valid floating-point number" has no leading plus and no bare trailing dot.
const validFloat = /^-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$/;

/** Returns the candidates of `value` in order. Never throws; malformed ones are left out. */
export function parseSrcset(value: string): Candidate[] {
  const candidates: Candidate[] = [];
  let at = 0;
  for (;;) {
    while (at < value.length && isSpaceOrComma(value.charCodeAt(at))) at++;
    if (at >= value.length) return candidates;
    const start = at;
    notSpace.lastIndex = at;
    notSpace.test(value);
    at = notSpace.lastIndex;
    let end = at;
    while (value.charCodeAt(end - 1) === comma) end--;
    const url = value.slice(start, end);
    if (end < at) {
      // The comma ended the candidate, so what follows is the next one.
      candidates.push({ url });
      continue;
    }
    const plain = plainDescriptor(url, value, at);
    if (plain !== undefined) {
      candidates.push(plain.candidate);
      at = plain.next;
      continue;
    }
    const { descriptors, next } = readDescriptors(value, at);
    at = next;
    const candidate = withDescriptors(url, descriptors);
    if (candidate !== undefined) candidates.push(candidate);
  }
}

/** Returns the candidate if only `123w` or `2x` follows its address, as nearly always. */
function plainDescriptor(
  url: string,
  value: string,
  from: number,
): { candidate: Candidate; next: number } | undefined {
  const start = skipSpace(value, from);
  let number = 0;
  let at = start;
  for (; at < start + plainDigitsMax; at++) {
    const digit = value.charCodeAt(at) - 0x30;
    // This also stops at the end.
    if (!(digit >= 0 && digit <= 9)) break;
    number = number * 10 + digit;
  }
  const unit = value.charCodeAt(at);
  if (number === 0 || (unit !== letterW && unit !== letterX)) return undefined;
  const end = skipSpace(value, at + 1);
  if (end < value.length && value.charCodeAt(end) !== comma) return undefined;
  const candidate = unit === letterW ? { url, width: number } : { url, density: number };
  return { candidate, next: end + 1 };
}

/** The standard's descriptor tokenizer: states "in descriptor", "in parens", "after descriptor". */
function readDescriptors(value: string, from: number): { descriptors: string[]; next: number } {
  const descriptors: string[] = [];
  let start = -1;
  let inParens = false;
  let at = from;
  for (; at < value.length; at++) {
    const c = value.charCodeAt(at);
    if (inParens) {
      if (c === closeParen) inParens = false;
    } else if (isSpace(c)) {
      if (start >= 0) descriptors.push(value.slice(start, at));
      start = -1;
    } else if (c === comma) {
      break;
    } else {
      if (start < 0) start = at;
      if (c === openParen) inParens = true;
    }
  }
  if (start >= 0) descriptors.push(value.slice(start, at));
  return { descriptors, next: at + 1 };
}

/** The standard's descriptor parser; undefined when its `error` would be set. */
function withDescriptors(url: string, descriptors: readonly string[]): Candidate | undefined {
  const candidate: Candidate = { url };
  for (const descriptor of descriptors) {
    const number = descriptor.slice(0, -1);
    const { width, density, height } = candidate;
    switch (descriptor.at(-1)) {
      case 'w':
        if (!nonNegativeInteger.test(number)) return undefined;
        if (width !== undefined || density !== undefined) return undefined;
        candidate.width = Number(number);
        if (candidate.width === 0) return undefined;
        break;
      case 'x':
        if (!validFloat.test(number)) return undefined;
        if (width !== undefined || density !== undefined || height !== undefined) return undefined;
        // Adding 0 turns the permitted -0 into 0.
        candidate.density = Number(number) + 0;
        if (candidate.density < 0 || !Number.isFinite(candidate.density)) return undefined;
        break;
      case 'h':
        if (!nonNegativeInteger.test(number)) return undefined;
        if (height !== undefined || density !== undefined) return undefined;
        candidate.height = Number(number);
        if (candidate.height === 0) return undefined;
        break;
      default:
        return undefined;
    }
  }
  // `h` is reserved for later standards and means nothing without a width.
  return candidate.height !== undefined && candidate.width === undefined ? undefined : candidate;
}

// An expression reads a long address faster than a loop over its characters.
const notSpace = /[^\t\n\f\r ]+/y;
const plainDigitsMax = 9;
const letterW = 0x77;
const letterX = 0x78;
const comma = 0x2c;
const openParen = 0x28;
const closeParen = 0x29;

function skipSpace(value: string, from: number): number {
  let at = from;
  while (at < value.length && isSpace(value.charCodeAt(at))) at++;
  return at;
}

function isSpaceOrComma(c: number): boolean {
  return c === comma || isSpace(c);
}

/** ASCII whitespace of the Infra Standard: no vertical tab, no no-break space. */
function isSpace(c: number): boolean {
  return c === 0x20 || c === 0x0a || c === 0x09 || c === 0x0d || c === 0x0c;
}

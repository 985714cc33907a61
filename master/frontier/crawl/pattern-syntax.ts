/**
 * The syntax of --include and --exclude: JavaScript's (flag u), translated to RE2; a pattern that
 * JavaScript refuses is read as RE2's. A pattern valid in both has its JavaScript meaning. A
 * construct that RE2 does not have is refused by name, never read as something else. A URL is
 * printable ASCII, where classes, boundaries and dots of the two agree. Pure; `patterns` calls it.
 * Source: ECMA-262, "Patterns"; RE2's doc/syntax.txt.
 */

/** A pattern in RE2's syntax, and the approximate number of its instructions. */
type Re2Source = { readonly re2: string; readonly steps: number };
/** A construct that RE2 does not have, and its replacement: the end of a sentence about the
 *  pattern; and where it stands. */
type Unsayable = { readonly cannot: string; readonly at: number };

/** RE2's limit of a repetition. */
const repeatsMax = 1_000;
const shownChars = 40;

const escaped = new RegExp(
  String.raw`\\(?:u\{(?<point>[0-9a-f]+)\}|u(?<unit>[0-9a-f]{4})|c(?<control>[a-z])` +
    String.raw`|k<[^>]*>|[1-9]\d*|[px]\{[^}]*\}|[\s\S])`,
  'iy',
);
const opening = /\((?:\?(?:<?[=!]|P?<[^>]*>|[a-z-]*:|[a-z-]*\))?)?/iy;
const quantifier = /(?:[*+?]|\{(?<from>\d+)(?<upTo>,(?<to>\d*))?\})\??/y;
/** A character, an escape or a class: the atoms that a negated class can replace. */
const oneOf = new RegExp(
  String.raw`^(?:\[(?!\^)(?<listed>(?:\\.|[^\]\\])*)\]` +
    String.raw`|(?<single>\\[^a-zA-Z0-9]|\\[dwstnrfv]|[^\\[\](){}.*+?|^$]))$`,
);

/** `isJavaScript`: translate it; else it is RE2's already. */
export function toRe2(source: string, isJavaScript: boolean): Re2Source | Unsayable {
  const sizes: number[] = [];
  let re2 = '';
  let steps = 0;
  let atom = 0;
  const add = (text: string, size: number) => {
    re2 += text;
    steps += size;
    atom = size;
  };
  for (let at = 0; at < source.length; ) {
    const char = source.charAt(at);
    if (char === '\\') {
      const found = escapeAt(source, at, isJavaScript, false);
      if ('cannot' in found) return found;
      add(found.text, 1);
      at = found.end;
    } else if (char === '[') {
      const found = classAt(source, at, isJavaScript);
      if ('cannot' in found) return found;
      add(found.text, 1);
      at = found.end;
    } else if (char === '(') {
      const [text] = match(opening, source, at) ?? ['('];
      if (/[=!]$/.test(text)) return { cannot: lookaround(source, at, text), at };
      sizes.push(steps);
      steps = 0;
      // The contents of groups are not used, so groups need neither captures nor names.
      re2 += isJavaScript && !text.endsWith(':') ? '(?:' : text;
      if (text.endsWith(')')) steps = sizes.pop() ?? 0;
      at += text.length;
    } else if (char === ')') {
      atom = steps;
      steps += sizes.pop() ?? 0;
      re2 += char;
      at++;
    } else {
      const repeat = match(quantifier, source, at);
      if (repeat === undefined) {
        add(char, 1);
        at++;
        continue;
      }
      const [text] = repeat;
      const times = timesOf(repeat.groups ?? {});
      if (times > repeatsMax) return { cannot: manyTimes(text), at };
      re2 += text;
      steps += atom * (times - 1) + 1;
      atom = atom * times + 1;
      at += text.length;
    }
  }
  return { re2, steps };
}

type Piece = { readonly text: string; readonly end: number };

function escapeAt(
  source: string,
  at: number,
  isJavaScript: boolean,
  isInClass: boolean,
): Piece | Unsayable {
  const found = match(escaped, source, at);
  // Nothing follows the backslash: RE2 reports that.
  if (found === undefined) return { text: source.slice(at), end: source.length };
  const [text] = found;
  const end = at + text.length;
  if (!isInClass && /^\\(?:k<|[1-9])/.test(text)) return { cannot: backreference(text), at };
  if (!isJavaScript) return { text, end };
  const { point, unit, control } = found.groups ?? {};
  const code = point ?? unit ?? (control && (control.charCodeAt(0) % 32).toString(16));
  if (code !== undefined) return { text: `\\x{${code}}`, end };
  // In a class it is the backspace.
  return { text: isInClass && text === '\\b' ? '\\x08' : text, end };
}

/** The class that begins at `at`, with its brackets. */
function classAt(source: string, at: number, isJavaScript: boolean): Piece | Unsayable {
  const isNegated = source.charAt(at + 1) === '^';
  let end = at + (isNegated ? 2 : 1);
  let text = source.slice(at, end);
  // In RE2 a bracket that comes first is literal; in JavaScript it ends an empty class.
  if (source.charAt(end) === ']') {
    const every = isNegated ? '[\\x00-\\x{10ffff}]' : '[^\\x00-\\x{10ffff}]';
    if (isJavaScript) return { text: every, end: end + 1 };
    text += source.charAt(end++);
  }
  while (end < source.length && source.charAt(end) !== ']') {
    if (source.charAt(end) === '\\') {
      const piece = escapeAt(source, end, isJavaScript, true);
      if ('cannot' in piece) return piece;
      text += piece.text;
      end = piece.end;
      continue;
    }
    // RE2 would look for a class by name: [:alpha:].
    text += isJavaScript && source.charAt(end) === '[' ? '\\[' : source.charAt(end);
    end++;
  }
  return { text: text + source.slice(end, end + 1), end: end + 1 };
}

/** Returns the number of copies of an atom when its repetition is written out. */
function timesOf({ from, upTo, to }: Record<string, string | undefined>): number {
  if (from === undefined) return 1;
  return Math.max(1, Number(from), upTo !== undefined && to !== '' ? Number(to) : 0);
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

const lookarounds: Readonly<Record<string, string>> = {
  '(?=': 'lookahead',
  '(?!': 'negative lookahead',
  '(?<=': 'lookbehind',
  '(?<!': 'negative lookbehind',
};

function lookaround(source: string, at: number, begin: string): string {
  const body = /^[^()]*(?=\))/.exec(source.slice(at + begin.length))?.[0];
  const shown = `${begin}${body !== undefined && body.length <= shownChars ? body : '…'})`;
  return `has a ${lookarounds[begin]}, ${shown}: ${insteadOf(begin, shown, body)}`;
}

function insteadOf(begin: string, shown: string, body: string | undefined): string {
  const { listed, single } = oneOf.exec(body ?? '')?.groups ?? {};
  const inside = listed ?? single;
  if (begin === '(?!') {
    return inside === undefined
      ? `remove it, and put what must not follow into --exclude (for an --exclude: into --include)`
      : `write [^${inside}]* for ${shown}`;
  }
  if (begin === '(?<!') {
    return inside === undefined
      ? `remove it, and put what must not precede into --exclude (for an --exclude: into --include)`
      : `write (?:^|[^${inside}]) for ${shown}`;
  }
  return begin === '(?='
    ? 'write what must follow without (?= ), or both orders: a.*b|b.*a for (?=.*a).*b'
    : 'write what must precede without (?<= ): the same URLs match';
}

const backreference = (text: string) =>
  `has a backreference, ${text}: write out what may be repeated, a/a|b/b for (a|b)/\\1`;

const manyTimes = (text: string) =>
  `has a count above ${repeatsMax}, ${text}: write * or +, or two counts in a row`;

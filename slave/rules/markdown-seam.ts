/**
 * Where two inline pieces of Markdown meet, marks could be read in another way: `**a**` and `**b**`
 * would be one run of stars, a mark between a quotation mark and a letter neither begins nor ends
 * anything (often so in Chinese and Japanese), and `!` before a link makes it an image. A comment
 * that shows nothing keeps them apart. Pure.
 * Source: CommonMark 0.31.2, 6.1 (code spans), 6.2 (left- and right-flanking delimiter runs).
 */
const apart = '<!-- -->';
/** Older readers take symbols, other than those of ASCII, for letters. */
const ends = /^[\s\p{P}$+<=>^`|~]$/u;
const punctuation = /^[\p{P}\p{S}]$/u;

/** Joins two pieces, each complete, with its text escaped. */
export function seamed(left: string, right: string): string {
  if (left === '' || right === '') return left + right;
  const last = charBefore(left, left.length);
  const first = charAt(right, 0);
  if (last === '!' && first === '[') return `${left.slice(0, -1)}\\!${right}`;
  const from = marksFrom(left);
  const to = marksTo(right);
  const hasClosing = from < left.length;
  const hasOpening = to > 0;
  const isOneRun = hasClosing && hasOpening && last === first;
  const isClosingLost =
    hasClosing && last !== '`' && isPunctuation(charBefore(left, from)) && !ends.test(first);
  const isOpeningLost =
    hasOpening && first !== '`' && isPunctuation(charAt(right, to)) && !ends.test(last);
  return isOneRun || isClosingLost || isOpeningLost ? left + apart + right : left + right;
}

/** Where the marks at the end of a piece begin. */
function marksFrom(text: string): number {
  let from = text.length;
  while (from > 0 && isMark(text.charAt(from - 1)) && !isEscaped(text, from - 1)) from--;
  return from;
}

function marksTo(text: string): number {
  let to = 0;
  while (to < text.length && isMark(text.charAt(to))) to++;
  return to;
}

function isMark(char: string): boolean {
  return char === '*' || char === '~' || char === '`';
}

function isEscaped(text: string, at: number): boolean {
  let from = at;
  while (from > 0 && text.charAt(from - 1) === '\\') from--;
  return (at - from) % 2 === 1;
}

function isPunctuation(char: string): boolean {
  return punctuation.test(char);
}

/** Characters may be pairs. */
function charAt(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at) ?? 0x20);
}

function charBefore(text: string, at: number): string {
  return [...text.slice(Math.max(0, at - 2), at)].at(-1) ?? ' ';
}

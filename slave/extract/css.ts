/**
 * The pictures that a style sheet or a style attribute names: `url()`, and the strings of
 * `image-set()`. Fonts, imported sheets and namespaces are not pictures. It scans for the few
 * relevant tokens, in linear time; it parses no values. Source: CSS Syntax 3, "consume a url
 * token"; CSS Images 4, `image-set()`.
 */

const tokens =
  /\\.|\/\*|["'()]|(?<![\w-])(?:url|(?:-webkit-)?image-set)\(|@(?:import|namespace|font-face)/gis;
/** Characters that a url without quotes cannot hold, unless they are escaped. */
const badInUrl = /["'(\s]/;
const escaped = /\\(?:[0-9a-f]{1,6}\s?|.)/gis;
const lineBreaks = new Set<string | undefined>(['\n', '\r', '\f']);
const worthReading = /url\(|image-set\(/i;

/** Returns the addresses in order, unescaped, without fragment-only ones. */
export function cssImages(text: string): string[] {
  if (!worthReading.test(text)) return [];
  const found: string[] = [];
  const add = (value: string) => {
    const url = withoutEscapes(value.trim());
    if (url !== '' && !url.startsWith('#')) found.push(url);
  };
  /** Parentheses open since `image-set(`; its own strings are at depth 1. */
  let setDepth = 0;
  /** The next string or url() is a sheet or a namespace. */
  let isImport = false;
  tokens.lastIndex = 0;
  for (let token = tokens.exec(text); token; token = tokens.exec(text)) {
    const [word] = token;
    const at = tokens.lastIndex;
    switch (word[0]) {
      // In a name, such as `.content-\[\'\'\]`.
      case '\\':
        break;
      case '/':
        tokens.lastIndex = after(text, '*/', at);
        break;
      case '"':
      case "'": {
        const end = stringEnd(text, at, word);
        if (lineBreaks.has(text[end])) setDepth = 0;
        else if (setDepth === 1 && !isImport) add(text.slice(at, end));
        isImport = false;
        tokens.lastIndex = end + 1;
        break;
      }
      case '(':
        if (setDepth > 0) setDepth++;
        break;
      case ')':
        if (setDepth > 0) setDepth--;
        break;
      case '@':
        if (word.length === '@font-face'.length && /font/i.test(word))
          tokens.lastIndex = after(text, '}', at);
        else isImport = true;
        break;
      default:
        if (/set\($/i.test(word)) {
          setDepth = 1;
        } else {
          const { value, end } = readUrl(text, at);
          if (!isImport) add(value);
          isImport = false;
          tokens.lastIndex = end;
        }
    }
  }
  return found;
}

/** `from`: after "url(". */
function readUrl(text: string, from: number): { value: string; end: number } {
  let at = from;
  while (at < text.length && text.charCodeAt(at) <= 0x20) at++;
  const quote = text[at] ?? '';
  if (quote === '"' || quote === "'") {
    const end = stringEnd(text, at + 1, quote);
    if (lineBreaks.has(text[end])) return { value: '', end: afterBracket(text, end) };
    return { value: text.slice(at + 1, end), end: after(text, ')', end) };
  }
  let end = at;
  while (end < text.length && text[end] !== ')') end += text[end] === '\\' ? 2 : 1;
  const value = text.slice(at, end);
  return { value: isBadUrl(value) ? '' : value, end: end + 1 };
}

/** Browsers ignore a declaration with such a url. Source: CSS Syntax 3, 4.3.6. */
function isBadUrl(value: string): boolean {
  return badInUrl.test(value) && badInUrl.test(value.replace(escaped, '').trim());
}

/** Returns the end of a string: its quote, that of the text, or a line break, which makes it
 *  invalid as a whole. */
function stringEnd(text: string, from: number, quote: string): number {
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '\\') at += text[at + 1] === '\r' && text[at + 2] === '\n' ? 2 : 1;
    else if (c === quote || lineBreaks.has(c)) return at;
  }
  return text.length;
}

/** Returns the end of a function with an invalid string. All up to its bracket is a part of it, and
 *  other strings may begin there. Source: CSS Syntax 3, "consume a function". */
function afterBracket(text: string, from: number): number {
  let depth = 1;
  for (let at = from; at < text.length; at++) {
    const c = text[at];
    if (c === '\\') at++;
    else if (c === '"' || c === "'") at = stringEnd(text, at + 1, c);
    else if (c === '(') depth++;
    else if (c === ')' && --depth === 0) return at + 1;
  }
  return text.length;
}

function after(text: string, end: string, from: number): number {
  const at = text.indexOf(end, from);
  return at < 0 ? text.length : at + end.length;
}

function withoutEscapes(value: string): string {
  if (!value.includes('\\')) return value;
  return value.replace(
    /\\(?:([0-9a-f]{1,6})\s?|\r?\n|([^\n]))/gi,
    (_, hex: string | undefined, character: string | undefined) => {
      const code = hex === undefined ? 0 : Number.parseInt(hex, 16);
      if (hex === undefined) return character ?? '';
      return code === 0 || code > 0x10ffff ? '\ufffd' : String.fromCodePoint(code);
    },
  );
}

/**
 * JSON as sites write it into pages. Strict JSON is read as it is. If that fails, common mistakes
 * are forgiven: a comment or CDATA section around it, comments in it, control characters in
 * strings and escapes that only JavaScript knows (`\'`), commas before a closing bracket, and a
 * semicolon at the end. Linear in the length. Pure. Source: RFC 8259; ECMA-262, 12.9.4.
 */

const opening = /^(?:\/\/|\/\*)?[ \t]*(?:<!--|<!\[CDATA\[)[ \t]*(?:\*\/)?/;
const closing = /(?:\/\/|\/\*)?[ \t]*(?:-->|\]\]>)[ \t]*(?:\*\/)?;?$/;
const closingCharsMax = 40;
/** A string that does not end counts as a token, too: else each quote in it would begin a search.
 *  It is matched in runs, as V8 keeps a place to go back to for each step of a group. */
const quoted = String.raw`"[^"\\]*(?:\\(?:.|$)[^"\\]*)*(?:"|$)`;
const stringsAndComments = new RegExp(String.raw`${quoted}|/\*.*?(?:\*/|$)|//[^\r\n]*`, 'gs');
/** Once the comments are gone: there may be one behind the comma. */
const stringsAndCommas = new RegExp(String.raw`${quoted}|,(?=\s*[\]}])`, 'gs');
const escapesAndControls = /\\(?:\r\n|.)|\p{Cc}/gsu;
const control = /^\p{Cc}/u;
/** In JavaScript any other character stands for itself; what `\x` or `\0` means, JSON cannot say. */
const plainEscape = /^\\[^"\\/bfnrtuvx0-9]/u;

/** @throws SyntaxError the fault of the text as strict JSON */
export function parsePageJson(text: string): unknown {
  const plain = text.startsWith('\ufeff') ? text.slice(1) : text;
  try {
    return JSON.parse(plain);
  } catch (error) {
    try {
      return JSON.parse(forgiven(unwrapped(plain)));
    } catch {
      throw error;
    }
  }
}

function unwrapped(text: string): string {
  const inner = text.trim().replace(opening, '');
  const tail = inner.slice(-closingCharsMax);
  return inner.slice(0, inner.length - tail.length) + tail.replace(closing, '');
}

function forgiven(text: string): string {
  const strict = text
    // A comment separates what is before and behind it.
    .replace(stringsAndComments, (token) => (token.startsWith('"') ? escaped(token) : ' '))
    .replace(stringsAndCommas, (token) => (token === ',' ? '' : token))
    .trimEnd();
  return strict.endsWith(';') ? strict.slice(0, -1) : strict;
}

/** A line break behind a backslash is no part of the text, as in JavaScript. */
function escaped(token: string): string {
  return token.replace(escapesAndControls, (one) => {
    if (/^\\[\r\n]/.test(one)) return '';
    const char = plainEscape.test(one) ? one.slice(1) : one;
    if (!control.test(char)) return char;
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

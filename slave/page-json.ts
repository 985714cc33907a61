/**
 * JSON as sites write it into pages. Strict JSON is read as it is. If that fails, common mistakes
 * are forgiven: a comment or CDATA section around it, comments in it, control characters in
 * strings, and commas before a closing bracket. Linear in the length. Pure. Source: RFC 8259.
 */

const opening = /^(?:\/\/|\/\*)?[ \t]*(?:<!--|<!\[CDATA\[)[ \t]*(?:\*\/)?/;
const closing = /(?:\/\/|\/\*)?[ \t]*(?:-->|\]\]>)[ \t]*(?:\*\/)?;?$/;
const closingCharsMax = 40;
/** A string that does not end counts as a token, too: else each quote in it would begin a
 *  search. */
const tokens = /"(?:[^"\\]|\\.?)*(?:"|$)|\/\*.*?(?:\*\/|$)|\/\/[^\n]*|,(?=\s*[\]}])/gs;

/** @throws SyntaxError the fault of the text as strict JSON */
export function parsePageJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    try {
      return JSON.parse(unwrapped(text).replace(tokens, forgiven));
    } catch {
      throw error;
    }
  }
}

function unwrapped(text: string): string {
  // It takes away a byte order mark, too.
  const trimmed = text.trim();
  const inner = trimmed.replace(opening, '');
  const tail = inner.slice(-closingCharsMax);
  return inner.slice(0, inner.length - tail.length) + tail.replace(closing, '');
}

function forgiven(token: string): string {
  if (!token.startsWith('"')) return '';
  return token.replace(/\p{Cc}/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

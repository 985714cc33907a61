/**
 * Parses the targets and relations of the header `Link: <https://a.example/>; rel="canonical"`.
 * Pure.
 * Source: RFC 8288, section 3 and appendix B.2.
 */

type HeaderLink = {
  /** Raw, to be resolved against the URL of the answer. */
  readonly target: string;
  /** Lower-case. */
  readonly rels: readonly string[];
  /** It describes another resource than the answer. */
  readonly isAnchored: boolean;
};

/** Returns the links before the first syntax error. */
export function parseLinkHeader(field: string): HeaderLink[] {
  const links: HeaderLink[] = [];
  let at = skip(field, 0, ', \t');
  while (field[at] === '<') {
    const close = field.indexOf('>', at);
    if (close < 0) break;
    const parameters = new Map<string, string>();
    const target = field.slice(at + 1, close);
    at = skip(field, readParameters(field, close + 1, parameters), ', \t');
    const rels = (parameters.get('rel') ?? '').toLowerCase().split(/\s+/);
    links.push({ target, rels, isAnchored: parameters.has('anchor') });
  }
  return links;
}

/** Reads `; name=value` pairs, where the first of a name counts; returns the end position. */
function readParameters(field: string, start: number, found: Map<string, string>): number {
  let at = skip(field, start, ' \t');
  while (field[at] === ';') {
    const nameStart = skip(field, at + 1, ' \t');
    const nameEnd = until(field, nameStart, ' \t=;,');
    const name = field.slice(nameStart, nameEnd).toLowerCase();
    at = skip(field, nameEnd, ' \t');
    let value = '';
    if (field[at] === '=') {
      at = skip(field, at + 1, ' \t');
      if (field[at] === '"') {
        [value, at] = quoted(field, at + 1);
      } else {
        const valueStart = at;
        at = until(field, at, ';,');
        value = field.slice(valueStart, at).trimEnd();
      }
    }
    if (!found.has(name)) found.set(name, value);
    at = skip(field, at, ' \t');
  }
  return at;
}

/** Returns the text up to the closing quote, and the position after it. */
function quoted(field: string, start: number): [text: string, end: number] {
  let text = '';
  let at = start;
  for (; at < field.length && field[at] !== '"'; at++) {
    if (field[at] === '\\') at++;
    text += field[at] ?? '';
  }
  return [text, at + 1];
}

function skip(text: string, start: number, chars: string): number {
  let at = start;
  while (at < text.length && chars.includes(text.charAt(at))) at++;
  return at;
}

function until(text: string, start: number, chars: string): number {
  let at = start;
  while (at < text.length && !chars.includes(text.charAt(at))) at++;
  return at;
}

/**
 * Character references in attribute values and titles. The page scanner keeps values raw and calls
 * this for those with an ampersand.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';
import { equals, isLetterOrDigit } from './elements.ts';

/** The reading of references in a kind of document. Texts are decoded from the page's charset. */
export type References = {
  /** The value of an attribute. */
  attribute(value: string): string;
  title(text: string): string;
  /** The text of a style or a script. */
  raw(text: string): string;
};

/** Returns the value of an attribute as the standard reads it. Source: HTML Standard 13.2.5.72
 *  ff. */
export function decodeAttribute(value: string): string {
  const text = value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
  if (!text.includes('&')) return text;
  const plain = decodeAmpersands(text);
  if (plain !== undefined) return plain;
  return decodeHTMLAttribute(text);
}

/**
 * Decodes the references of nearly all addresses: `&amp;`, `&#38;`, and literal ampersands, as in
 * `?a=1&b=2`. Returns undefined if there is any other.
 */
function decodeAmpersands(text: string): string | undefined {
  let result = '';
  let from = 0;
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) {
    if (text.startsWith('amp;', at + 1)) {
      result += text.slice(from, at + 1);
      from = at + 5;
    } else if (text.startsWith('#38;', at + 1)) {
      result += text.slice(from, at + 1);
      from = at + 5;
    } else if (text.startsWith('#038;', at + 1)) {
      result += text.slice(from, at + 1);
      from = at + 6;
    } else {
      let end = at + 1;
      while (end < text.length && isLetterOrDigit(text.charCodeAt(end))) end++;
      // Before "=" no name without a semicolon counts, and "&=" is not a reference.
      if (text.charCodeAt(end) !== equals) return undefined;
    }
  }
  return from === 0 ? text : result + text.slice(from);
}

/** Returns the text of a title (RCDATA: references count, tags do not). */
function decodeTitle(value: string): string {
  const text = value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
  if (!text.includes('&')) return text;
  return decodeHTML(text);
}

export const htmlReferences: References = {
  attribute: decodeAttribute,
  title: decodeTitle,
  raw: (text) => text,
};

/** White space in an attribute is a space, and references count everywhere.
 *  Source: XML 1.0, 3.3.3 and 4.4. */
export const xmlReferences: References = {
  attribute: (value) => decodeXml(value.replace(/\r\n|[\t\n\r]/g, ' ')),
  title: decodeXml,
  raw: decodeXml,
};

const xmlReference = /&(?:#([0-9]{1,10})|#x([0-9A-Fa-f]{1,10})|([A-Za-z][A-Za-z0-9]{0,31}));/g;

/** Decodes references with a semicolon: numbers, and the names in XHTML's document types, which are
 *  among HTML's. A document's own declarations are unknown. */
function decodeXml(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(
    xmlReference,
    (reference, decimal: string | undefined, hex: string | undefined, name: string | undefined) => {
      if (name !== undefined) return decodeAttribute(reference);
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
      const isNone = code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000);
      return isNone ? '\ufffd' : String.fromCodePoint(code);
    },
  );
}

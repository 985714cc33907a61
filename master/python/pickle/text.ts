/**
 * Text of a pickle: UTF-8 in which surrogates pass (Python's `surrogatepass`), and the escapes of
 * protocol 0. Malformed text is a PickleError, never a replacement character.
 * **Source:** RFC 3629 with the three bytes of U+D800 to U+DFFF allowed; Python Library
 * Reference, "codecs", `raw_unicode_escape`; `repr` of Python 2's str.
 */
import { intDigitsMax } from './limits.ts';
import { PickleError } from './values.ts';

/** Native decoding costs a call, so very short ASCII is decoded here. */
const charsInlineMax = 4;

/** Returns the str of the UTF-8 with surrogates at [start, end), which must lie inside `input`. */
export function decodeText(input: Buffer, start: number, end: number): string {
  if (end - start > charsInlineMax) return decodeLong(input, start, end);
  let text = '';
  for (let at = start; at < end; at += 1) {
    const byte = input[at] ?? 0;
    if (byte > 0x7f) return decodeLong(input, start, end);
    text += String.fromCharCode(byte);
  }
  return text;
}

function decodeLong(input: Buffer, start: number, end: number): string {
  const text = input.toString('utf8', start, end);
  // U+FFFD was in the text, or replaces a surrogate or malformed bytes: decode with care.
  return text.includes('\ufffd') ? decodeSurrogatePass(input.subarray(start, end)) : text;
}

/** The smallest code point of a sequence of 1, 2, 3 and 4 bytes: a smaller one is overlong. */
const sequenceMin = [0, 0x80, 0x800, 0x10000];

/** Builds text unit by unit; millions of units must not take seconds. */
class Utf16 {
  readonly #bytes: Buffer;
  #length = 0;

  constructor(unitsMax: number) {
    this.#bytes = Buffer.allocUnsafe(unitsMax * 2);
  }

  put(code: number): void {
    if (code >= 0x10000) {
      this.put(0xd7c0 + (code >> 10));
      this.put(0xdc00 | (code & 0x3ff));
      return;
    }
    this.#bytes[this.#length] = code & 0xff;
    this.#bytes[this.#length + 1] = code >> 8;
    this.#length += 2;
  }

  text(): string {
    return this.#bytes.toString('utf16le', 0, this.#length);
  }
}

function decodeSurrogatePass(bytes: Buffer): string {
  const units = new Utf16(bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const lead = bytes[at] ?? 0;
    const more = lead < 0x80 ? 0 : lead < 0xc0 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    let code = more <= 0 ? lead : lead & (0x3f >> more);
    for (let index = 1; index <= more; index += 1) {
      const byte = bytes[at + index] ?? 0;
      // 2^21 is beyond Unicode, and stays so.
      code = (byte & 0xc0) === 0x80 ? (code << 6) | (byte & 0x3f) : 1 << 21;
    }
    if (more < 0 || lead > 0xf7 || code > 0x10ffff || code < (sequenceMin[more] ?? 0)) {
      throw new PickleError('a str is not valid UTF-8');
    }
    at += more + 1;
    units.put(code);
  }
  return units.text();
}

// With the u flag a well-formed pair is one character, so only lone surrogates match.
const loneSurrogate = /[\ud800-\udfff]/u;

/** Returns the UTF-8 of a str with lone surrogates, or null if it has none and the native encoder
 *  can be used. */
export function encodeSurrogatePass(text: string): Buffer | null {
  if (!loneSurrogate.test(text)) return null;
  const bytes = Buffer.allocUnsafe(text.length * 3);
  let length = 0;
  const put = (byte: number): void => {
    bytes[length] = byte;
    length += 1;
  };
  for (let at = 0; at < text.length; at += 1) {
    const code = text.codePointAt(at) ?? 0;
    if (code < 0x80) {
      put(code);
      continue;
    }
    if (code < 0x800) {
      put(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
      put(0xe0 | (code >> 12));
      put(0x80 | ((code >> 6) & 0x3f));
    } else {
      put(0xf0 | (code >> 18));
      put(0x80 | ((code >> 12) & 0x3f));
      put(0x80 | ((code >> 6) & 0x3f));
      at += 1;
    }
    put(0x80 | (code & 0x3f));
  }
  return bytes.subarray(0, length);
}

const backslash = 0x5c;

/** Returns the number of `count` hexadecimal digits at `at`, or -1. */
function hexAt(line: string, at: number, count: number): number {
  let value = 0;
  for (let index = at; index < at + count; index += 1) {
    const unit = line.charCodeAt(index);
    const digit = unit <= 0x39 ? unit - 0x30 : (unit | 0x20) - 0x57;
    // A character below "a" would pass for a digit, and so would a missing one (NaN).
    if (!(digit >= (unit <= 0x39 ? 0 : 10) && digit <= 15)) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/** UNICODE of protocol 0: Latin-1 with \uXXXX and \UXXXXXXXX after an odd run of backslashes. */
export function decodeRawUnicodeEscape(line: string): string {
  if (!line.includes('\\')) return line;
  const units = new Utf16(line.length);
  let at = 0;
  while (at < line.length) {
    const unit = line.charCodeAt(at);
    const kind = unit === backslash ? line.charAt(at + 1) : '';
    const digits = kind === 'u' ? 4 : kind === 'U' ? 8 : 0;
    const code = digits === 0 ? -1 : hexAt(line, at + 2, digits);
    if (code > 0x10ffff) throw new PickleError('a str has an escape beyond Unicode');
    units.put(code < 0 ? unit : code);
    // The second of two backslashes begins no escape.
    if (kind === '\\') units.put(backslash);
    at += code >= 0 ? 2 + digits : kind === '\\' ? 2 : 1;
  }
  return units.text();
}

/** The characters after a backslash in a repr, and their meanings. */
const simpleEscapes = new Map(
  [...'\\\'"abfnrtv'].map((kind, index) => [kind, '\\\'"\x07\b\f\n\r\t\v'.charCodeAt(index)]),
);

/** STRING of protocol 0: the repr of a Python 2 str, as Latin-1 text. */
export function decodeRepr(line: string): string {
  const quote = line.charAt(0);
  if (line.length < 2 || (quote !== "'" && quote !== '"') || !line.endsWith(quote)) {
    throw new PickleError('a STRING must be quoted');
  }
  const body = line.slice(1, -1);
  if (!body.includes('\\')) return body;
  const units = new Utf16(body.length);
  let at = 0;
  while (at < body.length) {
    const unit = body.charCodeAt(at);
    at += 1;
    if (unit !== backslash) {
      units.put(unit);
      continue;
    }
    const kind = body.charAt(at);
    const simple = simpleEscapes.get(kind);
    const code = kind === 'x' ? hexAt(body, at + 1, 2) : simple;
    // Python 2's repr writes no other escape.
    if (code === undefined || code < 0) throw new PickleError('a STRING has a broken escape');
    units.put(code);
    at += kind === 'x' ? 3 : 1;
  }
  return units.text();
}

const decimal = /^[+-]?[0-9]+$/;
const decimalFloat = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$/i;

/** INT and LONG of protocol 0: a decimal, with or without Python 2's L. */
export function parseInteger(line: string): number | bigint {
  const digits = line.endsWith('L') ? line.slice(0, -1) : line;
  if (digits.length > intDigitsMax + 1) throw new PickleError('an int has too many digits');
  if (!decimal.test(digits)) throw new PickleError('an int is not a decimal');
  const value = Number(digits);
  if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
  const sign = digits.startsWith('-') ? -1n : 1n;
  return sign * BigInt(digits.replace(/^[+-]/, ''));
}

const namedFloats = new Map([
  ['nan', Number.NaN],
  ['-nan', Number.NaN],
  ['inf', Number.POSITIVE_INFINITY],
  ['-inf', Number.NEGATIVE_INFINITY],
]);

/** FLOAT of protocol 0: the repr of a float. */
export function parseFloatText(line: string): number {
  const named = namedFloats.get(line);
  if (named !== undefined) return named;
  if (line.length > intDigitsMax || !decimalFloat.test(line)) {
    throw new PickleError('a float is not a decimal');
  }
  return Number(line);
}

/** Returns `text` for a message: short, one line, ASCII. */
export function printable(text: string): string {
  const shown = text.slice(0, 100).replace(/[^\x20-\x7e]/g, '?');
  return text.length > 100 ? `${shown}…` : shown;
}

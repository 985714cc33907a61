/**
 * The headers that describe a body: media type, charset, content codings, validators; and the first
 * bytes where headers are missing. Pure.
 * Source: RFC 9110, 8.3 and 8.4; MIME Sniffing Standard, 7.1.
 */
import { createZstd } from './zstd.ts';

/** Headers of an answer, by lower-case names. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Returns the fields of a name, each line unchanged. */
export function fieldsOf(headers: Headers, name: string): readonly string[] {
  const values = headers[name];
  return values === undefined ? [] : Array.isArray(values) ? values : [values];
}

/** Returns the first of them. */
export function fieldOf(headers: Headers, name: string): string | undefined {
  const values = headers[name];
  return Array.isArray(values) ? values[0] : values;
}

/** Header bytes arrive as latin1; servers that send more than ASCII mean UTF-8, as browsers do. */
export function asUtf8(header: string): string {
  if (!/[\x80-\xff]/.test(header)) return header;
  const text = Buffer.from(header, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? header : text;
}

type ContentType = {
  /** Lower-case `type/subtype`; undefined if the header is missing or malformed. */
  essence: string | undefined;
  charset: string | undefined;
};

/** A character of a name. Source: RFC 9110, 5.6.2. */
const nameChar = "[!#$%&'*+.^_`|~0-9A-Za-z-]";
/** The name of a field, for patterns. */
export const fieldName = `${nameChar}+`;
const wholeName = new RegExp(`^${fieldName}$`);

export function isFieldName(text: string): boolean {
  return wholeName.test(text);
}

const typePattern = new RegExp(`^[ \\t]*(${nameChar}{1,127}/${nameChar}{1,127})`);
const charsetPattern = /;[ \t]*charset[ \t]*=[ \t]*(?:"([^"]{1,64})"?|'?([^\s;"']{1,64}))/i;

/** One type, or several with commas between them, as in a list of header fields. */
const typeList = /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g;

/**
 * Returns media type and charset of an answer. Of several types, in one header or several, the last
 * well-formed one counts; it keeps the charset of an earlier one of the same type.
 * Source: Fetch Standard, "extract a MIME type".
 */
export function contentTypeOf(headers: Headers): ContentType {
  let found: ContentType = { essence: undefined, charset: undefined };
  const list = fieldsOf(headers, 'content-type').join(',');
  for (const text of list.match(typeList) ?? []) {
    const { essence, charset } = parseContentType(text);
    if (essence === undefined || essence === '*/*') continue;
    found = {
      essence,
      charset: charset ?? (essence === found.essence ? found.charset : undefined),
    };
  }
  return found;
}

function parseContentType(header: string): ContentType {
  const charset = charsetPattern.exec(header);
  return {
    essence: typePattern.exec(header)?.[1]?.toLowerCase(),
    charset: charset?.[1] ?? charset?.[2],
  };
}

/** The validators with which a later request can ask whether the answer changed; unchanged. */
export type Validators = {
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
};

/** Returns the validators of an answer, without those that are too long or not valid in a header.
 *  Source: RFC 9110, 8.8. */
export function validatorsOf(etag: string | undefined, lastModified: string | undefined) {
  return {
    ...(etag !== undefined && /^[\x21-\x7e]{1,256}$/.test(etag) && { etag }),
    ...(lastModified !== undefined && /^[\x20-\x7e]{1,64}$/.test(lastModified) && { lastModified }),
  };
}

/** The content codings are unknown, or do not match the bytes. */
export class CodingError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'CodingError';
  }
}

/** Transfer codings that the HTTP client undoes. */
const framing = /^(?:chunked|identity|[ \t,])*$/i;

/** Returns the codings to undo, outermost (last applied) first. `unknown`: the first bytes must
 *  decide, since browsers take a body with an unknown coding as it is; the same for a transfer
 *  coding that nobody has asked for. undefined: too many. */
export function codingsOf(headers: Headers): Coding[] | 'unknown' | undefined {
  const codings: Coding[] = [];
  let isUnknown = !fieldsOf(headers, 'transfer-encoding').every((field) => framing.test(field));
  for (const name of fieldsOf(headers, 'content-encoding').join(',').toLowerCase().split(',')) {
    const coding = name.trim();
    if (coding === '' || coding === 'identity') continue;
    if (coding === 'gzip' || coding === 'x-gzip') codings.unshift('gzip');
    else if (coding === 'deflate' || coding === 'br') codings.unshift(coding);
    else if (coding === 'zstd' && createZstd !== undefined) codings.unshift(coding);
    else isUnknown = true;
  }
  // Each layer multiplies the size that a bomb can inflate to.
  if (codings.length > 2) return undefined;
  return isUnknown ? 'unknown' : codings;
}
export type Coding = 'gzip' | 'deflate' | 'br' | 'zstd';

/** Returns the codings of a body with unknown ones, by its first bytes: `sniffBytes` of them, or
 *  all. undefined: not text. Source: RFC 1952, 2.3.1; RFC 8878, 3.1.1; MIME Sniffing Standard,
 *  "binary data byte". */
export function sniffedCodings(head: Uint8Array): Coding[] | undefined {
  const [first, second, third, fourth] = head;
  if (first === 0x1f && second === 0x8b && third === 8) return ['gzip'];
  const isZstd = first === 0x28 && second === 0xb5 && third === 0x2f && fourth === 0xfd;
  if (isZstd) return createZstd === undefined ? undefined : ['zstd'];
  // A byte order mark of UTF-16, whose text has many NULs.
  const isUtf16 = (first === 0xfe && second === 0xff) || (first === 0xff && second === 0xfe);
  return isUtf16 || !head.subarray(0, sniffBytes).some(isBinary) ? [] : undefined;
}

function isBinary(byte: number): boolean {
  if (byte >= 0x20) return false;
  return byte <= 8 || byte === 0x0b || (byte >= 0x0e && byte !== 0x1b);
}

/** Value of Accept-Encoding. */
export const acceptedCodings = `gzip, deflate, br${createZstd === undefined ? '' : ', zstd'}`;

/** Bytes that `looksLikeHtml` needs at most. */
export const sniffBytes = 512;
const htmlStart =
  /^[\t\n\f\r ]*(?:<!--|<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[ >])/i;

/** Returns whether a body without Content-Type begins like HTML. */
export function looksLikeHtml(head: Uint8Array): boolean {
  const text = Buffer.from(head.subarray(0, sniffBytes)).toString('latin1');
  return htmlStart.test(text.startsWith('\xef\xbb\xbf') ? text.slice(3) : text);
}

/**
 * Reads the heads of HTTP/1 answers that are plain, which nearly all are: written by the standard,
 * in one way only, and with a body whose end is declared once. All others are undici's. Pure; the
 * plain connection calls it.
 * Source: RFC 9112, 4 to 6.3 and 9.3.
 */
import { fieldName, fieldsOf, type Headers } from './content.ts';

/** The end of a body: after so many bytes, after its last chunk, or with the connection. */
type BodyLength = number | 'chunked' | 'connection';

export type PlainHead = {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  readonly length: BodyLength;
  /** How long the connection may wait for its next request, in ms. Undefined: it ends. */
  readonly keptMs: number | undefined;
};

/** Longest head that may be plain. */
export const plainHeadBytesMax = 16 << 10;

const text = '[\\t\\x20-\\x7e]*';
const value = '[\\t\\x20-\\x7e\\x80-\\xff]*';
const plainLines = new RegExp(
  `^HTTP/1\\.[01] [2-5][0-9]{2}(?: ${text})?(?:\\r\\n${fieldName}:${value})*$`,
);
const plainStart = new RegExp(`^(?:${fieldName}(?::${value}\\r?)?)?$`);
const framingLine = /^(?:content-length|transfer-encoding|(?:proxy-)?connection|upgrade):/i;
const shortest = 'HTTP/1.1 200';
/** As undici: for hosts that name no time, and what is taken off the time of others. */
const keptMsDefault = 4_000;
const keptMsMax = 600_000;
const leadMs = 2_000;

/** `text`: a head as Latin-1, without its last line end and the empty line. Undefined: not plain. */
export function readPlainHead(text: string): PlainHead | undefined {
  if (!plainLines.test(text)) return undefined;
  const statusEnd = text.indexOf('\r\n');
  const headers = readFields(text, statusEnd < 0 ? text.length : statusEnd);
  if (headers === undefined) return undefined;
  const status = Number(text.slice(9, 12));
  const isOld = text.charCodeAt(7) === 0x30;
  const length = lengthOf(headers, status, isOld);
  const end = connectionEndOf(headers, isOld);
  if (length === undefined || end === undefined) return undefined;
  const keptMs = end === 'now' || length === 'connection' ? undefined : keptMsOf(headers);
  const statusText = text.slice(13, statusEnd < 0 ? text.length : statusEnd);
  return { status, statusText, headers, length, keptMs };
}

/** Can this text, which is not a whole head, become a plain one? Otherwise undici says what is
 *  wrong with it, also if no more comes. */
export function mayBecomePlain(text: string): boolean {
  if (text.length < shortest.length) return plainLines.test(text + shortest.slice(text.length));
  const lastAt = text.lastIndexOf('\r\n');
  if (lastAt < 0) return plainLines.test(text.replace(/\r$/, ''));
  const line = text.slice(lastAt + 2);
  return (
    readPlainHead(text.slice(0, lastAt)) !== undefined &&
    (line === '\r' || plainStart.test(line)) &&
    !framingLine.test(line)
  );
}

function readFields(text: string, statusEnd: number): Headers | undefined {
  const headers: Record<string, string | string[]> = {};
  let at = statusEnd + 2;
  while (at < text.length) {
    const lineEnd = text.indexOf('\r\n', at);
    const end = lineEnd < 0 ? text.length : lineEnd;
    const colon = text.indexOf(':', at);
    const name = text.slice(at, colon).toLowerCase();
    let from = colon + 1;
    while (from < end && isBlank(text.charCodeAt(from))) from++;
    // Whether blanks at its end belong to it, undici decides.
    if (from < end && isBlank(text.charCodeAt(end - 1))) return undefined;
    const value = text.slice(from, end);
    const given = headers[name];
    if (given === undefined) headers[name] = value;
    else if (Array.isArray(given)) given.push(value);
    else if (typeof given === 'string') headers[name] = [given, value];
    // A name that every object has.
    else return undefined;
    at = end + 2;
  }
  return headers;
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** `isOld`: HTTP/1.0. Undefined: not plain. */
function connectionEndOf(headers: Headers, isOld: boolean): 'now' | 'later' | undefined {
  const { connection } = headers;
  if (headers['upgrade'] !== undefined || headers['proxy-connection'] !== undefined) {
    return undefined;
  }
  if (connection === undefined) return isOld ? 'now' : 'later';
  const option = typeof connection === 'string' ? connection.toLowerCase() : undefined;
  if (option === 'close') return 'now';
  return option === 'keep-alive' && !isOld ? 'later' : undefined;
}

function keptMsOf(headers: Headers): number {
  const terms = fieldsOf(headers, 'keep-alive').join('');
  const [, seconds] = /timeout=(\d+)/.exec(terms) ?? [];
  if (seconds === undefined) return keptMsDefault;
  return Math.max(0, Math.min(Number(seconds) * 1_000 - leadMs, keptMsMax));
}

/** Undefined: not plain. */
function lengthOf(headers: Headers, status: number, isOld: boolean): BodyLength | undefined {
  const { 'content-length': length, 'transfer-encoding': coding } = headers;
  const hasNone = length === undefined && coding === undefined;
  if (status === 204 || status === 304) return hasNone ? 0 : undefined;
  if (hasNone) return 'connection';
  if (coding === undefined) {
    return typeof length === 'string' && /^[0-9]{1,15}$/.test(length) ? Number(length) : undefined;
  }
  const isChunked = typeof coding === 'string' && coding.toLowerCase() === 'chunked';
  return isChunked && length === undefined && !isOld ? 'chunked' : undefined;
}

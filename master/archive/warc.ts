/**
 * Records of a WARC file, as bytes before compression. Pure.
 *
 *     WARC/1.1 CRLF | fields, each with CRLF | CRLF | block | CRLF CRLF
 *
 * Source: ISO 28500:2017 (WARC 1.1), https://iipc.github.io/warc-specifications/
 */
import { createHash, hash as hashOf } from 'node:crypto';

export type WarcType =
  | 'warcinfo'
  | 'request'
  | 'response'
  | 'revisit'
  | 'metadata'
  | 'conversion'
  | 'resource';

/** Fields of a record in their order; a value of undefined is left out. */
export type WarcFields = readonly (readonly [name: string, value: string | undefined])[];

/** The head of a record, to be followed by its block and `recordEnd`. */
export function recordHead(
  type: WarcType,
  id: string,
  date: string,
  fields: WarcFields,
  blockBytes: number,
): Buffer {
  let head = `WARC/1.1\r\nWARC-Type: ${type}\r\nWARC-Record-ID: ${id}\r\nWARC-Date: ${date}\r\n`;
  for (const [name, value] of fields) {
    if (value !== undefined) head += `${name}: ${value}\r\n`;
  }
  return Buffer.from(`${head}Content-Length: ${blockBytes}\r\n\r\n`, 'utf8');
}

export const recordEnd = Buffer.from('\r\n\r\n');

/** The name of a record: a UUID made of what names its crawl for ever, and its number there. The
 *  same record always has the same. Source: RFC 9562, 5.8. */
export function recordId(crawlUid: Uint8Array, seq: number): string {
  const name = Buffer.alloc(crawlUid.length + 8);
  name.set(crawlUid);
  name.writeBigUInt64BE(BigInt(seq), crawlUid.length);
  const hash = hashOf('sha256', name, 'buffer').subarray(0, 16);
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x80, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = hash.toString('hex');
  const parts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return `<urn:uuid:${parts.join('-')}-${hex.slice(20)}>`;
}

/** `sha1:` and the digest in base32, as most tools write it. */
export function digestOf(chunks: readonly Uint8Array[]): string {
  const [only] = chunks;
  if (only !== undefined && chunks.length === 1) {
    return `sha1:${base32(hashOf('sha1', only, 'buffer'))}`;
  }
  const hash = createHash('sha1');
  for (const chunk of chunks) hash.update(chunk);
  return `sha1:${base32(hash.digest())}`;
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Of bytes whose number is a multiple of five: no padding. Source: RFC 4648, 6. */
function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += letters[(held >> bits) & 31];
    }
    held &= (1 << bits) - 1;
  }
  return text;
}

/** Of a record: `2026-11-23T01:02:03.456Z`. */
export function warcDate(ms: number): string {
  return new Date(ms).toISOString();
}

/** A block of named fields, as warcinfo and metadata records have it. A value stays on its line. */
export function fieldsBlock(fields: WarcFields): Buffer {
  const lines = fields.flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value.replaceAll(/[\r\n]+/g, ' ')}\r\n`],
  );
  return Buffer.from(lines.join(''), 'utf8');
}

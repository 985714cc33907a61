/**
 * Reads WARC files, one gzip member a record, in their order. A file is read in slices: of a record
 * only as much is in memory as it has, and no more than a limit. Our own files and those of others.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { crc32, inflateRawSync } from 'node:zlib';
import { ConfigError, codeOf } from '../../shared/errors.ts';

/** Of one record, unpacked. */
const recordBytesMax = 256 << 20;
const sliceBytes = 1 << 20;

export type WarcRecord = {
  /** Where its member begins in the file, and the bytes of that. */
  readonly offset: number;
  readonly length: number;
  readonly type: string;
  /** Names in lower case. */
  readonly fields: ReadonlyMap<string, string>;
  readonly block: Buffer;
};

type Range = {
  readonly offset?: number;
  readonly end?: number;
  /** The file may still be written: called when its last record is not whole, which ends the
   *  reading; default: that is an error. */
  readonly onCut?: (at: number) => void;
};

/** The records from `offset` on, up to `end` (default: of the file).
 *  @throws ConfigError it is not a WARC file of gzip members, or damaged: the message says where */
export async function* warcRecords(
  path: string,
  { offset = 0, end = Number.POSITIVE_INFINITY, onCut }: Range = {},
): AsyncGenerator<WarcRecord> {
  const file = await open(path, 'r');
  try {
    let at = offset;
    let held = Buffer.alloc(0);
    for (;;) {
      let member = memberOf(held);
      for (let wanted = sliceBytes; member === undefined; wanted *= 2) {
        const more = await read(file, at + held.length, Math.min(wanted, end - at - held.length));
        if (more.length === 0) {
          if (held.length === 0) return;
          // A damaged record may be all that is left.
          memberOf(held, () => damaged(path, at, noMember(held)));
          if (onCut !== undefined) {
            onCut(at);
            return;
          }
          throw damaged(path, at, 'it ends in the middle of a record');
        }
        held = Buffer.concat([held, more]);
        member = memberOf(held, () => damaged(path, at, noMember(held)));
      }
      const { bytes, content } = member;
      yield parsed(content, at, bytes, (why) => damaged(path, at, why));
      at += bytes;
      held = held.subarray(bytes);
    }
  } finally {
    await file.close();
  }
}

async function read(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  if (bytes <= 0) return Buffer.alloc(0);
  const buffer = Buffer.allocUnsafe(bytes);
  const { bytesRead } = await file.read(buffer, 0, bytes, at);
  return buffer.subarray(0, bytesRead);
}

const headBytes = 10;
const trailerBytes = 8;

/** The first gzip member; undefined: more of it is needed. Source: RFC 1952, 2.3. */
function memberOf(
  held: Buffer,
  refuse?: () => Error,
): { readonly bytes: number; readonly content: Buffer } | undefined {
  if (held.length < headBytes + trailerBytes) return undefined;
  const isGzip = held[0] === 0x1f && held[1] === 0x8b && held[2] === 8;
  if (!isGzip) {
    if (refuse === undefined) return undefined;
    throw refuse();
  }
  const begin = headOf(held);
  if (begin === undefined) return undefined;
  try {
    const options = { info: true, maxOutputLength: recordBytesMax } as const;
    const inflated = inflateRawSync(held.subarray(begin), options) as unknown as {
      buffer: Buffer;
      engine: { bytesWritten: number };
    };
    const bytes = begin + inflated.engine.bytesWritten + trailerBytes;
    if (bytes > held.length) return undefined;
    const sum = held.readUInt32LE(bytes - trailerBytes);
    if (crc32(inflated.buffer) !== sum) throw new Error('its checksum is wrong');
    return { bytes, content: inflated.buffer };
  } catch (error) {
    if (codeOf(error) === 'Z_BUF_ERROR') return undefined;
    if (refuse === undefined) return undefined;
    throw refuse();
  }
}

/** Where the content of a member begins; undefined: its head is longer than what is held. */
function headOf(held: Buffer): number | undefined {
  const flags = held[3] ?? 0;
  let at = headBytes;
  if (flags & 4) at += 2 + held.readUInt16LE(at);
  for (const flag of [8, 16]) {
    if ((flags & flag) === 0) continue;
    const zero = held.indexOf(0, at);
    if (zero < 0) return undefined;
    at = zero + 1;
  }
  if (flags & 2) at += 2;
  return at + trailerBytes > held.length ? undefined : at;
}

/** WARC files of some other programs. */
const oneMember = 'it holds several records in one gzip member (write it anew: warcio recompress)';
const plain = 'its records are not compressed (write it anew: warcio recompress)';

function parsed(
  content: Buffer,
  offset: number,
  length: number,
  refuse: (why: string) => Error,
): WarcRecord {
  const none = 'it holds no WARC record';
  const headEnd = content.indexOf('\r\n\r\n');
  const [version = '', ...lines] = content.toString('utf8', 0, Math.max(0, headEnd)).split('\r\n');
  if (!/^WARC\/\d/.test(version)) throw refuse(none);
  const fields = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const bytes = Number(fields.get('content-length') ?? Number.NaN);
  const begin = headEnd + 4;
  if (!Number.isSafeInteger(bytes) || begin + bytes > content.length) throw refuse(none);
  // Two line ends stand behind a record; more would be read by nobody.
  if (content.toString('latin1', begin + bytes).trim() !== '') throw refuse(oneMember);
  const type = fields.get('warc-type') ?? '';
  return { offset, length, type, fields, block: content.subarray(begin, begin + bytes) };
}

function noMember(held: Buffer): string {
  return held.toString('latin1', 0, 5) === 'WARC/' ? plain : 'it holds no gzip member';
}

function damaged(path: string, at: number, why: string): ConfigError {
  return new ConfigError(
    `${path}: ${why} at byte ${at}; give the archive of a crawl, or repair it`,
  );
}

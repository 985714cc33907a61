/**
 * A strict reader of WARC files, which shares no code with the program: it refuses what warcio's
 * `check` refuses (framing, lengths, digests), and more. Source: ISO 28500 (WARC 1.1).
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { crc32, inflateRawSync } from 'node:zlib';

export type Warc = {
  readonly file: string;
  readonly offset: number;
  readonly length: number;
  readonly type: string;
  readonly fields: Readonly<Record<string, string>>;
  readonly block: Buffer;
  /** Of a response: what stands behind its head. */
  readonly payload: Buffer;
};

/** All records of the archive in a folder, file by file. `isOneOnly`: no record is there twice. */
export function readArchive(folder: string, { isOneOnly = true } = {}): Warc[] {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const files = names.filter((name) => name.endsWith('.warc.gz')).sort();
  const records = files.flatMap((name) => readWarc(join(folder, name)));
  if (!isOneOnly) return records;
  const ids = records.map(({ fields }) => fields['warc-record-id']);
  assert.equal(new Set(ids).size, ids.length, 'every record has an id of its own');
  return records;
}

function readWarc(path: string): Warc[] {
  const file = readFileSync(path);
  const records: Warc[] = [];
  for (let at = 0; at < file.length; ) {
    const where = `${basename(path)} at ${at}`;
    assert.equal(file.readUInt32BE(at) >>> 8, 0x1f8b08, where);
    assert.equal(file[at + 3], 0, `${where}: no optional fields`);
    const { buffer, engine } = inflateRawSync(file.subarray(at + 10), {
      info: true,
    }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
    const end = at + 10 + engine.bytesWritten;
    assert.equal(file.readUInt32LE(end), crc32(buffer), `${where}: checksum`);
    assert.equal(file.readUInt32LE(end + 4), buffer.length, `${where}: length`);
    records.push({
      file: basename(path),
      offset: at,
      length: end + 8 - at,
      ...recordIn(buffer, where),
    });
    at = end + 8;
  }
  assert.equal(records[0]?.type, 'warcinfo', path);
  assert.equal(records[0]?.fields['warc-filename'], basename(path));
  return records;
}

function recordIn(content: Buffer, where: string) {
  const headEnd = content.indexOf('\r\n\r\n');
  assert.ok(headEnd > 0, where);
  const [version, ...lines] = content.toString('utf8', 0, headEnd).split('\r\n');
  assert.equal(version, 'WARC/1.1', where);
  const fields: Record<string, string> = {};
  for (const line of lines) {
    const [, name = '', value = ''] = /^([A-Za-z-]+): (.+)$/.exec(line) ?? [];
    assert.notEqual(name, '', `${where}: ${line}`);
    assert.equal(fields[name.toLowerCase()], undefined, `${where}: ${name} twice`);
    fields[name.toLowerCase()] = value;
  }
  const bytes = Number(fields['content-length']);
  const block = content.subarray(headEnd + 4, headEnd + 4 + bytes);
  assert.equal(block.length, bytes, where);
  assert.equal(content.toString('latin1', headEnd + 4 + bytes), '\r\n\r\n', where);
  assert.match(
    fields['warc-record-id'] ?? '',
    /^<urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}>$/,
  );
  assert.match(fields['warc-date'] ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const type = fields['warc-type'] ?? '';
  if (type !== 'warcinfo') assert.ok(URL.canParse(fields['warc-target-uri'] ?? ''), where);
  checkDigest(fields['warc-block-digest'], block, `${where}: block`);
  const payload = block.subarray(block.indexOf('\r\n\r\n') + 4);
  if (type === 'response') {
    assert.match(block.toString('latin1', 0, 16), /^HTTP\/1\.1 \d{3}/, where);
    checkDigest(fields['warc-payload-digest'], payload, `${where}: payload`);
  }
  return { type, fields, block, payload };
}

function checkDigest(said: string | undefined, bytes: Buffer, where: string): void {
  if (said === undefined) return;
  const bits = [...createHash('sha1').update(bytes).digest()]
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('');
  const text = (bits.match(/.{5}/g) ?? [])
    .map((five) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(five, 2)])
    .join('');
  assert.equal(said, `sha1:${text}`, where);
}

/** The index of every file has a line for each response and revisit, at its place; that of a file
 *  that is closed is sorted. */
export function checkIndexes(folder: string, records: readonly Warc[], isClosed = true): void {
  const wanted = records.filter(({ type }) => type === 'response' || type === 'revisit');
  const found: string[] = [];
  for (const name of readdirSync(folder).filter((one) => one.endsWith('.cdxj'))) {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
    if (isClosed) assert.deepEqual(lines, [...lines].sort(), `${name} is sorted`);
    for (const line of lines) {
      const [, stamp, json = ''] = /^\S+\)\S* (\d{14}) (\{.+\})$/.exec(line) ?? [];
      assert.ok(stamp, line);
      const { url, offset, length, filename, digest } = JSON.parse(json) as Record<string, string>;
      found.push(`${filename} ${offset} ${length} ${url} ${digest}`);
    }
  }
  const places = wanted.map(({ file, offset, length, fields }) => {
    const digest = fields['warc-payload-digest']?.replace('sha1:', '') ?? '-';
    return `${file} ${offset} ${length} ${fields['warc-target-uri']} ${digest}`;
  });
  assert.deepEqual(found.sort(), places.sort());
}

/** How many answers of pages an archive has, by URL. */
export function answersOf(records: readonly Warc[]): Map<string, number> {
  const kinds = new Map<string, string>();
  for (const { type, fields, block } of records) {
    const refers = fields['warc-refers-to'];
    if (type === 'metadata' && refers !== undefined) kinds.set(refers, block.toString());
  }
  const answers = new Map<string, number>();
  for (const { type, fields } of records) {
    if (type !== 'response' && type !== 'revisit') continue;
    if (!/kind: page/.test(kinds.get(fields['warc-record-id'] ?? '') ?? '')) continue;
    const url = fields['warc-target-uri'] ?? '';
    answers.set(url, (answers.get(url) ?? 0) + 1);
  }
  return answers;
}

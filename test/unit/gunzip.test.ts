/** The gzip reader: the same as Node's where that reads, and more. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { deflateSync, gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { Gunzip } from '../../slave/fetch/gunzip.ts';
import { cpuMsSince } from '../support/cpu-time.ts';

function undo(parts: readonly Buffer[], format?: 'gzip' | 'zlib'): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stream = new Gunzip(16 << 10, format);
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.once('end', () => resolve(Buffer.concat(chunks)));
    stream.once('error', reject);
    for (const part of parts) stream.write(part);
    stream.end();
  });
}

function withHeader(flags: number, fields: Buffer, text: string): Buffer {
  const whole = gzipSync(text);
  whole[3] = flags;
  return Buffer.concat([whole.subarray(0, 10), fields, whole.subarray(10)]);
}

const texts = Buffer.from('name\0comment\0');
const full = Buffer.concat([Buffer.from([2, 0, 1, 2]), texts, Buffer.alloc(2)]);

test('gunzip: a body cut anywhere, of several members, with all that a header can have', async () => {
  const body = Buffer.concat([gzipSync('one '), withHeader(0x1f, full, 'two '), gzipSync('three')]);
  const stray = Buffer.concat([body, Buffer.from('\r\nstray')]);
  for (const bytes of [body, stray]) {
    for (let at = 0; at <= bytes.length; at++) {
      const parts = [bytes.subarray(0, at), bytes.subarray(at)];
      assert.equal((await undo(parts)).toString(), 'one two three', `cut at ${at}`);
    }
    const single = [...bytes].map((byte) => Buffer.from([byte]));
    assert.equal((await undo(single)).toString(), 'one two three');
  }
});

test('gunzip: what is cut off gives what was there, what is no gzip an error', async () => {
  const text = Array.from({ length: 2_000 }, (_, i) => `line ${i} `).join('');
  const whole = gzipSync(text);
  let before = 0;
  for (let end = 0; end <= whole.length; end += 97) {
    const read = (await undo([whole.subarray(0, end)])).toString();
    assert.ok(text.startsWith(read) && read.length >= before, `${end} bytes`);
    before = read.length;
  }
  assert.equal((await undo([whole.subarray(0, -8)])).toString(), text);
  for (const junk of ['no gzip', '\x1f\x8b\x09', '\x1f', '\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff']) {
    const bytes = Buffer.from(junk, 'latin1');
    if (junk.length > 1) await assert.rejects(undo([bytes]), { code: 'Z_DATA_ERROR' }, junk);
    else assert.equal((await undo([bytes])).length, 0);
  }
});

test('gunzip: a wrong checksum or length is no matter, as in browsers', async () => {
  for (const at of [-8, -4]) {
    const wrong = gzipSync('one ');
    wrong.writeUInt8(255 - wrong.readUInt8(wrong.length + at), wrong.length + at);
    assert.equal((await undo([wrong])).toString(), 'one ');
    assert.equal((await undo([wrong, gzipSync('two')])).toString(), 'one two');
  }
});

test('gunzip: zlib with its checksum, without, with a wrong one, and with bytes behind', async () => {
  const whole = deflateSync('one two three');
  const data = whole.subarray(0, -4);
  for (const end of [whole.subarray(-4), '', 'xx', 'xxxx', 'xxxxxxx', whole]) {
    const bytes = Buffer.concat([data, Buffer.from(end)]);
    for (let at = 0; at <= bytes.length; at++) {
      const parts = [bytes.subarray(0, at), bytes.subarray(at)];
      assert.equal((await undo(parts, 'zlib')).toString(), 'one two three');
    }
  }
  const stream = new Gunzip(16 << 10, 'zlib').resume();
  stream.end(data.subarray(0, -1));
  await once(stream, 'end');
  assert.equal(stream.isCut, true);
  for (const head of ['no', 'x\x9d', 'x\xbb'])
    await assert.rejects(undo([Buffer.from(`${head}ab`, 'latin1')], 'zlib'), {
      code: 'Z_DATA_ERROR',
    });
});

test('gunzip: any bytes in any parts come out as Node has them', async () => {
  const content = fc.uint8Array({ maxLength: 100_000 });
  const property = fc.asyncProperty(
    fc.array(content, { minLength: 1, maxLength: 3 }),
    fc.array(fc.nat(200_000), { maxLength: 5 }),
    async (members, cuts) => {
      const bytes = Buffer.concat(members.map((member) => gzipSync(member, { level: 1 })));
      const inside = cuts.map((cut) => cut % (bytes.length + 1));
      const at = [0, ...inside, bytes.length].sort((a, b) => a - b);
      const parts = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
      assert.ok((await undo(parts)).equals(gunzipSync(bytes)));
    },
  );
  await fc.assert(property, { numRuns: 100 });
});

test('gunzip: a great many empty members end soon', async () => {
  const empty = gzipSync('');
  const members = Buffer.concat(Array.from({ length: 200_000 }, () => empty));
  const started = process.cpuUsage();
  assert.equal((await undo([members, gzipSync('late')])).length, 0);
  assert.ok(cpuMsSince(started) < 10_000, `${cpuMsSince(started)} ms`);
});

test('gunzip: it waits for its reader', async () => {
  const stream = new Gunzip(16 << 10);
  const bomb = gzipSync(Buffer.alloc(50 << 20));
  stream.write(bomb);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(stream.readableLength <= 256 << 10, `${stream.readableLength} bytes`);
  stream.destroy();
});

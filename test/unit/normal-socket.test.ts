/** Corrected heads of answers, cut anywhere, in memory. */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import test from 'node:test';
import fc from 'fast-check';
import { NormalSocket } from '../../slave/fetch/normal-socket.ts';
import { OddOrigins } from '../../slave/fetch/odd-origins.ts';
import { readHead } from '../../slave/fetch/response-head.ts';
import { cpuMsSince } from '../support/cpu-time.ts';
import { oddForms, refusedForms } from '../support/odd-host.ts';

const body = '<title>t</title><a href=next>n</a>\n\nHTTP/1.1 200 OK\n\n';

class Wire extends Duplex {
  written = '';

  ref(): void {}

  unref(): void {}

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.written += chunk.toString('latin1');
    done();
  }
}

/** The bytes that come out of these parts, or the error. */
async function passed(parts: readonly Buffer[]): Promise<{ text: string; isOdd?: boolean }> {
  const wire = new Wire();
  let isOdd: boolean | undefined;
  const socket = new NormalSocket(wire, (odd) => {
    isOdd = odd;
  });
  let text = '';
  const ended = new Promise<void>((resolve) => socket.on('close', resolve));
  let error = '';
  socket.on('error', ({ message }) => {
    error = message;
  });
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  for (const part of parts) wire.push(part);
  wire.push(null);
  await ended;
  if (error !== '') return { text: error };
  return { text, ...(isOdd !== undefined && { isOdd }) };
}

function halves(bytes: Buffer, at: number): Buffer[] {
  return [bytes.subarray(0, at), bytes.subarray(at)];
}

test('normal socket: every form comes out strict, and its body untouched', async () => {
  for (const [name, form] of Object.entries(oddForms(body))) {
    const { text, isOdd } = await passed([Buffer.from(form, 'latin1')]);
    const [head = '', ...rest] = text.split('\r\n\r\n');
    assert.match(head, /^HTTP\/1\.1 200 \r\n(?:[!-9;-~]+: [\t -~\x80-\xff]*(?:\r\n|$))+$/, name);
    assert.match(head, /content-type: text\/html/i, name);
    assert.match(head, /\r\nconnection: close$/, name);
    const after = rest.join('\r\n\r\n');
    const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    assert.equal(after, head.includes('chunked') ? chunked : body, name);
    assert.equal(isOdd, true, name);
  }
});

/** The same with all data in one chunk: how a body is divided depends on what came at once. */
function inOneChunk({ text, ...rest }: Awaited<ReturnType<typeof passed>>) {
  const end = text.indexOf('\r\n\r\n') + 4;
  const head = text.slice(0, end);
  if (!head.includes('chunked')) return { text, ...rest };
  let data = '';
  let left = text.slice(end);
  for (let size = -1; size !== 0 && left !== ''; ) {
    size = Number.parseInt(left, 16);
    const begin = left.indexOf('\r\n') + 2;
    data += left.slice(begin, begin + size);
    assert.ok(left.startsWith('\r\n', begin + size), left);
    left = left.slice(begin + size + 2);
    if (size === 0) left = `the last chunk, then ${left}`;
  }
  return { text: head, data, left, ...rest };
}

test('normal socket: a cut at any byte changes nothing', async () => {
  const refused = Object.entries(refusedForms(body)).map(([name, [form]]) => [name, form]);
  for (const [name = '', form = ''] of [...Object.entries(oddForms(body)), ...refused]) {
    const bytes = Buffer.from(form, 'latin1');
    const whole = inOneChunk(await passed([bytes]));
    const step = bytes.length > 2_000 ? 997 : 1;
    for (let at = 1; at < bytes.length; at += step) {
      assert.deepEqual(inOneChunk(await passed(halves(bytes, at))), whole, `${name}, cut at ${at}`);
    }
    if (bytes.length > 2_000) continue;
    const single = [...bytes].map((byte) => Buffer.from([byte]));
    assert.deepEqual(inOneChunk(await passed(single)), whole, `${name}, byte by byte`);
  }
});

test('normal socket: what a strict parser reads is not odd, and stays as it is', async () => {
  const fields = 'X-A: \xe4 b\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nx-a:\r\n';
  const bytes = Buffer.from(`HTTP/1.1 404 No\r\n${fields}Content-Length: 2\r\n\r\nabc`, 'latin1');
  assert.deepEqual(await passed([bytes]), {
    text: `HTTP/1.1 404 \r\n${fields.replace('x-a:', 'x-a: ')}content-length: 2\r\nconnection: close\r\n\r\nabc`,
    isOdd: false,
  });
});

test('normal socket: what is no answer ends at once, a head that is cut off ends nothing', async () => {
  assert.deepEqual(await passed([]), { text: '' });
  assert.deepEqual(await passed([Buffer.from('HTTP/1.1 200 OK\r\nX: ')]), { text: '' });
  const wire = new Wire();
  const socket = new NormalSocket(wire, () => {});
  const failed = new Promise<Error>((resolve) => socket.on('error', resolve));
  // A page by HTTP/0.9 that goes on for ever.
  wire.push(Buffer.from('<html>'));
  assert.match((await failed).message, /no HTTP status line/);
  assert.equal(wire.destroyed, true);
});

test('normal socket: it waits for its reader, and hands on what is written', async () => {
  const wire = new Wire();
  const socket = new NormalSocket(wire, () => {});
  wire.push(Buffer.from('HTTP/1.1 200 OK\n\n'));
  for (let i = 0; i < 100; i++) wire.push(Buffer.alloc(16 << 10));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(socket.readableLength < 128 << 10, `${socket.readableLength} bytes`);
  await new Promise((resolve) => socket.write('GET / HTTP/1.1\r\n', resolve));
  assert.equal(wire.written, 'GET / HTTP/1.1\r\n');
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  wire.push(null);
  await new Promise((resolve) => socket.on('end', resolve));
  assert.equal(bytes, (1_600 << 10) + 'HTTP/1.1 200 \r\nconnection: close\r\n\r\n'.length);
});

test('head: any head comes out strict or is refused, and a second reading changes nothing', () => {
  const byte = fc.integer({ min: 1, max: 0x7f }).filter((code) => code !== 10);
  const line = fc.array(byte, { maxLength: 20 }).map((codes) => String.fromCharCode(...codes));
  const field = fc.oneof(
    line,
    line.map((text) => `X:${text}`),
    fc.constantFrom('Content-Length: 5', 'Content-Length:5, 5', ' folded', 'Transfer-Encoding: x'),
  );
  const end = fc.constantFrom('\n', '\r\n', '\r\r\n');
  fc.assert(
    fc.property(fc.array(fc.tuple(field, end), { maxLength: 8 }), (fields) => {
      const text = fields.map(([content, stop]) => content + stop).join('');
      let head: ReturnType<typeof readHead>;
      try {
        head = readHead(Buffer.from(`HTTP/1.1 200 OK\r\n${text}\r\n`, 'latin1'));
      } catch (error) {
        assert.match(String(error), /^MalformedError: malformed answer: \w/);
        return;
      }
      assert.ok(head.kind === 'final');
      const strict =
        /^HTTP\/1\.1 200 \r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n)+\r\n$/;
      assert.match(head.bytes.toString('latin1'), strict);
      const again = readHead(head.bytes);
      assert.ok(again.kind === 'final' && !again.isOdd);
      assert.deepEqual(again.bytes, head.bytes);
    }),
    { numRuns: 2_000 },
  );
});

test('head: 64 KiB of any one byte take no time', () => {
  for (const byte of [' ', '\t', ',', ':', '\r', 'a', ';', '\n ', '\nContent-Length: 5']) {
    const value = `a${byte.repeat(Math.floor(65_000 / byte.length))}b`;
    const started = process.cpuUsage();
    for (const name of ['X', 'Content-Length', 'Transfer-Encoding']) {
      try {
        readHead(Buffer.from(`HTTP/1.1 200 OK\r\n${name}: ${value}\r\n\r\n`));
      } catch {}
    }
    const ms = cpuMsSince(started);
    assert.ok(ms < 1_000, `${JSON.stringify(byte)}: ${ms} ms`);
  }
});

test('odd origins: bounded, and forgotten after many good answers', () => {
  const origins = new OddOrigins();
  origins.add('http://a.example');
  for (let i = 0; i < 99; i++) origins.answered('http://a.example', false);
  assert.equal(origins.has('http://a.example'), true);
  origins.answered('http://a.example', true);
  for (let i = 0; i < 100; i++) origins.answered('http://a.example', false);
  assert.equal(origins.has('http://a.example'), false);
  origins.answered('http://b.example', true);
  assert.equal(origins.has('http://b.example'), false);
  for (let i = 0; i <= 10_000; i++) origins.add(`http://${i}.example`);
  assert.equal(origins.has('http://0.example'), false);
  assert.equal(origins.has('http://1.example'), true);
});

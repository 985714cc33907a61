/** Bodies that are as long as their heads say, and end inside what they compress. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import {
  brotliCompressSync,
  constants,
  createGzip,
  deflateRawSync,
  deflateSync,
  gzipSync,
} from 'node:zlib';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import type { FetchContext } from '../../slave/fetch/fetcher.ts';
import type { FetchOutcome } from '../../slave/fetch/outcome.ts';
import { OddHost } from '../support/odd-host.ts';
import { PageFetcher } from '../support/page-fetcher.ts';

const spec = fetchSpecSchema.parse({ timeoutMs: 5_000, allowPrivate: 'all' });
const never = new AbortController().signal;
/** Twice the bytes of one window, of which no two parts are equal. */
const lines = Array.from({ length: 6_000 }, (_, i) => `<p>line ${(i * 7_919) % 104_729}`).join('');
const text = `<title>t</title><a href=first>f</a>${lines}<a href=last>l</a>`;

function fetcherFor(t: TestContext): PageFetcher {
  const fetcher = new PageFetcher({ connections: 4 });
  t.after(() => fetcher.close());
  return fetcher;
}

function answer(coding: string, body: Uint8Array): Buffer {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "a"\r\n`;
  const rest = `Content-Encoding: ${coding}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head + rest), body]);
}

function get(t: TestContext, url: string, context: FetchContext = {}): Promise<FetchOutcome> {
  return fetcherFor(t).fetch(url, spec, never, { open: true, ...context });
}

function linksOf(outcome: FetchOutcome): string[] {
  assert.ok(outcome.ok, JSON.stringify(outcome));
  const paths = Buffer.from(outcome.links).toString('latin1').split('\n');
  return paths.map((url) => url.slice(url.lastIndexOf('/') + 1));
}

const half = (bytes: Buffer) => bytes.subarray(0, bytes.length / 2);

test('unfinished: such a body fails, and counts as incomplete at the last attempt', async (t) => {
  const host = await OddHost.start(t);
  const forms: [string, Buffer][] = [
    ['gzip', half(gzipSync(text))],
    ['none', half(gzipSync(text))],
    ['deflate', half(deflateSync(text))],
    ['deflate', half(deflateRawSync(text))],
    ['br', half(brotliCompressSync(text))],
    ['gzip, gzip', gzipSync(half(gzipSync(text)))],
    ['gzip, gzip', half(gzipSync(gzipSync(text, { level: 0 }), { level: 0 }))],
    ['br, gzip', gzipSync(half(brotliCompressSync(text)))],
    ['gzip, br', half(brotliCompressSync(gzipSync(text, { level: 0 })))],
    ['gzip', Buffer.concat([gzipSync('<title>t</title>'), half(gzipSync(text))])],
  ];
  for (const [coding, body] of forms) {
    host.answer('/', answer(coding, body));
    const failed = await get(t, host.url);
    assert.ok(!failed.ok && failed.isFinal === undefined, coding);
    const message = 'body ends inside its compressed data';
    assert.deepEqual(failed.error, { kind: 'protocol', message }, coding);
    const kept = await get(t, host.url, { last: true });
    assert.ok(kept.ok && kept.result.incomplete === true && kept.result.etag === undefined, coding);
    assert.ok(!linksOf(kept).includes('last'), coding);
    assert.ok(kept.result.bytes < text.length, coding);
  }
  // Half a robots.txt would be other rules.
  const rules = gzipSync(`User-agent: *\n${'Disallow: /a\n'.repeat(500)}Disallow: /b`);
  host.answer('/robots.txt', answer('gzip', half(rules)));
  const context = { open: true, last: true } as const;
  const file = await fetcherFor(t).fetchRobots(`${host.url}robots.txt`, spec, never, context);
  assert.equal(file.ok, false);
  // Nothing but a header: nothing of the page.
  host.answer('/', answer('gzip', gzipSync(text).subarray(0, 10)));
  assert.ok(!(await get(t, host.url, { last: true })).ok);
});

test('unfinished: a missing or wrong trailer, and a writer that only flushes, make a whole page', async (t) => {
  const host = await OddHost.start(t);
  const flushed = async (): Promise<Buffer> => {
    const stream = createGzip();
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.write(text);
    await new Promise<void>((resolve) => stream.flush(constants.Z_SYNC_FLUSH, resolve));
    return Buffer.concat(chunks);
  };
  const forms: [string, Buffer][] = [
    ['gzip', gzipSync(text).subarray(0, -8)],
    ['gzip', gzipSync(text).subarray(0, -3)],
    ['gzip', Buffer.concat([gzipSync(text).subarray(0, -8), Buffer.alloc(8)])],
    ['gzip', await flushed()],
    ['gzip', Buffer.concat([gzipSync(text), Buffer.from('stray')])],
    ['gzip, gzip', gzipSync(gzipSync(text))],
    ['br, gzip', gzipSync(brotliCompressSync(text))],
    ['deflate', deflateRawSync(text)],
  ];
  for (const [coding, body] of forms) {
    host.answer('/', answer(coding, body));
    const whole = await get(t, host.url, { last: true });
    assert.deepEqual(linksOf(whole), ['first', 'last'], coding);
    assert.ok(whole.ok && whole.result.incomplete === undefined, coding);
    assert.equal(whole.result.bytes, text.length, coding);
  }
});

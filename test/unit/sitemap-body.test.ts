/** Bodies of sitemaps: gzip by its bytes, bounds on both sides of it, and the parts on the wire. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { after, before } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { type FetchSpec, fetchSpecSchema } from '../../shared/crawl.ts';
import { sitemapBytesMax } from '../../slave/extract/sitemap.ts';
import { partsOf, type SitemapBody, SitemapBodyReader } from '../../slave/kinds/sitemap-body.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

type Answer = { status?: number; headers?: Record<string, string>; body?: Uint8Array | string };

const spec = fetchSpecSchema.parse({});
const answers = new Map<string, Answer>();
const never = new AbortController().signal;
let server: Server;
let origin = '';
let fetcher: PageFetcher;

before(async () => {
  server = createServer((request, response) => {
    const {
      status = 200,
      headers = {},
      body = '',
    } = answers.get(request.url ?? '') ?? {
      status: 404,
    };
    response.writeHead(status, headers).end(body);
  });
  // Bombs are made in this thread: a server that cannot look ends kept connections late.
  server.keepAliveTimeout = 60_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  fetcher = new PageFetcher({ connections: 4 });
});

after(async () => {
  await fetcher.close();
  server.closeAllConnections();
  server.close();
});

async function get(answer: Answer, options: Partial<FetchSpec> = {}) {
  answers.set('/map', answer);
  const context = seedHere;
  return await fetcher.fetchSitemap(`${origin}/map`, { ...spec, ...options }, never, context);
}

async function found(answer: Answer, options: Partial<FetchSpec> = {}): Promise<SitemapBody> {
  const outcome = await get(answer, options);
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return outcome.sitemap;
}

const text = 'http://a/1\nhttp://A:80/x/../2#f\nhttp://a/1\n';
const listed = { kind: 'text', urls: ['http://a/1', 'http://a/2'], images: [], cut: false };

test('sitemap body: URLs come out canonical, each once, whatever the type', async () => {
  assert.deepEqual(await found({ body: text }), listed);
  assert.deepEqual(await found({ body: text, headers: { 'content-type': 'text/html' } }), listed);
});

test('sitemap body: charset and URL of its answer count', async () => {
  const headers = { 'content-type': 'application/rss+xml; charset="windows-1251"' };
  const body = Buffer.from('<rss><item><link>../\xef</link></item></rss>', 'latin1');
  assert.deepEqual((await found({ body, headers })).urls, [`${origin}/%D0%BF`]);
});

test('sitemap body: gzip is known by its bytes, within a content coding, too', async () => {
  const body = gzipSync(text);
  assert.deepEqual(await found({ body }), listed);
  const headers = { 'content-encoding': 'gzip' };
  assert.deepEqual(await found({ body, headers }), listed);
  assert.deepEqual(await found({ body: gzipSync(body), headers }), listed);
  const two = Buffer.concat([gzipSync('http://a/1\n'), gzipSync('http://a/2\n')]);
  assert.deepEqual(await found({ body: two }), listed);
});

test('sitemap body: a broken gzip file keeps what was read', async () => {
  const long = Array.from({ length: 20_000 }, (_, i) => `http://a/${i * 7919}\n`).join('');
  const whole = gzipSync(long);
  const cut = await found({ body: whole.subarray(0, whole.length / 2) });
  assert.ok(cut.urls.length > 5_000 && cut.urls.length < 15_000);
  const half = whole.subarray(0, whole.length / 2);
  const broken = await found({ body: Buffer.concat([half, Buffer.alloc(1_000, 0xff)]) });
  assert.ok(broken.urls.length > 5_000 && broken.urls.length < 15_000);
  assert.equal(broken.cut, true);
  const wrongSum = Buffer.concat([whole.subarray(0, -8), Buffer.alloc(8)]);
  const all = await found({ body: wrongSum });
  assert.deepEqual([all.urls.length, all.cut], [20_000, false]);
});

test('sitemap body: a bomb ends at the limit, also a double one', async () => {
  const bomb = gzipSync(`http://a/1\n${' '.repeat(2 * sitemapBytesMax)}\nhttp://a/2`);
  const one = { kind: 'text', urls: ['http://a/1'], images: [], cut: true };
  assert.deepEqual(await found({ body: bomb }), one);
  // The outer coding is the header's: what comes out of it is bounded, too.
  const zeros = Buffer.concat([gzipSync('http://a/1\n'), Buffer.alloc(2 * sitemapBytesMax)]);
  const headers = { 'content-encoding': 'gzip' };
  const double = await found({ body: gzipSync(zeros), headers });
  assert.deepEqual(double.urls, ['http://a/1']);
});

test('sitemap body: images only where the crawl wants them', async () => {
  const body =
    '<urlset><url><loc>http://a/</loc><image:image><image:loc>http://b/1.png#x</image:loc>' +
    '</image:image></url></urlset>';
  assert.deepEqual((await found({ body })).images, ['http://b/1.png']);
  assert.deepEqual((await found({ body }, { images: ['img', 'sitemap'] })).images.length, 1);
  for (const images of ['img', ['srcset']] as const)
    assert.deepEqual((await found({ body }, { images: images as FetchSpec['images'] })).images, []);
});

test('sitemap body: what is no answer 200 lists nothing', async () => {
  const gone = await get({ status: 404, body: text });
  assert.ok(gone.ok);
  assert.deepEqual([gone.sitemap.kind, gone.result.error?.message], ['none', '404 Not Found']);
  const busy = await get({ status: 503, headers: { 'retry-after': '7' } });
  assert.deepEqual([busy.ok, !busy.ok && busy.retryAfterMs], [false, 7_000]);
  const moved = await get({ status: 301, headers: { location: 'http://b.test/map' } });
  assert.ok(moved.ok);
  assert.equal(moved.result.redirectedTo, 'http://b.test/map');
  answers.set('/next', { body: text });
  assert.deepEqual(await found({ status: 302, headers: { location: '/next' } }), listed);
  assert.deepEqual((await found({ body: '<html><p>Not found' })).kind, 'none');
});

const anyBytes = fc.oneof(
  fc.uint8Array(),
  fc.uint8Array().map((bytes) => new Uint8Array(gzipSync(bytes))),
  fc.uint8Array().map((bytes) => Uint8Array.of(0x1f, 0x8b, ...bytes)),
  fc.constant(new Uint8Array(gzipSync(text))),
);

test('sitemap body: no bytes make it throw or wait for ever', async () => {
  await fc.assert(
    fc.asyncProperty(anyBytes, fc.nat(64), async (bytes, at) => {
      const reader = new SitemapBodyReader(spec, { onRoom: () => {}, onEnough: () => {} });
      for (const chunk of [bytes.subarray(0, at), bytes.subarray(at)])
        if (reader.write(chunk) === 'enough') break;
      const body = await reader.end();
      assert.ok(body.urls.length <= 128);
      reader.close();
    }),
    { numRuns: 500 },
  );
});

test('sitemap body: its parts are small and have all of it', () => {
  const urls = fc.array(fc.webUrl(), { maxLength: 40 });
  fc.assert(
    fc.property(urls, urls, fc.integer({ min: 1, max: 300 }), (pages, images, bytesMax) => {
      const body = { kind: 'urlset', urls: pages, images, cut: false } as const;
      const parts = partsOf(body, bytesMax);
      assert.ok(parts.length > 0);
      const longest = Math.max(0, ...pages.concat(images).map((url) => url.length));
      const all = (name: 'urls' | 'images') =>
        parts
          .map((part) => Buffer.from(part[name]).toString('latin1'))
          .filter((joined) => joined !== '')
          .flatMap((joined) => joined.split('\n'));
      assert.deepEqual(all('urls'), pages);
      assert.deepEqual(all('images'), images);
      for (const part of parts)
        assert.ok(
          part.urls.length <= bytesMax + longest && part.images.length <= bytesMax + longest,
        );
    }),
  );
});

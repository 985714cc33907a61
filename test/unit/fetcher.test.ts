import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server as NetServer } from 'node:net';
import test, { after, before } from 'node:test';
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import {
  brotliCompress,
  brotliCompressSync,
  constants,
  deflate,
  deflateRawSync,
  deflateSync,
  gzip,
  gzipSync,
} from 'node:zlib';
import { type FetchSpec, fetchSpecSchema } from '../../shared/crawl.ts';
import { resultSchema } from '../../shared/result-fields.ts';
import { CookieJar } from '../../slave/fetch/cookies.ts';
import type { FetchOutcome, Turn } from '../../slave/fetch/outcome.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } };
/** Where this Node has it. */
const zstdCompress: ((bytes: Uint8Array) => Buffer) | undefined = Reflect.get(
  zlib,
  'zstdCompressSync',
);
const handlers = new Map<string, Handler>();
const html = { 'content-type': 'text/html; charset=utf-8' };
const page = '<title>t</title><a href=next>n</a><img src=i.png alt=a>';
const spec = fetchSpecSchema.parse({});
const never = new AbortController().signal;
let server: Server;
let origin = '';
let fetcher: PageFetcher;

before(async () => {
  server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?')[0] ?? '/';
    const handler = handlers.get(path);
    if (handler) handler(request, response);
    else response.writeHead(404, html).end('<a href=no>');
  });
  origin = `http://127.0.0.1:${await listen(server)}`;
  fetcher = new PageFetcher({ connections: 8 });
});

after(async () => {
  await fetcher.close();
  await fetcher.close();
  server.closeAllConnections();
  server.close();
});

async function listen(target: NetServer): Promise<number> {
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  const address = target.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address.port;
}

function get(path: string, options: Partial<FetchSpec> = {}): Promise<FetchOutcome> {
  return fetcher.fetch(origin + path, { ...spec, ...options }, never, seedHere);
}

function serve(path: string, handler: Handler): void {
  handlers.set(path, handler);
}

function send(path: string, status: number, headers: Record<string, string>, body = ''): void {
  serve(path, (_, response) => response.writeHead(status, headers).end(body));
}

function text(outcome: FetchOutcome): string {
  return outcome.ok ? Buffer.from(outcome.links).toString('latin1') : '';
}

/** The result of a definite outcome, checked against the schema of the wire. */
function result(outcome: FetchOutcome) {
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return resultSchema.parse(outcome.result);
}

function failure(outcome: FetchOutcome) {
  assert.ok(!outcome.ok, 'the fetch did not fail');
  assert.ok(!/[\n/]/.test(outcome.error.message), outcome.error.message);
  return outcome;
}

test('fetch: a page gives its result, images and links', async () => {
  send('/page', 200, html, page);
  const outcome = await get('/page#fragment');
  const { ms, ...rest } = result(outcome);
  assert.ok(ms >= 0);
  assert.deepEqual(rest, {
    finalUrl: `${origin}/page`,
    status: 200,
    type: 'text/html',
    charset: 'utf-8',
    bytes: page.length,
    title: 't',
  });
  assert.equal(text(outcome), `${origin}/next`);
  assert.deepEqual(outcome.ok && outcome.images, [
    { src: `${origin}/i.png`, via: 'img', alt: 'a' },
  ]);
});

test('fetch: any success with an HTML body is a page', async () => {
  for (const status of [200, 201, 202, 203, 206, 226, 299]) {
    send('/success', status, html, page);
    const outcome = await get('/success');
    assert.equal(result(outcome).status, status);
    assert.equal(text(outcome), `${origin}/next`, `${status}`);
    send('/success', status, {}, page);
    assert.equal(text(await get('/success')), `${origin}/next`, `${status} without a type`);
  }
  for (const status of [204, 205, 404, 410]) {
    send('/success', status, html, page);
    assert.equal(text(await get('/success')), '', `${status}`);
  }
});

test('fetch: the type alone makes a page XHTML', async () => {
  const body = '<title/><script src="s"/><a href="/next"/>';
  for (const [path, type, expected] of [
    ['/page.html', 'application/xhtml+xml', `${origin}/next`],
    ['/page.html', 'Application/XHTML+XML; charset=utf-8', `${origin}/next`],
    ['/page.xhtml', 'text/html', ''],
  ] as const) {
    send(path, 200, { 'content-type': type }, body);
    assert.equal(text(await get(path)), expected, type);
  }
});

test('fetch: a part of a page is a page that is cut', async () => {
  const size = page.length;
  const ranges = {
    [`bytes 0-${size - 1}/${size}`]: undefined,
    [`bytes 0-${size - 1}/${size + 1}`]: true,
    [`bytes 0-${size - 1}/*`]: true,
    nonsense: true,
  };
  for (const [range, cut] of Object.entries(ranges)) {
    send('/part', 206, { ...html, 'content-range': range, etag: '"part"' }, page);
    const found = result(await get('/part'));
    assert.deepEqual([found.cut, found.etag, found.title], [cut, undefined, 't'], range);
  }
});

test('fetch: of two types the last one counts', async () => {
  serve('/types', (_, response) => {
    response.writeHead(200, ['content-type', 'text/plain', 'content-type', 'text/html']);
    response.end(page);
  });
  assert.equal(text(await get('/types')), `${origin}/next`);
});

test('fetch: the request names the agent and the codings that are understood', async () => {
  let headers: IncomingMessage['headers'] = {};
  serve('/headers', (request, response) => {
    headers = request.headers;
    response.writeHead(200, html).end();
  });
  await get('/headers', { userAgent: 'Test/1' });
  assert.equal(headers['user-agent'], 'Test/1');
  const zstd = zstdCompress === undefined ? '' : ', zstd';
  assert.equal(headers['accept-encoding'], `gzip, deflate, br${zstd}`);
});

test('fetch: gzip, deflate (both kinds) and br are undone, bytes counted after', async () => {
  const long = page + ' '.repeat(200_000);
  const codings: [string, Buffer][] = [
    ['gzip', gzipSync(long)],
    ['x-gzip', gzipSync(long)],
    ['deflate', deflateSync(long)],
    ['deflate', deflateRawSync(long)],
    ['br', brotliCompressSync(long)],
    ['gzip, br', brotliCompressSync(gzipSync(long))],
    ...(zstdCompress ? [['zstd', zstdCompress(Buffer.from(long))] as [string, Buffer]] : []),
    ['identity', Buffer.from(long)],
  ];
  for (const [coding, body] of codings) {
    serve('/coded', (_, response) =>
      response.writeHead(200, { ...html, 'content-encoding': coding }).end(body),
    );
    const outcome = await get('/coded');
    assert.equal(result(outcome).bytes, long.length, coding);
    assert.equal(text(outcome), `${origin}/next`, coding);
  }
});

test('fetch: broken and unknown codings are protocol failures', async () => {
  for (const [coding, body] of [
    ['gzip', 'no gzip'],
    ['br', 'no brotli at all, none'],
    ['zip', 'PK\x03\x04 no text'],
    ['zstd', '\x28\xb5\x2f\xfd no zstd'],
    ['gzip, gzip, gzip', page],
    ['zip', '\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff'],
  ] as const) {
    serve('/broken', (_, response) => {
      response.writeHead(200, { ...html, 'content-encoding': coding });
      response.end(Buffer.from(body, 'latin1'));
    });
    const { error, isFinal } = failure(await get('/broken'));
    assert.deepEqual([error.kind, isFinal], ['protocol', true], `${coding}: ${error.message}`);
    const robots = await fetcher.fetchRobots(`${origin}/broken`, spec, never, seedHere);
    assert.ok(!robots.ok && robots.isFinal, coding);
  }
});

test('fetch: of codings that nobody knows the first bytes say what the body is', async () => {
  const bodies: [string, Buffer][] = [
    ['plain', Buffer.from(page)],
    ['one byte', Buffer.from('<')],
    ['empty', Buffer.from('')],
    ['long', Buffer.from(page + ' '.repeat(100_000))],
    ['a byte order mark', Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(page, 'utf16le')])],
    ['gzip', gzipSync(page)],
  ];
  const codings = ['none', 'UTF-8', 'utf8', 'text/html', 'binary', '8bit', 'none, gzip', 'null'];
  for (const coding of codings) {
    for (const [name, body] of bodies) {
      serve('/token', (_, response) => {
        response.writeHead(200, {
          ...html,
          'content-type': 'text/html',
          'content-encoding': coding,
        });
        for (const byte of body.subarray(0, 20)) response.write(Buffer.from([byte]));
        response.end(body.subarray(20));
      });
      const outcome = await get('/token');
      result(outcome);
      const isPage = body.length > 1;
      assert.equal(text(outcome), isPage ? `${origin}/next` : '', `${coding}, ${name}`);
    }
  }
  // Where this Node knows zstd it undoes it; else only a body that is text is read.
  send('/token', 200, { ...html, 'content-encoding': 'zstd' }, page);
  assert.equal((await get('/token')).ok, zstdCompress === undefined);
});

test('fetch: a transfer coding that nobody has asked for is undone, if it is there', async () => {
  for (const body of [gzipSync(page), Buffer.from(page)]) {
    serve('/transfer', (_, response) =>
      response.writeHead(200, { ...html, 'transfer-encoding': 'gzip, chunked' }).end(body),
    );
    const outcome = await get('/transfer');
    assert.deepEqual([result(outcome).bytes, text(outcome)], [page.length, `${origin}/next`]);
  }
});

test('fetch: a bomb of any coding is cut at the limit and costs no memory', async () => {
  // Made in other threads: a server that cannot look ends its kept connections late, under a fetch.
  const long = Buffer.concat([Buffer.from(page), Buffer.alloc(300 << 20, 0x20)]);
  const zipped = await promisify(gzip)(long);
  const bombs: [string, Buffer][] = [
    ['gzip', zipped],
    ['deflate', await promisify(deflate)(long)],
    ['br', await promisify(brotliCompress)(long, quick)],
    ['gzip, gzip', gzipSync(zipped)],
    ...(zstdCompress ? [['zstd', zstdCompress(long)] as [string, Buffer]] : []),
  ];
  for (const [coding, bomb] of bombs) {
    serve('/bomb', (_, response) =>
      response.writeHead(200, { ...html, 'content-encoding': coding }).end(bomb),
    );
    const before = process.memoryUsage().rss;
    const outcome = await get('/bomb', { bodyBytesMax: 1 << 20 });
    assert.ok(process.memoryUsage().rss - before < 64 << 20, coding);
    assert.deepEqual([result(outcome).bytes, result(outcome).cut], [1 << 20, true], coding);
    assert.equal(text(outcome), `${origin}/next`);
  }
});

test('fetch: a body over the limit is cut and parsed, one of just that size is not cut', async () => {
  send('/long', 200, html, `${page}<a href=late>`);
  const cut = await get('/long', { bodyBytesMax: page.length });
  assert.deepEqual([result(cut).cut, text(cut)], [true, `${origin}/next`]);
  const whole = await get('/long', { bodyBytesMax: page.length + 13 });
  assert.deepEqual([result(whole).cut, text(whole).split('\n').length], [undefined, 2]);
});

test('fetch: an endless body is cut at the limit', async () => {
  serve('/endless', (_, response) => {
    response.writeHead(200, html);
    const push = (): void => {
      while (!response.destroyed && response.write('<p>'.repeat(10_000)));
      if (!response.destroyed) response.once('drain', push);
    };
    push();
  });
  assert.equal(result(await get('/endless', { bodyBytesMax: 500_000 })).bytes, 500_000);
});

test('fetch: redirects inside the origin are followed to the final URL', async () => {
  send('/r1', 301, { location: 'r2?x#y' });
  send('/r2', 302, { location: '/r3' });
  send('/r3', 307, { location: `${origin}/page` });
  assert.equal(result(await get('/r1')).finalUrl, `${origin}/page`);
});

test('fetch: a redirect out of the origin ends with its target as the only link', async () => {
  send(
    '/out',
    302,
    { location: 'http://OTHER.test:80/a/../b#c', 'content-type': 'text/html' },
    page,
  );
  const outcome = await get('/out');
  const { status, redirectedTo, finalUrl, error } = result(outcome);
  assert.deepEqual([status, redirectedTo, error], [302, 'http://other.test/b', undefined]);
  assert.equal(finalUrl, `${origin}/out`);
  assert.equal(text(outcome), 'http://other.test/b');
});

test('fetch: a redirect is followed only if the context says so, and the wait is free', async () => {
  send('/asks', 302, { location: '/asked?x=1#y' });
  serve('/asked', (_, response) => response.writeHead(200, html).end(page));
  const asked: string[] = [];
  const brief = { ...spec, timeoutMs: 1_000 };
  const go = async (turn: Turn, waitMs = 0) => {
    const follow = async (url: string) => {
      asked.push(url);
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      return turn;
    };
    return await fetcher.fetch(`${origin}/asks`, brief, never, { ...seedHere, follow });
  };
  const followed = result(await go('go', 1_100));
  assert.deepEqual([followed.status, followed.finalUrl], [200, `${origin}/asked?x=1`]);
  assert.ok(followed.ms < 1_000, `${followed.ms} ms`);
  const left = await go('leave');
  assert.equal(result(left).redirectedTo, `${origin}/asked?x=1`);
  assert.equal(text(left), `${origin}/asked?x=1`);
  const later = await go('later');
  assert.equal(!later.ok && later.isPutOff, true);
  assert.deepEqual(new Set(asked), new Set([`${origin}/asked?x=1`]));
});

test('fetch: loops, too many hops and bad targets are definite redirect errors', async () => {
  send('/loop1', 302, { location: '/loop2' });
  send('/loop2', 302, { location: '/loop1' });
  send('/self', 302, { location: '/self' });
  serve('/count', (request, response) => {
    const n = Number((request.url ?? '').split('=')[1] ?? 0);
    response.writeHead(302, { location: `/count?n=${n + 1}` }).end();
  });
  send('/mail', 302, { location: 'mailto:a@b' });
  send('/bad', 302, { location: 'http://[' });
  for (const path of ['/loop1', '/self', '/count', '/mail', '/bad']) {
    const { error, status } = result(await get(path));
    assert.deepEqual([error?.kind, status], ['redirects', 302], path);
  }
  const none = result(await get('/count', { redirectsMax: 0 }));
  assert.equal(none.finalUrl, `${origin}/count`);
  assert.equal(result(await get('/count', { redirectsMax: 3 })).finalUrl, `${origin}/count?n=3`);
});

test('fetch: a page that sets a cookie and redirects to itself works', async () => {
  const raw = Buffer.from('Köln').toString('latin1');
  const cookies = ['a=1; Path=/', `b=${raw}; Secure`, '=x'];
  serve('/cookie', (request, response) => {
    const { cookie } = request.headers;
    if (cookie === `a=1; b=${raw}; x`) response.writeHead(200, html).end(page);
    else response.writeHead(302, { location: '/cookie', 'set-cookie': cookies }).end();
  });
  assert.equal(result(await get('/cookie')).title, 't');
  serve('/counter', (request, response) => {
    const n = Number(request.headers.cookie?.slice(2) ?? 0) + 1;
    response.writeHead(302, { location: '/counter', 'set-cookie': `n=${n}` }).end();
  });
  assert.equal(result(await get('/counter')).error?.kind, 'redirects');
});

test('fetch: raw UTF-8 in a Location means UTF-8', async () => {
  serve('/utf8', (_, response) => {
    response.writeHead(302, { location: Buffer.from('/é').toString('latin1') }).end();
  });
  assert.equal(result(await get('/utf8')).finalUrl, `${origin}/%C3%A9`);
});

test('fetch: definite statuses are answers, with an error from 300 on', async () => {
  for (const status of [204, 300, 304, 400, 401, 403, 404, 410, 451, 501, 505]) {
    send('/status', status, html, status === 204 || status === 304 ? '' : page);
    const outcome = await get('/status');
    assert.equal(result(outcome).status, status);
    assert.equal(result(outcome).error?.kind, status < 300 ? undefined : 'status');
    assert.equal(text(outcome), '');
  }
  assert.equal(result(await get('/nowhere')).error?.message, '404 Not Found');
});

test('fetch: temporary statuses fail, with the Retry-After of the server', async () => {
  for (const status of [408, 425, 429, 500, 502, 503, 504, 599]) {
    send('/status', status, {});
    const { error, retryAfterMs } = failure(await get('/status'));
    assert.deepEqual([error.kind, retryAfterMs], ['status', undefined]);
  }
  const retry = async (value: string, more: Record<string, string> = {}) => {
    send('/status', 503, { 'retry-after': value, ...more });
    return failure(await get('/status')).retryAfterMs;
  };
  assert.equal(await retry('7'), 7000);
  assert.equal(await retry('99999999'), 86_400_000);
  assert.equal(await retry('-1'), undefined);
  assert.equal(await retry('soon'), undefined);
  assert.equal(await retry('Thu, 01 Jan 1970 00:00:00 GMT'), 0);
  // Both are dates in whole seconds.
  const inMinute = (await retry(new Date(Date.now() + 60_000).toUTCString())) ?? 0;
  assert.ok(inMinute > 55_000 && inMinute <= 61_000);
  // The clock of the server counts, and a date without a zone is in GMT.
  const date = 'Sun, 06 Nov 1994 08:49:37 GMT';
  assert.equal(await retry('Sun, 06 Nov 1994 08:51:37 GMT', { date }), 120_000);
  assert.equal(await retry('Sun Nov  6 08:51:37 1994', { date }), 120_000);
  assert.equal(await retry('Sunday, 06-Nov-94 08:51:37 GMT', { date }), 120_000);
  assert.equal(await retry('Sun, 06 Nov 1994 08:00:00 GMT', { date }), 0);
});

test('fetch: what is no HTML is recorded and not parsed', async () => {
  send('/png', 200, { 'content-type': 'Image/PNG' }, page);
  const small = await get('/png');
  assert.deepEqual([result(small).type, text(small)], ['image/png', '']);
  assert.equal(result(small).charset, undefined);
  send('/big', 200, { 'content-type': 'video/mp4' }, 'x'.repeat(5 << 20));
  assert.ok(result(await get('/big')).bytes < 1 << 20);
  send('/xhtml', 200, { 'content-type': 'application/xhtml+xml' }, page);
  assert.equal(text(await get('/xhtml')), `${origin}/next`);
});

test('fetch: without a type, what begins as HTML is a page', async () => {
  send('/sniffed', 200, {}, `\n<!DOCTYPE html>${page}`);
  assert.deepEqual(
    [result(await get('/sniffed')).type, text(await get('/sniffed'))],
    ['text/html', `${origin}/next`],
  );
  for (const body of ['GIF89a', '', 'x'.repeat(200_000)]) {
    send('/untyped', 200, {}, body);
    const { type, error, status } = result(await get('/untyped'));
    assert.deepEqual([type, error, status], [undefined, undefined, 200]);
  }
});

test('fetch: an empty page is a page', async () => {
  send('/empty', 200, html);
  assert.deepEqual([result(await get('/empty')).bytes, text(await get('/empty'))], [0, '']);
  send('/empty', 200, { ...html, 'content-encoding': 'gzip' });
  assert.equal(result(await get('/empty')).bytes, 0);
});

test('fetch: the deadline covers hanging headers, slow bodies and slow redirects', async () => {
  serve('/hang', () => {});
  serve('/slow', (_, response) => {
    response.writeHead(200, html).write(page);
  });
  serve('/slowly', (request, response) => {
    const n = Number((request.url ?? '').split('=')[1] ?? 0);
    setTimeout(() => response.writeHead(302, { location: `/slowly?n=${n + 1}` }).end(), 40);
  });
  for (const path of ['/hang', '/slow', '/slowly']) {
    const started = performance.now();
    assert.equal(failure(await get(path, { timeoutMs: 150 })).error.kind, 'timeout', path);
    assert.ok(performance.now() - started < 1000);
  }
});

test('fetch: a lost connection, a short body and huge headers are failures of their kind', async () => {
  serve('/reset', (_, response) => {
    response.writeHead(200, html).write(page);
    setTimeout(() => response.socket?.resetAndDestroy(), 20);
  });
  assert.equal(failure(await get('/reset')).error.kind, 'connect');
  serve('/dead', (_, response) => response.socket?.destroy());
  assert.equal(failure(await get('/dead')).error.kind, 'connect');
  serve('/short', (_, response) => {
    response.writeHead(200, { ...html, 'content-length': '9999' }).write(page);
    setTimeout(() => response.socket?.end(), 20);
  });
  assert.ok(['connect', 'protocol'].includes(failure(await get('/short')).error.kind));
  send('/headers', 200, { ...html, 'x-huge': 'x'.repeat(100_000) });
  assert.equal(failure(await get('/headers')).error.kind, 'too-large');
});

test('fetch: an answer that is no HTTP, no server and no host are failures of their kind', async () => {
  const junk = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end('220 mail ready\r\n'));
  });
  const there = `http://127.0.0.1:${await listen(junk)}/`;
  assert.equal(failure(await fetcher.fetch(there, spec, never, seedHere)).error.kind, 'protocol');
  assert.equal(
    failure(await fetcher.fetch(there.replace('http', 'https'), spec, never, seedHere)).error.kind,
    'tls',
  );
  junk.close();
  await once(junk, 'close');
  assert.equal(failure(await fetcher.fetch(there, spec, never, seedHere)).error.kind, 'connect');
  const nowhere = await fetcher.fetch('http://no-such-host.invalid/', spec, never);
  assert.equal(failure(nowhere).error.kind, 'dns');
});

test('fetch: an aborted signal rejects with an AbortError at once', async () => {
  serve('/hang', () => {});
  const abort = new AbortController();
  const pending = fetcher.fetch(`${origin}/hang`, spec, abort.signal, seedHere);
  setTimeout(() => abort.abort(), 20);
  await assert.rejects(pending, { name: 'AbortError' });
  await assert.rejects(fetcher.fetch(`${origin}/page`, spec, abort.signal, seedHere), {
    name: 'AbortError',
  });
});

test('fetch: connections are kept and bounded', async () => {
  const sockets = new Set<unknown>();
  serve('/kept', (request, response) => {
    sockets.add(request.socket);
    response.writeHead(200, html).end(page);
  });
  const own = new PageFetcher({ connections: 2 });
  // A fetch has a signal of its own, as in a slave.
  const all = Array.from({ length: 40 }, () =>
    own.fetch(`${origin}/kept`, spec, new AbortController().signal, seedHere),
  );
  assert.ok((await Promise.all(all)).every((outcome) => outcome.ok));
  assert.ok(sockets.size <= 2, `${sockets.size} sockets`);
  await own.close();
});

test('fetch: closing ends what still runs', async () => {
  serve('/hang', () => {});
  const own = new PageFetcher({ connections: 2 });
  const pending = own.fetch(`${origin}/hang`, spec, never, seedHere);
  setTimeout(() => own.close(), 20);
  failure(await pending);
});

test('fetch: chunks arrive as the server sends them, and charset by meta still counts', async () => {
  serve('/chunks', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    const body = Buffer.from('<meta charset=shift_jis><a href="?\x93\xfa">', 'latin1');
    for (const byte of body) response.write(Buffer.from([byte]));
    response.end();
  });
  const outcome = await get('/chunks');
  assert.equal(result(outcome).charset, 'shift_jis');
  assert.equal(text(outcome), `${origin}/chunks?%93%FA`);
});

test('fetch: cookies of a crawl are kept from page to page, and given by answers of any kind', async () => {
  const seen: unknown[] = [];
  for (const path of ['/first', '/second', '/third']) {
    serve(path, (request, response) => {
      seen.push(request.headers.cookie);
      const cookie = { 'set-cookie': `${path.slice(1)}=1` };
      response.writeHead(path === '/second' ? 404 : 200, { ...html, ...cookie }).end(page);
    });
  }
  const jar = new CookieJar();
  for (const path of ['/first', '/second', '/third'])
    await fetcher.fetch(origin + path, spec, never, { ...seedHere, cookies: jar });
  await get('/first');
  assert.deepEqual(seen, [undefined, 'first=1', 'first=1; second=1', undefined]);
});

test('fetch: own headers are sent; who asks is told to hosts of seeds, or by the URL, alone', async () => {
  let sent: IncomingMessage['headers'] = {};
  serve('/own', (request, response) => {
    sent = request.headers;
    response.writeHead(200, html).end();
  });
  const headers: [string, string][] = [
    ['X-A', 'b'],
    ['Accept', 'text/html'],
    ['Authorization', 'Bearer t'],
  ];
  const ask = async (url: string, open: boolean, headersEverywhere?: true) => {
    const own = { ...spec, headers, headersEverywhere, allowPrivate: 'all' as const };
    await fetcher.fetch(url, own, never, { open });
    return [sent['x-a'], sent.accept, sent.authorization];
  };
  assert.deepEqual(await ask(`${origin}/own`, true), ['b', 'text/html', 'Bearer t']);
  const [, plain] = await ask(`${origin}/own`, false);
  assert.notEqual(plain, 'text/html');
  assert.deepEqual(await ask(`${origin}/own`, false), [undefined, plain, undefined]);
  assert.deepEqual(await ask(`${origin}/own`, false, true), ['b', 'text/html', undefined]);
  const basic = `Basic ${Buffer.from('ü:p@ss').toString('base64')}`;
  const url = `${origin.replace('//', '//%C3%BC:p%40ss@')}/own`;
  assert.deepEqual(await ask(url, true), ['b', 'text/html', basic]);
});

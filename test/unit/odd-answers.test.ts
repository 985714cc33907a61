/** Answers that Node's HTTP server never sends, fetched over real sockets. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { type FetchSpec, fetchSpecSchema } from '../../shared/crawl.ts';
import { resultSchema } from '../../shared/result-fields.ts';
import type { FetchContext } from '../../slave/fetch/fetcher.ts';
import type { FetchOutcome, Turn } from '../../slave/fetch/outcome.ts';
import { Proxies } from '../../slave/fetch/proxies.ts';
import { Recording } from '../../slave/fetch/recording.ts';
import { OddHost, oddForms, refusedForms } from '../support/odd-host.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { TestProxy } from '../support/proxy.ts';

const page = '<title>t</title><a href=next>n</a>';
const spec = fetchSpecSchema.parse({ timeoutMs: 5_000, allowPrivate: 'all' });
const never = new AbortController().signal;
const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';
const folded = `${head}X-A: a\r\n b\r\nContent-Length: ${page.length}\r\n\r\n${page}`;

function fetcherFor(t: TestContext): PageFetcher {
  const fetcher = new PageFetcher({ connections: 4 });
  t.after(() => fetcher.close());
  return fetcher;
}

function get(
  fetcher: PageFetcher,
  url: string,
  context: FetchContext = {},
  options: Partial<FetchSpec> = {},
): Promise<FetchOutcome> {
  return fetcher.fetch(url, { ...spec, ...options }, never, { open: true, ...context });
}

function linksOf(outcome: FetchOutcome): string {
  assert.ok(outcome.ok, JSON.stringify(outcome));
  resultSchema.parse(outcome.result);
  return Buffer.from(outcome.links).toString('latin1');
}

function failure(outcome: FetchOutcome) {
  assert.ok(!outcome.ok, `it did not fail: ${JSON.stringify(outcome)}`);
  return outcome;
}

test('odd answers: every form is read, and then at the first request', async (t) => {
  const host = await OddHost.start(t);
  for (const [name, form] of Object.entries(oddForms(page))) {
    host.answer('/', form);
    host.log.length = 0;
    const fetcher = fetcherFor(t);
    assert.equal(linksOf(await get(fetcher, host.url)), `${host.url}next`, name);
    // Once by the strict parser, where that does not read it.
    const first = host.log.length;
    assert.ok(first <= 2, name);
    assert.equal(linksOf(await get(fetcher, host.url)), `${host.url}next`, name);
    assert.equal(host.log.length - first, 1, name);
  }
});

test('odd answers: what is refused says why, at the first attempt for good', async (t) => {
  const host = await OddHost.start(t);
  for (const [name, [form, reason]] of Object.entries(refusedForms(page))) {
    host.answer('*', form);
    const { error, isFinal } = failure(await get(fetcherFor(t), host.url));
    assert.match(error.message, reason, name);
    const isLong = error.kind === 'too-large';
    assert.ok(isLong || (error.kind === 'protocol' && isFinal), `${name}: ${error.kind}`);
    const robots = await fetcherFor(t).fetchRobots(`${host.url}robots.txt`, spec, never, {
      open: true,
    });
    assert.ok(!robots.ok && (isLong || robots.isFinal), name);
    assert.match(robots.error.message, reason, name);
  }
});

test('odd answers: robots.txt is read, and the host known from it', async (t) => {
  const host = await OddHost.start(t);
  const rules = 'User-agent: *\nDisallow: /x\n';
  for (const [name, form] of Object.entries(oddForms(rules))) {
    host.answer('/robots.txt', form);
    host.answer('/', oddForms(page)['folded values'] ?? '');
    const fetcher = fetcherFor(t);
    const robots = await fetcher.fetchRobots(`${host.url}robots.txt`, spec, never, { open: true });
    assert.ok(robots.ok, `${name}: ${JSON.stringify(robots)}`);
    assert.deepEqual([robots.status, Buffer.from(robots.body).toString()], [200, rules], name);
    host.log.length = 0;
    linksOf(await get(fetcher, host.url));
    const isKnown = name !== 'no length at all';
    assert.ok(host.log.length === 1 || !isKnown, name);
  }
});

test('odd answers: the second request waits for its turn, and may be put off', async (t) => {
  const host = await OddHost.start(t);
  host.answer('*', folded);
  const asked: string[] = [];
  const go = async (turn: Turn, path: string) => {
    const follow = async (url: string) => {
      asked.push(url);
      return turn;
    };
    const fetcher = fetcherFor(t);
    if (path === 'robots.txt') {
      return await fetcher.fetchRobots(host.url + path, spec, never, { open: true, follow });
    }
    return await get(fetcher, host.url + path, { follow });
  };
  linksOf((await go('go', 'a')) as FetchOutcome);
  assert.equal(host.count('/a'), 2);
  const later = failure((await go('later', 'b')) as FetchOutcome);
  assert.deepEqual([later.isPutOff, later.isFinal], [true, undefined]);
  const left = failure((await go('leave', 'c')) as FetchOutcome);
  assert.match(left.error.message, /^malformed answer/);
  assert.deepEqual([host.count('/b'), host.count('/c')], [1, 1]);
  assert.equal((await go('go', 'robots.txt')).ok, true);
  assert.equal((await go('later', 'robots.txt')).ok, false);
  assert.equal(host.count('/robots.txt'), 3);
  assert.deepEqual(
    asked,
    ['a', 'b', 'c', 'robots.txt', 'robots.txt'].map((path) => host.url + path),
  );
});

test('odd answers: through proxies, one request a connection', async (t) => {
  const host = await OddHost.start(t);
  host.answer('*', folded);
  const socks = await TestProxy.start({ scheme: 'socks5' });
  t.after(() => socks.close());
  // The second one hands on what it gets, as it is: the host plays it itself.
  const cases: [proxy: string, url: string][] = [
    [socks.url, host.url],
    [host.url, 'http://plain.example/'],
  ];
  for (const [proxyUrl, url] of cases) {
    const proxy = new Proxies({ onAside: () => {} }).of(proxyUrl);
    const fetcher = fetcherFor(t);
    host.connections = 0;
    for (let i = 0; i < 5; i++) {
      const outcome = await get(fetcher, `${url}${i}`, { proxy });
      assert.equal(linksOf(outcome), `${url}next`);
    }
    assert.equal(host.connections, 6);
  }
});

test('odd answers: after many good ones connections are kept again', async (t) => {
  const host = await OddHost.start(t);
  const good = `${head}Content-Length: ${page.length}\r\n\r\n${page}`;
  host.answer('*', (socket) => socket.write(good));
  host.answer('/', folded);
  const fetcher = fetcherFor(t);
  linksOf(await get(fetcher, host.url));
  for (let i = 0; i < 120; i++) linksOf(await get(fetcher, `${host.url}${i}`));
  // Two for the odd one, some hundred of one request, and one for the rest. A connection is counted
  // when it has ended, which may be after the next request has begun.
  assert.ok(host.connections >= 103 && host.connections <= 106, `${host.connections}`);
});

test('odd answers: bodies are as they came: codings, chunks, a limit, a redirect', async (t) => {
  const host = await OddHost.start(t);
  const fetcher = fetcherFor(t);
  const odd = `HTTP/1.1 200 OK\nContent-Type : text/html\n`;
  const zipped = gzipSync(page);
  host.answer('/gzip', Buffer.concat([Buffer.from(`${odd}Content-Encoding: gzip\n\n`), zipped]));
  assert.equal(linksOf(await get(fetcher, `${host.url}gzip`)), `${host.url}next`);
  const framed = `${odd}Transfer-Encoding: gzip, chunked\n\n${zipped.length.toString(16)}\r\n`;
  host.answer(
    '/framed',
    Buffer.concat([Buffer.from(framed), zipped, Buffer.from('\r\n0\r\n\r\n')]),
  );
  assert.equal(linksOf(await get(fetcher, `${host.url}framed`)), `${host.url}next`);
  host.answer('/long', `${odd}\n${page}${'\n'.repeat(3 << 20)}`);
  const cut = await get(fetcher, `${host.url}long`, {}, { bodyBytesMax: 1 << 20 });
  assert.ok(cut.ok && cut.result.cut && cut.result.bytes === 1 << 20);
  const cookies = 'Set-Cookie: a=1\nSet-Cookie : b=2\n';
  host.answer('/to', `HTTP/1.1 302 Found\nLocation :\n there\n${cookies}\n`);
  host.answer('/there', `${odd}\n${page}`);
  const moved = await get(fetcher, `${host.url}to`);
  assert.ok(moved.ok && moved.result.finalUrl === `${host.url}there`);
  assert.match(host.log.at(-1)?.head ?? '', /\r\ncookie: a=1; b=2\r\n/);
  host.answer('/no', `HTTP/1.1 204 No\nContent-Length: 5\n\n`);
  const empty = await get(fetcher, `${host.url}no`);
  assert.ok(empty.ok && empty.result.status === 204);
});

test('odd answers: a head that drips ends with the time-out', async (t) => {
  const host = await OddHost.start(t);
  const fetcher = fetcherFor(t);
  host.answer('/', folded);
  linksOf(await get(fetcher, host.url));
  host.answer('/drip', (socket) => {
    const timer = setInterval(() => socket.write('X'), 20);
    socket.write('HTTP/1.1 200 OK\r\nX: ');
    socket.once('close', () => clearInterval(timer));
  });
  const started = performance.now();
  const { error } = failure(await get(fetcher, `${host.url}drip`, {}, { timeoutMs: 300 }));
  assert.equal(error.kind, 'timeout');
  assert.ok(performance.now() - started < 3_000);
});

test('odd answers: a body that is cut off fails, and is kept at the last attempt', async (t) => {
  const host = await OddHost.start(t);
  const long = `${page}<p>more`;
  const length = `Content-Length: ${long.length + 9}\r\n`;
  const zipped = gzipSync(long + ' '.repeat(5_000));
  const validators = 'ETag: "a"\r\nLast-Modified: Sat, 21 Nov 2026 00:00:00 GMT\r\n';
  const chunk = `Transfer-Encoding: chunked\r\n\r\n${long.length.toString(16)}\r\n${long}\r\n`;
  const short = /^body shorter than its content-length$/;
  const closed = /^connection closed$/;
  const forms: [string, string | Buffer, RegExp][] = [
    ['kept open', `${head}${validators}${length}\r\n${long}`, short],
    ['closed', `${head}${length}Connection: close\r\n\r\n${long}`, short],
    ['chunks', head + chunk, closed],
    ['closed chunks', `${head}Connection: close\r\n${chunk}`, closed],
    ['in a chunk', `${head}${chunk.slice(0, -4)}`, closed],
    ['odd', `${head.replace('\r', '')}${length}\r\n${long}`, short],
    ['odd chunks', `${head.replace('\r', '')}${chunk}`, closed],
    ['untyped', `HTTP/1.1 200 OK\r\n${length}\r\n<html>${long}`, short],
    [
      'gzip',
      Buffer.concat([
        Buffer.from(`${head}Content-Encoding: gzip\r\nContent-Length: ${zipped.length}\r\n\r\n`),
        zipped.subarray(0, -12),
      ]),
      short,
    ],
  ];
  for (const [name, answer, reason] of forms) {
    host.answer('/', answer);
    const fetcher = fetcherFor(t);
    const { error, isFinal } = failure(await get(fetcher, host.url));
    assert.match(error.message, reason, name);
    assert.equal(isFinal, undefined, name);
    const kept = await get(fetcher, host.url, { last: true });
    assert.equal(linksOf(kept), `${host.url}next`, name);
    assert.ok(kept.ok, name);
    const { incomplete, etag, lastModified, bytes } = kept.result;
    assert.deepEqual([incomplete, etag, lastModified], [true, undefined, undefined], name);
    assert.ok(bytes >= page.length, name);
  }
  // Nothing came: there is nothing to keep.
  for (const nothing of [
    `${head}${length}\r\n`,
    `${head}Content-Encoding: gzip\r\n${length}\r\n`,
  ]) {
    host.answer('/', nothing);
    failure(await get(fetcherFor(t), host.url, { last: true }));
  }
  host.answer('/', (socket) => {
    socket.write(`${head}${length}\r\n${long}`);
    setTimeout(() => socket.resetAndDestroy(), 50);
  });
  assert.equal(failure(await get(fetcherFor(t), host.url)).error.kind, 'connect');
  assert.equal(linksOf(await get(fetcherFor(t), host.url, { last: true })), `${host.url}next`);
  // A whole one says nothing of it.
  host.answer('/', `${head}Content-Length: ${page.length}\r\n\r\n${page}`);
  const whole = await get(fetcherFor(t), host.url, { last: true });
  assert.ok(whole.ok && whole.result.incomplete === undefined);
  // Half a robots.txt would be other rules.
  host.answer('/robots.txt', `HTTP/1.1 200 OK\r\n${length}\r\nUser-agent: *`);
  const robots = `${host.url}robots.txt`;
  const file = await fetcherFor(t).fetchRobots(robots, spec, never, { open: true, last: true });
  assert.equal(file.ok, false);
});

test('odd answers: a body that stalls fails, but its part is kept at the last attempt', async (t) => {
  const host = await OddHost.start(t);
  const brief = { timeoutMs: 400 };
  const length = 'Content-Length: 9999\r\n';
  const zipped = gzipSync(page + '<p>'.repeat(2_000));
  const zip = Buffer.from(`${head}Content-Encoding: gzip\r\n${length}\r\n`);
  const forms: [string, string | Buffer][] = [
    ['length', `${head}ETag: "a"\r\n${length}\r\n${page}`],
    ['chunks', `${head}Transfer-Encoding: chunked\r\n\r\n22\r\n${page}\r\n99\r\n<p>`],
    ['by undici', `${head}X-A: a \r\n${length}\r\n${page}`],
    ['odd', `${head.replace('\r', '')}${length}\r\n${page}`],
    ['gzip', Buffer.concat([zip, zipped.subarray(0, -12)])],
    ['untyped', `HTTP/1.1 200 OK\r\n${length}\r\n<html>${page}`],
  ];
  const stall = (answer: string | Buffer, path = '/') => {
    host.answer(path, (socket) => socket.write(answer));
    return host.url + path.slice(1);
  };
  const keeps = async ([name, answer]: (typeof forms)[number], index: number) => {
    const url = stall(answer, `/${index}`);
    const { error } = failure(await get(fetcherFor(t), url, {}, brief));
    assert.deepEqual(error, { kind: 'timeout', message: 'took too long' }, name);
    const recording = new Recording(1 << 20);
    const kept = await get(fetcherFor(t), url, { last: true, recording }, brief);
    assert.equal(linksOf(kept), `${host.url}next`, name);
    assert.ok(kept.ok && kept.result.incomplete === true && kept.result.etag === undefined, name);
    assert.equal(recording.exchanges.at(-1)?.end, 'time', name);
  };
  await Promise.all(forms.map(keeps));
  // One that comes too slowly is no other case.
  host.answer('/', (socket) => {
    socket.write(`${head}\r\n${page}`);
    const drip = setInterval(() => socket.write('<p>'), 20);
    socket.on('close', () => clearInterval(drip));
  });
  const slow = await get(fetcherFor(t), host.url, { last: true }, brief);
  assert.ok(slow.ok && slow.result.incomplete === true && slow.result.bytes > page.length);
  // Without a byte of the page there is nothing to keep, nor of a robots.txt.
  for (const nothing of ['', `${head}${length}`, `${head}${length}\r\n`]) {
    stall(nothing);
    const { error } = failure(await get(fetcherFor(t), host.url, { last: true }, brief));
    assert.equal(error.kind, 'timeout', nothing);
  }
  const robots = stall(`HTTP/1.1 200 OK\r\n${length}\r\nUser-agent: *`, '/robots.txt');
  const last = { open: true, last: true };
  const file = await fetcherFor(t).fetchRobots(robots, { ...spec, ...brief }, never, last);
  assert.equal(file.ok, false);
});

// Answers that undici reads, and those that we read.
for (const who of ['X-A: a \r\n', '']) {
  const title = `odd answers: a kept connection that its host closes costs no attempt: ${who.trim() || 'plain'}`;
  test(title, (t) => staleConnections(t, who));
}

async function staleConnections(t: TestContext, field: string): Promise<void> {
  const host = await OddHost.start(t);
  const whole = `${head}${field}Content-Length: ${page.length}\r\n\r\n${page}`;
  // Closes each connection as its second request comes.
  host.answer('/', (socket) => {
    socket.write(whole);
    socket.removeAllListeners('data').once('data', () => socket.destroy());
  });
  const fetcher = fetcherFor(t);
  const turns: string[] = [];
  let turn: Turn = 'go';
  const follow = async (url: string) => {
    turns.push(url);
    return turn;
  };
  const ask = (context: FetchContext) => get(fetcher, host.url, { follow, ...context });
  assert.ok((await ask({ attempt: 1 })).ok);
  assert.deepEqual([host.connections, turns], [1, []]);
  // Asked once more, when it is its turn.
  assert.ok((await ask({ attempt: 1 })).ok);
  assert.deepEqual([host.connections, turns], [2, [host.url]]);
  assert.ok((await ask({ attempt: 1 })).ok);
  assert.ok((await ask({ attempt: 1, last: true })).ok);
  assert.ok((await ask({ attempt: 2 })).ok);
  turn = 'later';
  assert.equal(failure(await ask({ attempt: 3 })).isPutOff, true);
  // The last one has a connection of its own.
  turns.length = 0;
  assert.ok((await ask({ attempt: 4, last: true })).ok);
  assert.deepEqual(turns, []);
}

test('odd answers: a host that closes each connection is asked twice, not for ever', async (t) => {
  const host = await OddHost.start(t);
  let count = 0;
  host.answer('/', (socket) => {
    if (count++ > 0) socket.destroy();
    else socket.write(`${head}Content-Length: ${page.length}\r\n\r\n${page}`);
  });
  const fetcher = fetcherFor(t);
  assert.ok((await get(fetcher, host.url)).ok);
  assert.equal(failure(await get(fetcher, host.url)).error.message, 'connection closed');
  assert.equal(count, 3);
});

test('odd answers: a kept connection that we close ourselves asks nobody again', async (t) => {
  const host = await OddHost.start(t);
  host.answer('/', (socket) => {
    if (host.count('/') === 1) socket.write(`${head}Content-Length: ${page.length}\r\n\r\n${page}`);
  });
  const fetcher = fetcherFor(t);
  assert.ok((await get(fetcher, host.url)).ok);
  const asked = get(fetcher, host.url);
  while (host.count('/') < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  await fetcher.close();
  failure(await asked);
  assert.equal(host.count('/'), 2);
});

test('odd answers: what is redirected, or is no page, need not end', async (t) => {
  const host = await OddHost.start(t);
  const whole = `${head}Content-Length: ${page.length}\r\n\r\n${page}`;
  host.answer('/page', (socket) => setTimeout(() => socket.write(whole), 20));
  const bodies = ['\r\n', 'Content-Length: 9\r\n\r\nmoved'];
  bodies.push('Transfer-Encoding: chunked\r\n\r\n5\r\nmoved');
  const endless = async (start: string, path: string, context: FetchContext = {}) => {
    host.answer('/', (socket) => socket.write(start));
    const askedAt = performance.now();
    const outcome = await get(fetcherFor(t), host.url, context);
    assert.ok(performance.now() - askedAt < spec.timeoutMs / 2, start);
    assert.ok(outcome.ok, start);
    assert.equal(outcome.result.finalUrl, host.url + path);
    return outcome;
  };
  for (const body of bodies) {
    const moved = await endless(`HTTP/1.1 302 Found\r\nLocation: /page\r\n${body}`, 'page');
    assert.equal(linksOf(moved), `${host.url}next`);
    await endless(`HTTP/1.1 404 Not Found\r\n${body}`, '');
  }
  const recording = new Recording(1 << 20);
  await endless('HTTP/1.1 301 Moved\r\nLocation: /page\r\n\r\n', 'page', { recording });
  assert.deepEqual(
    recording.exchanges.map(({ end }) => end),
    ['time', 'whole'],
  );
});

test('odd answers: a reset is no end of a body without a length', async (t) => {
  const host = await OddHost.start(t);
  const byUndici = [
    `${head}X-A: a \r\n`,
    head.replace('1.1', '1.0').concat('Connection: keep-alive\r\n'),
    head.replace('\r', ''),
  ];
  const plain = [head, head.replace('1.1', '1.0'), `${head}Connection: close\r\n`];
  for (const start of [...plain, ...byUndici]) {
    host.answer('*', (socket) => {
      socket.write(`${start}ETag: "a"\r\n\r\n${page}`);
      setTimeout(() => socket.resetAndDestroy(), 50);
    });
    assert.equal(failure(await get(fetcherFor(t), host.url)).error.kind, 'connect');
    const kept = await get(fetcherFor(t), host.url, { last: true });
    assert.equal(linksOf(kept), `${host.url}next`);
    assert.ok(kept.ok && kept.result.incomplete === true && kept.result.etag === undefined);
    const robots = `${host.url}robots.txt`;
    const file = await fetcherFor(t).fetchRobots(robots, spec, never, { open: true, last: true });
    assert.equal(file.ok, false);
  }
});

test('odd answers: a sitemap that is cut off is kept at the last attempt, as cut', async (t) => {
  const host = await OddHost.start(t);
  const entries = '<urlset><url><loc>http://a.example/b</loc></url>';
  const sitemap = `HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n${entries}`;
  host.answer('/s.xml', sitemap);
  const fetcher = fetcherFor(t);
  const first = await fetcher.fetchSitemap(`${host.url}s.xml`, spec, never, { open: true });
  assert.equal(first.ok, false);
  const context = { open: true, last: true };
  const last = await fetcher.fetchSitemap(`${host.url}s.xml`, spec, never, context);
  assert.ok(last.ok && last.result.cut);
  assert.deepEqual(last.sitemap.urls, ['http://a.example/b']);
});

test('odd answers: bytes that follow a compressed body are left out', async (t) => {
  const host = await OddHost.start(t);
  const fetcher = fetcherFor(t);
  const strays = ['\0\0\0', 'stray', '\r\n', '\x1f\x8b', '\x1f\x8b\x08\0', '<!-- 0.1 s -->'];
  for (const stray of strays.map((bytes) => Buffer.from(bytes, 'latin1'))) {
    for (const [coding, whole] of [
      ['gzip', gzipSync(page)],
      ['deflate', deflateSync(page)],
      ['deflate', deflateRawSync(page)],
      ['br', brotliCompressSync(page)],
      ['gzip, br', brotliCompressSync(gzipSync(page))],
    ] as const) {
      const start = Buffer.from(`${head}Content-Encoding: ${coding}\r\nConnection: close\r\n\r\n`);
      host.answer('/', Buffer.concat([start, whole, stray]));
      const outcome = await get(fetcher, host.url);
      assert.equal(linksOf(outcome), `${host.url}next`, `${coding}, ${stray}`);
      assert.ok(outcome.ok && outcome.result.bytes === page.length);
      host.answer('/', (socket) => {
        socket.write(Buffer.concat([start, whole]));
        setTimeout(() => socket.end(stray), 5);
      });
      assert.equal(linksOf(await get(fetcher, host.url)), `${host.url}next`, `${coding}, later`);
    }
  }
});

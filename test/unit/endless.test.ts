/**
 * Pages without end, or as good as: what came before the limit counts, and what they hold fits
 * into a report, whatever the limit of the page is.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { encodeValue } from '../../shared/frame.ts';
import { limits } from '../../shared/protocol.ts';
import { type Extract, PageExtractor } from '../../slave/extract/extract.ts';
import { ProxyServer } from '../../slave/fetch/proxies.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { seedHere } from '../support/seed-here.ts';

const before = '<title>t</title><a href=before>x</a><img src=i.png>';

/** Gives the page in pieces until a whole page has come: 10 MiB. */
function extract(pieces: Iterable<string>, bytesMax = 10 << 20): Extract {
  const extractor = new PageExtractor({
    url: 'http://h.test/d/',
    encoding: 'utf-8',
    images: 'all',
  });
  let bytes = 0;
  for (const piece of pieces) {
    extractor.write(piece);
    bytes += piece.length;
    if (bytes >= bytesMax) break;
  }
  return extractor.end();
}

const linksOf = ({ links }: Extract) => Buffer.from(links).toString('latin1').split('\n');

function* endless(first: string, more: string): Generator<string> {
  yield first;
  const piece = more.repeat(Math.ceil(65_536 / more.length));
  for (;;) yield piece;
}

const endings: readonly (readonly [what: string, first: string, more: string])[] = [
  ['text', '', 'and so on '],
  ['tags', '', '<p>'],
  ['a tag of attributes', '<a ', 'x="y" '],
  ['a tag name', '<a', 'x'],
  ['an attribute name', '<a ', 'x'],
  ['an attribute value', '<a href="', 'x'],
  ['an unquoted value', '<img src=', 'x'],
  ['a style', '<style>', 'a{b:url(c)}'],
  ['a style attribute', '<p style="', 'b:url(c);'],
  ['a srcset', '<img srcset="', 'a.png 1x, '],
  ['a comment', '<!--', '-- >'],
  ['a script', '<script>', 'if (a < b) {} '],
  ['JSON-LD', '<script type="application/ld+json">', '[{"image":'],
  ['a title', '<title>', 'long '],
  ['a text area', '<textarea>', '</text'],
  ['open elements', '', '<div><b>'],
  ['open foreign elements', '', '<svg><g>'],
  ['references', '', '&amp;&#1;&notit'],
  ['an entity', '<a href="&', 'x'],
];

for (const [what, first, more] of endings) {
  test(`endless: ${what} does not hide what came before`, () => {
    const found = extract(endless(before + first, more));
    assert.equal(found.title, 't');
    assert.ok(linksOf(found).includes('http://h.test/d/before'));
    assert.ok(found.images.some(({ src }) => src === 'http://h.test/d/i.png'));
  });
}

test('endless: more than a million links are cut, and what is left out is counted', () => {
  const count = 1_200_000;
  function* pieces() {
    for (let n = 0; n < count; n += 1_000) {
      yield Array.from({ length: 1_000 }, (_, i) => `<a href=${n + i}>`).join('');
    }
  }
  const found = extract(pieces(), 1 << 30);
  const links = linksOf(found);
  assert.ok(found.links.length <= limits.linksBytesMax);
  assert.ok(links.length > 500_000, `${links.length}`);
  assert.equal(links.length + found.linksCut, count);
});

test('endless: a link that is too long is counted, not dropped without a word', () => {
  const found = extract([`<a href="/${'x'.repeat(limits.urlChars)}"><a href=y>`]);
  assert.deepEqual([linksOf(found), found.linksCut], [['http://h.test/d/y'], 1]);
});

test('endless: all that a page can hold fits into one report', () => {
  const base = `<base href="http://h.test/${'b'.repeat(4_000)}/">`;
  const alt = '\u4e2d'.repeat(limits.altChars);
  function* pieces() {
    yield base;
    for (let n = 0; n < 20_000; n++) yield `<a href=${n}><img src=${n} alt=${alt}>`;
  }
  const { links, images } = extract(pieces(), 1 << 30);
  const report = encodeValue({ verb: 'task.report', images, links, result: {} });
  assert.ok(links.length > 1 << 20 && images.length > 1_000);
  assert.ok(report.length < limits.frameBytesMax, `${report.length}`);
});

/** A server that answers every request by `answer`, with sockets that end with the test. */
async function serve(t: TestContext, answer: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    t.after(() => socket.destroy());
    socket.once('data', () => answer(socket));
  });
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return `http://127.0.0.1:${address.port}/`;
}

/** Writes for ever, as fast as it is read. */
function pour(socket: Socket, piece: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
    if (!socket.destroyed) socket.once('drain', more);
  };
  more();
}

const bodies: readonly (readonly [what: string, first: string, more: string])[] = [
  ['one header', 'HTTP/1.1 200 OK\r\nx-long: ', 'x'.repeat(1_000)],
  ['headers', 'HTTP/1.1 200 OK\r\n', `x: ${'y'.repeat(100)}\r\n`],
];
for (const [what, first, more] of bodies) {
  test(`endless: ${what} without end are too large`, { timeout: 20_000 }, async (t) => {
    const url = await serve(t, (socket) => {
      socket.write(first);
      pour(socket, more);
    });
    const fetcher = new PageFetcher({ connections: 1 });
    t.after(() => fetcher.close());
    const never = new AbortController().signal;
    const outcome = await fetcher.fetch(url, fetchSpecSchema.parse({}), never, seedHere);
    assert.ok(!outcome.ok);
    assert.equal(outcome.error.kind, 'too-large');
  });
}

test('endless: a body of any framing is cut at the limit and parsed', {
  timeout: 20_000,
}, async (t) => {
  const html = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n';
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
  const filler = '<p>and so on'.repeat(1_000);
  const framings: [string, string][] = [
    [`${html}\r\n${before}`, filler],
    [`${html}transfer-encoding: chunked\r\n\r\n${chunk(before)}`, chunk(filler)],
    [`${html}content-length: 9007199254740991\r\n\r\n${before}`, filler],
  ];
  for (const [first, more] of framings) {
    const url = await serve(t, (socket) => {
      socket.write(first);
      pour(socket, more);
    });
    const fetcher = new PageFetcher({ connections: 1 });
    t.after(() => fetcher.close());
    const never = new AbortController().signal;
    const spec = fetchSpecSchema.parse({ bodyBytesMax: 300_000 });
    const outcome = await fetcher.fetch(url, spec, never, seedHere);
    assert.ok(outcome.ok, JSON.stringify(outcome));
    assert.deepEqual([outcome.result.cut, outcome.result.bytes], [true, 300_000]);
    assert.equal(Buffer.from(outcome.links).toString('latin1'), `${url}before`);
  }
});

test('endless: compressed data that holds nothing ends soon, flushes of single bytes do not', {
  timeout: 40_000,
}, async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\n\r\n';
  const start = gzipSync('').subarray(0, 10).toString('latin1');
  const flushes = '\0\0\0\xff\xff'.repeat(10_000);
  const url = await serve(t, (socket) => {
    socket.setDefaultEncoding('latin1');
    socket.write(head + start);
    pour(socket, flushes);
  });
  const fetcher = new PageFetcher({ connections: 1 });
  t.after(() => fetcher.close());
  const never = new AbortController().signal;
  const spec = fetchSpecSchema.parse({});
  const outcome = await fetcher.fetch(url, spec, never, seedHere);
  assert.ok(!outcome.ok);
  assert.match(outcome.error.message, /compressed data that holds nothing/);
  assert.equal(outcome.isFinal, true);
  // A compressed body can hold a thousand times as much of it.
  const inner = Buffer.from(`${start}${'\0\0\0\xff\xff'.repeat(4_000_000)}`, 'latin1');
  const outer = gzipSync(inner).toString('latin1');
  const nested = await serve(t, (socket) => {
    socket.end(head.replace('gzip', 'gzip, gzip') + outer, 'latin1');
  });
  const twice = await fetcher.fetch(nested, spec, never, seedHere);
  assert.ok(!twice.ok);
  assert.match(twice.error.message, /compressed data that holds nothing/);
  // A stored block of one byte and an empty one: what a writer makes that flushes each byte.
  const byte = '\0\x01\0\xfe\xffx\0\0\0\xff\xff';
  const slow = await serve(t, (socket) => {
    socket.setDefaultEncoding('latin1');
    socket.end(`${head}${start}${byte.repeat(200_000)}\x01\0\0\xff\xff`);
  });
  const whole = await fetcher.fetch(slow, spec, never, seedHere);
  assert.ok(whole.ok, JSON.stringify(whole));
  assert.equal(whole.result.bytes, 200_000);
});

test('endless: framing that holds nothing ends soon, chunks of single bytes do not', {
  timeout: 60_000,
}, async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ntransfer-encoding: chunked\r\n';
  const odd = `${head}Foo\r\n`;
  const long = 'x'.repeat(10_000);
  const framings = [
    [`${head}\r\n1;`, long],
    [`${head}\r\n`, '0'.repeat(10_000)],
    [`${head}\r\n`, `1;${long}\r\nx\r\n`],
    ['', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(100)],
    // A line without a colon: the answer is read in the lenient way.
    [`${odd}\r\n`, `1;${long}\r\nx\r\n`],
  ] as const;
  const fetcher = new PageFetcher({ connections: 1 });
  t.after(() => fetcher.close());
  const never = new AbortController().signal;
  const spec = fetchSpecSchema.parse({ timeoutMs: 15_000 });
  for (const [first, more] of framings) {
    const url = await serve(t, (socket) => {
      socket.write(first);
      pour(socket, more);
    });
    // As itself, and as what a proxy forwards.
    const proxy = new ProxyServer(url, { onAside: () => {} });
    const asked = [
      [url, seedHere],
      ['http://site.example/', { proxy }],
    ] as const;
    for (const [from, context] of asked) {
      const outcome = await fetcher.fetch(from, spec, never, context);
      assert.ok(!outcome.ok);
      assert.match(outcome.error.message, /framing that holds nothing/);
      assert.equal(outcome.isFinal, true);
    }
  }
  // Answers in a row on one connection do not add up.
  const chunks = (end: string) => `\r\n${`1${end}\r\nx\r\n`.repeat(200_000)}0\r\n\r\n`;
  for (const answer of [head + chunks(''), head + chunks(';a=b'), odd + chunks('')]) {
    const url = await serve(t, (socket) => {
      socket.on('data', () => socket.write(answer));
      socket.write(answer);
    });
    for (let n = 0; n < 3; n++) {
      const whole = await fetcher.fetch(url, spec, never, seedHere);
      assert.ok(whole.ok, JSON.stringify(whole));
      assert.equal(whole.result.bytes, 200_000);
    }
  }
});

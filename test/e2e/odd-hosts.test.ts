/** Hosts whose answers no strict parser reads, crawled by real processes. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Authority } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { OddHost } from '../support/odd-host.ts';
import { assertLeaves, crawlToEnd } from '../support/parts.ts';
import { TestProxy } from '../support/proxy.ts';

const timeout = 60_000;

/** Makes a host answer everything with a head that is folded, has bare line feeds and 100s. */
function answerOddly(host: OddHost, pages: Readonly<Record<string, string>>): void {
  for (const [path, body] of Object.entries(pages)) {
    const type = path.endsWith('.txt') ? 'text/plain' : 'text/html';
    const head = `HTTP/1.1 200 OK\nX-A: a\n b\nContent-Type : ${type}\nnonsense\n`;
    const length = `Content-Length: ${body.length}\n`;
    host.answer(path, `HTTP/1.1 100 Continue\n\n${head}${length}${length}\n${body}`);
  }
}

const pages = {
  '/robots.txt': 'User-agent: *\nDisallow: /secret\n',
  '/': '<a href=a>a</a><a href=b>b</a><a href=secret>s</a><img src=i.png>',
  '/a': '<a href=c>c</a>',
  '/b': '<a href=/>home</a>',
  '/c': '<a href=a>a</a>',
};
const paths = ['', 'a', 'b', 'c'];

test('odd hosts: one that always answers so is crawled whole, robots.txt and delay kept', {
  timeout,
}, async (t) => {
  const host = await OddHost.start(t);
  answerOddly(host, pages);
  const delayMs = 150;
  const cluster = await crawlToEnd(t, [host.url], { flags: ['--delay', `${delayMs}`] });
  assert.deepEqual(cluster.pages().sort(), paths.map((path) => host.url + path).sort());
  assert.equal(host.count('/secret'), 0);
  // One request more than ever: that of the strict parser, which taught what the host is.
  assert.equal(host.log.length, 6);
  assert.equal(host.connections, 6);
  host.log.forEach(({ at }, i) => {
    const before = host.log[i - 1]?.at ?? Number.NEGATIVE_INFINITY;
    assert.ok(at - before >= delayMs, `${at - before} ms before request ${i}`);
  });
});

for (const scheme of ['http', 'https', 'socks5', 'none'] as const) {
  test(`odd hosts: over TLS, proxy: ${scheme}`, { timeout }, async (t) => {
    const authority = new Authority();
    const host = await OddHost.start(t, authority.issue());
    answerOddly(host, pages);
    const cluster = new Cluster(t);
    const trusted = join(cluster.folder, 'authority.pem');
    writeFileSync(trusted, authority.cert);
    const flags = ['--exit-when-done'];
    if (scheme !== 'none') {
      const proxy = await TestProxy.start({ scheme, identity: authority.issue() });
      t.after(() => proxy.close());
      flags.push('--proxy', proxy.url);
    }
    const master = await cluster.master([host.url, ...flags]);
    const slave = cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
    await assertLeaves(master, slave);
    assert.deepEqual(cluster.pages().sort(), paths.map((path) => host.url + path).sort());
    assert.doesNotMatch(slave.output, /Warning/);
  });
}

test('odd hosts: no answer is asked for twice that will be the same again', {
  timeout,
}, async (t) => {
  const host = await OddHost.start(t);
  const html = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';
  host.answer('/', `${html}Connection: close\r\n\r\n<a href=000><a href=coded><a href=both>`);
  host.answer('/000', 'HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n');
  host.answer('/coded', `${html}Content-Encoding: zip\r\nContent-Length: 4\r\n\r\nPK\x03\x04`);
  host.answer(
    '/both',
    `${html}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n`,
  );
  const cluster = await crawlToEnd(t, [host.url]);
  const errors = cluster.fetched().flatMap(({ url, error }) => (error ? [[url, error]] : []));
  const protocol = (message: string) => ({ kind: 'protocol', message, attempts: 1 });
  assert.deepEqual(Object.fromEntries(errors), {
    [`${host.url}000`]: protocol('malformed answer: its status is 000'),
    [`${host.url}coded`]: protocol('unknown content-encoding'),
    [`${host.url}both`]: protocol('malformed answer: Transfer-Encoding and Content-Length'),
  });
  assert.equal(host.count('/coded'), 1);
  assert.ok(host.count('/000') <= 2 && host.count('/both') <= 2);
});

test('odd hosts: a status of 000 does not hold up a slave', { timeout }, async (t) => {
  const host = await OddHost.start(t);
  host.answer('*', 'HTTP/1.1 000 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  const cluster = await crawlToEnd(t, [host.url], { flags: ['--ignore-robots'], exitCode: 4 });
  const [line] = cluster.fetched();
  assert.equal(line?.error?.kind, 'protocol');
  // Between the two requests lies the failure of the first. It took 3 to 13 s.
  const [first, second] = host.log;
  assert.ok(first !== undefined && second !== undefined);
  assert.ok(second.at - first.at < 1_000, `${second.at - first.at} ms`);
});

test('odd hosts: a robots.txt that nobody reads gives the host up at once', {
  timeout,
}, async (t) => {
  const host = await OddHost.start(t);
  host.answer('*', 'SSH-2.0-OpenSSH_9.2\r\n');
  const started = performance.now();
  const cluster = await crawlToEnd(t, [host.url], { exitCode: 4 });
  const [line] = cluster.fetched();
  assert.deepEqual(line?.error, {
    kind: 'protocol',
    message: 'malformed answer: no HTTP status line',
    attempts: 1,
  });
  assert.equal(host.log.length, 2);
  assert.ok(performance.now() - started < 15_000);
});

test('odd hosts: a body that stays short is kept at the last attempt, and marked', {
  timeout,
}, async (t) => {
  const host = await OddHost.start(t);
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "a"\r\n';
  host.answer('/', `${head}Content-Length: 999\r\n\r\n<title>t</title><img src=i><a href=next>`);
  host.answer('/next', `${head}Content-Length: 1\r\n\r\n `);
  const cluster = await crawlToEnd(t, [host.url], { flags: ['--attempts', '2'] });
  assert.equal(host.count('/'), 2);
  const [first, second] = cluster.lines('pages.jsonl').map((line) => JSON.parse(line));
  assert.deepEqual([first.title, first.incomplete, first.etag], ['t', true, undefined]);
  assert.deepEqual([second.url, second.incomplete], [`${host.url}next`, undefined]);
  assert.deepEqual(cluster.lines('img_src.txt'), [`${host.url}i`]);
});

test('odd hosts: the cookies of one host take no other of its domain away', {
  timeout,
}, async (t) => {
  const host = await OddHost.start(t);
  const ok = (body: string, more = '') =>
    `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n${more}Connection: close\r\n\r\n${body}`;
  const cookies = Array.from({ length: 5 }, (_, i) => {
    return `Set-Cookie: c${i}=${'x'.repeat(3_500)}; Domain=shop.example; Path=/\r\n`;
  });
  const links = Array.from({ length: 20 }, (_, i) => `<a href=http://www.shop.example/${i}>`).join(
    '',
  );
  host.answer('*', (socket, { path, head }) => {
    const [, name = ''] = /\r\nhost: ([^:\r]+)/i.exec(head) ?? [];
    const [, cookie = ''] = /\r\ncookie: ([^\r]*)/i.exec(head) ?? [];
    if (path === '/robots.txt') socket.end(ok('').replace('200 OK', '404 No'));
    else if (name.startsWith('ads.')) socket.end(ok(links, cookies.join('')));
    else if (cookie.length > 4_096) socket.end(ok('').replace('200 OK', '431 Too Large'));
    else if (path === '/') {
      socket.end(ok('<a href=http://ads.shop.example/>', 'Set-Cookie: own=1\r\n'));
    } else socket.end(ok('<p>'));
  });
  const routes = new Map(
    ['ads', 'www'].map((name) => [`${name}.shop.example:80`, host.port] as const),
  );
  const proxy = await TestProxy.start({ routes, scheme: 'socks5' });
  t.after(() => proxy.close());
  const flags = ['--scope', 'domain', '--proxy', proxy.url, '--delay', '0', '--per-host', '1'];
  const cluster = await crawlToEnd(t, ['http://www.shop.example/'], { flags });
  assert.equal(cluster.pages().length, 22, JSON.stringify(cluster.fetched()));
  const asked = host.log.filter(({ head }) => /host: www/i.test(head));
  const cookieOf = (head: string) => /\r\ncookie: ([^\r]*)/i.exec(head)?.[1] ?? '';
  assert.ok(asked.every(({ head }) => cookieOf(head).length <= 8_192));
  // Headers that were refused once are not sent again; its own cookies are.
  assert.ok(asked.filter(({ head }) => cookieOf(head).length > 4_096).length <= 1);
  assert.ok(asked.slice(-5).every(({ head }) => cookieOf(head) === 'own=1'));
});

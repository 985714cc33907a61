/** HTTPS and HTTP/2 by real processes; the slave trusts the test's authority as an operator would
 *  make it: by NODE_EXTRA_CA_CERTS. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { constants, createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { flatSite, sitePages } from '../../selftest/site.ts';
import { Authority, selfSigned } from '../support/certificates.ts';
import { Cluster } from '../support/cluster.ts';
import { assertLeaves, assertLeavesWith, siteFor } from '../support/parts.ts';

const timeout = 60_000;

/** Crawls to the end with one slave that trusts the authority. */
async function crawl(t: TestContext, authority: Authority, flags: readonly string[], code = 0) {
  const cluster = new Cluster(t);
  const trusted = join(cluster.folder, 'authority.pem');
  writeFileSync(trusted, authority.cert);
  const master = await cluster.master([...flags, '--exit-when-done']);
  const slave = cluster.slave([], cluster.address, { env: { NODE_EXTRA_CA_CERTS: trusted } });
  await assertLeavesWith(code, master);
  await assertLeaves(slave);
  return cluster;
}

test('https: a site is crawled over TLS, over HTTP/1.1 by default', { timeout }, async (t) => {
  const authority = new Authority();
  const identity = authority.issue();
  const site = await siteFor(t, flatSite(20), { identity, http2: true });
  const cluster = await crawl(t, authority, [site.url]);
  assert.deepEqual(cluster.pages().sort(), site.truth().pages);
  assert.deepEqual(new Set(site.log.map(({ httpVersion }) => httpVersion)), new Set(['1.1']));
});

test('https: --http2 speaks HTTP/2 where the host does, else HTTP/1.1', { timeout }, async (t) => {
  const authority = new Authority();
  const identity = authority.issue();
  const both = await siteFor(t, flatSite(60), { identity, http2: true, delayMs: 5 });
  const old = await siteFor(t, flatSite(20), { identity });
  const cluster = await crawl(t, authority, [both.url, old.url, '--http2']);
  assert.deepEqual(cluster.pages().sort(), [...both.truth().pages, ...old.truth().pages].sort());
  assert.deepEqual(new Set(both.log.map(({ httpVersion }) => httpVersion)), new Set(['2.0']));
  assert.deepEqual(new Set(old.log.map(({ httpVersion }) => httpVersion)), new Set(['1.1']));
});

for (const http2 of [false, true]) {
  test(`https: a certificate that does not hold is kind tls${http2 ? ' (HTTP/2)' : ''}`, {
    timeout,
  }, async (t) => {
    const authority = new Authority();
    const pages = sitePages({ '/': [] });
    const reasons = new Map([
      [authority.issue({ days: -1 }), 'CERT_HAS_EXPIRED'],
      [authority.issue({ names: ['other.example'] }), 'ERR_TLS_CERT_ALTNAME_INVALID'],
      [selfSigned(), 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      [new Authority().issue(), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
    ]);
    const expected = new Map<string, string>();
    const flags = ['--attempts', '1', '--ignore-robots', ...(http2 ? ['--http2'] : [])];
    for (const [identity, reason] of reasons) {
      const site = await siteFor(t, pages, { identity, http2 });
      expected.set(site.url, `no secure connection: ${reason}`);
    }
    const plain = await siteFor(t, pages);
    const notTls = plain.url.replace('http:', 'https:');
    const cluster = await crawl(t, authority, [...expected.keys(), notTls, ...flags], 4);
    const errors = new Map(cluster.fetched().map(({ url, error }) => [url, error]));
    for (const [url, message] of expected) {
      assert.deepEqual(errors.get(url), { kind: 'tls', message, attempts: 1 });
    }
    assert.equal(errors.get(notTls)?.kind, 'tls');
  });
}

test('https: a 421 over HTTP/2 is asked again by itself, once', { timeout }, async (t) => {
  const authority = new Authority();
  const { cert, key } = authority.issue();
  const sessions: unknown[] = [];
  const asked: string[] = [];
  const server = createSecureServer({ cert, key, allowHTTP1: true });
  server.on('request', (request, response) => {
    const { url, stream } = request;
    if (!sessions.includes(stream?.session)) sessions.push(stream?.session);
    const session = sessions.indexOf(stream?.session);
    asked.push(`${url} ${session}`);
    if (session === 0 || url === '/never') {
      response.writeHead(421, { 'content-type': 'text/html' }).end();
    } else if (url === '/robots.txt') response.end('User-agent: *\nDisallow: /private');
    else {
      response.setHeader('content-type', 'text/html');
      response.end('<a href=/private>p</a><a href=/b>b</a><a href=/never>n</a>');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const origin = `https://127.0.0.1:${port}`;
  const cluster = await crawl(t, authority, [`${origin}/`, '--http2']);
  assert.deepEqual(cluster.pages().sort(), [`${origin}/`, `${origin}/b`]);
  assert.deepEqual(asked.slice(0, 2), ['/robots.txt 0', '/robots.txt 1']);
  assert.equal(asked.filter((line) => line.startsWith('/private')).length, 0);
  const never = cluster.fetched().find(({ url }) => url === `${origin}/never`);
  assert.equal(never?.error?.kind, 'status');
  const [first, second, ...more] = asked.filter((line) => line.startsWith('/never'));
  assert.notEqual(first, second);
  assert.deepEqual(more, []);
});

test('https: a host with HTTP/2 alone keeps its page when it ends a session', {
  timeout,
}, async (t) => {
  const authority = new Authority();
  const asked: string[] = [];
  const server = createSecureServer(authority.issue());
  server.on('stream', (stream, headers) => {
    const path = headers[':path'] ?? '';
    stream.on('error', () => {});
    const isFirst = !asked.includes(path);
    asked.push(path);
    if (path === '/ended' && isFirst) stream.session?.goaway(0, stream.id);
    else if (path === '/late' && isFirst) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    else {
      stream.respond({
        ':status': path === '/robots.txt' ? 404 : 200,
        'content-type': 'text/html',
      });
      stream.end('<a href=/ended>e</a><a href=/late>l</a>');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const origin = `https://127.0.0.1:${port}`;
  // The last attempt is on a connection of its own.
  const flags = ['--http2', '--attempts', '2'];
  const cluster = await crawl(t, authority, [`${origin}/`, ...flags]);
  assert.deepEqual(cluster.pages().sort(), [`${origin}/`, `${origin}/ended`, `${origin}/late`]);
  for (const path of ['/ended', '/late']) {
    assert.equal(asked.filter((one) => one === path).length, 2, path);
  }
});

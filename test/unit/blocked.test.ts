/** The address guard as a slave's fetches meet it: what it refuses is never connected to. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import test, { type TestContext } from 'node:test';
import { type FetchSpec, fetchSpecSchema } from '../../shared/crawl.ts';
import { AddressCache } from '../../shared/resolver.ts';
import type { FetchOutcome } from '../../slave/fetch/outcome.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { spellings } from '../support/spellings.ts';

const never = new AbortController().signal;

/** A server on loopback that redirects to `location()`, if there is one. */
async function site(t: TestContext, location: () => string | undefined = () => undefined) {
  let connections = 0;
  const server = createServer((_, response) => {
    const to = location();
    if (to === undefined) response.writeHead(200, { 'content-type': 'text/html' }).end('<p>');
    else response.writeHead(302, { location: to }).end();
  });
  server.on('connection', () => connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { port: address.port, connections: () => connections, server };
}

/** A fetcher over a resolver that gives these answers in order, the last one for ever. */
function fetcherOver(t: TestContext, ...answers: string[][]) {
  let asked = 0;
  const addresses = new AddressCache(
    async () => {
      const answer = answers[Math.min(asked++, answers.length - 1)] ?? [];
      return { addresses: answer.map((address) => ({ address, family: 4 })), ttlMs: 0 };
    },
    { ttlMsMin: 0 },
  );
  const fetcher = new PageFetcher({ connections: 4, addresses });
  t.after(() => fetcher.close());
  return (url: string, spec: Partial<FetchSpec> = {}, blocks: readonly string[] = []) =>
    fetcher.fetch(url, { ...fetchSpecSchema.parse({}), ...spec }, never, { open: true, blocks });
}

function isBlocked(outcome: FetchOutcome): boolean {
  assert.ok(outcome.ok, 'it is definite');
  return outcome.result.error?.kind === 'blocked' && outcome.result.status === 0;
}

const isPage = (outcome: FetchOutcome) => outcome.ok && outcome.result.status === 200;

test('blocked: every spelling of an address that is not public', async (t) => {
  const secret = await site(t);
  const get = fetcherOver(t, ['127.0.0.1']);
  assert.ok(spellings.length >= 40);
  for (const [spelling] of spellings) {
    for (const scheme of ['http', 'https']) {
      const url = `${scheme}://${spelling}:${secret.port}/`;
      assert.ok(isBlocked(await get(url)), url);
    }
  }
  assert.equal(secret.connections(), 0);
});

test('blocked: a redirect from an open host to any of them', async (t) => {
  let target = '';
  const open = await site(t, () => target);
  const secret = await site(t);
  const get = fetcherOver(t, ['127.0.0.1']);
  for (const [spelling] of spellings) {
    target = `http://${spelling.replace(/[^!-~]/gu, encodeURIComponent)}:${secret.port}/`;
    const outcome = await get(`http://127.0.0.1:${open.port}/`, {}, ['127.0.0.0/8']);
    assert.ok(outcome.ok);
    // It leaves the origin, so that it comes back as a task of its own, which nobody opened.
    const { redirectedTo } = outcome.result;
    assert.ok(redirectedTo !== undefined, target);
    assert.ok(isBlocked(await get(redirectedTo)), target);
  }
  assert.equal(secret.connections(), 0);
});

test('blocked: a name at a private address, also one that was public a moment ago', async (t) => {
  const secret = await site(t);
  const url = `http://rebind.example:${secret.port}/`;
  assert.ok(isBlocked(await fetcherOver(t, ['127.0.0.1'])(url)));
  assert.ok(isBlocked(await fetcherOver(t, ['10.0.0.1', '169.254.169.254'])(url)));
  assert.equal(secret.connections(), 0);
  // 127.0.0.1 plays the public address here; the second answer is another machine.
  const get = fetcherOver(t, ['127.0.0.1'], ['127.0.0.2']);
  const allowPrivate = ['127.0.0.1'];
  assert.ok(isPage(await get(url, { allowPrivate })));
  secret.server.closeAllConnections();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(isBlocked(await get(url, { allowPrivate })));
});

test('blocked: not what is allowed, by crawl or by seed; and no socket is shared', async (t) => {
  const secret = await site(t);
  const get = fetcherOver(t, ['127.0.0.1']);
  for (const host of ['127.0.0.1', 'name.example', '[::ffff:127.0.0.1]']) {
    const url = `http://${host}:${secret.port}/`;
    assert.ok(isPage(await get(url, {}, ['127.0.0.0/8'])), host);
    assert.ok(isPage(await get(url, { allowPrivate: 'all' })), host);
    assert.ok(isPage(await get(url, { allowPrivate: ['10.0.0.0/8', '127.0.0.0/8'] })), host);
    const before = secret.connections();
    assert.ok(isBlocked(await get(url, { allowPrivate: ['10.0.0.0/8'] })), host);
    assert.ok(isBlocked(await get(url)), host);
    assert.equal(secret.connections(), before);
  }
});

test('blocked: a seed’s host anywhere but in the block where it was found', async (t) => {
  const secret = await site(t);
  const url = `http://rebind.example:${secret.port}/`;
  const blocks = ['127.0.0.0/8'];
  assert.ok(isPage(await fetcherOver(t, ['127.0.0.1'])(url, {}, blocks)));
  assert.ok(isPage(await fetcherOver(t, ['127.0.0.2'], ['127.0.0.1'])(url, {}, blocks)) === false);
  const before = secret.connections();
  // It was public, or in another block, when it was added.
  for (const other of [[], ['10.0.0.0/8'], ['127.0.0.2'], ['::1/128']]) {
    assert.ok(isBlocked(await fetcherOver(t, ['127.0.0.1'])(url, {}, other)), `${other}`);
  }
  // Of several addresses only what is open is used.
  const mixed = fetcherOver(t, ['10.0.0.1', '169.254.169.254', '127.0.0.1']);
  assert.ok(isPage(await mixed(url, {}, blocks)));
  assert.ok(isBlocked(await mixed(url, {}, ['192.168.0.0/16'])));
  assert.equal(secret.connections(), before + 1);
});

test('blocked: never by name what clouds tell a machine of itself', async (t) => {
  const get = (address: string, blocks: string[]) =>
    fetcherOver(t, [address])('http://seed.example:1/', {}, blocks);
  const within: [string, string][] = [
    ['169.254.169.254', '169.254.0.0/16'],
    ['100.100.100.200', '100.64.0.0/10'],
    ['fd00:ec2::254', 'fc00::/7'],
    ['fd20:ce::254', 'fc00::/7'],
    ['fe80::1', 'fe80::/10'],
  ];
  for (const [address, block] of within) assert.ok(isBlocked(await get(address, [block])), address);
});

test('blocked: policies beyond the limit end their sockets, not their fetches', async (t) => {
  const open = await site(t);
  const get = fetcherOver(t, ['127.0.0.1']);
  const urls = Array.from({ length: 40 }, (_, i) =>
    get(`http://127.0.0.1:${open.port}/`, { allowPrivate: ['127.0.0.1', `10.0.0.${i}`] }),
  );
  assert.ok((await Promise.all(urls)).every(isPage));
});

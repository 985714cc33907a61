/** The address guard over real sockets: what it refuses is never connected to. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Agent, request } from 'undici';
import { AddressPolicy } from '../../shared/address.ts';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import {
  AddressCache,
  type Resolve,
  type ResolvedAddress,
  systemResolve,
} from '../../shared/resolver.ts';
import { BlockedError, checkUrl, guardedLookup } from '../../slave/fetch/guard.ts';
import { nameServer } from '../support/name-server.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { spellings } from '../support/spellings.ts';

const at = (...addresses: string[]): ResolvedAddress[] =>
  addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

/** Reports in order; the last one for ever. */
function answers(...list: string[][]): Resolve & { asked: () => number } {
  let asked = 0;
  const resolve: Resolve = async () => {
    const addresses = list[Math.min(asked++, list.length - 1)] ?? [];
    return { addresses: at(...addresses), ttlMs: 0 };
  };
  return Object.assign(resolve, { asked: () => asked });
}

type Site = { server: Server; port: number; connections: () => number };

/** A server on its own loopback address; ends with the test. */
async function site(
  t: TestContext,
  host: string,
  { location, port = 0 }: { location?: () => string; port?: number } = {},
): Promise<Site> {
  let connections = 0;
  const server = createServer((_, response) => {
    if (location !== undefined) response.writeHead(302, { location: location() });
    response.end(host);
  });
  server.on('connection', () => connections++);
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { server, port: address.port, connections: () => connections };
}

/** A fetch as the slave makes it: every hop through both doors. */
async function get(url: string, agent: Agent, policy: AddressPolicy): Promise<string> {
  let next = new URL(url);
  for (let hop = 0; hop <= 5; hop++) {
    const blocked = checkUrl(next, policy);
    if (blocked !== undefined) throw blocked;
    const { headers, body } = await request(next, { dispatcher: agent });
    const text = await body.text();
    const { location } = headers;
    if (typeof location !== 'string') return text;
    next = new URL(location, next);
  }
  throw new Error('too many redirects');
}

const isBlocked = (error: unknown) => error instanceof BlockedError && error.kind === 'blocked';

function agentOf(t: TestContext, resolve: Resolve, policy: AddressPolicy): Agent {
  // No TTL: each connection asks anew, which is what a rebinding attack wants.
  const cache = new AddressCache(resolve, { ttlMsMin: 0 });
  const agent = new Agent({ connect: { lookup: guardedLookup(cache, policy) } });
  t.after(() => agent.destroy());
  return agent;
}

test('guard: a name at a private address is not connected to, unless allowed', async (t) => {
  const secret = await site(t, '127.0.0.1');
  const resolve = answers(['127.0.0.1']);
  const none = new AddressPolicy();
  const refusing = agentOf(t, resolve, none);
  await assert.rejects(get(`http://site.example:${secret.port}/`, refusing, none), isBlocked);
  assert.equal(secret.connections(), 0);
  const loopback = new AddressPolicy(['127.0.0.0/8']);
  const allowing = agentOf(t, resolve, loopback);
  assert.equal(await get(`http://site.example:${secret.port}/`, allowing, loopback), '127.0.0.1');
  assert.equal(secret.connections(), 1);
});

test('guard: a rebinding name never gets to the second address', async (t) => {
  // 127.0.0.2 plays the public address: it alone is allowed.
  const open = await site(t, '127.0.0.2');
  const secret = await site(t, '127.0.0.1', { port: open.port });
  const policy = new AddressPolicy(['127.0.0.2']);
  const resolve = answers(['127.0.0.2'], ['127.0.0.1'], ['127.0.0.1', '::1'], ['127.0.0.1']);
  const agent = agentOf(t, resolve, policy);
  const url = `http://rebind.example:${open.port}/`;
  assert.equal(await get(url, agent, policy), '127.0.0.2');
  for (let again = 0; again < 5; again++) {
    open.server.closeAllConnections();
    await new Promise((resolved) => setTimeout(resolved, 20));
    await assert.rejects(get(url, agent, policy), isBlocked);
  }
  assert.ok(resolve.asked() >= 4);
  assert.equal(secret.connections(), 0);
});

test('guard: of a mixed answer only the allowed addresses are used', async (t) => {
  const open = await site(t, '127.0.0.2');
  const secret = await site(t, '127.0.0.1', { port: open.port });
  const policy = new AddressPolicy(['127.0.0.2']);
  const agent = agentOf(t, answers(['127.0.0.1', '127.0.0.2', '10.0.0.1', '::1']), policy);
  assert.equal(await get(`http://mixed.example:${open.port}/`, agent, policy), '127.0.0.2');
  assert.equal(secret.connections(), 0);
});

test('guard: a redirect to any spelling of a private address is not followed', async (t) => {
  let target = '';
  const open = await site(t, '127.0.0.2', { location: () => target });
  const secret = await site(t, '127.0.0.1');
  const policy = new AddressPolicy(['127.0.0.2']);
  const agent = agentOf(t, answers(['127.0.0.2']), policy);
  for (const [spelling] of spellings) {
    target = `http://${spelling.replace(/[^!-~]/gu, encodeURIComponent)}:${secret.port}/`;
    await assert.rejects(get(`http://open.example:${open.port}/`, agent, policy), isBlocked);
    assert.ok(isBlocked(checkUrl(new URL(`https://u:p@${spelling}/`), policy)), spelling);
  }
  for (target of ['file:///etc/passwd', 'ftp://8.8.8.8/', 'data:,x'])
    await assert.rejects(get(`http://open.example:${open.port}/`, agent, policy), isBlocked);
  assert.equal(secret.connections(), 0);
});

test('guard: names that mean this machine are refused by what they resolve to', async (t) => {
  const secret = await site(t, '127.0.0.1');
  const policy = new AddressPolicy();
  const agent = agentOf(t, systemResolve(), policy);
  for (const host of ['localhost', 'LOCALHOST', 'localhost.'])
    await assert.rejects(get(`http://${host}:${secret.port}/`, agent, policy));
  assert.equal(secret.connections(), 0);
});

type Found = { error: Error | null; address: unknown; family: unknown };

function ask(
  resolve: Resolve,
  policy: AddressPolicy,
  options: { all?: boolean; family?: number | 'IPv4' | 'IPv6' } = {},
  host = 'a.example',
): Promise<Found> {
  const lookup = guardedLookup(new AddressCache(resolve), policy);
  return new Promise((done) =>
    lookup(host, options, (error, address, family) => done({ error, address, family })),
  );
}

test('guard: the lookup speaks as net.connect expects', async () => {
  const policy = new AddressPolicy(['::1']);
  const resolve = answers(['10.0.0.1', '8.8.8.8', '9.9.9.9', '::1']);
  const one = { error: null, address: '8.8.8.8', family: 4 };
  assert.deepEqual(await ask(resolve, policy), one);
  assert.deepEqual(await ask(resolve, policy, { family: 0 }), one);
  assert.deepEqual(await ask(resolve, policy, { family: 'IPv4' }), one);
  const six = { error: null, address: '::1', family: 6 };
  assert.deepEqual(await ask(resolve, policy, { family: 6 }), six);
  assert.deepEqual(await ask(resolve, policy, { family: 'IPv6' }), six);
  const all = await ask(resolve, policy, { all: true });
  assert.deepEqual(all.address, at('8.8.8.8', '9.9.9.9', '::1'));
  assert.deepEqual((await ask(resolve, policy, {}, '9.9.9.9')).address, '9.9.9.9');
  assert.ok(isBlocked((await ask(resolve, policy, {}, '127.0.0.1')).error));
  const refused = await ask(answers(['10.0.0.1', 'fd00::1']), policy, { all: true });
  assert.ok(isBlocked(refused.error));
  const other = await ask(answers(['8.8.8.8']), policy, { family: 6 });
  assert.equal(other.error && 'code' in other.error && other.error.code, 'ENOTFOUND');
  const failed = await ask(async () => Promise.reject(new Error('no DNS')), policy);
  assert.equal(failed.error?.message, 'no DNS');
});

test('resolver: answers live for their TTL within limits, failures briefly', async () => {
  let now = 0;
  let asked = 0;
  let ttlMs = 50_000;
  const resolve: Resolve = async (host) => {
    asked++;
    if (host === 'dead') throw new Error('dead');
    return { addresses: at('8.8.8.8'), ttlMs };
  };
  const cache = new AddressCache(resolve, { now: () => now });
  const askedAt = async (ms: number, host = 'a') => {
    now = ms;
    await cache.resolve(host).catch(() => undefined);
    return asked;
  };
  assert.equal(await askedAt(0), 1);
  assert.equal(await askedAt(49_999), 1);
  ttlMs = 0;
  assert.equal(await askedAt(50_000), 2);
  assert.equal(await askedAt(50_999), 2);
  ttlMs = Number.POSITIVE_INFINITY;
  assert.equal(await askedAt(51_000), 3);
  assert.equal(await askedAt(650_999), 3);
  assert.equal(await askedAt(651_000), 4);
  assert.equal(await askedAt(651_000, 'dead'), 5);
  assert.equal(await askedAt(655_999, 'dead'), 5);
  assert.equal(await askedAt(656_000, 'dead'), 6);
});

test('resolver: one question at a time for a name, and a bounded number of names', async () => {
  let asked = 0;
  const resolve: Resolve = async () => {
    asked++;
    await new Promise(setImmediate);
    return { addresses: at('8.8.8.8'), ttlMs: 60_000 };
  };
  const cache = new AddressCache(resolve, { countMax: 3 });
  await Promise.all(Array.from({ length: 20 }, () => cache.resolve('a')));
  assert.equal(asked, 1);
  for (const host of ['b', 'c', 'a', 'd']) await cache.resolve(host);
  assert.equal(cache.size, 3);
  assert.equal(asked, 4);
  // b was unused for longest.
  for (const host of ['a', 'c', 'd']) await cache.resolve(host);
  assert.equal(asked, 4);
  await cache.resolve('b');
  assert.equal(asked, 5);
});

test('resolver: a question that nobody answers ends at its deadline', async () => {
  const cache = new AddressCache(() => new Promise(() => undefined), { deadlineMs: 20 });
  await assert.rejects(cache.resolve('a'), { code: 'ETIMEOUT' });
});

test('resolver: the DNS tells addresses and their TTL; the hosts file comes first', async (t) => {
  const answer = { addresses: ['8.8.4.4'], ttlS: 77 };
  const { address, asked } = await nameServer(t, () => answer);
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const hosts = join(folder, 'hosts');
  writeFileSync(hosts, '# a.example\n127.0.0.1\tlocalhost  Own.invalid # b.example\n');
  const resolve = systemResolve({ servers: [address], hosts });
  for (const host of ['a.example', 'b.example'])
    assert.deepEqual(await resolve(host), { addresses: at('8.8.4.4'), ttlMs: 77_000 });
  await resolve('own.invalid').catch(() => {});
  await assert.rejects(resolve('other.invalid'), { code: 'ENOTFOUND' });
  await resolve('localhost');
  assert.deepEqual(new Set(asked), new Set(['a.example', 'b.example']));
});

test('resolver: whatever goes wrong with a name is of kind dns, in words', async (t) => {
  const { address } = await nameServer(t, (name) => {
    const code = { failing: 2, unknown: 3, refused: 5, silent: 'silent' as const }[
      name.split('.')[0] ?? ''
    ];
    return code === undefined ? undefined : { code };
  });
  const resolve = systemResolve({ servers: [address], tryMs: 300, tries: 1 });
  const fetcher = new PageFetcher({ connections: 1, addresses: new AddressCache(resolve) });
  t.after(() => fetcher.close());
  const signal = new AbortController().signal;
  const says = async (host: string) => {
    const spec = fetchSpecSchema.parse({});
    const outcome = await fetcher.fetch(`http://${host}.orbweaver.example/`, spec, signal);
    assert.ok(!outcome.ok, host);
    return `${outcome.error.kind}: ${outcome.error.message}`;
  };
  assert.equal(await says('failing'), 'dns: name server failed (SERVFAIL)');
  assert.equal(await says('refused'), 'dns: name server refused');
  assert.equal(await says('silent'), 'dns: name server does not answer');
  assert.match(await says('unknown'), /^dns: (host not found|name server does not answer)$/);
});

test('resolver: fast answers do not shorten the wait for a slow one', async (t) => {
  const { address } = await nameServer(t, (name) => ({
    addresses: ['8.8.4.4'],
    delayMs: name.startsWith('slow') ? 1_500 : 0,
  }));
  const resolve = systemResolve({ servers: [address] });
  for (let i = 0; i < 50; i++) await resolve(`fast${i}.example`);
  const slow = Array.from({ length: 20 }, (_, i) => resolve(`slow${i}.example`));
  for (const { addresses } of await Promise.all(slow)) assert.deepEqual(addresses, at('8.8.4.4'));
});

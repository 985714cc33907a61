/** Connections to hosts with several addresses: far ones, dead ones, and which of them is taken. */
import assert from 'node:assert/strict';
import dns from 'node:dns';
import { once } from 'node:events';
import { connect as connectTo, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext, createServer as createTlsServer, TLSSocket } from 'node:tls';
import { driver } from '../../master/sinks/outputs/context.ts';
import { connect } from '../../shared/client.ts';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { ConnectionError } from '../../shared/errors.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { makeConnector } from '../../slave/fetch/connector.ts';
import { PoorAddresses } from '../../slave/fetch/poor-addresses.ts';
import { SessionRoom } from '../../slave/fetch/tls-sessions.ts';
import { Authority } from '../support/certificates.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { farPort } from '../support/unanswering.ts';

const authority = new Authority();
const never = new AbortController().signal;
const context = createSecureContext({ ca: authority.cert });
async function nearHost(t: TestContext, host: string, port = 0): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {})).listen(port, host);
  t.after(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

/** A connection to a name with these addresses. */
async function reach(
  addresses: readonly string[],
  port: number,
  {
    protocol = 'http:',
    timeoutMs = 10_000,
    sessions = new SessionRoom().part(),
    poor = new PoorAddresses(),
  } = {},
): Promise<Socket> {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  const connector = makeConnector({
    timeoutMs,
    sessions,
    poor,
    context,
    lookup: (_, { all }, callback) => (all ? callback(null, found) : callback(null, '?', 4)),
  });
  return new Promise((resolve, reject) => {
    const hostname = 'a.example';
    const target = { protocol, hostname, host: `${hostname}:${port}`, port: String(port) };
    connector(target, (error, socket) => (error === null ? resolve(socket) : reject(error)));
  });
}

test('any address: a far one is not given up for one that cannot be reached', async (t) => {
  const { port } = await farPort(t, '127.0.0.2', 600);
  const socket = await reach(['127.0.0.2', '127.0.0.3'], port);
  assert.equal(socket.remoteAddress, '127.0.0.2');
  socket.destroy();
});

test('any address: the next one is tried while the first is silent', async (t) => {
  const { port } = await farPort(t, '127.0.0.2', 60_000);
  await nearHost(t, '127.0.0.4', port);
  const socket = await reach(['127.0.0.2', '127.0.0.3', '127.0.0.4'], port);
  assert.equal(socket.remoteAddress, '127.0.0.4');
  socket.destroy();
});

test('any address: of many dead ones none holds up the rest', async (t) => {
  const port = await nearHost(t, '127.0.0.40');
  const dead = Array.from({ length: 30 }, (_, i) => `127.0.0.${i + 2}`);
  const socket = await reach([...dead, '127.0.0.40'], port);
  assert.equal(socket.remoteAddress, '127.0.0.40');
  socket.destroy();
});

test('any address: without an answer the time is over, or the first address says why', async (t) => {
  const { port } = await farPort(t, '127.0.0.2', 60_000);
  const late = reach(['127.0.0.2', '127.0.0.3'], port, { timeoutMs: 400 });
  await assert.rejects(late, { code: 'UND_ERR_CONNECT_TIMEOUT' });
  const refused = reach(['127.0.0.3', '127.0.0.4'], port);
  await assert.rejects(refused, { code: 'ECONNREFUSED', address: '127.0.0.3' });
});

test('any address: TLS begins on the one that answers, and resumes its session', async (t) => {
  const server = createTlsServer(authority.issue({ names: ['a.example'] }), (socket) => {
    socket.on('error', () => {}).write('x');
  }).listen(0, '127.0.0.4');
  t.after(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const sessions = new SessionRoom().part();
  for (const isResumed of [false, true]) {
    const socket = await reach(['127.0.0.3', '127.0.0.4'], port, { protocol: 'https:', sessions });
    assert.ok(socket instanceof TLSSocket);
    assert.equal(socket.isSessionReused(), isResumed);
    await once(socket, isResumed ? 'data' : 'session');
    assert.equal(socket.remoteAddress, '127.0.0.4');
    socket.destroy();
  }
});

/** All names have these addresses. */
function named(t: TestContext, addresses: readonly string[]): void {
  const found = addresses.map((address) => ({ address, family: 4 }));
  const lookup = (_name: string, _options: unknown, callback: (...of: unknown[]) => void) =>
    process.nextTick(callback, null, found);
  t.mock.method(dns, 'lookup', lookup);
}

test('any address: a far master is not given up for an address without one', async (t) => {
  const { port, reached } = await farPort(t, '127.0.0.2', 600);
  named(t, ['127.0.0.2', '127.0.0.3']);
  const ended = new Promise((_, reject) => {
    void connect({ host: 'a.example', port, authkey: 'k'.repeat(32), onClose: reject }).catch(
      () => {},
    );
  });
  await Promise.race([reached, ended]);
});

test('any address: that no master answers is said of the first address', async (t) => {
  const port = await nearHost(t, '127.0.0.40');
  named(t, ['127.0.0.3', '127.0.0.4']);
  const joining = connect({ host: 'a.example', port, authkey: 'k'.repeat(32) });
  await assert.rejects(joining, (error) => {
    assert.ok(error instanceof ConnectionError);
    assert.equal(error.message, `connect ECONNREFUSED 127.0.0.3:${port}`);
    return true;
  });
});

test('any address: nor does the driver of a database give up a far one', async (t) => {
  const { port } = await farPort(t, '127.0.0.2', 600);
  await driver('a-driver', '1', async () => ({}));
  const socket = connectTo({
    host: 'db.example',
    port,
    lookup: (_, __, callback) => {
      const addresses = ['127.0.0.2', '127.0.0.3'];
      callback(
        null,
        addresses.map((address) => ({ address, family: 4 })),
      );
    },
  });
  await once(socket, 'connect');
  assert.equal(socket.remoteAddress, '127.0.0.2');
  socket.destroy();
});

/** A fetcher for which each name has these addresses. */
function fetcherOf(t: TestContext, addresses: readonly string[]): PageFetcher {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  const cache = new AddressCache(() => Promise.resolve({ addresses: found, ttlMs: 60_000 }));
  const fetcher = new PageFetcher({ connections: 4, addresses: cache });
  t.after(() => fetcher.close());
  return fetcher;
}

test('any address: one that gives no answer is the last one the next time', async (t) => {
  const page = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi';
  const good = createServer((socket) => socket.on('data', () => socket.end(page)));
  good.listen(0, '::1');
  await once(good, 'listening');
  t.after(() => good.close());
  const address = good.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const endings: [string, (socket: Socket) => void][] = [
    ['127.0.0.2', (socket) => socket.resetAndDestroy()],
    ['127.0.0.3', (socket) => socket.end()],
    ['127.0.0.4', () => {}],
  ];
  const spec = fetchSpecSchema.parse({ timeoutMs: 500, allowPrivate: 'all' });
  for (const [host, end] of endings) {
    const sockets = new Set<Socket>();
    const bad = createServer((socket) => {
      sockets.add(socket.on('error', () => {}).on('data', () => end(socket)));
    });
    bad.listen(port, host);
    await once(bad, 'listening');
    t.after(() => {
      bad.close();
      for (const socket of sockets) socket.destroy();
    });
    const fetcher = fetcherOf(t, [host, '::1']);
    const got = [];
    for (let i = 0; i < 4; i++) {
      const outcome = await fetcher.fetch(`http://a.example:${port}/`, spec, never);
      got.push(outcome.ok);
      await sleep(20);
    }
    assert.deepEqual(got, [false, true, true, true], host);
  }
});

test('any address: one without TLS for us is followed by the next one at once', async (t) => {
  const tls = createTlsServer(authority.issue({ names: ['a.example'] }), (socket) => socket.end());
  tls.listen(0, '127.0.0.5');
  await once(tls, 'listening');
  t.after(() => tls.close());
  const address = tls.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const identity = new Authority().issue({ names: ['a.example'] });
  const untrusted = createTlsServer(identity, (socket) => socket.end());
  untrusted.on('tlsClientError', () => {}).listen(port, '127.0.0.6');
  await once(untrusted, 'listening');
  t.after(() => untrusted.close());
  const socket = await reach(['127.0.0.6', '127.0.0.5'], port, { protocol: 'https:' });
  assert.equal(socket.remoteAddress, '127.0.0.5');
  socket.destroy();
  const both = reach(['127.0.0.6', '127.0.0.7'], port, { protocol: 'https:' });
  await assert.rejects(both, { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
});

test('any address: a dead one is waited for once', async (t) => {
  const { port } = await farPort(t, '127.0.0.2', 60_000);
  await nearHost(t, '127.0.0.4', port);
  const poor = new PoorAddresses();
  const times = [];
  for (let i = 0; i < 3; i++) {
    const from = performance.now();
    const socket = await reach(['127.0.0.2', '127.0.0.4'], port, { poor });
    times.push(performance.now() - from);
    assert.equal(socket.remoteAddress, '127.0.0.4');
    socket.destroy();
  }
  assert.ok((times[0] ?? 0) > 200 && Math.min(...times.slice(1)) < 200, `${times}`);
});

test('poor addresses: in the order in which they failed, and bounded', () => {
  const poor = new PoorAddresses();
  assert.deepEqual(poor.sorted('h', ['a', 'b', 'c']), ['a', 'b', 'c']);
  for (const address of ['b', 'a', 'b']) poor.failed('h', address);
  assert.deepEqual(poor.sorted('h', ['a', 'b', 'c']), ['c', 'a', 'b']);
  assert.deepEqual(poor.sorted('other', ['a', 'b']), ['a', 'b']);
  poor.worked('h', 'a');
  assert.deepEqual(poor.sorted('h', ['a', 'b', 'c']), ['a', 'c', 'b']);
  for (let i = 0; i < 10_000; i++) poor.failed(`${i}`, 'x');
  assert.deepEqual(poor.sorted('h', ['b', 'c']), ['b', 'c']);
});

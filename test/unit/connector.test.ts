/** TLS by the slave's own connector: whom it takes for a host, and which sessions it resumes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket as TcpSocket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { createSecureContext, createServer as createTlsServer, TLSSocket } from 'node:tls';
import type { Identity } from '../../selftest/site.ts';
import { makeConnector } from '../../slave/fetch/connector.ts';
import { SessionRoom, type TlsSessions } from '../../slave/fetch/tls-sessions.ts';
import { Authority } from '../support/certificates.ts';

const authority = new Authority();
const context = createSecureContext({ ca: authority.cert });

/** A server whose names all lead here; counts resumed handshakes. */
async function serve(t: TestContext, identity: Identity) {
  const sockets = new Set<TLSSocket>();
  const seen = { full: 0, resumed: 0 };
  const server = createTlsServer(identity, (socket) => {
    sockets.add(socket.on('error', () => {}));
    if (socket.isSessionReused()) seen.resumed++;
    else seen.full++;
    socket.write('x');
  });
  server.on('tlsClientError', () => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return { seen, port: typeof address === 'object' ? String(address?.port) : '' };
}

function connectorOf(sessions: TlsSessions, timeoutMs = 5_000) {
  return makeConnector({
    timeoutMs,
    sessions,
    context,
    lookup: (_, { all }, callback) =>
      all ? callback(null, [{ address: '127.0.0.1', family: 4 }]) : callback(null, '127.0.0.1', 4),
  });
}

/** One connection, read from until the server's session is there. */
async function reach(connector: ReturnType<typeof connectorOf>, hostname: string, port: string) {
  const socket = await new Promise<TcpSocket>((resolve, reject) => {
    const target = { protocol: 'https:', hostname, host: `${hostname}:${port}`, port };
    connector(target, (error, made) => (made ? resolve(made) : reject(error)));
  });
  const session = once(socket, 'session');
  const answered = once(socket, 'data');
  if (!(socket instanceof TLSSocket && socket.isSessionReused())) await session;
  await answered;
  socket.destroy();
}

const cases: readonly [certificate: readonly string[], host: string, isRight: boolean][] = [
  [['a.example'], 'a.example', true],
  [['a.example'], 'A.Example', true],
  [['a.example'], 'a.example.', true],
  [['a.example'], 'b.example', false],
  [['a.example'], 'b.example.', false],
  [['a.example'], 'x.a.example', false],
  [['*.example.org'], 'a.example.org', true],
  [['*.example.org'], 'example.org', false],
  [['*.example.org'], 'a.b.example.org', false],
  [['a.example', 'b.example'], 'b.example', true],
  [['127.0.0.1'], '127.0.0.1', true],
  [['127.0.0.2'], '127.0.0.1', false],
  // The common name, which is the first of these, does not count beside alternative ones.
  [['a.example', '127.0.0.1'], '127.0.0.1', true],
  [['127.0.0.1'], 'a.example', false],
];
for (const [names, host, isRight] of cases) {
  test(`connector: ${host} by a certificate of ${names} is ${isRight}`, async (t) => {
    const { port, seen } = await serve(t, authority.issue({ names }));
    const connector = connectorOf(new SessionRoom().part());
    // A host that was refused once has no session that could make it right.
    for (let i = 0; i < 2; i++) {
      const reached = reach(connector, host, port);
      if (isRight) await reached;
      else await assert.rejects(reached, { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    }
    assert.equal(seen.resumed, isRight ? 1 : 0);
  });
}

test('connector: the name that is sent ends without a dot', async (t) => {
  const names: string[] = [];
  const identity = authority.issue({ names: ['a.example'] });
  const server = createTlsServer(identity, (socket) => socket.end('x'));
  server.on('secureConnection', ({ servername }) => names.push(String(servername)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' ? String(address?.port) : '';
  await reach(connectorOf(new SessionRoom().part()), 'a.example.', port);
  assert.deepEqual(names, ['a.example']);
});

test('connector: an authority that nobody named is refused', async (t) => {
  const { port } = await serve(t, new Authority().issue());
  const reached = reach(connectorOf(new SessionRoom().part()), '127.0.0.1', port);
  await assert.rejects(reached, { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
});

test('connector: a session is neither of another name nor of another client', async (t) => {
  const identity = authority.issue({ names: ['a.example', 'b.example'] });
  const { port, seen } = await serve(t, identity);
  const room = new SessionRoom();
  const [one, other] = [connectorOf(room.part()), connectorOf(room.part())];
  await reach(one, 'a.example', port);
  await reach(one, 'b.example', port);
  await reach(other, 'a.example', port);
  assert.deepEqual(seen, { full: 3, resumed: 0 });
  await reach(one, 'a.example', port);
  assert.deepEqual(seen, { full: 3, resumed: 1 });
});

test('connector: after a failure the next handshake is a whole one', async (t) => {
  const identity = authority.issue({ names: ['a.example'] });
  const { port } = await serve(t, identity);
  const sessions = new SessionRoom().part();
  const connector = connectorOf(sessions);
  await reach(connector, 'a.example', port);
  assert.ok(sessions.of(`a.example ${port}`));
  const mute = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  t.after(() => mute.close());
  await once(mute, 'listening');
  const address = mute.address();
  const mutePort = typeof address === 'object' ? String(address?.port) : '';
  sessions.keep(`a.example ${mutePort}`, sessions.of(`a.example ${port}`) ?? Buffer.alloc(0));
  await assert.rejects(reach(connector, 'a.example', mutePort), /ECONNRESET|before secure/);
  assert.equal(sessions.of(`a.example ${mutePort}`), undefined);
});

test('connector: a server that never ends the handshake is given up', async (t) => {
  const sockets: TcpSocket[] = [];
  const mute = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  await once(mute, 'listening');
  const address = mute.address();
  const port = typeof address === 'object' ? String(address?.port) : '';
  const reached = reach(connectorOf(new SessionRoom().part(), 100), 'a.example', port);
  await assert.rejects(reached, { code: 'UND_ERR_CONNECT_TIMEOUT' });
});

test('connector: sessions have room for so many bytes, the last used ones stay', () => {
  const room = new SessionRoom(10_000);
  const sessions = room.part();
  for (let i = 0; i < 100; i++) {
    sessions.keep(`host-${i}`, Buffer.alloc(1_000));
    assert.ok(sessions.of('host-0'), 'used all the time');
    assert.ok(room.bytes <= 10_000);
  }
  assert.equal(sessions.of('host-1'), undefined);
  sessions.keep('huge', Buffer.alloc(20_000));
  assert.ok(room.bytes <= 10_000);
  assert.equal(sessions.of('huge'), undefined);
});

/** Hosts that send HTTP/2 frames as they like. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { createServer, type TLSSocket } from 'node:tls';
import { OriginConnections } from '../../slave/fetch/origin-connections.ts';
import { failureOf, isCutOff } from '../../slave/fetch/outcome.ts';
import { Authority } from '../support/certificates.ts';
import { http2Connector } from '../support/http2-connector.ts';

const [data, headers, reset, settings] = [0, 1, 3, 4];
const [endStream, endHeaders, padded] = [1, 4, 8];
const [noError, cancel] = [0, 8];
const prefaceBytes = 24;

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header.writeUInt8(type, 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

/** `:status: 200`, as the static table has it; and another one. Source: RFC 7541, 6.1 and 6.2. */
const ok = Buffer.from([0x88]);
const field = (name: string, value: string) =>
  Buffer.from(
    `\0${String.fromCharCode(name.length)}${name}${String.fromCharCode(value.length)}${value}`,
  );
const hints = Buffer.concat([Buffer.from([0x08, 3]), Buffer.from('103')]);
const head = (stream: number) => frame(headers, endHeaders, stream, ok);
const hello = (stream: number, flags = 0) => frame(data, flags, stream, Buffer.from('hello'));
const takenBack = (stream: number, code: number) =>
  frame(reset, 0, stream, Buffer.from([0, 0, 0, code]));

type Answer = (socket: TLSSocket, stream: number) => void;

/** A host that gives such an answer to each request, and the connections to it. `greeting`: what it
 *  sends first. */
async function start(t: TestContext, answer: Answer, greeting = frame(settings, 0, 0)) {
  const authority = new Authority();
  const sockets: TLSSocket[] = [];
  const server = createServer({ ...authority.issue(), ALPNProtocols: ['h2'] }, (socket) => {
    sockets.push(socket);
    let held = Buffer.alloc(0);
    let at = prefaceBytes;
    socket.on('error', () => {});
    socket.write(greeting);
    socket.on('data', (bytes: Buffer) => {
      held = Buffer.concat([held, bytes]);
      while (held.length >= at + 9) {
        const end = at + 9 + held.readUIntBE(at, 3);
        if (held.length < end) return;
        const [type, flags] = [held[at + 3], held[at + 4]];
        if (type === settings && flags === 0) socket.write(frame(settings, 1, 0));
        if (type === headers) answer(socket, held.readUInt32BE(at + 5));
        at = end;
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connect = http2Connector(authority);
  const options = { allowH2: true, connect, pipelining: 1, connections: 1 };
  const events = { onOpen: () => {}, onClosed: () => {} };
  const connections = new OriginConnections(`https://127.0.0.1:${port}`, options, events);
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await connections.destroy();
  });
  const ask = () =>
    new Promise<{ body: string; error?: Error }>((resolve) => {
      let body = '';
      const request = { path: '/', method: 'GET' as const };
      connections.dispatch(request, {
        onRequestStart: () => {},
        onResponseStart: () => {},
        onResponseData: (_, chunk) => {
          body += chunk.toString();
        },
        onResponseEnd: () => resolve({ body }),
        onResponseError: (_, error) => resolve({ body, error }),
      });
    });
  return { ask, sockets, connections };
}

test('HTTP/2 frames: a stream that is taken back in its answer is not whole', async (t) => {
  const cases: [string, boolean, (stream: number) => Buffer[]][] = [
    ['ended', true, (at) => [head(at), hello(at, endStream)]],
    ['ended by an empty frame', true, (at) => [head(at), hello(at), frame(data, endStream, at)]],
    [
      'ended by trailers',
      true,
      (at) => [head(at), hello(at), frame(headers, endStream | endHeaders, at, field('x', 'y'))],
    ],
    ['ended, and taken back', true, (at) => [head(at), hello(at, endStream), takenBack(at, 0)]],
    ['no error', false, (at) => [head(at), hello(at), takenBack(at, noError)]],
    ['cancel', false, (at) => [head(at), hello(at), takenBack(at, cancel)]],
  ];
  for (const [name, isWhole, frames] of cases) {
    const { ask, sockets } = await start(t, (socket, stream) => {
      socket.write(Buffer.concat(frames(stream)));
    });
    for (let turn = 0; turn < 2; turn++) {
      const { body, error } = await ask();
      assert.equal(body, 'hello', name);
      assert.equal(error === undefined, isWhole, `${name}: ${error}`);
      if (error) assert.ok(isCutOff(error), `${name}: ${error}`);
    }
    assert.equal(sockets.length, 1, name);
  }
});

test('HTTP/2 frames: connections that are closed in an answer fail it', async (t) => {
  const { connections, ask, sockets } = await start(t, (socket, stream) => {
    socket.write(Buffer.concat([head(stream), hello(stream)]));
    setTimeout(() => void connections.destroy(), 50);
  });
  const { error } = await ask();
  assert.match(String(error), /destroyed/);
  assert.equal(sockets.length, 1);
});

test('HTTP/2 frames: a session that ends in an answer, or was none, may be HTTP/1.1', async (t) => {
  const ended = await start(t, (socket, stream) => {
    socket.end(Buffer.concat([head(stream), hello(stream)]));
  });
  const cut = failureOf((await ended.ask()).error, true);
  assert.deepEqual([cut.error.message, cut.isStale], ['connection closed', true]);
  const text = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello');
  const other = await start(t, () => {}, text);
  const none = failureOf((await other.ask()).error, false);
  assert.deepEqual([none.error.message, none.isStale], ['malformed answer: no valid HTTP/2', true]);
});

test('HTTP/2 frames: those that hold nothing end soon', { timeout: 60_000 }, async (t) => {
  const cases: [string, Answer, Buffer][] = [
    ['unknown types', () => {}, frame(0x77, 0, 1, Buffer.alloc(16 << 10))],
    ['heads of 1xx', () => {}, frame(headers, endHeaders, 1, hints)],
    [
      'padding',
      (socket) => socket.write(head(1)),
      frame(data, padded, 1, Buffer.concat([Buffer.of(200), Buffer.alloc(200)])),
    ],
  ];
  for (const [name, begin, more] of cases) {
    const { ask } = await start(t, (socket, stream) => {
      begin(socket, stream);
      const piece = Buffer.concat(new Array(Math.ceil(65_536 / more.length)).fill(more));
      const pour = () => {
        while (!socket.destroyed && socket.write(piece));
      };
      socket.on('drain', pour);
      pour();
    });
    const { error } = await ask();
    assert.ok(error, name);
    // Newer versions of Node refuse some of them themselves.
    const isOurs = error.message.includes('framing that holds nothing');
    if (isOurs) assert.equal(failureOf(error, false).isFinal, true, name);
  }
});

test('HTTP/2 frames: much that is no answer before each of several is within the bound', async (t) => {
  const { ask, sockets } = await start(t, (socket, stream) => {
    // Half of what may come ahead.
    const filler = frame(0x77, 0, stream, Buffer.alloc(16 << 10));
    socket.write(Buffer.concat([head(stream), ...new Array(32).fill(filler)]));
    setTimeout(() => socket.write(hello(stream, endStream)), 600);
  });
  for (let turn = 0; turn < 3; turn++) assert.deepEqual(await ask(), { body: 'hello' });
  assert.equal(sockets.length, 1);
});

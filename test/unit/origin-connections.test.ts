/** Connections to one origin, over real sockets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import {
  constants,
  createSecureServer,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { OriginConnections } from '../../slave/fetch/origin-connections.ts';
import { StaleError } from '../../slave/fetch/outcome.ts';
import { Authority } from '../support/certificates.ts';
import { http2Connector } from '../support/http2-connector.ts';

/** A server that answers when the test says so, and the connections to it. */
async function start(t: TestContext, options = {}) {
  const waiting: ServerResponse[] = [];
  let accepted = 0;
  const server = createServer((_request, answer) => {
    waiting.push(answer);
    server.emit('held');
  });
  server.on('connection', () => accepted++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const counts = { open: 0 };
  const { port } = server.address() as AddressInfo;
  const connections = new OriginConnections(`http://127.0.0.1:${port}`, options, {
    onOpen: () => counts.open++,
    onClosed: () => counts.open--,
  });
  t.after(async () => {
    await connections.destroy();
    server.closeAllConnections();
    server.close();
  });
  const ask = asker(connections);
  const held = async (count: number) => {
    while (waiting.length < count) await once(server, 'held');
    return waiting.splice(0);
  };
  const answerAll = async (count: number) => {
    for (const answer of await held(count)) answer.end('x');
  };
  return { server, connections, counts, ask, held, answerAll, accepted: () => accepted };
}

/** Returns what asks for a path, for its status. */
function asker(connections: OriginConnections): (path: string) => Promise<number> {
  return (path) =>
    new Promise<number>((resolve, reject) => {
      let status = 0;
      const options = { path, method: 'GET' as const };
      connections.dispatch(options, {
        onRequestStart: () => {},
        onResponseStart: (_controller, code) => {
          status = code;
        },
        onResponseData: () => {},
        onResponseEnd: () => resolve(status),
        onResponseError: (_controller, error) => reject(error),
      });
    });
}

test('origin connections: one after the other share a connection', async (t) => {
  const { connections, counts, ask, answerAll, accepted } = await start(t);
  for (let i = 0; i < 3; i++) {
    const answer = ask(`/${i}`);
    assert.ok(connections.isUsed);
    await answerAll(1);
    assert.equal(await answer, 200);
  }
  assert.deepEqual([accepted(), counts.open, connections.unused], [1, 1, 1]);
  assert.ok(!connections.isUsed);
});

test('origin connections: each of several at once has its own, and all are used again', async (t) => {
  const { connections, counts, ask, answerAll, accepted } = await start(t);
  for (let turn = 0; turn < 3; turn++) {
    const answers = ['/a', '/b', '/c'].map(ask);
    await answerAll(3);
    assert.deepEqual(await Promise.all(answers), [200, 200, 200]);
  }
  assert.deepEqual([accepted(), counts.open, connections.unused], [3, 3, 3]);
});

test('origin connections: one that fails or closes is replaced', async (t) => {
  const { server, connections, counts, ask, held, answerAll, accepted } = await start(t);
  const failed = Promise.allSettled([ask('/a'), ask('/b')]);
  await held(2);
  server.closeAllConnections();
  assert.deepEqual(
    (await failed).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.deepEqual([accepted(), counts.open, connections.unused], [2, 0, 0]);
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  await assert.rejects(ask('/refused'), /ECONNREFUSED/);
  await assert.rejects(ask('/refused'), /ECONNREFUSED/);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const answer = ask('/again');
  await answerAll(1);
  assert.equal(await answer, 200);
  assert.equal(counts.open, 1);
});

test('origin connections: close waits for what is under way', async (t) => {
  const { connections, ask, answerAll } = await start(t);
  const answer = ask('/a');
  const closed = connections.close();
  await answerAll(1);
  assert.equal(await answer, 200);
  await closed;
  assert.equal(connections.unused, 0);
});

test('origin connections: there are no more than may be, and what waits is answered', async (t) => {
  const { ask, answerAll, accepted } = await start(t, { connections: 2 });
  const answers = Array.from({ length: 7 }, (_, i) => ask(`/${i}`));
  let isOver = false;
  const all = Promise.all(answers).finally(() => {
    isOver = true;
  });
  while (!isOver) await Promise.race([answerAll(1), all]);
  assert.deepEqual(await all, new Array(7).fill(200));
  assert.equal(accepted(), 2);
});

/** A host with HTTP/2 only, and the connector to it. */
async function startHttp2(t: TestContext, answer: (stream: ServerHttp2Stream) => void) {
  const authority = new Authority();
  const server = createSecureServer(authority.issue());
  const sockets: Socket[] = [];
  const sessions: ServerHttp2Session[] = [];
  server.on('secureConnection', (socket) => sockets.push(socket));
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream) => answer(stream.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connect = http2Connector(authority);
  const counts = { open: 0 };
  const options = { allowH2: true, connect };
  const connections = new OriginConnections(`https://127.0.0.1:${port}`, options, {
    onOpen: () => counts.open++,
    onClosed: () => counts.open--,
  });
  t.after(async () => {
    await connections.destroy();
    server.close();
  });
  return { connections, counts, sockets, sessions };
}

test('origin connections: an HTTP/2 session that its host ends is counted once', async (t) => {
  const { connections, counts, sockets, sessions } = await startHttp2(t, (stream) =>
    stream.respond({ ':status': 200 }, { endStream: true }),
  );
  const ask = asker(connections);
  for (let turn = 0; turn < 3; turn++) {
    assert.equal(await ask('/'), 200);
    assert.equal(counts.open, 1, `turn ${turn}`);
    const socket = sockets.at(-1);
    assert.ok(socket);
    const closed = once(socket, 'close');
    // It says GOAWAY before it closes.
    sessions.at(-1)?.close();
    await closed;
  }
  assert.deepEqual([sessions.length, connections.unused], [3, 0]);
});

test('origin connections: what an HTTP/2 host refuses, or ends its session on, may go again', async (t) => {
  const end = (stream: ServerHttp2Stream) => stream.session?.goaway(0, stream.id);
  const blame = ({ session }: ServerHttp2Stream) =>
    session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  const begin = (stream: ServerHttp2Stream, then: typeof end) => {
    stream.respond({ ':status': 200, 'content-length': 100 });
    stream.write('some of it', () => then(stream));
  };
  const answers: [string, boolean, (stream: ServerHttp2Stream) => void][] = [
    ['refused', true, (stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM)],
    ['cancelled', false, (stream) => stream.close(constants.NGHTTP2_CANCEL)],
    ['ended', true, end],
    ['ended in the answer', true, (stream) => begin(stream, end)],
    ['blamed', false, blame],
    ['blamed in the answer', false, (stream) => begin(stream, blame)],
  ];
  for (const [name, isStale, answer] of answers) {
    const { connections } = await startHttp2(t, answer);
    const failure = await new Promise<unknown>((resolve) => {
      connections.dispatch(
        { path: '/', method: 'GET' },
        { onResponseError: (_, error) => resolve(error), onResponseEnd: () => resolve('none') },
      );
    });
    assert.equal(failure instanceof StaleError, isStale, `${name}: ${failure}`);
  }
});

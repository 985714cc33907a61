/** Connections to one origin, over real sockets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { OriginConnections } from '../../slave/fetch/origin-connections.ts';

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
  const ask = (path: string) =>
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
  const held = async (count: number) => {
    while (waiting.length < count) await once(server, 'held');
    return waiting.splice(0);
  };
  const answerAll = async (count: number) => {
    for (const answer of await held(count)) answer.end('x');
  };
  return { server, connections, counts, ask, held, answerAll, accepted: () => accepted };
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

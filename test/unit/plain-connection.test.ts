/** Plain connections beside undici's: the same answers give the same, over real sockets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { oddAnswers } from '../support/odd-answers.ts';
import { ask, open, sendParts, startHost, type Trace } from '../support/plain-rig.ts';

const rounds = Number(process.env['PLAIN_ROUNDS'] ?? 400);
const firstSeed = Number(process.env['PLAIN_SEED'] ?? 1);

test('plain connections: what a host sends gives what undici makes of it', async (t) => {
  let parts: readonly Buffer[] = [];
  const { port, requests } = await startHost(
    t,
    (socket) => void sendParts(socket, parts).then(() => socket.end()),
  );
  let odd = 0;
  for (let seed = firstSeed; seed < firstSeed + rounds; seed++) {
    parts = oddAnswers(seed)().parts;
    // Of a text in several reads undici keeps the last.
    const options = parts.length > 1 ? { statusOf: () => undefined } : {};
    const traces: Trace[] = [];
    requests.length = 0;
    for (const kind of ['library', 'plain'] as const) {
      const { connection, counts } = open(kind, port);
      traces.push(await ask(connection, options));
      await connection.destroy();
      odd += counts.odd;
      assert.equal(counts.open, counts.closed, `seed ${seed}: ${kind}`);
    }
    const sent = Buffer.concat(parts).toString('latin1').slice(0, 600);
    assert.deepEqual(traces[1], traces[0], `seed ${seed}: ${JSON.stringify(sent)}`);
    assert.equal(requests.length, 2, `seed ${seed}: each asks once`);
    assert.equal(requests[1], requests[0], `seed ${seed}: the same request`);
  }
  assert.ok(odd > rounds / 20 && odd < rounds, `${odd} of ${rounds} were odd`);
});

const page = (data: string, more = '') =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${data.length}\r\n${more}\r\n${data}`;

/** A host that answers request number `n` (from 0) with the text for it, and keeps the connection. */
async function scripted(t: TestContext, textOf: (n: number, request: string) => string) {
  let count = 0;
  const host = await startHost(t, (socket, request) => {
    socket.write(Buffer.from(textOf(count++, request), 'latin1'));
  });
  const opened = open('plain', host.port);
  t.after(() => opened.connection.destroy());
  return { ...host, ...opened };
}

test('plain connections: one socket for one answer after the other', async (t) => {
  const { connection, counts, sockets } = await scripted(t, (n) => page(`${n}`));
  const first = await Promise.all([ask(connection), ask(connection), ask(connection)]);
  assert.deepEqual(
    first.map(({ data }) => data),
    ['0', '1', '2'],
  );
  assert.equal((await ask(connection)).data, '3');
  assert.deepEqual([sockets.size, counts.open, counts.odd], [1, 1, 0]);
  assert.ok(connection.isConnected && connection.size === 0);
});

test('plain connections: bytes after an answer are never part of the next', async (t) => {
  const smuggled = page('smuggled');
  const answers = [page('a') + smuggled, page('b'), page('c')];
  const { connection, sockets } = await scripted(t, (n) => answers[n] ?? page('d'));
  const both = await Promise.all([ask(connection), ask(connection)]);
  assert.deepEqual(
    both.map(({ data }) => data),
    ['a', 'b'],
  );
  // And those that come while nobody asks.
  for (const socket of sockets) socket.write(smuggled);
  while (connection.isConnected) await turn();
  assert.equal((await ask(connection)).data.length, 1);
  assert.ok(sockets.size >= 2);
});

test('plain connections: undici reads on where an answer is not plain', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const answers = [
    `${head}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: yes\r\n\r\n`,
    page('second', 'Upgrade: h2c\r\nConnection: Upgrade\r\n'),
    page('third'),
  ];
  const { connection, counts, sockets, requests } = await scripted(t, (n) => answers[n] ?? '');
  const all = await Promise.all([ask(connection), ask(connection), ask(connection)]);
  assert.deepEqual(
    all.map(({ data }) => data),
    ['abcde', 'second', 'third'],
  );
  assert.deepEqual(
    all.map(({ heads }) => heads.length),
    [1, 1, 1],
  );
  assert.equal(requests.length, 3);
  assert.deepEqual([sockets.size, counts.open, counts.odd], [1, 1, 1]);
  await connection.close();
  assert.equal(counts.closed, 1);
});

test('plain connections: a chunk that is longer than its size is malformed', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const { connection } = await scripted(t, () => `${head}3\r\nabcdef\r\n0\r\n\r\n`);
  const { data, failure } = await ask(connection);
  assert.equal(data, 'abc');
  assert.match(JSON.stringify(failure), /"protocol".*"isUnreadable":true/);
});

test('plain connections: a reader that pauses gets everything, and the end', async (t) => {
  const data = 'x'.repeat(300_000);
  const chunks = `${(150_000).toString(16)}\r\n${data.slice(0, 150_000)}\r\n`.repeat(2);
  const answers = [
    page(data),
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
    page(data),
  ];
  const { connection, counts } = await scripted(t, (n) => answers[n] ?? '');
  for (let n = 0; n < 3; n++) {
    const trace = await ask(connection, { pauses: 0 });
    assert.deepEqual([trace.data.length, trace.ended], [300_000, 1]);
  }
  assert.equal(counts.open, 1);
  const host = await startHost(t, (socket) => socket.end(`HTTP/1.0 200 OK\r\n\r\n${data}`));
  const { connection: other } = open('plain', host.port);
  const trace = await ask(other, { pauses: 0 });
  assert.deepEqual([trace.data.length, trace.ended], [300_000, 1]);
  assert.ok(!other.isConnected);
});

test('plain connections: aborted, it goes on with another socket', async (t) => {
  const { connection, requests, sockets } = await scripted(t, (n) =>
    n === 0 ? `HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc` : page('whole'),
  );
  const reason = new Error('enough');
  const [unsent, cut, last] = await Promise.all([
    ask(connection, { onStart: (controller) => controller.abort(reason) }),
    ask(connection, { onData: (controller) => controller.abort(reason) }),
    ask(connection),
  ]);
  assert.deepEqual([unsent.heads.length, cut.heads.length], [0, 1]);
  assert.ok(unsent.failure !== undefined && cut.failure !== undefined);
  assert.equal(last.data, 'whole');
  assert.deepEqual([requests.length, sockets.size], [2, 2]);
});

test('plain connections: a reset is told as undici tells it', async (t) => {
  const heads = [
    '',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc',
    'HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nabc',
  ];
  let sent = '';
  let reset: (() => void) | undefined;
  const { port } = await startHost(t, (socket) => {
    reset = () => socket.resetAndDestroy();
    if (sent === '') reset();
    else socket.write(sent, () => sent.endsWith('abc') || setTimeout(() => reset?.(), 20));
  });
  for (const head of heads) {
    sent = head;
    const traces: Trace[] = [];
    for (const kind of ['library', 'plain'] as const) {
      const { connection } = open(kind, port);
      traces.push(await ask(connection, { onData: () => reset?.() }));
      await connection.destroy();
    }
    assert.deepEqual(traces[1], traces[0], head);
  }
});

test('plain connections: nobody listens, and all that wait fail', async (t) => {
  const { port } = await startHost(t, () => {});
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: free } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const { connection, counts } = open('plain', free);
  const failed = await Promise.all([ask(connection), ask(connection)]);
  assert.ok(failed.every(({ failure }) => failure !== undefined));
  assert.deepEqual([counts.failed, counts.open], [1, 0]);
  // And those of one that is destroyed.
  const silent = open('plain', port);
  const asked = [ask(silent.connection), ask(silent.connection)];
  while (!silent.connection.isConnected) await turn();
  await silent.connection.destroy();
  assert.ok((await Promise.all(asked)).every(({ failure }) => failure !== undefined));
  assert.deepEqual([silent.counts.open, silent.counts.closed], [1, 1]);
  assert.throws(() => void silent.connection.dispatch({ path: '/', method: 'GET' }, {}));
});

test('plain connections: a request with headers of its own for the connection is sent by undici', async (t) => {
  const { connection, counts, requests } = await scripted(t, (n) => page(`${n}`));
  assert.equal((await ask(connection)).data, '0');
  const other = await ask(connection, { headers: ['Host', 'other.example'] });
  assert.equal(other.data, '1');
  assert.match(requests[1] ?? '', /^host: other\.example\r$/im);
  assert.equal(counts.odd, 1);
  const { connection: next } = open('plain', 9);
  const { failure } = await ask(next, { headers: ['a', 'b\nc'] });
  assert.ok(failure !== undefined);
  assert.equal(next.size, 0);
});

test('plain connections: what a reader throws fails its answer alone', async (t) => {
  const { connection } = await scripted(t, (n) => page(`${n}`));
  const thrown = await ask(connection, {
    onData: () => {
      throw new Error('of the reader');
    },
  });
  assert.ok(thrown.failure !== undefined);
  assert.equal((await ask(connection)).data, '1');
});

test('plain connections: the time for which a host keeps them', async (t) => {
  const answers = [page('a', 'Keep-Alive: timeout=2\r\n'), page('b', 'Keep-Alive: timeout=3\r\n')];
  const { connection, counts } = await scripted(t, (n) => answers[n] ?? page('c'));
  await ask(connection);
  assert.equal(counts.closed, 1, 'too short a time');
  const askedAt = performance.now();
  await ask(connection);
  assert.equal(counts.closed, 1);
  while (counts.closed < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  const keptMs = performance.now() - askedAt;
  assert.ok(keptMs > 900 && keptMs < 3_000, `${keptMs} ms`);
  assert.equal((await ask(connection)).data, 'c');
});

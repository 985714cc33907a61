/** Plain connections with hosts and readers that are awkward. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { answerRow, type RowAnswer } from '../support/answer-rows.ts';
import { Authority } from '../support/certificates.ts';
import { ask, open, sendParts, startHost } from '../support/plain-rig.ts';

const chunkedHead = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n';
const chunksOf = (data: string) => [...data].map((one) => `1\r\n${one}\r\n`).join('');

test('plain connections: the host closes while a reader pauses', async (t) => {
  let sent = '';
  const { port, requests } = await startHost(t, (socket) => socket.end(Buffer.from(sent)));
  const answers = [
    'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd',
    'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd',
    'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcd',
    `${chunkedHead}\r\n${chunksOf('abcd')}0\r\n\r\n`,
    `${chunkedHead}Connection: close\r\n\r\n${chunksOf('abcd')}0\r\n\r\n`,
    `${chunkedHead}Connection: close\r\n\r\n${chunksOf('abcd')}0\r\nx: y\r\n\r\n`,
    `${chunkedHead}\r\n${chunksOf('ab')}1;x\r\nc\r\n1;y\r\nd\r\n0\r\n\r\n`,
  ];
  const upgrade = 'Upgrade: h2\r\nConnection: upgrade, close\r\n\r\n';
  answers.push(`HTTP/1.1 200 OK\r\nContent-Length: 4\r\n${upgrade}abcd`);
  answers.push(`HTTP/1.1 200 OK\r\n${upgrade}abcd`);
  const both = answers.flatMap((answer) => [
    ['plain', answer] as const,
    ['library', answer] as const,
  ]);
  for (const [kind, answer] of both) {
    // Undici takes the end of a connection that is kept for the end of its answer.
    if (kind === 'library' && answer === answers[1]) continue;
    sent = answer;
    requests.length = 0;
    const { connection, counts } = open(kind, port);
    const { data, ended, failure } = await ask(connection, { pauses: 5 });
    const all = { data, ended, failure, requests: requests.length };
    assert.deepEqual(
      all,
      { data: 'abcd', ended: 1, failure: undefined, requests: 1 },
      kind + answer,
    );
    await connection.destroy();
    assert.equal(counts.open, counts.closed, answer);
  }
});

const rounds = Number(process.env['PLAIN_ROUNDS'] ?? 60);
const firstSeed = Number(process.env['PLAIN_SEED'] ?? 1);
const authority = new Authority();

for (const isSecure of [false, true]) {
  test(`plain connections: answers in a row, ${isSecure ? 'with' : 'without'} TLS`, async (t) => {
    let row: RowAnswer[] = [];
    const identity = isSecure ? authority.issue() : undefined;
    const answer = async (socket: Socket, request: string) => {
      const { parts, end } = row[Number(/^GET \/(\d+)/.exec(request)?.[1])] ?? {};
      await sendParts(socket, parts ?? []);
      if (end === 'closed') socket.end();
      else if (end === 'reset') await turn();
      if (end !== 'reset') return;
      if (isSecure) socket.destroy();
      else socket.resetAndDestroy();
    };
    const host = await startHost(t, (...given) => void answer(...given), identity);
    for (let seed = firstSeed; seed < firstSeed + rounds; seed++) {
      row = answerRow(seed);
      host.requests.length = 0;
      host.sockets.clear();
      const { connection, counts } = open(
        'plain',
        host.port,
        isSecure ? authority.cert : undefined,
      );
      const asked = row.map(({ aborts, pauses }, n) => {
        const stop = (controller: { abort(reason: Error): void }) => controller.abort(new Error());
        return ask(connection, {
          path: `/${n}`,
          ...(pauses !== undefined && { pauses }),
          ...(aborts === 'at start' && { onStart: stop }),
          ...(aborts === 'at head' && { onHead: stop }),
          ...(aborts === 'at data' && { onData: stop }),
        });
      });
      const traces = await Promise.all(asked);
      await connection.close();
      assert.equal(connection.size, 0, `seed ${seed}`);
      for (const [n, { data, isCut, isFollowed, aborts }] of row.entries()) {
        const { data: got = '', ended = 0, failed = 0, failure } = traces[n] ?? {};
        const told = `seed ${seed}, ${n}: ${JSON.stringify([got.slice(0, 99), failure, row[n]])}`;
        assert.equal(ended + failed, 1, told);
        assert.ok(data.startsWith(got), told);
        const isRefused = isFollowed && failed === 1;
        if (!isCut && !isRefused && aborts === undefined)
          assert.deepEqual([got.length, ended], [data.length, 1], told);
      }
      assert.equal(new Set(host.requests).size, host.requests.length, `seed ${seed}: asks once`);
      assert.equal(counts.open, counts.closed, `seed ${seed}`);
      while ([...host.sockets].some(({ destroyed }) => !destroyed)) await turn();
    }
  });
}

test('undici: a reset while a reader pauses does not end the process', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nUpgrade: h2\r\nConnection: upgrade, close\r\n';
  const { port } = await startHost(t, (socket) => {
    socket.write(`${head}Content-Length: 9\r\n\r\nabcd`);
    setTimeout(() => socket.resetAndDestroy(), 10);
  });
  for (const kind of ['plain', 'library'] as const) {
    const { connection, counts } = open(kind, port);
    const { data, failed } = await ask(connection, { pauses: 40 });
    assert.deepEqual([data, failed], ['abcd', 1]);
    await connection.destroy();
    assert.equal(counts.open, counts.closed);
  }
});

test('plain connections: thousands that were given up while they waited', async (t) => {
  const { port, requests } = await startHost(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na');
  });
  const { connection } = open('plain', port);
  const onStart = (controller: { abort(reason: Error): void }) => controller.abort(new Error());
  const given = Array.from({ length: 30_000 }, () => ask(connection, { onStart }));
  const last = ask(connection);
  assert.ok((await Promise.all(given)).every(({ failed }) => failed === 1));
  assert.deepEqual([(await last).data, requests.length], ['a', 1]);
  await connection.close();
});

test('plain connections: destroyed while they close, connect, read, or are handed over', async (t) => {
  const odd = 'HTTP/1.1 200 OK\r\nUpgrade: h2\r\nContent-Length: 1\r\n\r\na';
  const { port, sockets } = await startHost(t, (socket) => socket.write(odd));
  const closing = open('plain', port);
  const unanswered = ask(closing.connection);
  const closed = closing.connection.close();
  await closing.connection.destroy();
  await closed;
  assert.equal((await unanswered).failed, 1);
  // At each of the turns in which the answer comes.
  for (let turns = 0; turns < 12; turns++) {
    const { connection, counts } = open('plain', port);
    const asked = ask(connection);
    for (let i = 0; i < turns; i++) await turn();
    await connection.destroy();
    const { ended, failed } = await asked;
    assert.equal(ended + failed, 1);
    assert.equal(counts.open, counts.closed);
  }
  const { connection, counts } = open('plain', port);
  const onStart = () => void Promise.resolve().then(() => connection.destroy());
  const { failed } = await ask(connection, { onStart });
  assert.deepEqual([failed, counts.open], [1, counts.closed]);
  while ([...sockets].some(({ destroyed }) => !destroyed)) await turn();
});

test('plain connections: a reader that goes on at once, and one that destroys', async (t) => {
  // Long enough to be given one by one.
  const parts = [...'abcdefgh'].map((one) => one.repeat(1_024));
  const data = parts.join('');
  const chunks = parts.map((part) => `400\r\n${part}\r\n`).join('');
  const text = `${chunkedHead}\r\n${chunks}0\r\n\r\n3\r\nxyz\r\n0\r\n\r\n`;
  const { port } = await startHost(t, (socket) => socket.write(text));
  const { connection } = open('plain', port);
  const trace = await ask(connection, {
    onData: (controller) => {
      controller.pause();
      controller.resume();
    },
  });
  assert.deepEqual([trace.data, trace.ended, trace.failed], [data, 1, 0]);
  const cut = await ask(connection, { onData: () => void connection.destroy() });
  assert.deepEqual([cut.data, cut.ended, cut.failed], [parts[0], 0, 1]);
});

/** Plain connections with hosts and readers that are awkward. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, open, startHost } from '../support/plain-rig.ts';

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
  for (const answer of answers) {
    sent = answer;
    requests.length = 0;
    const { connection, counts } = open('plain', port);
    const { data, ended, failure } = await ask(connection, { pauses: 5 });
    const all = { data, ended, failure, requests: requests.length };
    assert.deepEqual(all, { data: 'abcd', ended: 1, failure: undefined, requests: 1 }, answer);
    await connection.destroy();
    assert.equal(counts.open, counts.closed, answer);
  }
});

/** Hosts that answer more often than they are asked. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { Recording } from '../../slave/fetch/recording.ts';
import { PageFetcher } from '../support/page-fetcher.ts';
import { startHost } from '../support/plain-rig.ts';

const spec = fetchSpecSchema.parse({ timeoutMs: 5_000, allowPrivate: 'all' });
const never = new AbortController().signal;

type Answer = (socket: Socket, path: string, count: number) => void;

/** Asks for pages one after the other; each page has a length of its own. */
async function start(t: TestContext, answer: Answer) {
  let count = 0;
  const host = await startHost(t, (socket, request) => {
    answer(socket, /^GET (\S+)/.exec(request)?.[1] ?? '', count++);
  });
  const fetcher = new PageFetcher({ connections: 4 });
  t.after(() => fetcher.close());
  const get = async (n: number, recording?: Recording) => {
    const url = `http://127.0.0.1:${host.port}/${n}`;
    const outcome = await fetcher.fetch(url, spec, never, { recording });
    return outcome.ok ? outcome.result.bytes : outcome.error.message;
  };
  return { ...host, get };
}

/** `plain`: undici does not have to read it. */
function pageOf(path: string, isPlain: boolean, status = '200 OK'): string {
  const body = 'x'.repeat(Number(path.slice(1)));
  const more = isPlain ? '' : 'X-Odd: a \r\n';
  const type = 'Content-Type: text/html\r\n';
  return `HTTP/1.1 ${status}\r\n${type}${more}Content-Length: ${body.length}\r\n\r\n${body}`;
}

for (const isPlain of [true, false]) {
  const reader = isPlain ? 'ourselves' : 'undici';
  test(`unasked answers: a second one that comes late, read by ${reader}`, async (t) => {
    const host = await start(t, (socket, path) => {
      const page = pageOf(path, isPlain);
      socket.write(page);
      setTimeout(() => socket.write(page), 5);
    });
    const wrong = [];
    for (let n = 1; n <= 20; n++) {
      if ((await host.get(n)) !== n) wrong.push(n);
      if (n % 3 === 0) await sleep(20);
    }
    // The first one may be wrong, before any sign; none is once there was one.
    assert.ok(
      wrong.every((n) => n <= 3),
      `${wrong}`,
    );
    assert.ok(host.sockets.size >= 16, `${host.sockets.size} connections`);
  });
}

test('unasked answers: of two at once on a kept connection none is taken', async (t) => {
  const host = await start(t, (socket, path, count) => {
    const page = pageOf(path, true);
    // The first page comes again, just before the second.
    if (count === 1) socket.write(pageOf('/100', true) + page);
    else socket.write(page);
  });
  const recording = new Recording(1_000);
  assert.equal(await host.get(100), 100);
  assert.equal(await host.get(7, recording), 7);
  assert.equal(host.requests.length, 3);
  const kept = recording.exchanges.map(({ bytes, end }) => [bytes, end]);
  assert.deepEqual(kept, [[7, 'whole']]);
});

test('unasked answers: nor one that is no page', async (t) => {
  const host = await start(t, (socket, path, count) => {
    const page = pageOf(path, true);
    if (count === 1) socket.write(pageOf('/0', true, '404 Not Found') + page);
    else socket.write(page);
  });
  for (const recording of [undefined, new Recording(1_000)]) {
    assert.equal(await host.get(100), 100);
    assert.equal(await host.get(7, recording), 7);
  }
});

test('unasked answers: bytes that begin none, and a 408, cost no kept connections', async (t) => {
  for (const after of ['\r\n', 'tail of a body', 'HTTP/1.0 408 Request Time-out\r\n\r\n']) {
    const host = await start(t, (socket, path, count) => {
      socket.write(pageOf(path, true) + (count === 1 ? after : ''));
    });
    for (let n = 1; n <= 10; n++) assert.equal(await host.get(n), n, after);
    assert.equal(host.sockets.size, 2, after);
  }
});

for (const isPlain of [true, false]) {
  const reader = isPlain ? 'ourselves' : 'undici';
  test(`408 on a kept connection is asked again on a new one, read by ${reader}`, async (t) => {
    const waited = 'HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';
    const host = await start(t, (socket, path, count) => {
      if (count % 3 === 1) socket.end(waited);
      else socket.write(pageOf(path, isPlain));
    });
    for (let n = 1; n <= 6; n++) assert.equal(await host.get(n), n);
    // On a new connection it is the host's answer.
    const strict = await start(t, (socket) => socket.end(waited));
    assert.equal(await strict.get(1), '408 Request Timeout');
    assert.equal(strict.requests.length, 1);
  });
}

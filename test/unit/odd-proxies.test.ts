/** Proxies that answer oddly, and hosts that pretend to be one. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { fetchSpecSchema } from '../../shared/crawl.ts';
import { Proxies } from '../../slave/fetch/proxies.ts';
import { PageFetcher } from '../support/page-fetcher.ts';

const spec = fetchSpecSchema.parse({ timeoutMs: 5_000, allowPrivate: 'all' });
const never = new AbortController().signal;
const page = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi';
const unasked = 'HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n';
const secure = 'https://a.example/';
const plain = 'http://a.example/';

/** Calls `told` for each message that arrives: `end` says whether it is whole. */
async function serve(
  t: TestContext,
  told: (socket: Socket, message: Buffer, count: number) => void,
  isWhole = (_: Buffer) => true,
): Promise<number> {
  const server = createServer((socket) => {
    let read = Buffer.alloc(0);
    let count = 0;
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        read = Buffer.concat([read, bytes]);
        if (!isWhole(read)) return;
        const message = read;
        read = Buffer.alloc(0);
        told(socket, message, count++);
      });
    t.after(() => socket.destroy());
  });
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** An HTTP proxy that answers its probe so, and all else as the test says. */
function httpProxy(t: TestContext, probe: string, answer: (socket: Socket) => void) {
  return serve(
    t,
    (socket, head) => {
      if (head.includes('orbweaver.invalid')) socket.end(probe);
      else answer(socket);
    },
    (read) => read.includes('\r\n\r\n'),
  );
}

/** A SOCKS5 proxy that accepts everybody; `answer` is what it says of a host. */
function socksProxy(t: TestContext, answer: (socket: Socket) => void, ofHost = page) {
  return serve(t, (socket, _, count) => {
    if (count === 0) socket.write(Buffer.from([5, 0]));
    else if (count === 1) answer(socket);
    else socket.write(ofHost);
  });
}

async function get(t: TestContext, proxyUrl: string, url: string, by = spec) {
  const aside: string[] = [];
  const proxies = new Proxies({ onAside: (_, reason) => aside.push(reason) });
  const fetcher = new PageFetcher({ connections: 4 });
  t.after(() => fetcher.close());
  const proxy = proxies.of(proxyUrl);
  const outcome = await fetcher.fetch(url, by, never, { open: true, proxy });
  return { outcome, error: outcome.ok ? undefined : outcome.error, aside };
}

const noHost = 'HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n';

test('odd proxies: one that ends the connection for one host alone stays in use', async (t) => {
  const endings: [string, (socket: Socket) => void][] = [
    ['end', (socket) => socket.end()],
    ['reset', (socket) => socket.resetAndDestroy()],
    ['garbage', (socket) => socket.end('what?\r\n\r\n')],
  ];
  const error = { kind: 'connect', message: 'the proxy made no tunnel to the host' };
  for (const [name, end] of endings) {
    const port = await httpProxy(t, noHost, end);
    const got = await get(t, `http://127.0.0.1:${port}`, secure);
    assert.deepEqual([got.error, got.aside], [error, []], name);
  }
  const port = await socksProxy(t, (socket) => socket.end());
  const got = await get(t, `socks5://127.0.0.1:${port}`, plain);
  assert.deepEqual([got.error, got.aside], [error, []]);
});

test('odd proxies: one that ends every connection is set aside', async (t) => {
  for (const url of [secure, plain]) {
    const port = await httpProxy(t, '', (socket) => socket.end());
    const got = await get(t, `http://127.0.0.1:${port}`, url);
    assert.equal(got.error?.kind, 'proxy', url);
    assert.deepEqual(got.aside, ['no answer of the proxy: UND_ERR_SOCKET'], url);
  }
  // An answer through a proxy that works is the host's.
  const port = await httpProxy(t, noHost, (socket) => socket.end());
  const got = await get(t, `http://127.0.0.1:${port}`, plain);
  assert.deepEqual(got.error, { kind: 'connect', message: 'connection closed' });
  assert.deepEqual(got.aside, []);
});

test('odd proxies: a 407 of a host is no fault of its proxy', async (t) => {
  const joined = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
  const tunnel = await socksProxy(t, (socket) => socket.write(joined), unasked);
  const through = await get(t, `socks5://127.0.0.1:${tunnel}`, plain);
  assert.ok(through.outcome.ok && through.outcome.result.status === 407);
  assert.deepEqual(through.aside, []);
  // The answer does not show its sender: the probe does.
  const forwarder = await httpProxy(t, noHost, (socket) => socket.end(unasked));
  const forwarded = await get(t, `http://127.0.0.1:${forwarder}`, plain);
  const message = '407 Proxy Authentication Required';
  assert.deepEqual(forwarded.error, { kind: 'status', message });
  assert.deepEqual(forwarded.aside, []);
  const strict = await httpProxy(t, unasked, (socket) => socket.end(unasked));
  const refused = await get(t, `http://127.0.0.1:${strict}`, plain);
  assert.equal(refused.error?.kind, 'proxy');
  assert.deepEqual(refused.aside, ['the proxy wants other credentials']);
});

test('odd proxies: answers of SOCKS5, with any address and without', async (t) => {
  const addresses: [string, number[]][] = [
    ['IPv4', [1, 127, 0, 0, 1]],
    ['IPv6', [4, ...Array<number>(16).fill(0)]],
    ['a name', [3, 3, 97, 98, 99]],
    ['an empty name', [3, 0]],
  ];
  for (const [name, address] of addresses) {
    const joined = Buffer.from([5, 0, 0, ...address, 0, 80]);
    for (const isSplit of [false, true]) {
      const port = await socksProxy(t, (socket) => {
        if (!isSplit) socket.write(joined);
        else
          for (const [i, byte] of joined.entries())
            setTimeout(() => socket.write(Buffer.from([byte])), i * 3);
      });
      const got = await get(t, `socks5://127.0.0.1:${port}`, plain);
      assert.ok(got.outcome.ok && got.outcome.result.bytes === 2, `${name}: ${got.error?.message}`);
    }
  }
  for (const refusal of [
    [5, 5],
    [5, 5, 0, 1],
    [5, 5, 0, 1, 0, 0, 0, 0, 0, 0],
  ]) {
    const port = await socksProxy(t, (socket) => socket.end(Buffer.from(refusal)));
    const got = await get(t, `socks5://127.0.0.1:${port}`, plain);
    const message = 'the proxy answered: connection refused';
    assert.deepEqual([got.error, got.aside], [{ kind: 'connect', message }, []]);
  }
  // Where such an address ends is not known: the rest of it is no answer of the host.
  const port = await socksProxy(t, (socket) =>
    socket.write(Buffer.from([5, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
  );
  const got = await get(t, `socks5://127.0.0.1:${port}`, plain);
  assert.deepEqual(got.error, { kind: 'proxy', message: 'the proxy speaks no SOCKS5' });
});

test('odd proxies: answers to CONNECT as curl reads them', async (t) => {
  const ready = 'HTTP/1.1 200 Connection established\r\n\r\n';
  const tunnels = [
    ready,
    `HTTP/1.1 100 Continue\r\n\r\n${ready}`,
    `HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n${ready}`,
    'HTTP/1.1 200 OK\nVia: b\n\n',
    'HTTP/1.0 200\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n',
    `\r\n${ready}`,
  ];
  const refusals: [string, string][] = [
    ['HTTP/1.1 100 Continue\n\nHTTP/1.1 403 No\n\n', 'the proxy answered 403'],
    ['HTTP/1.1 101 Switching Protocols\r\n\r\n', 'the proxy answered 101'],
    ['HTTP/1.1 2000 OK\r\n\r\n', 'the proxy made no tunnel to the host'],
    [`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}`, 'the proxy made no tunnel to the host'],
  ];
  // Behind a tunnel the host gets the beginning of TLS, to which it says something else.
  const cases = [...tunnels.map((answer) => [answer, undefined] as const), ...refusals];
  for (const [answer, refusal] of cases) {
    for (const isSplit of [false, true]) {
      let hellos = 0;
      const port = await serve(
        t,
        (socket, message) => {
          if (message[0] === 0x16) {
            hellos++;
            socket.end('what?');
          } else if (message.includes('orbweaver.invalid')) socket.end(noHost);
          else if (!isSplit) socket.write(answer);
          else {
            socket.write(answer.slice(0, -3));
            setTimeout(() => socket.write(answer.slice(-3)), 10);
          }
        },
        (read) => read[0] === 0x16 || read.includes('\r\n\r\n'),
      );
      const got = await get(t, `http://127.0.0.1:${port}`, secure);
      const told = `${answer.slice(0, 60)} ${got.error?.message}`;
      if (refusal !== undefined) assert.equal(got.error?.message, refusal, told);
      else assert.match(got.error?.message ?? '', /^no TLS through the proxy: ERR_SSL/, told);
      assert.equal(hellos, refusal === undefined ? 1 : 0, told);
    }
  }
});

test('odd proxies: one that never ends its answer to CONNECT', async (t) => {
  const hasty = fetchSpecSchema.parse({
    timeoutMs: 9_000,
    connectTimeoutMs: 300,
    allowPrivate: 'all',
  });
  const port = await httpProxy(t, noHost, (socket) => socket.write('HTTP/1.1 100 Wait\r\n\r\n'));
  const got = await get(t, `http://127.0.0.1:${port}`, secure, hasty);
  assert.equal(got.error?.message, 'the proxy did not reach the host within 0.3 s');
  assert.deepEqual(got.aside, []);
});

test('odd proxies: SOCKS5 that says it has connected, and ends', async (t) => {
  const joined = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
  const error = { kind: 'connect', message: 'the tunnel of the proxy ended without an answer' };
  const endings: ((socket: Socket) => void)[] = [
    (socket) => socket.end(joined),
    (socket) => socket.write(joined, () => setTimeout(() => socket.resetAndDestroy(), 5)),
  ];
  for (const end of endings) {
    const port = await socksProxy(t, end, '');
    const aside: string[] = [];
    const proxy = new Proxies({ onAside: (_, reason) => aside.push(reason) });
    const fetcher = new PageFetcher({ connections: 4 });
    t.after(() => fetcher.close());
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(aside, []);
      const context = { open: true, proxy: proxy.of(`socks5://127.0.0.1:${port}`) };
      const got = await fetcher.fetch(plain, spec, never, context);
      assert.deepEqual(got.ok ? got : got.error, error);
    }
    assert.deepEqual(aside, [error.message]);
  }
});

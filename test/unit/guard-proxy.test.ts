/** The proxy of pages in the browser: addresses, names that change, bytes. Real sockets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { AddressPolicy } from '../../shared/address.ts';
import { AddressCache } from '../../shared/resolver.ts';
import { GuardProxy, tie } from '../../slave/browser/guard-proxy.ts';

const timeout = 20_000;

type RigOptions = {
  readonly allow?: 'all';
  readonly bytesMax?: number;
  readonly body?: string;
  /** The server closes a kept connection just as its second request comes. */
  readonly closesKept?: boolean;
};

/** A server behind the proxy, and what the proxy makes of requests for it. */
async function rig(t: TestContext, options: RigOptions) {
  const seen: string[] = [];
  const used = new Set<Socket>();
  const server = createServer((asked, response) => {
    seen.push(asked.url ?? '');
    if (options.closesKept === true && used.has(asked.socket)) {
      asked.socket.destroy();
      return;
    }
    used.add(asked.socket);
    response.end(options.body ?? 'ok');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  // A name whose answer changes: public first, and each time it is asked for after that, private.
  let count = 0;
  const resolve = () => {
    const address = count++ === 0 ? '192.0.2.1' : '127.0.0.1';
    return Promise.resolve({ addresses: [{ address, family: 4 }], ttlMs: 0 });
  };
  const addresses = new AddressCache(resolve, { ttlMsMin: 0 });
  const policy = new AddressPolicy(options.allow ?? []);
  const { bytesMax = 1e6 } = options;
  const proxy = new GuardProxy({ addresses, policyOf: () => policy, bytesMax, connectMs: 500 });
  const url = new URL(await proxy.open());
  t.after(() => {
    proxy.close();
    server.closeAllConnections();
    server.close();
  });
  const get = async (target: string, method = 'GET'): Promise<number | string> => {
    const asking = request({ host: url.hostname, port: url.port, path: target, method });
    asking.end();
    try {
      const [answer] = await once(asking, 'response');
      answer.resume();
      answer.on('error', () => {});
      await once(answer, 'close');
      return answer.complete ? answer.statusCode : 'cut';
    } catch {
      return 'cut';
    }
  };
  const tunnel = async (authority: string): Promise<string> => {
    const socket = connect(Number(url.port), url.hostname);
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    socket.on('error', () => {});
    const [head] = await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    socket.destroy();
    return head instanceof Buffer ? (/ (\d{3}) /.exec(head.toString())?.[1] ?? '?') : 'closed';
  };
  return { get, tunnel, port, seen, proxy };
}

test('guard proxy: no spelling of a private address is connected to', { timeout }, async (t) => {
  const { get, tunnel, port, seen } = await rig(t, {});
  const hosts = ['127.0.0.1', '2130706433', '0x7f.1', '017700000001', '[::1]', '[::ffff:7f00:1]'];
  for (const host of [...hosts, '0.0.0.0', '169.254.169.254', '10.0.0.1', '[fe80::1]']) {
    assert.equal(await get(`http://${host}:${port}/x`), 403, host);
    assert.equal(await tunnel(`${host}:${port}`), '403', host);
  }
  for (const odd of ['/x', 'ftp://127.0.0.1/', 'https://127.0.0.1/', 'http://']) {
    assert.ok([400, 403].includes(Number(await get(odd))), odd);
  }
  for (const odd of ['x', '127.0.0.1', 'a@b:80', 'h:99999', ':80']) {
    assert.notEqual(await tunnel(odd), '200', odd);
  }
  assert.deepEqual(seen, []);
});

test('guard proxy: a name whose answer changes gains nothing', { timeout }, async (t) => {
  const { get, tunnel, port, seen } = await rig(t, {});
  for (let i = 0; i < 3; i++) {
    assert.notEqual(await get(`http://rebinds.example:${port}/x`), 200);
    assert.notEqual(await tunnel(`rebinds.example:${port}`), '200');
  }
  assert.deepEqual(seen, []);
});

test('guard proxy: what is allowed passes, up to the bytes', { timeout }, async (t) => {
  const body = 'x'.repeat(50_000);
  const { get, tunnel, port, proxy } = await rig(t, { allow: 'all', body, bytesMax: 120_000 });
  const at = `127.0.0.1:${port}`;
  assert.equal(await tunnel(at), '200');
  assert.equal(await get(`http://${at}/1`), 200);
  assert.equal(await get(`http://${at}/2`), 200);
  assert.ok(proxy.bytes > 100_000 && proxy.bytes < 102_000, `${proxy.bytes}`);
  assert.equal(await get(`http://${at}/3`), 'cut');
  assert.notEqual(await get(`http://${at}/4`), 200);
  assert.equal(await tunnel(at), '403');
});

test('guard proxy: a request that meets the end of a kept connection is sent again', {
  timeout,
}, async (t) => {
  const { get, port, seen } = await rig(t, { allow: 'all', closesKept: true });
  const at = `http://127.0.0.1:${port}`;
  assert.equal(await get(`${at}/1`), 200);
  assert.equal(await get(`${at}/2`), 200);
  assert.equal(await get(`${at}/3`), 200);
  // It may have been done, so it is sent once.
  assert.equal(await get(`${at}/4`, 'POST'), 502);
  assert.deepEqual(seen, ['/1', '/2', '/2', '/3', '/4']);
});

test('guard proxy: the end of a tunnel waits for a slow reader', async () => {
  for (const isWhole of [true, false]) {
    const remote = new Duplex({ read: () => {}, write: (_chunk, _, done) => done() });
    const read: string[] = [];
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const client = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _, done) => {
        read.push(String(chunk));
        void opened.then(() => done());
      },
    });
    tie(remote, client);
    remote.pipe(client);
    client.pipe(remote);
    remote.push('head ');
    remote.push('tail');
    if (isWhole) remote.end().push(null);
    else setImmediate(() => remote.destroy());
    await once(remote, 'close');
    if (isWhole) {
      const taken = once(client, 'finish');
      open();
      await taken;
      assert.equal(read.join(''), 'head tail');
      // The reader has seen the end, and closes.
      client.push(null);
    }
    if (!client.closed) await once(client, 'close');
  }
});

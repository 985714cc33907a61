/** Connections with TLS that something breaks in the midst of an answer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Authority } from '../support/certificates.ts';
import { ask, open, startHost } from '../support/plain-rig.ts';

const authority = new Authority();
const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';

/** Forwards what comes to the port; returns its own port, and the sockets to its clients. */
async function startRelay(t: TestContext, port: number) {
  const clients: Socket[] = [];
  const relay = createServer((client) => {
    const onward = connect(port, '127.0.0.1').on('error', () => {});
    client.on('error', () => {}).pipe(onward);
    onward.pipe(client, { end: false });
    clients.push(client);
  });
  t.after(() => {
    for (const client of clients) client.destroy();
    relay.close();
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  return { port: (relay.address() as AddressInfo).port, clients };
}

test('broken TLS: what came before is no whole answer, and another attempt may help', async (t) => {
  let sent = '';
  let breaks = () => {};
  const host = await startHost(
    t,
    (socket) => {
      socket.write(sent);
      setTimeout(() => breaks(), 30);
    },
    authority.issue(),
  );
  const { port, clients } = await startRelay(t, host.port);
  breaks = () => clients.at(-1)?.end('no record of TLS');
  for (const framing of ['', 'X-A: a \r\n', 'Content-Length: 999\r\n', 'Connection: close\r\n']) {
    sent = `${head}${framing}\r\npart`;
    for (const kind of ['plain', 'library'] as const) {
      const { connection } = open(kind, port, authority.cert);
      const { data, ended, failure } = await ask(connection);
      const told = JSON.stringify(failure);
      await connection.destroy();
      assert.deepEqual([data, ended], ['part', 0], `${kind} ${framing}`);
      assert.match(
        told,
        /"connect","message":"connection (broken: ERR_SSL_[A-Z_]+|closed)/,
        framing,
      );
    }
  }
});

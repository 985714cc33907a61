/** A web server on loopback that answers as a test says, and ends with it. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

/** Returns its port. `host`: where it listens; `0.0.0.0`: on every address. */
export async function httpServer(
  test: TestContext,
  answer: RequestListener,
  host = '127.0.0.1',
): Promise<number> {
  const server = createServer(answer).listen(0, host);
  await once(server, 'listening');
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

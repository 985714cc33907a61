import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Returns a free port of 127.0.0.1 below those that the system gives out by itself: a program that
 *  is killed gets it again, whatever other tests listen to in the meantime. */
export async function lastingPort(): Promise<number> {
  while (true) {
    const port = randomInt(10_000, 32_000);
    const server = createServer();
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening');
    } catch {
      continue;
    }
    await once(server.close(), 'close');
    return port;
  }
}

/** A slow path to a master: a TCP proxy that forwards bytes after a delay. */
import { once } from 'node:events';
import {
  type AddressInfo,
  createConnection,
  createServer,
  type Server,
  type Socket,
} from 'node:net';
import type { TestContext } from 'node:test';

export class FarAway {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** `address`: host:port of the master; `eachWayMs`: half of a round trip. */
  static async start(address: string, eachWayMs: number, test?: TestContext): Promise<FarAway> {
    const server = createServer();
    const far = new FarAway(server);
    const [host = '', port = ''] = address.split(':');
    server.on('connection', (client: Socket) => {
      const master = createConnection({ host, port: Number(port) });
      far.#pass(client, master, eachWayMs);
      far.#pass(master, client, eachWayMs);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    test?.after(() => far.close());
    return far;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server.close(), 'close');
  }

  #pass(from: Socket, to: Socket, ms: number): void {
    this.#sockets.add(from);
    const later = (what: () => void) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        what();
      }, ms);
      this.#timers.add(timer);
    };
    from.setNoDelay(true);
    from.on('data', (chunk: Buffer) => later(() => to.write(chunk)));
    from.on('end', () => later(() => to.end()));
    from
      .on('error', () => {})
      .on('close', () => {
        this.#sockets.delete(from);
        later(() => to.destroy());
      });
  }
}

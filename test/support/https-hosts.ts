/** Many small https hosts on separate loopback addresses, and the connections that they saw. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Identity } from '../../selftest/site.ts';

/** The loopback address of the host of this number, 0 … 60,000. */
export function addressOf(host: number): string {
  return `127.7.${Math.floor(host / 250)}.${(host % 250) + 1}`;
}

type HostOptions = {
  /** The identity of the host at an address; without it all speak http. */
  readonly identityOf?: (address: string) => Identity;
  /** Time for which they keep unused connections; default: Node's 5 s. */
  readonly keepAliveMs?: number;
};

export class ManyHosts {
  /** Start URL of each. */
  readonly urls: string[] = [];
  /** TLS handshakes of each host: complete ones, and resumed ones. */
  readonly handshakes = new Map<string, { full: number; resumed: number }>();
  /** Open connections now, and their maximum. */
  open = 0;
  openMax = 0;
  connections = 0;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  static async start(
    count: number,
    answer: RequestListener,
    options: HostOptions = {},
  ): Promise<ManyHosts> {
    const hosts = new ManyHosts();
    const { identityOf, keepAliveMs } = options;
    let port = 0;
    for (let i = 0; i < count; i++) {
      const address = addressOf(i);
      const identity = identityOf?.(address);
      const server = identity ? createHttpsServer({ ...identity }, answer) : createServer(answer);
      if (keepAliveMs !== undefined) server.keepAliveTimeout = keepAliveMs;
      hosts.#watch(server, address);
      server.listen(port, address);
      await once(server, 'listening');
      port = (server.address() as AddressInfo).port;
      hosts.urls.push(`${identity ? 'https' : 'http'}://${address}:${port}/`);
    }
    return hosts;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => once(server.close(), 'close')));
  }

  #watch(server: Server, address: string): void {
    this.#servers.push(server);
    const count = { full: 0, resumed: 0 };
    this.handshakes.set(address, count);
    server.on('connection', (socket: Socket) => {
      this.connections++;
      this.openMax = Math.max(this.openMax, ++this.open);
      this.#sockets.add(socket);
      socket
        .on('error', () => {})
        .on('close', () => {
          this.open--;
          this.#sockets.delete(socket);
        });
    });
    server.on('secureConnection', (socket: TLSSocket) => {
      if (socket.isSessionReused()) count.resumed++;
      else count.full++;
    });
  }
}

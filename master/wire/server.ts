/** The listening socket: accepts, bounds how many connections there are, and knows the sessions. */
import { createServer, type Server, type Socket } from 'node:net';
import { addressOfPeer, networkOf } from '../../shared/address.ts';
import { authkeyBytesMin } from '../../shared/authkey.ts';
import {
  AuthError,
  ConfigError,
  ConnectionError,
  messageOf,
  type OrbError,
  ProtocolError,
} from '../../shared/errors.ts';
import { PeerAddresses } from './peer-addresses.ts';
import type { Services } from './services.ts';
import { Session } from './session.ts';
import { Strangers } from './strangers.ts';

/** What a session has to hold to be worth closing. */
const heavyBytes = 1 << 20;
/** Connections that have not said hello. */
const strangersMax = 2_000;
/** What one may send before it has proved the key. The handshake takes less than 4 KiB of it, TLS
 *  included; without this bound OpenSSL would keep 128 KiB of a ClientHello. */
const unprovedBytesMax = 16 << 10;
const lookEveryMs = 100;

export class MasterServer {
  readonly #services: Services;
  readonly #server: Server;
  readonly #sessions = new Set<Session>();
  readonly #strangers = new Strangers<Session>();
  readonly #addresses: PeerAddresses;
  readonly #look = setInterval(() => this.#endGreedy(), lookEveryMs).unref();
  #lastId = 0;

  constructor(
    services: Services,
    limits: { readonly connections: number; readonly connectionsPerAddress: number },
  ) {
    this.#services = services;
    this.#addresses = new PeerAddresses(limits.connectionsPerAddress);
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = limits.connections;
  }

  /** Resolves with the port. @throws ConfigError when it cannot listen there. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) => {
        const where = `${host || '*'}:${port}`;
        reject(
          new ConfigError(
            error.code === 'EADDRINUSE'
              ? `${where} is in use; stop the other program or choose another --listen`
              : `cannot listen on ${where}: ${messageOf(error)}; choose another --listen`,
            error,
          ),
        );
      });
      this.#server.listen({ host: host || undefined, port, backlog: 4096 }, () => {
        const address = this.#server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : port);
      });
    });
  }

  get sessions(): Session[] {
    return [...this.#sessions].filter((session) => session.isReady);
  }

  /** Memory has run out: those who hold most of it have to go, and may come again. */
  closeHeaviest(bytes: number): void {
    const held = [...this.#sessions].map((session) => ({ session, bytes: session.heldBytes }));
    let left = bytes;
    for (const heavy of held.sort((a, b) => b.bytes - a.bytes)) {
      if (left <= 0 || heavy.bytes < heavyBytes) return;
      left -= heavy.bytes;
      heavy.session.close(new ConnectionError('the master is at its --memory-limit'));
    }
  }

  /** Takes no more connections; gives when those that there are have ended, at most `timeoutMs`
   *  later. */
  async close(timeoutMs: number): Promise<void> {
    clearInterval(this.#look);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await Promise.race([
      Promise.all([...this.#sessions].map((session) => session.drained())),
      new Promise((resolve) => setTimeout(resolve, timeoutMs)),
    ]);
    for (const session of this.#sessions) session.close();
    await closed;
  }

  /** Counts one more refusal for the address of a session's peer; gives how many these are. */
  refusedAgain(peer: string): number {
    const address = networkOf(addressOfPeer(peer));
    return this.#addresses.refused(address, 'other', performance.now());
  }

  #accept(socket: Socket): void {
    const address = networkOf(socket.remoteAddress ?? '');
    let hasJoined = false;
    let isRefused = false;
    const session = new Session(++this.#lastId, socket, this.#services, {
      waitMs: this.#isKeyShort ? this.#addresses.waitMs(address, performance.now()) : 0,
      onProved: () => this.#strangers.proved(session),
      onRefused: (error) => {
        isRefused = true;
        this.#strangers.refused(session);
        this.#refused(session.peer, address, error);
        return this.#isKeyShort ? 0 : this.#addresses.waitMs(address, performance.now());
      },
      onGreeted: () => this.#strangers.delete(session),
      mayJoin: () => {
        hasJoined = this.#addresses.joined(address, performance.now());
        return hasJoined;
      },
      onEnd: (error) => {
        this.#sessions.delete(session);
        // Until its peer has closed, too, it takes a socket.
        this.#strangers.refused(session);
        if (hasJoined) this.#addresses.left(address);
        if (error !== undefined && !isRefused) this.#refused(session.peer, address, error);
      },
      onGone: () => this.#strangers.delete(session),
    });
    this.#sessions.add(session);
    this.#strangers.add(session, address);
    if (this.#strangers.size > strangersMax) this.#makeRoom();
  }

  /** Such a key could be found by trying, so that every try has to wait for its challenge. */
  get #isKeyShort(): boolean {
    return this.#services.authkeys().some((key) => key.length < authkeyBytesMin);
  }

  /** So any number of strangers keeps nobody out. [L-1] */
  #makeRoom(): void {
    const session = this.#strangers.first();
    if (session === undefined) return;
    this.#strangers.delete(session);
    session.abort(new ConnectionError('too many connections that have not said hello'));
  }

  /** Inside TLS nobody sees how much comes, until it is whole. */
  #endGreedy(): void {
    for (const session of this.#strangers) {
      if (session.unprovedBytes <= unprovedBytesMax) continue;
      session.abort(new ProtocolError('it sent too much before it had proved the authkey'));
    }
  }

  #refused(peer: string, address: string, error: OrbError): void {
    const why = error instanceof AuthError ? 'key' : 'other';
    const times = this.#addresses.refused(address, why, performance.now());
    this.#services.onRefused(peer, error, times);
  }
}

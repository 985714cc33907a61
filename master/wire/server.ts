/** The listening socket: accepts connections, limits their number, and knows the sessions. */
import { createServer, type Server, type Socket } from 'node:net';
import { networkOf } from '../../shared/address.ts';
import { authkeyBytesMin } from '../../shared/authkey.ts';
import {
  AuthError,
  ConfigError,
  ConnectionError,
  messageOf,
  type OrbError,
  ProtocolError,
} from '../../shared/errors.ts';
import type { CrawlView } from '../frontier/crawl/crawl-view.ts';
import type { FrontierListener } from '../frontier/frontier-events.ts';
import type { Resumed } from '../sinks/sink.ts';
import { PeerAddresses } from './peer-addresses.ts';
import type { Services } from './services.ts';
import { Session } from './session.ts';
import { Strangers } from './strangers.ts';

/** Memory that a session must hold to be worth closing. */
const heavyBytes = 1 << 20;
/** Maximum number of connections that have not said hello. */
const strangersMax = 2_000;
/** Bytes that a connection may send before it has proved the key. The handshake takes less than 4
 *  KiB, TLS included; without this bound OpenSSL would keep 128 KiB of a ClientHello. */
const unprovedBytesMax = 16 << 10;
const lookEveryMs = 100;

export class MasterServer implements FrontierListener {
  readonly #services: Services;
  readonly #server: Server;
  readonly #sessions = new Set<Session>();
  readonly #strangers = new Strangers<Session>();
  readonly #addresses: PeerAddresses;
  /** Runs while there are strangers: an idle master has few timers. */
  #look: NodeJS.Timeout | undefined;
  #lastId = 0;

  constructor(
    services: Omit<Services, 'peers'>,
    limits: { readonly connections: number; readonly connectionsPerAddress: number },
  ) {
    this.#services = { ...services, peers: this };
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

  /** Slaves may forget it, unless a seed has come since: then it has not ended. */
  crawlEnded({ id, isOpen }: CrawlView): void {
    if (!isOpen) for (const session of this.sessions) session.endCrawl(id);
  }

  /** Slaves that lack packages for it say so. [T-131] */
  crawlMade(crawl: CrawlView): void {
    for (const session of this.sessions) session.offerRules(crawl);
  }

  /** Slaves that know it use its new options for all that they have not begun. */
  crawlChanged({ id }: CrawlView): void {
    for (const session of this.sessions) session.specChanged(id);
  }

  /** An operator resumed it: slaves try the login again that has failed. [T-93] */
  crawlReleased({ id, spec }: CrawlView, how?: Resumed): void {
    if (how === undefined || spec.fetch.login === undefined) return;
    for (const session of this.sessions) session.specChanged(id);
  }

  crawlRemoved({ id }: CrawlView): void {
    for (const session of this.sessions) session.endCrawl(id);
  }

  get slaveCount(): number {
    return this.sessions.filter(({ role }) => role === 'slave').length;
  }

  /** Memory has run out: closes the sessions that hold most of it; they may reconnect. */
  memoryExceeded(bytes: number): void {
    const held = [...this.#sessions].map((session) => ({ session, bytes: session.heldBytes }));
    let left = bytes;
    for (const heavy of held.sort((a, b) => b.bytes - a.bytes)) {
      if (left <= 0 || heavy.bytes < heavyBytes) return;
      left -= heavy.bytes;
      heavy.session.close(new ConnectionError('the master has reached its --memory-limit'));
    }
  }

  /** Accepts no more connections; resolves when the present ones have ended, at most `timeoutMs`
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
      refusedPickle: (error) => {
        const times = this.#addresses.refused(address, 'pickle', performance.now());
        this.#services.events.refusedPickle(session.peer, error, times);
      },
      onGreeted: () => this.#strangers.delete(session),
      mayJoin: () => {
        hasJoined = this.#addresses.joined(address, performance.now());
        return hasJoined;
      },
      onEnd: (error) => {
        this.#sessions.delete(session);
        // Until its peer closes, too, it occupies a socket.
        this.#strangers.refused(session);
        if (hasJoined) this.#addresses.left(address);
        if (error !== undefined && !isRefused) this.#refused(session.peer, address, error);
      },
      onGone: () => this.#strangers.delete(session),
    });
    this.#sessions.add(session);
    this.#strangers.add(session, address);
    this.#look ??= setInterval(() => this.#endGreedy(), lookEveryMs).unref();
    if (this.#strangers.size > strangersMax) this.#makeRoom();
  }

  /** A short key could be guessed, so each try must wait for its challenge. */
  get #isKeyShort(): boolean {
    return this.#services.authkeys().some((key) => key.length < authkeyBytesMin);
  }

  /** Drops one unauthenticated connection, so that a flood of them locks nobody out. [L-1] */
  #makeRoom(): void {
    const session = this.#strangers.first();
    if (session === undefined) return;
    this.#strangers.delete(session);
    session.abort(new ConnectionError('too many connections that have not said hello'));
  }

  /** TLS does not show how much arrives until a message is complete. */
  #endGreedy(): void {
    for (const session of this.#strangers) {
      if (session.unprovedBytes <= unprovedBytesMax) continue;
      session.abort(new ProtocolError('it sent too much before it proved the authkey'));
    }
    if (this.#strangers.size > 0) return;
    clearInterval(this.#look);
    this.#look = undefined;
  }

  #refused(peer: string, address: string, error: OrbError): void {
    // A slave that was just connecting may leave with its master.
    if (error instanceof ConnectionError && this.#services.master.isDraining) return;
    const why = error instanceof AuthError ? 'key' : 'other';
    const times = this.#addresses.refused(address, why, performance.now());
    this.#services.events.refused(peer, error, times);
  }
}

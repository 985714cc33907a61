/**
 * The HTTP clients of a slave, one for each address policy and proxy: a socket that one policy
 * allowed is never reused under another. A lenient kind corrects the heads of answers, with one
 * request per connection, for origins whose answers undici refuses. Bounded; the client unused for
 * longest closes when its fetches have ended. The fetcher uses it.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { buildConnector, Dispatcher } from 'undici';
import { AddressPolicy } from '../../shared/address.ts';
import type { FetchSpec, TaskRequest } from '../../shared/crawl.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import type { AddressCache } from '../../shared/resolver.ts';
import { makeConnector } from './connector.ts';
import { checkUrl, guardedLookup } from './guard.ts';
import { headBytesMax, NormalSocket } from './normal-socket.ts';
import { Origins, SocketCount } from './origins.ts';
import { endsPaused } from './paused-parser.ts';
import { PoorAddresses } from './poor-addresses.ts';
import type { ProxyServer } from './proxies.ts';
import { ProxyClient } from './proxy-client.ts';
import { SessionRoom } from './tls-sessions.ts';

/** The part of undici's dispatchers that is used. */
type HttpClient = {
  dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    leftMs?: number,
  ): boolean;
  close(): Promise<void>;
  destroy(): Promise<void>;
  /** Of a proxy. */
  judge407?(): Promise<FetchErrorBody>;
};
export type Client = {
  readonly agent: HttpClient;
  readonly policy: AddressPolicy;
  readonly proxy: ProxyServer | undefined;
};
/** The properties that distinguish clients. */
type ClientKind = {
  /** Connects to public addresses and these. */
  readonly allow: FetchSpec['allowPrivate'];
  /** And to the private blocks that a seed opened for its host. */
  readonly blocks?: readonly string[] | undefined;
  readonly proxy?: ProxyServer | undefined;
  readonly http2?: boolean;
  /** Time limit of name look-up, connection and TLS. */
  readonly connectMs: number;
  /** Reads the answers as browsers do, and never by HTTP/2. */
  readonly isLenient?: boolean;
};

/** Maximum number of clients: nearly all crawls share two, or two per proxy. */
const countMax = 256;
/** Sockets that stay open: the minimum per slave, and the number per slot. */
const socketsMin = 512;
const socketsPerSlot = 2;

/** `headers`: alternating names and values; without a `request` it is a GET. */
type Sent = {
  readonly url: URL;
  readonly headers: string[];
  readonly request: TaskRequest | undefined;
};

/** Starts a request; the handler gets its events. `leftMs`: time until it is given up.
 *  @throws BlockedError the client's policy refuses the address. */
export function send(
  { agent, policy, proxy }: Client,
  { url, headers, request }: Sent,
  handler: Dispatcher.DispatchHandler,
  leftMs: number,
): void {
  const blocked = checkUrl(url, policy, { isProxied: proxy !== undefined });
  if (blocked !== undefined) throw blocked;
  const path = url.pathname + url.search;
  const { origin } = url;
  if (request === undefined)
    agent.dispatch({ origin, path, method: 'GET', headers }, handler, leftMs);
  else {
    const { method, body } = request;
    agent.dispatch({ origin, path, method, headers, body: Buffer.from(body) }, handler, leftMs);
  }
}

type ClientsOptions = {
  /** Sockets per origin at once, of each client. */
  readonly connections: number;
  /** The same to a proxy, and per origin through it. */
  readonly byProxy: number;
  readonly addresses: AddressCache;
  /** A lenient client read an answer of the origin; `isOdd`: it corrected something. */
  readonly onLenient: (origin: string, isOdd: boolean) => void;
};

export class Clients {
  readonly #options: ClientsOptions;
  /** In order of use: the first has been unused for longest. */
  readonly #clients = new Map<string, Client>();
  /** Clients for one request each. */
  readonly #apart = new Set<Client>();
  readonly #sessions = new SessionRoom();
  readonly #poor = new PoorAddresses();
  readonly #sockets: SocketCount;
  #closing: Promise<unknown> | undefined;

  constructor(options: ClientsOptions) {
    this.#options = options;
    const max = Math.max(socketsMin, socketsPerSlot * options.byProxy);
    this.#sockets = new SocketCount(max);
  }

  of(kind: ClientKind): Client {
    const { allow, blocks = [], proxy, http2, connectMs, isLenient } = kind;
    const open = allow === 'all' ? allow : `${allow.join(' ')}+${blocks.join(' ')}`;
    const ranges = `${connectMs} ${open}`;
    const version = isLenient ? 'lenient' : http2 ? 2 : 1;
    const key = proxy || version !== 1 ? `${ranges} ${version} ${proxy?.url.href}` : ranges;
    const client = this.#clients.get(key) ?? this.#make(kind);
    this.#clients.delete(key);
    this.#clients.set(key, client);
    if (this.#clients.size > countMax) this.#dropOldest();
    return client;
  }

  /** Runs `use` with a client that shares no connection and no TLS session with another. */
  async apart<T>(kind: ClientKind, use: (client: Client) => Promise<T>): Promise<T> {
    const client = this.#make(kind);
    this.#apart.add(client);
    try {
      return await use(client);
    } finally {
      this.#apart.delete(client);
      void client.agent.destroy();
    }
  }

  /** Closes all sockets; running fetches fail. Idempotent. */
  async close(): Promise<void> {
    const all = [...this.#clients.values(), ...this.#apart];
    this.#closing ??= Promise.all(all.map(({ agent }) => agent.destroy()));
    await this.#closing;
  }

  #make(kind: ClientKind): Client {
    const { allow, blocks, proxy, connectMs, isLenient = false } = kind;
    const { connections, byProxy, addresses, onLenient } = this.#options;
    const http2 = kind.http2 === true && !isLenient;
    const policy = new AddressPolicy(allow, blocks);
    const pool = {
      connections: proxy === undefined ? connections : byProxy,
      // 0: one request per connection.
      pipelining: isLenient ? 0 : 1,
      maxHeaderSize: headBytesMax,
      // The deadline of the whole fetch replaces undici's timers.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: http2,
    };
    const wrap = (connector: buildConnector.connector) =>
      isLenient ? normalConnector(connector, onLenient) : connector;
    const sessions = this.#sessions.part();
    if (proxy !== undefined) {
      const lookup = guardedLookup(addresses, new AddressPolicy('all'));
      const toProxy = makeConnector({ timeoutMs: connectMs, lookup, sessions });
      const ofHosts = this.#sessions.part();
      const toHost = makeConnector({ timeoutMs: connectMs, http2, sessions: ofHosts });
      const sockets = this.#sockets;
      const ways = { toProxy, toHost, connectMs, wrap };
      const agent = new ProxyClient({ proxy, pool, sockets, ...ways });
      return { agent, policy, proxy };
    }
    const lookup = guardedLookup(addresses, policy);
    const poor = this.#poor;
    const connect = wrap(makeConnector({ timeoutMs: connectMs, lookup, http2, sessions, poor }));
    return { agent: new Origins({ ...pool, connect }, this.#sockets), policy, proxy };
  }

  #dropOldest(): void {
    const [oldest] = this.#clients;
    if (oldest === undefined) return;
    this.#clients.delete(oldest[0]);
    void oldest[1].agent.close();
  }
}

/** A connector whose connections correct heads; `onEnd` reports the origin. */
function normalConnector(
  connector: buildConnector.connector,
  onEnd: (origin: string, isOdd: boolean) => void,
): buildConnector.connector {
  return (target, callback) =>
    connector(target, (error, socket) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      const origin = `${target.protocol}//${target.host ?? target.hostname}`;
      const normal = endsPaused(new NormalSocket(socket, (isOdd) => onEnd(origin, isOdd)));
      if (servesAsSocket(normal)) callback(null, normal);
    });
}

/** A stream with `ref` and `unref` has all that undici uses of a socket. */
function servesAsSocket(stream: Duplex): stream is NormalSocket & Socket {
  return stream instanceof NormalSocket;
}

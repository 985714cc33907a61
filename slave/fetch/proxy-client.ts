/**
 * An HTTP client whose connections go through one proxy. Requests for http hosts are handed to an
 * HTTP proxy as they are; for https hosts it makes a tunnel, and a SOCKS5 proxy does for both. The
 * proxy resolves the names of hosts; its own is resolved here. What it is to blame for is told to
 * its `ProxyServer` and becomes a ProxyError. The clients make it.
 * Source: RFC 9110, 9.3.6; RFC 9112, 3.2.2.
 */
import { isIP, Socket } from 'node:net';
import type { buildConnector, Dispatcher } from 'undici';
import httpConnect from 'undici/lib/api/api-connect.js';
import Pool from 'undici/lib/dispatcher/pool.js';
import { Origins, type SocketCount } from './origins.ts';
import type { ProxyServer } from './proxies.ts';
import { ProxyError } from './proxy-error.ts';
import { socksConnect } from './socks.ts';

export type ProxyClientOptions = {
  readonly proxy: ProxyServer;
  readonly pool: Omit<Pool.Options, 'connect'>;
  readonly sockets: SocketCount;
  /** The proxy's address may be any. */
  readonly toProxy: buildConnector.connector;
  /** Through a tunnel. */
  readonly toHost: buildConnector.connector;
  readonly connectMs: number;
};

export class ProxyClient {
  readonly #options: ProxyClientOptions;
  readonly #tunnels: Origins;
  /** Undefined for a SOCKS proxy. */
  readonly #http: Pool | undefined;

  constructor(options: ProxyClientOptions) {
    this.#options = options;
    const { proxy, pool, sockets, toHost } = options;
    const connect: buildConnector.connector = (target, callback) => {
      this.#reach(target).then(
        (socket) => {
          if (target.protocol !== 'https:') callback(null, socket);
          else toHost({ ...target, httpSocket: socket }, callback);
        },
        (error: Error) => callback(error, null),
      );
    };
    this.#tunnels = new Origins({ ...pool, connect }, sockets);
    if (proxy.url.protocol === 'socks5:') return;
    this.#http = new Pool(proxy.url.origin, {
      ...pool,
      connect: (target, callback) => this.#connect(target, callback),
    });
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { origin, path, headers } = options;
    const target = new URL(String(origin));
    if (this.#http === undefined || target.protocol === 'https:')
      return this.#tunnels.dispatch(options, handler);
    const given = Array.isArray(headers) ? headers : [];
    return this.#http.dispatch(
      {
        ...options,
        ...this.#own(),
        path: target.origin + path,
        headers: ['host', target.host, ...given, ...this.#credentials()],
      },
      handler,
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.#tunnels.close(), this.#http?.close()]);
  }

  async destroy(): Promise<void> {
    await Promise.all([this.#tunnels.destroy(), this.#http?.destroy()]);
  }

  /** A connection that leads to the host. */
  async #reach({ hostname, port, protocol }: buildConnector.Options): Promise<Socket> {
    const targetPort = Number(port || (protocol === 'https:' ? 443 : 80));
    try {
      return this.#http === undefined
        ? await this.#bySocks(hostname, targetPort)
        : await this.#byHttp(this.#http, `${bracketed(hostname)}:${targetPort}`);
    } catch (error) {
      if (error instanceof ProxyError) throw error;
      throw this.#blame('proxy', `no answer of the proxy${codeOf(error)}`);
    }
  }

  async #byHttp(pool: Pool, authority: string): Promise<Socket> {
    const { statusCode, socket } = await httpConnect.call(pool, {
      ...this.#own(),
      path: authority,
      headers: ['host', authority, ...this.#credentials()],
      signal: AbortSignal.timeout(this.#options.connectMs),
    });
    if (!(socket instanceof Socket)) throw this.#blame('proxy', 'the proxy made no tunnel');
    if (statusCode >= 200 && statusCode < 300) return socket;
    // What it says of itself in the body is not read.
    socket.on('error', () => {}).destroy();
    if (statusCode === 407) throw this.#blame('proxy', 'the proxy wants other credentials');
    throw this.#blame('connect', `the proxy answered ${statusCode}`);
  }

  async #bySocks(host: string, port: number): Promise<Socket> {
    const { proxy, connectMs } = this.#options;
    const { hostname, port: proxyPort } = proxy.url;
    const socket = await new Promise<Socket>((resolve, reject) => {
      const target = { hostname, protocol: 'http:', port: proxyPort || '1080' };
      this.#connect(target, (error, made) => (made ? resolve(made) : reject(error)));
    });
    const timer = setTimeout(() => socket.destroy(), connectMs);
    try {
      await socksConnect(socket, host, port, proxy.user);
      return socket;
    } catch (error) {
      socket.on('error', () => {}).destroy();
      throw error instanceof ProxyError ? this.#blame(error.kind, error.message) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** A connection to the proxy itself. */
  #connect(target: buildConnector.Options, callback: buildConnector.Callback): void {
    const { hostname, host } = this.#options.proxy.url;
    const to = { ...target, hostname: unbracketed(hostname), host, servername: nameOf(hostname) };
    this.#options.toProxy(to, (error, socket) => {
      if (error === null) callback(null, socket);
      else callback(this.#blame('proxy', `no connection to the proxy${codeOf(error)}`), null);
    });
  }

  /** A request for the proxy. By the Host header alone its connection would be taken for one to the
   *  host, and its certificate, too. */
  #own(): { origin: string; servername: string } {
    const { origin, hostname } = this.#options.proxy.url;
    return { origin, servername: hostname };
  }

  #credentials(): string[] {
    const { authorization } = this.#options.proxy;
    return authorization === undefined ? [] : ['proxy-authorization', authorization];
  }

  #blame(kind: 'proxy' | 'connect', message: string): ProxyError {
    const { proxy } = this.#options;
    if (kind === 'proxy') proxy.failed(message, performance.now());
    else proxy.refused(message, performance.now());
    return new ProxyError(kind, message);
  }
}

function bracketed(hostname: string): string {
  return hostname.includes(':') && !hostname.startsWith('[') ? `[${hostname}]` : hostname;
}

function unbracketed(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

/** For TLS: an address is no server name. Source: RFC 6066, 3. */
function nameOf(hostname: string): string {
  return isIP(unbracketed(hostname)) === 0 ? hostname : '';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? `: ${error.code}` : '';
}

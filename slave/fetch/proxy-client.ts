/**
 * An HTTP client whose connections go through one proxy. An HTTP proxy gets requests for http hosts
 * directly and makes tunnels to https hosts; a SOCKS5 proxy makes tunnels to both. The proxy
 * resolves the names of hosts; its own name is resolved here. Its faults are reported to its
 * `ProxyServer` and become a ProxyError. The clients make it.
 * Source: RFC 9110, 9.3.6; RFC 9112, 3.2.2.
 */
import { isIP, type Socket } from 'node:net';
import type { buildConnector, Dispatcher } from 'undici';
import Pool from 'undici/lib/dispatcher/pool.js';
import { AwakeTimer } from '../../shared/awake.ts';
import type { FetchErrorBody } from '../../shared/requests.ts';
import { Origins, type SocketCount } from './origins.ts';
import { isCutOff, StaleError, statusError } from './outcome.ts';
import type { ProxyServer } from './proxies.ts';
import { ProxyClosedError, ProxyError } from './proxy-error.ts';
import { SilenceWatch } from './silence.ts';
import { socksConnect, socksGreet } from './socks.ts';
import { askTunnel } from './tunnel.ts';

type ProxyClientOptions = {
  readonly proxy: ProxyServer;
  readonly pool: Omit<Pool.Options, 'connect'>;
  readonly sockets: SocketCount;
  /** Connects to the proxy, at any address. */
  readonly toProxy: buildConnector.connector;
  /** Connects to a host through a tunnel. */
  readonly toHost: buildConnector.connector;
  readonly connectMs: number;
  /** Wraps the connections that carry answers of hosts, not those for tunnels. */
  readonly wrap: (connector: buildConnector.connector) => buildConnector.connector;
};

type ProbeAnswer = 'nothing' | '407' | 'an answer';

/** A host that does not exist: a working proxy says so. Source: RFC 6761, 6.4. */
const noHost = 'orbweaver.invalid';
/** After this time without an answer the proxy is probed, with the same time for its answer. */
const silentMs = 5_000;

/** The connection ended, or the peer does not speak TLS; OpenSSL 3.0 and 3.5 name that otherwise.
 *  Errors of certificates and alerts come from the host. */
const brokenRecord = 'WRONG_VERSION_NUMBER|BAD_RECORD_TYPE|(?:DATA|PACKET)_LENGTH_TOO_LONG';
const brokenCode = new RegExp(`: (?:ECONNRESET|EPIPE|EPROTO|ERR_SSL_(?:${brokenRecord}))$`);

export class ProxyClient {
  readonly #options: ProxyClientOptions;
  readonly #tunnels: Origins;
  /** For plain requests to the proxy. Undefined for a SOCKS proxy. */
  readonly #http: Origins | undefined;
  /** The probe of the proxy that is under way. */
  #probing: Promise<ProbeAnswer> | undefined;

  constructor(options: ProxyClientOptions) {
    this.#options = options;
    const { proxy, pool, sockets, wrap } = options;
    const connect: buildConnector.connector = (target, callback) => {
      this.#reach(target).then(
        (socket) => {
          if (target.protocol !== 'https:') callback(null, socket);
          else this.#encrypt(socket, target, callback);
        },
        (error: Error) => callback(error, null),
      );
    };
    this.#tunnels = new Origins({ ...pool, connect: wrap(connect) }, sockets);
    if (proxy.url.protocol === 'socks5:') return;
    const toProxy: buildConnector.connector = (target, callback) => this.#connect(target, callback);
    this.#http = new Origins({ ...pool, connect: wrap(toProxy) }, sockets);
  }

  /** `leftMs`: time until the request is given up. */
  dispatch(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    leftMs = Number.POSITIVE_INFINITY,
  ): boolean {
    const { origin, path, headers } = options;
    const target = new URL(String(origin));
    const ms = Math.min(silentMs, leftMs / 3);
    const isForwarded = this.#http !== undefined && target.protocol === 'http:';
    const watch = new SilenceWatch(handler, {
      afterMs: ms,
      isAlive: () => this.#isAlive(ms),
      blame: () => this.#blame('proxy', 'the proxy does not answer'),
      judge: (error) => {
        if (target.protocol !== 'http:' || !isCutOff(error)) return undefined;
        return isForwarded ? this.#judge(error, ms) : Promise.resolve(this.#judgeTunnel(error));
      },
    });
    if (this.#http === undefined || target.protocol === 'https:')
      return this.#tunnels.dispatch(options, watch);
    const given = Array.isArray(headers) ? headers : [];
    return this.#http.dispatch(
      {
        ...options,
        ...this.#itself(),
        path: target.origin + path,
        headers: ['host', target.host, ...given, ...this.#credentials()],
      },
      watch,
    );
  }

  /** Was a 407 the proxy's own? A host can send one, too: the probe shows what the proxy says. */
  async judge407(): Promise<FetchErrorBody> {
    if ((await this.#probe(silentMs)) === 'an answer') return statusError(407);
    const { kind, message } = this.#blame('proxy', 'the proxy wants other credentials');
    return { kind, message };
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }

  async destroy(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.destroy()));
  }

  get #pools(): Origins[] {
    const pools = new Set([this.#tunnels, this.#http]);
    return [...pools].filter((pool) => pool !== undefined);
  }

  /** Returns a connection to the host. */
  async #reach({ hostname, port, protocol }: buildConnector.Options): Promise<Socket> {
    const targetPort = Number(port || (protocol === 'https:' ? 443 : 80));
    try {
      return this.#http === undefined
        ? await this.#bySocks(hostname, targetPort)
        : await this.#byHttp(`${bracketed(hostname)}:${targetPort}`);
    } catch (error) {
      if (error instanceof ProxyError) throw error;
      if (!(error instanceof Error && error.name === 'TimeoutError'))
        throw await this.#unanswered(codeText(error));
      const within = `within ${this.#options.connectMs / 1000} s`;
      throw (await this.#isAlive(silentMs))
        ? this.#blame('connect', `the proxy did not reach the host ${within}`)
        : this.#blame('proxy', `no answer of the proxy ${within}`);
    }
  }

  /** The proxy was asked for a tunnel, and ended the connection: as some do where they do not reach
   *  the host, and as a broken one does for all hosts. */
  async #unanswered(code: string): Promise<ProxyError> {
    return (await this.#isAlive(silentMs))
      ? this.#blame('connect', 'the proxy made no tunnel to the host')
      : this.#blame('proxy', `no answer of the proxy${code}`);
  }

  /** The connection to the proxy has ended before an answer. One that was kept may do so: the
   *  request is sent again. */
  async #judge(error: Error, withinMs: number): Promise<Error> {
    if (error instanceof ProxyError || error instanceof StaleError) return error;
    if (await this.#isAlive(withinMs)) return error;
    return this.#blame('proxy', `no answer of the proxy${codeText(error)}`);
  }

  /** A tunnel that has no TLS ended before a byte of an answer: some proxies say that they have
   *  connected before they do. */
  #judgeTunnel(error: Error): Error {
    if (error instanceof StaleError) return error;
    return this.#blame('connect', 'the tunnel of the proxy ended without an answer');
  }

  /** Begins TLS in a tunnel. A break before that may be the proxy's fault, such as a page about an
   *  error in place of a tunnel. */
  #encrypt(socket: Socket, target: buildConnector.Options, callback: buildConnector.Callback) {
    this.#options.toHost({ ...target, httpSocket: socket }, (error, made) => {
      if (error === null) callback(null, made);
      else if (!brokenCode.test(codeText(error))) callback(error, null);
      else callback(this.#blame('connect', `no TLS through the proxy${codeText(error)}`), null);
    });
  }

  async #byHttp(authority: string): Promise<Socket> {
    const socket = await this.#toProxy();
    const late = new DOMException('no answer in time', 'TimeoutError');
    const timer = new AwakeTimer(() => socket.destroy(late), this.#options.connectMs);
    try {
      const status = await askTunnel(socket, authority, this.#credentials());
      if (status >= 200 && status < 300) return socket;
      if (status === 407) throw this.#blame('proxy', 'the proxy wants other credentials');
      throw this.#blame('connect', `the proxy answered ${status}`);
    } catch (error) {
      // The body of a refusal is not read.
      socket.on('error', () => {}).destroy();
      throw error;
    } finally {
      timer.clear();
    }
  }

  async #bySocks(host: string, port: number): Promise<Socket> {
    const { proxy, connectMs } = this.#options;
    const socket = await this.#toProxy();
    let stage: 'greeting' | 'asking' = 'greeting';
    let late: ProxyError | undefined;
    const expire = () => {
      const within = `within ${connectMs / 1000} s`;
      // The proxy accepted us, so the host does not answer.
      late =
        stage === 'asking'
          ? new ProxyError('connect', `the proxy did not reach the host ${within}`)
          : new ProxyError('proxy', `no answer of the proxy ${within}`);
      socket.destroy();
    };
    const timer = new AwakeTimer(expire, connectMs);
    try {
      await socksGreet(socket, proxy.user);
      stage = 'asking';
      await socksConnect(socket, host, port);
      return socket;
    } catch (thrown) {
      socket.on('error', () => {}).destroy();
      const error = late ?? thrown;
      const isEnded = stage === 'asking' && error instanceof ProxyClosedError;
      if (isEnded) throw await this.#unanswered('');
      throw error instanceof ProxyError ? this.#blame(error.kind, error.message) : error;
    } finally {
      timer.clear();
    }
  }

  #toProxy(): Promise<Socket> {
    const { protocol, port } = this.#options.proxy.url;
    const isSocks = protocol === 'socks5:';
    const target = isSocks
      ? { hostname: '', protocol: 'http:', port: port || '1080' }
      : { hostname: '', protocol, port };
    return new Promise((resolve, reject) => {
      this.#connect(target, (error, made) => (made ? resolve(made) : reject(error)));
    });
  }

  /** Does the proxy answer at all? */
  async #isAlive(withinMs: number): Promise<boolean> {
    return (await this.#probe(withinMs)) !== 'nothing';
  }

  /** One probe at a time, on a separate connection. */
  #probe(withinMs: number): Promise<ProbeAnswer> {
    this.#probing ??= (
      this.#http === undefined ? this.#probeSocks(withinMs) : this.#probeHttp(withinMs)
    )
      // Its faults are reported where they occur.
      .catch((): ProbeAnswer => 'nothing')
      .finally(() => {
        this.#probing = undefined;
      });
    return this.#probing;
  }

  async #probeSocks(withinMs: number): Promise<ProbeAnswer> {
    const socket = await within(this.#toProxy(), withinMs, (made) => made.destroy());
    const timer = new AwakeTimer(() => socket.destroy(), withinMs);
    try {
      await socksGreet(
        socket.on('error', () => {}),
        this.#options.proxy.user,
      );
      return 'an answer';
    } finally {
      timer.clear();
      socket.destroy();
    }
  }

  async #probeHttp(withinMs: number): Promise<ProbeAnswer> {
    const { proxy, pool } = this.#options;
    const connect: buildConnector.connector = (target, callback) => this.#connect(target, callback);
    const once = new Pool(proxy.url.origin, { ...pool, connections: 1, connect });
    const request = {
      ...this.#itself(),
      path: `http://${noHost}/`,
      method: 'GET' as const,
      headers: ['host', noHost, ...this.#credentials()],
    };
    try {
      return await new Promise<ProbeAnswer>((resolve) => {
        const timer = new AwakeTimer(() => resolve('nothing'), withinMs);
        const settle = (answer: ProbeAnswer) => {
          timer.clear();
          resolve(answer);
        };
        once.dispatch(request, {
          onRequestStart() {},
          onResponseStart: (_, status) => settle(status === 407 ? '407' : 'an answer'),
          onResponseError: () => settle('nothing'),
        });
      });
    } finally {
      void once.destroy();
    }
  }

  /** A connection to the proxy itself. */
  #connect(target: buildConnector.Options, callback: buildConnector.Callback): void {
    const { hostname, host } = this.#options.proxy.url;
    const to = { ...target, hostname: unbracketed(hostname), host, servername: nameOf(hostname) };
    this.#options.toProxy(to, (error, socket) => {
      if (error === null) callback(null, socket);
      else callback(this.#blame('proxy', `no connection to the proxy${codeText(error)}`), null);
    });
  }

  /** The origin and name for a request to the proxy itself. By the Host header, undici would take
   *  its connection and certificate for those of the host. */
  #itself(): { origin: string; servername: string } {
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

/** Returns the code of an error, if it is useful: those of the DOM are numbers. */
function codeText(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? `: ${code}` : '';
}

/** Rejects if `promise` takes longer; a late result is released. */
function within<T>(promise: Promise<T>, ms: number, letGo: (late: T) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const timer = new AwakeTimer(() => {
      isLate = true;
      reject(new Error(`not within ${ms} ms`));
    }, ms);
    promise.then(
      (value) => {
        timer.clear();
        if (isLate) letGo(value);
        else resolve(value);
      },
      (error: unknown) => {
        timer.clear();
        reject(error);
      },
    );
  });
}

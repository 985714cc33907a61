/**
 * A real proxy on 127.0.0.1 for tests: forwards requests for http, makes tunnels by CONNECT, or
 * speaks SOCKS5. Hosts are looked up in `routes`, so a test can use names that do not exist.
 */
import { EventEmitter, once } from 'node:events';
import {
  createServer,
  type Server as HttpServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import type { TestContext } from 'node:test';
import type { Identity } from '../../selftest/site.ts';

type Passage = {
  readonly kind: 'forward' | 'tunnel' | 'socks';
  /** Host and port. */
  readonly target: string;
  /** Of the request to the proxy; empty for SOCKS. */
  readonly headers: IncomingHttpHeaders;
};

export type TestProxyOptions = {
  readonly scheme?: 'http' | 'https' | 'socks5';
  readonly user?: string;
  readonly password?: string;
  /** For `https`. */
  readonly identity?: Identity;
  /** The places of hosts: `name:port` to a port of 127.0.0.1. Other hosts are used unchanged. */
  readonly routes?: ReadonlyMap<string, number>;
};

export class TestProxy {
  /** Requests with the right credentials. */
  readonly log: Passage[] = [];
  /** Answered to CONNECT, or to a request, instead of passing it on. */
  refuses: number | undefined;
  /** Targets for which it ends the connection without a word. */
  readonly silentFor = new Set<string>();
  /** The bytes out of a tunnel, in place of a host. */
  lies: string | undefined;
  readonly #options: TestProxyOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #events = new EventEmitter().setMaxListeners(0);

  private constructor(options: TestProxyOptions) {
    this.#options = options;
    this.#server = this.#makeServer();
    this.#server.on('connection', (socket: Socket) => this.#keep(socket));
  }

  static async start(options: TestProxyOptions = {}, port = 0): Promise<TestProxy> {
    const proxy = new TestProxy(options);
    proxy.#server.listen(port, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** With its user, as `--proxy` takes it. */
  get url(): string {
    const { scheme = 'http', user, password } = this.#options;
    return `${scheme}://${user === undefined ? '' : `${user}:${password}@`}127.0.0.1:${this.port}`;
  }

  /** Resolves after this number of requests. */
  async asked(count: number): Promise<void> {
    while (this.log.length < count) await once(this.#events, 'asked');
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, 'close');
  }

  #makeServer(): Server {
    const { scheme = 'http', identity } = this.#options;
    if (scheme === 'socks5') return createTcpServer((socket) => void this.#socks(socket));
    const server: HttpServer =
      scheme === 'https' ? createHttpsServer({ ...identity }) : createServer();
    server.on('request', (request, response) => this.#forward(request, response));
    server.on('connect', (request: IncomingMessage, socket: Socket) =>
      this.#tunnel(request, socket),
    );
    return server;
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '');
    const refused = this.#admit(request, 'forward', `${url.hostname}:${url.port || 80}`);
    if (refused !== undefined) {
      response.writeHead(refused).end();
      return;
    }
    const { 'proxy-authorization': _, ...headers } = request.headers;
    const { host, port } = this.#route(`${url.hostname}:${url.port || 80}`);
    const onward = httpRequest(
      { host, port, path: url.pathname + url.search, headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
      },
    );
    onward.on('error', () => response.writeHead(502).end());
    onward.end();
  }

  #tunnel(request: IncomingMessage, socket: Socket): void {
    const target = request.url ?? '';
    const refused = this.#admit(request, 'tunnel', target);
    socket.on('error', () => {});
    if (this.silentFor.has(target)) {
      socket.end();
      return;
    }
    if (refused !== undefined) {
      socket.end(`HTTP/1.1 ${refused} No\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    if (this.lies !== undefined) {
      socket.end(`HTTP/1.1 200 Yes\r\n\r\n${this.lies}`);
      return;
    }
    this.#join(socket, target, (joined) =>
      socket.write(`HTTP/1.1 ${joined ? '200 Yes' : '502 No'}\r\n\r\n`),
    );
  }

  /** The status to refuse with, or undefined. */
  #admit(request: IncomingMessage, kind: Passage['kind'], target: string): number | undefined {
    const { user, password } = this.#options;
    const right = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    if (user !== undefined && request.headers['proxy-authorization'] !== right) return 407;
    this.#note({ kind, target, headers: request.headers });
    return this.refuses;
  }

  async #socks(socket: Socket): Promise<void> {
    const { user, password } = this.#options;
    const bytes = reader(socket);
    try {
      const [, count = 0] = await bytes(2);
      await bytes(count);
      socket.write(Buffer.from([5, user === undefined ? 0 : 2]));
      if (user !== undefined) {
        const [, userLength = 0] = await bytes(2);
        const name = (await bytes(userLength)).toString();
        const [passwordLength = 0] = await bytes(1);
        const given = (await bytes(passwordLength)).toString();
        const isRight = name === user && given === password;
        socket.write(Buffer.from([1, isRight ? 0 : 1]));
        if (!isRight) return void socket.end();
      }
      const [, , , , length = 0] = await bytes(5);
      const host = (await bytes(length)).toString();
      const target = `${host}:${(await bytes(2)).readUInt16BE()}`;
      this.#note({ kind: 'socks', target, headers: {} });
      const reply = (code: number) => socket.write(Buffer.from([5, code, 0, 1, 0, 0, 0, 0, 0, 0]));
      if (this.refuses !== undefined) return void reply(this.refuses);
      this.#join(socket, target, (joined) => reply(joined ? 0 : 5));
    } catch {
      socket.destroy();
    }
  }

  /** Connects a client's socket to a host, after `answer` has reported whether it is there. */
  #join(socket: Socket, target: string, answer: (joined: boolean) => void): void {
    let isJoined = false;
    const onward = this.#keep(connect(this.#route(target)));
    onward.on('connect', () => {
      isJoined = true;
      answer(true);
      socket.pipe(onward).pipe(socket);
    });
    onward.on('error', () => {
      if (!isJoined) answer(false);
      socket.end();
    });
    socket.on('close', () => onward.destroy());
  }

  #note(passage: Passage): void {
    this.log.push(passage);
    this.#events.emit('asked');
  }

  #route(target: string): { host: string; port: number } {
    const port = this.#options.routes?.get(target) ?? Number(target.slice(target.indexOf(':') + 1));
    return { host: '127.0.0.1', port };
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket)).on('error', () => {});
    return socket;
  }
}

/** Accepts connections and all bytes, and never answers. */
export async function muteProxy(test: TestContext): Promise<{ port: number; reached: number }> {
  const sockets = new Set<Socket>();
  const mute = { port: 0, reached: 0 };
  const server = createTcpServer((socket) => {
    mute.reached++;
    sockets.add(socket.on('error', () => {}).resume());
  });
  test.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  mute.port = (server.address() as AddressInfo).port;
  return mute;
}

/** Reads exactly the given number of bytes at a time. */
function reader(socket: Socket): (count: number) => Promise<Buffer> {
  return async (count) => {
    while (true) {
      const bytes: unknown = count === 0 ? Buffer.alloc(0) : socket.read(count);
      if (Buffer.isBuffer(bytes)) return bytes;
      await once(socket, 'readable');
    }
  };
}

/**
 * A host that answers with given bytes, by path, for answers that Node's HTTP server would never
 * send. It reads one request per connection, or several if the answer does not end it.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { TLSSocket } from 'node:tls';
import type { Identity } from '../../selftest/site.ts';

type OddRequest = {
  readonly path: string;
  /** The whole head. */
  readonly head: string;
  /** `performance.now()` */
  readonly at: number;
};
type OddAnswer = string | Buffer | ((socket: Socket, request: OddRequest) => void);

export class OddHost {
  readonly log: OddRequest[] = [];
  /** Connections that were made. */
  connections = 0;
  readonly #reports = new Map<string, OddAnswer>();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #scheme: 'http' | 'https';

  private constructor(identity?: Identity) {
    this.#scheme = identity === undefined ? 'http' : 'https';
    this.#server = createServer((raw) => {
      this.connections++;
      this.#keep(raw);
      if (identity === undefined) this.#serve(raw);
      else this.#serve(new TLSSocket(raw, { isServer: true, ...identity }));
    });
  }

  static async start(test: TestContext, identity?: Identity): Promise<OddHost> {
    const host = new OddHost(identity);
    host.#server.listen(0, '127.0.0.1');
    await once(host.#server, 'listening');
    test.after(() => host.close());
    return host;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** With a slash at its end. */
  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}/`;
  }

  /** Text is latin1. After it the connection ends. */
  answer(path: string, answer: OddAnswer): void {
    this.#reports.set(path, answer);
  }

  /** Number of requests for a path. */
  count(path: string): number {
    return this.log.filter((request) => request.path === path).length;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
  }

  #serve(socket: Socket): void {
    socket.on('error', () => {});
    let read = '';
    socket.on('data', (chunk) => {
      read += chunk.toString('latin1');
      const end = read.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = read.slice(0, end + 4);
      read = read.slice(end + 4);
      const [, path = '/'] = /^[A-Z]+ (?:https?:\/\/[^/]+)?(\S+)/.exec(head) ?? [];
      const request = { path, head, at: performance.now() };
      this.log.push(request);
      const answer = this.#reports.get(path) ?? this.#reports.get('*') ?? notFound;
      if (typeof answer === 'function') answer(socket, request);
      else socket.end(typeof answer === 'string' ? Buffer.from(answer, 'latin1') : answer);
    });
  }
}

const notFound = 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

/** Returns answers that curl or browsers read and a strict parser refuses, for a body of HTML. */
export function oddForms(body: string): Record<string, string> {
  const length = body.length;
  const type = 'Content-Type: text/html\r\n';
  const rest = `${type}Content-Length: ${length}\r\n\r\n${body}`;
  const ok = 'HTTP/1.1 200 OK\r\n';
  const chunks = `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const bare = (text: string) => text.replaceAll('\r\n', '\n');
  return {
    'folded values': `${ok}X-A: a\r\n b\r\n\tc\r\n \t\r\n${rest}`,
    'a folded length': `${ok}${type}Content-Length:\r\n ${length}\r\n\r\n${body}`,
    'a fold before all fields': `${ok} x: y\r\n${rest}`,
    'bare line feeds': bare(`${ok}${rest}`),
    'a bare line feed at the end': `${ok}${type}Content-Length: ${length}\r\n\n${body}`,
    'bare line feeds and chunks': bare(`${ok}${type}Transfer-Encoding: chunked\r\n\r\n${chunks}`),
    'bare line feeds in chunks': `${ok}${type}Transfer-Encoding: chunked\r\n\r\n${bare(chunks)}`,
    'blanks before a colon': `${ok}Content-Type \t: text/html\r\nContent-Length : ${length}\r\n\r\n${body}`,
    'a blank before the colon of chunks': `${ok}${type}Transfer-Encoding : chunked\r\n\r\n${chunks}`,
    'a line without a colon': `${ok}hello there\r\n${rest}`,
    'a folded line without a colon': `${ok}hello\r\n there: x\r\n${rest}`,
    'a line without a name': `${ok}: x\r\n${rest}`,
    'a name with a blank': `${ok}X Y: x\r\n${rest}`,
    'a name with a letter of no ASCII': `${ok}X-\xe9: x\r\n${rest}`,
    'DEL in a value': `${ok}X-A: a\x7fb\r\n${rest}`,
    'control characters in a value': `${ok}X-A: \x01a\x1fb\r\n${rest}`,
    'a lone CR in a value': `${ok}X-A: a\rb\r\n${rest}`,
    'two CR at each end': `${ok}${rest}`.replace(/\r\n/g, '\r\r\n'),
    'the same length twice': `${ok}Content-Length: ${length}\r\n${rest}`,
    'the same length twice in a list': `${ok}${type}Content-Length: ${length}, ${length}\r\n\r\n${body}`,
    'a length that is no number': `${ok}${type}Content-Length: many\r\n\r\n${body}`,
    'a length that is empty': `${ok}${type}Content-Length:\r\n\r\n${body}`,
    '100 Continue': `HTTP/1.1 100 Continue\r\n\r\n${ok}${rest}`,
    'many 1xx': `${'HTTP/1.1 100 Continue\r\nX: y\r\n\r\n'.repeat(100)}HTTP/1.1 103 E\r\n\r\n${ok}${rest}`,
    'two blanks behind the version': `HTTP/1.1  200 OK\r\n${rest}`,
    'a version that nobody knows': `HTTP/1.2 200 OK\r\n${rest}`,
    'a version without a point': `HTTP/2 200\r\n${rest}`,
    'a lower-case protocol': `http/1.1 200 ok\r\n${rest}`,
    'a status and its reason in one': `HTTP/1.1 200OK\r\n${rest}`,
    'blanks behind a chunk size': `${ok}Foo\r\n${type}Transfer-Encoding: chunked\r\n\r\n${chunks.replace('\r', '  \r')}`,
    'a chunk extension and a trailer': `${ok}Foo\r\n${type}Transfer-Encoding: chunked\r\n\r\n${chunks
      .replace('\r', ';a="b"\r')
      .replace(/\r\n$/, 'X : y\r\n\r\n')}`,
    'no length at all': `${ok}Foo\r\n${type}\r\n${body}`,
    'identity and a length': `${ok}Transfer-Encoding: identity\r\n${rest}`,
    'a length and identity': `${ok}Content-Length: ${length}\r\nTransfer-Encoding: identity\r\n${type}\r\n${body}`,
    'identity and two lengths': `${ok}Transfer-Encoding: Identity\r\nContent-Length: ${length}\r\n${rest}`,
    'another coding and chunks': `${ok}Foo\r\n${type}Transfer-Encoding: gzip, chunked\r\n\r\n${chunks}`,
    'another coding and chunks, in two lines': `${ok}Foo\r\n${type}Transfer-Encoding: a b;c=d\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`,
    'chunks before another coding': `${ok}Foo\r\n${type}Transfer-Encoding: chunked, x\r\n\r\n${chunks}`,
    'another coding alone': `${ok}Foo\r\n${type}Transfer-Encoding: x\r\n\r\n${body}`,
  };
}

/** Returns answers that must not be read, with their errors. */
export function refusedForms(body: string): Record<string, [answer: string, reason: RegExp]> {
  const length = body.length;
  const ok = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';
  const rest = `Content-Length: ${length}\r\n\r\n${body}`;
  const chunks = `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const both = /malformed answer: Transfer-Encoding and Content-Length/;
  const many = /malformed answer: several different Content-Lengths/;
  const chunked = 'Transfer-Encoding: chunked\r\n';
  return {
    'chunks and a length': [`${ok}${chunked}Content-Length: ${length}\r\n\r\n${chunks}`, both],
    'a length and chunks': [`${ok}Content-Length: ${length}\r\n${chunked}\r\n${chunks}`, both],
    'hidden chunks and a length': [
      `${ok}Content-Length: ${length}\r\nTransfer-Encoding\t:\r\n chunked\r\n\r\n${chunks}`,
      both,
    ],
    'chunks and an empty length': [`${ok}${chunked}Content-Length:\r\n\r\n${chunks}`, both],
    'another coding and a length': [`${ok}Transfer-Encoding: gzip\r\n${rest}`, both],
    'identity and differing lengths': [
      `${ok}Transfer-Encoding: identity\r\nContent-Length: 5\r\n${rest}`,
      many,
    ],
    'two lengths': [`${ok}Content-Length: 5\r\n${rest}`, many],
    'two lengths in a list': [`${ok}Content-Length: ${length}, 5\r\n\r\n${body}`, many],
    'a length and none': [`${ok}Content-Length: x\r\n${rest}`, many],
    'a folded second length': [`${ok}Content-Length: ${length},\r\n 7\r\n\r\n${body}`, many],
    'a NUL in a value': [`${ok}X-A: a\0b\r\n${rest}`, /malformed answer: a NUL in its head/],
    'a NUL in a name': [`${ok}X\0A: b\r\n${rest}`, /malformed answer: a NUL in its head/],
    ICY: [`ICY 200 OK\r\n${rest}`, /malformed answer: it speaks ICY, not HTTP/],
    'HTTP/0.9': [body, /malformed answer: no HTTP status line/],
    'status 000': [`HTTP/1.1 000 OK\r\n${rest}`, /malformed answer: its status is 000/],
    'status 099': [`HTTP/1.1 099 OK\r\n${rest}`, /malformed answer: its status is 099/],
    'status 2000': [`HTTP/1.1 2000 OK\r\n${rest}`, /malformed answer: its status is 2000/],
    'status 20': [`HTTP/1.1 20 OK\r\n${rest}`, /malformed answer: its status is 20/],
    'status abc': [`HTTP/1.1 abc OK\r\n${rest}`, /its status line cannot be read/],
    '101': [
      `HTTP/1.1 101 S\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n`,
      /changes to another protocol/,
    ],
    'chunks that are none': [`${ok}${chunked}\r\n${body}`, /a chunk without a size/],
    'a chunk too long': [
      `${ok}${chunked}\r\n5\r\n${body}\r\n0\r\n\r\n`,
      /a chunk longer than its size/,
    ],
    'a long head': [
      `${ok}Foo\r\nX-A: ${'a'.repeat(70_000)}\r\n${rest}`,
      /headers longer than 64 KiB/,
    ],
    'endless 1xx': [
      `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(4_000)}${ok}${rest}`,
      /headers longer than 64 KiB/,
    ],
  };
}

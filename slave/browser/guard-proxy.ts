/**
 * The proxy through which a page in the browser reaches the network, one for each page: it connects
 * to the addresses that the crawl may have, and counts what comes. The browser resolves no name
 * itself, and has no way around it. A tunnel of https hides URLs, so these are judged in the
 * browser; here is what a page could do to an address: digits, names that resolve to private
 * blocks, names whose answer changes. Source: docs/browser.md; RFC 9110, 9.3.6.
 */
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AddressPolicy } from '../../shared/address.ts';
import { AwakeTimer } from '../../shared/awake.ts';
import { addressMsOf } from '../../shared/far-addresses.ts';
import type { AddressCache } from '../../shared/resolver.ts';
import { BlockedError, checkUrl, guardedLookup } from '../fetch/guard.ts';

type GuardProxyOptions = {
  readonly addresses: AddressCache;
  /** The address to connect to for `host:port`; undefined: none is allowed. */
  readonly policyOf: (authority: string) => AddressPolicy | undefined;
  /** Of all answers; at more everything ends. */
  readonly bytesMax: number;
  /** Time limit of a connection. */
  readonly connectMs: number;
  /** The limit of bytes is reached. */
  readonly onFull?: () => void;
};

/** Connections under way at once: a browser has six to a host, and hosts are few. */
const socketsMax = 64;
/** Source: RFC 9110, 7.6.1. */
const hopHeaders =
  /^(?:connection|proxy-connection|proxy-authorization|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;

export class GuardProxy {
  readonly #options: GuardProxyOptions;
  readonly #server = createServer((request, response) => this.#forward(request, response));
  readonly #agent: Agent;
  /** Both ends of all connections. */
  readonly #ends = new Set<Duplex>();
  #tunnels = 0;
  #bytes = 0;
  #state: 'open' | 'full' | 'closed' = 'open';

  constructor(options: GuardProxyOptions) {
    this.#options = options;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 6, maxTotalSockets: socketsMax });
    this.#server.on('connection', (socket) => this.#keep(socket));
    this.#server.on('connect', (request, socket, head) => this.#tunnel(request, socket, head));
    this.#server.on('upgrade', (_, socket) => socket.destroy());
    this.#server.on('clientError', (_, socket) => socket.destroy());
  }

  /** Resolves with its URL. */
  open(): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(0, '127.0.0.1', () => {
        const address = this.#server.address();
        const port = typeof address === 'object' && address !== null ? address.port : 0;
        resolve(`http://127.0.0.1:${port}`);
      });
    });
  }

  /** Bytes that came so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Ends all connections. Idempotent. */
  close(): void {
    this.#state = 'closed';
    this.#server.close();
    this.#endAll();
  }

  #endAll(): void {
    this.#agent.destroy();
    for (const end of this.#ends) end.destroy();
    this.#ends.clear();
  }

  #keep(end: Duplex): void {
    this.#ends.add(end);
    end.on('error', () => end.destroy());
    end.once('close', () => this.#ends.delete(end));
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#options.bytesMax || this.#state !== 'open') return;
    this.#state = 'full';
    this.#options.onFull?.();
    this.#endAll();
  }

  /** Returns the policy for a URL that may be asked for; undefined: it may not. */
  #policyFor(url: URL, authority: string): AddressPolicy | undefined {
    if (this.#state !== 'open') return undefined;
    const policy = this.#options.policyOf(authority);
    if (policy === undefined || checkUrl(url, policy) !== undefined) return undefined;
    return policy;
  }

  #wayBy(policy: AddressPolicy) {
    const { addresses, connectMs } = this.#options;
    const lookup = guardedLookup(addresses, policy);
    return { lookup, autoSelectFamilyAttemptTimeout: addressMsOf(connectMs) };
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const url = urlOf(request.url ?? '');
    const policy = url?.protocol === 'http:' && this.#policyFor(url, authorityOf(url));
    if (!url || !policy) {
      refuse(response, 403);
      return;
    }
    this.#ask(url, policy, { request, response, agent: this.#agent });
  }

  #ask(url: URL, policy: AddressPolicy, { request, response, agent }: Forwarded): void {
    const outgoing = httpRequest({
      host: bare(url.hostname),
      port: Number(url.port || 80),
      path: url.pathname + url.search,
      method: request.method,
      headers: ownHeaders(request.rawHeaders),
      setHost: false,
      agent,
      ...this.#wayBy(policy),
    });
    const isBare = hasNoBody(request);
    outgoing.on('error', (error) => {
      const isUnanswered = !response.headersSent && !response.destroyed;
      // The host has closed a kept connection just as the request left: browsers ask again, too.
      if (outgoing.reusedSocket && isBare && isUnanswered && this.#state === 'open') {
        this.#ask(url, policy, { request, response, agent: false });
      } else refuse(response, error instanceof BlockedError ? 403 : 502);
    });
    outgoing.on('response', (answer) => {
      const { statusCode = 502, statusMessage, rawHeaders } = answer;
      this.#count(rawHeaders.reduce((sum, text) => sum + text.length + 2, 0));
      answer.on('data', (chunk: Buffer) => this.#count(chunk.length));
      answer.on('error', () => response.destroy());
      answer.on('aborted', () => response.destroy());
      try {
        response.writeHead(statusCode, statusMessage, ownHeaders(rawHeaders));
      } catch {
        // A head that may not be sent on.
        outgoing.destroy();
        refuse(response, 502);
        return;
      }
      answer.pipe(response);
    });
    response.once('close', () => outgoing.destroy());
    if (isBare) outgoing.end();
    else request.pipe(outgoing);
  }

  #tunnel(request: IncomingMessage, client: Duplex, head: Buffer): void {
    client.on('error', () => client.destroy());
    const authority = request.url ?? '';
    const [, host = '', port = ''] = /^(\[[^\]]+\]|[^:/?#@]+):(\d{1,5})$/.exec(authority) ?? [];
    const url = host === '' ? undefined : urlOf(`http://${host}:${port}/`);
    const policy = url && this.#policyFor(url, authorityOf(url));
    if (url === undefined || policy === undefined || this.#tunnels >= socketsMax) {
      client.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
      return;
    }
    const { connectMs } = this.#options;
    const remote = connect({
      host: bare(url.hostname),
      port: Number(port),
      ...this.#wayBy(policy),
    });
    this.#tunnels++;
    this.#keep(remote);
    const timer = new AwakeTimer(() => remote.destroy(), connectMs);
    remote.once('close', () => {
      this.#tunnels--;
      timer.clear();
    });
    tie(remote, client);
    remote.once('connect', () => {
      timer.clear();
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      if (head.length > 0) remote.write(head);
      this.#join(remote, client);
    });
  }

  #join(remote: Socket, client: Duplex): void {
    remote.on('data', (chunk: Buffer) => this.#count(chunk.length));
    remote.pipe(client);
    client.pipe(remote);
  }
}

/** The ends of a tunnel close together. But what came from a remote end that has ended may still be
 *  on its way to a slow reader, who closes when it has all. */
export function tie(remote: Duplex, client: Duplex): void {
  remote.once('close', () => {
    if (remote.readableEnded) client.resume();
    else client.destroy();
  });
  client.once('close', () => remote.destroy());
}

/** `agent`: false is a connection of its own. */
type Forwarded = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly agent: Agent | false;
};

/** It can be sent again: nothing of it is read while it is sent on. */
function hasNoBody({ method, headers }: IncomingMessage): boolean {
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead && headers['content-length'] === undefined && !('transfer-encoding' in headers);
}

/** `host:port` of a URL, as a policy is asked for it. */
export function authorityOf({ protocol, hostname, port }: URL): string {
  const isSecure = protocol === 'https:' || protocol === 'wss:';
  return `${hostname}:${port || (isSecure ? 443 : 80)}`;
}

function urlOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Without the brackets of an IPv6 address. */
function bare(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

/** Names and values in turn, without those that are for one connection. */
function ownHeaders(raw: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]];
    if (!hopHeaders.test(name)) kept.push(name, value);
  }
  return kept;
}

function refuse(response: ServerResponse, status: number): void {
  if (response.headersSent || response.destroyed) response.destroy();
  else response.writeHead(status, { 'content-length': '0' }).end();
}

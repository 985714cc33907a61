/** Plain connections and undici's over real sockets, with a host that sends what a test says. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createSecureContext, createServer as createTlsServer } from 'node:tls';
import type { Dispatcher } from 'undici';
import type { Identity } from '../../selftest/site.ts';
import type { Connection, ConnectionEvents } from '../../slave/fetch/connection.ts';
import { makeConnector } from '../../slave/fetch/connector.ts';
import { LibraryConnection } from '../../slave/fetch/library-connection.ts';
import { failureOf } from '../../slave/fetch/outcome.ts';
import { PlainConnection } from '../../slave/fetch/plain-connection.ts';
import { SessionRoom } from '../../slave/fetch/tls-sessions.ts';

export type Trace = {
  heads: unknown[];
  data: string;
  ended: number;
  failed: number;
  failure: unknown;
};

/** A host that sends what the test says for each request that arrives; `identity`: with TLS. */
export async function startHost(
  t: Pick<TestContext, 'after'>,
  answer: (socket: Socket, request: string) => void,
  identity?: Identity,
) {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    sockets.add(socket.setNoDelay(true));
    let held = '';
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        held += bytes.toString('latin1');
        const end = held.indexOf('\r\n\r\n');
        if (end < 0) return;
        const request = held.slice(0, end + 4);
        held = held.slice(end + 4);
        requests.push(request);
        answer(socket, request);
      });
  };
  const server = identity ? createTlsServer({ ...identity }, serve) : createServer(serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, requests, sockets };
}

const library = { pipelining: 1, maxHeaderSize: 64 << 10, headersTimeout: 0, bodyTimeout: 0 };

/** `ca`: a certificate in PEM that signs the host's; without it there is no TLS. */
export function open(kind: 'plain' | 'library', port: number, ca?: string) {
  const counts = { open: 0, closed: 0, failed: 0, odd: 0, unasked: 0 };
  const events: ConnectionEvents & { onNotPlain: () => void } = {
    onOpen: () => counts.open++,
    onClosed: () => counts.closed++,
    onFailed: () => counts.failed++,
    onNotPlain: () => counts.odd++,
    onUnasked: () => counts.unasked++,
  };
  const origin = `${ca === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const connect = makeConnector({
    timeoutMs: 20_000,
    sessions: new SessionRoom().part(),
    ...(ca !== undefined && { context: createSecureContext({ ca }) }),
  });
  const options = { ...library, connect };
  const connection: Connection =
    kind === 'plain'
      ? new PlainConnection({ origin, connect, library: options }, events)
      : new LibraryConnection(origin, options, events);
  return { connection, counts };
}

type AskOptions = {
  readonly path?: string;
  readonly headers?: string[];
  /** Pauses at each piece of the body, for so many ms. */
  readonly pauses?: number;
  readonly statusOf?: (text: string | undefined) => string | undefined;
  readonly onStart?: (controller: Dispatcher.DispatchController) => void;
  readonly onHead?: (controller: Dispatcher.DispatchController) => void;
  readonly onData?: (controller: Dispatcher.DispatchController) => void;
};

export function ask(connection: Connection, options: AskOptions = {}): Promise<Trace> {
  const { path = '/', headers = ['accept', '*/*'], pauses, onStart, onHead, onData } = options;
  const { statusOf = (text) => text } = options;
  const trace: Trace = { heads: [], data: '', ended: 0, failed: 0, failure: undefined };
  return new Promise((resolve) => {
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (controller) => onStart?.(controller),
      onResponseStart: (controller, status, fields, statusText) => {
        if (status < 200) return;
        onHead?.(controller);
        trace.heads.push({ status, fields: { ...fields }, statusText: statusOf(statusText) });
      },
      onResponseData: (controller, chunk) => {
        trace.data += chunk.toString('latin1');
        onData?.(controller);
        if (pauses === undefined) return;
        controller.pause();
        if (pauses === 0) setImmediate(() => controller.resume());
        else setTimeout(() => controller.resume(), pauses);
      },
      onResponseEnd: () => {
        trace.ended++;
        resolve(trace);
      },
      onResponseError: (_, error) => {
        trace.failed++;
        const { error: told, isUnreadable = false } = failureOf(error, trace.heads.length > 0);
        trace.failure = { kind: told.kind, message: told.message, isUnreadable };
        resolve(trace);
      },
    };
    connection.dispatch({ path, method: 'GET', headers }, handler);
  });
}

/** Sends each in a packet of its own, mostly. */
export async function sendParts(socket: Socket, parts: readonly Buffer[]): Promise<void> {
  for (const part of parts) {
    if (socket.destroyed) return;
    socket.write(part);
    if (parts.length > 1) await turn();
  }
}

/** Plain connections and undici's over real sockets, with a host that sends what a test says. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { buildConnector, Dispatcher } from 'undici';
import type { Connection, ConnectionEvents } from '../../slave/fetch/connection.ts';
import { LibraryConnection } from '../../slave/fetch/library-connection.ts';
import { failureOf } from '../../slave/fetch/outcome.ts';
import { PlainConnection } from '../../slave/fetch/plain-connection.ts';

export type Trace = {
  heads: unknown[];
  data: string;
  ended: number;
  failure: unknown;
};

/** A host that sends what the test says for each request that arrives. */
export async function startHost(t: TestContext, answer: (socket: Socket, request: string) => void) {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
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
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, requests, sockets };
}

const connector: buildConnector.connector = ({ hostname, port }, callback) => {
  const socket: Socket = connect({ host: hostname, port: Number(port) })
    .once('connect', () => callback(null, socket))
    .once('error', (error) => callback(error, null));
};

const library = { connect: connector, pipelining: 1, maxHeaderSize: 64 << 10 };
const limits = { headersTimeout: 0, bodyTimeout: 0 };

export function open(kind: 'plain' | 'library', port: number) {
  const counts = { open: 0, closed: 0, failed: 0, odd: 0 };
  const events: ConnectionEvents & { onNotPlain: () => void } = {
    onOpen: () => counts.open++,
    onClosed: () => counts.closed++,
    onFailed: () => counts.failed++,
    onNotPlain: () => counts.odd++,
  };
  const origin = `http://127.0.0.1:${port}`;
  const options = { ...library, ...limits };
  const connection: Connection =
    kind === 'plain'
      ? new PlainConnection({ origin, connect: connector, library: options }, events)
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
  readonly onData?: (controller: Dispatcher.DispatchController) => void;
};

export function ask(connection: Connection, options: AskOptions = {}): Promise<Trace> {
  const { path = '/', headers = ['accept', '*/*'], pauses, onStart, onData } = options;
  const { statusOf = (text) => text } = options;
  const trace: Trace = { heads: [], data: '', ended: 0, failure: undefined };
  return new Promise((resolve) => {
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (controller) => onStart?.(controller),
      onResponseStart: (_, status, fields, statusText) => {
        if (status >= 200)
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
        const { error: told, isUnreadable = false } = failureOf(error, trace.heads.length > 0);
        trace.failure = { kind: told.kind, message: told.message, isUnreadable };
        resolve(trace);
      },
    };
    connection.dispatch({ path, method: 'GET', headers }, handler);
  });
}

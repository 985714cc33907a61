/** A connection whose answers undici reads. Origin connections and the plain connection make it. */
import type { Socket } from 'node:net';
import Client from 'undici/lib/dispatcher/client.js';
import type { Asked, Connection, ConnectionEvents, Connector, Handler } from './connection.ts';

export type LibraryOptions = Client.Options;

/** An open socket whose request has been sent, and the bytes of the answer that were read. */
export type Started = {
  readonly socket: Socket;
  readonly bytes: Buffer;
  /** Makes the sockets after it. */
  readonly connect: Connector;
};

export class LibraryConnection implements Connection {
  readonly #client: Client;

  /** `started`: the first request that is dispatched has this socket, and is not sent again. */
  constructor(
    origin: string,
    options: LibraryOptions,
    events: ConnectionEvents,
    started?: Started,
  ) {
    // It is counted by who opened it.
    let isCounted = started !== undefined;
    const connect =
      started &&
      once(started, () => {
        // Undici did not take it: it was destroyed meanwhile.
        if (isCounted) events.onClosed();
        isCounted = false;
      });
    this.#client = new Client(origin, connect === undefined ? options : { ...options, connect });
    this.#client.on('connect', () => {
      if (isCounted) isCounted = false;
      else events.onOpen();
    });
    this.#client.on('disconnect', events.onClosed);
    this.#client.on('connectionError', events.onFailed);
  }

  get size(): number {
    return this.#client.stats.size;
  }

  get isConnected(): boolean {
    return this.#client.stats.connected;
  }

  dispatch(asked: Asked, handler: Handler): boolean {
    return this.#client.dispatch(asked, handler);
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  destroy(): Promise<void> {
    return this.#client.destroy();
  }
}

/** Returns a connector that gives the open socket first. `then`: it was given. */
function once({ socket, bytes, connect }: Started, then: () => void): Connector {
  // At once: a socket that holds something does not end.
  socket.pause();
  socket.unshift(bytes);
  let isGiven = false;
  return (target, callback) => {
    if (isGiven) {
      connect(target, callback);
      return;
    }
    isGiven = true;
    // Undici expects the answer later.
    process.nextTick(() => {
      callback(null, withoutRequest(socket));
      then();
    });
  };
}

/** Undici writes the request at once; nothing is sent, and nothing can be read before it. */
function withoutRequest(socket: Socket): Socket {
  socket.read = () => null;
  socket.write = () => {
    Reflect.deleteProperty(socket, 'read');
    Reflect.deleteProperty(socket, 'write');
    return true;
  };
  return socket;
}

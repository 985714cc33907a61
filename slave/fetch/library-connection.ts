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
    let isGiven = started !== undefined;
    const connect: Connector | undefined =
      started &&
      ((target, callback) => {
        if (!isGiven) started.connect(target, callback);
        // undici expects the answer later.
        else process.nextTick(() => callback(null, resent(started)));
      });
    this.#client = new Client(origin, connect === undefined ? options : { ...options, connect });
    this.#client.on('connect', () => {
      if (isGiven) isGiven = false;
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

/** Instead of the request, which undici writes at once, the bytes of the answer are put back. */
function resent({ socket, bytes }: Started): Socket {
  socket.write = () => {
    Reflect.deleteProperty(socket, 'write');
    socket.unshift(bytes);
    return true;
  };
  return socket;
}

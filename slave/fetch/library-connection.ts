/** A connection whose answers undici reads. Origin connections and the plain connection make it. */
import type { Socket } from 'node:net';
import Client from 'undici/lib/dispatcher/client.js';
import type {
  Asked,
  Connection,
  ConnectionEvents,
  Connector,
  Controller,
  Handler,
} from './connection.ts';
import { isCutOff, StaleError } from './outcome.ts';

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
  /** Its socket has carried an answer. */
  #isUsed = false;

  /** `started`: the first request that is dispatched has this socket, and is not sent again. */
  constructor(
    origin: string,
    options: LibraryOptions,
    events: ConnectionEvents,
    started?: Started,
  ) {
    // A socket that is given is counted by who opened it.
    let state: 'closed' | 'given' | 'open' = started === undefined ? 'closed' : 'given';
    const closed = (): void => {
      // Undici says it twice of an HTTP/2 session that its host ends by GOAWAY.
      if (state === 'closed') return;
      state = 'closed';
      events.onClosed();
    };
    const connect =
      started &&
      once(started, () => {
        // Undici did not take it: it was destroyed meanwhile.
        if (state === 'given') closed();
      });
    this.#client = new Client(origin, connect === undefined ? options : { ...options, connect });
    this.#client.on('connect', () => {
      this.#isUsed = false;
      if (state !== 'given') events.onOpen();
      state = 'open';
    });
    this.#client.on('disconnect', closed);
    this.#client.on('connectionError', events.onFailed);
  }

  get size(): number {
    return this.#client.stats.size;
  }

  get isConnected(): boolean {
    return this.#client.stats.connected;
  }

  dispatch(asked: Asked, handler: Handler): boolean {
    if (asked.method !== 'GET') return this.#client.dispatch(asked, handler);
    const told = { isReused: () => this.#isUsed, onEnd: () => this.#answered() };
    return this.#client.dispatch(asked, new Watched(handler, told));
  }

  #answered(): void {
    this.#isUsed = true;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  destroy(): Promise<void> {
    return this.#client.destroy();
  }
}

/** Tells a kept connection that its host closed as the request left from other failures. */
class Watched implements Handler {
  readonly #handler: Handler;
  readonly #events: { readonly isReused: () => boolean; readonly onEnd: () => void };
  #isReused = false;
  #hasHead = false;

  constructor(handler: Handler, events: { isReused: () => boolean; onEnd: () => void }) {
    this.#handler = handler;
    this.#events = events;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#isReused = this.#events.isReused();
    this.#handler.onRequestStart?.(controller, context);
  }

  onResponseStart(...answer: Parameters<NonNullable<Handler['onResponseStart']>>): void {
    this.#hasHead = true;
    this.#handler.onResponseStart?.(...answer);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#handler.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...end: Parameters<NonNullable<Handler['onResponseEnd']>>): void {
    this.#events.onEnd();
    this.#handler.onResponseEnd?.(...end);
  }

  onResponseError(controller: Controller, error: Error): void {
    const isStale = this.#isReused && !this.#hasHead && isCutOff(error);
    this.#handler.onResponseError?.(controller, isStale ? new StaleError(error) : error);
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

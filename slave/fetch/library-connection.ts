/**
 * A connection whose answers undici reads. Origin connections and the plain connection make it.
 * Undici bounds the heads and the trailers of an answer, and neither the framing of its chunks,
 * whose extensions may have any length, nor the frames of HTTP/2 that hold nothing of it; here
 * these are bounded, in proportion to the body.
 */
import type { Socket } from 'node:net';
import Client from 'undici/lib/dispatcher/client.js';
import { endlessFraming, framingBytesMax } from './chunk-framing.ts';
import type {
  Asked,
  Connection,
  ConnectionEvents,
  Connector,
  Controller,
  Handler,
} from './connection.ts';
import { gaveUpWaiting, isCutOff, requestTimeout, StaleError } from './outcome.ts';
import { StreamWatch } from './taken-back.ts';

export type LibraryOptions = Client.Options;

const lookMs = 250;
/** Undici's, of an answer that comes while no request is under way. */
const unaskedText = 'bad response';

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
  #socket: Socket | undefined;
  /** Of the socket. */
  #fault: { error?: Error } = {};
  #isH2 = false;
  readonly #streams = new StreamWatch();
  /** At the framing of HTTP/2, while an answer is read. */
  #looks: NodeJS.Timeout | undefined;
  /** Of the answer that is read: what had been read before it, and the bytes of its body. */
  #readBefore = 0;
  #bodyBytes = 0;

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
    const given =
      started &&
      once(started, () => {
        // Undici did not take it: it was destroyed meanwhile.
        if (state === 'given') closed();
      });
    const connect = given ?? options.connect;
    const bounded =
      typeof connect === 'function' ? { ...options, connect: this.#bounded(connect) } : options;
    this.#client = new Client(origin, bounded);
    this.#client.on('connect', () => {
      this.#isUsed = false;
      if (this.#socket !== undefined) this.#streams.watch(this.#socket);
      if (state !== 'given') events.onOpen();
      state = 'open';
    });
    this.#client.on('disconnect', (_origin, _clients, error) => {
      if (error.message === unaskedText) events.onUnasked();
      closed();
    });
    this.#client.on('connectionError', events.onFailed);
  }

  get size(): number {
    return this.#client.stats.size;
  }

  get isConnected(): boolean {
    return this.#client.stats.connected;
  }

  dispatch(asked: Asked, handler: Handler): boolean {
    const isGet = asked.method === 'GET';
    const watched = new Watched(handler, isGet, {
      onStart: () => {
        this.#readBefore = this.#socket?.bytesRead ?? 0;
        this.#bodyBytes = 0;
        clearInterval(this.#looks);
        if (this.#isH2) this.#looks = setInterval(() => this.#checkFraming(), lookMs).unref();
        return this.#isUsed;
      },
      onData: (bytes) => {
        this.#bodyBytes += bytes;
      },
      onEnd: () => {
        clearInterval(this.#looks);
        this.#isUsed = true;
        return this.#streams.isTakenBack ? takenBack() : this.#fault.error;
      },
      onError: () => {
        clearInterval(this.#looks);
        return this.#isH2;
      },
    });
    return this.#client.dispatch(asked, watched);
  }

  #bounded(connect: Connector): Connector {
    return (target, callback) =>
      connect(target, (error, socket) => {
        if (socket === null) {
          callback(error, null);
          return;
        }
        // A normal socket, which bounds the framing itself, does not count what it has read.
        this.#socket = socket.bytesRead === undefined ? undefined : socket;
        this.#isH2 = 'alpnProtocol' in socket && socket.alpnProtocol === 'h2';
        this.#fault = this.#isH2 ? {} : faultOf(socket);
        // Before undici reads it. The session of HTTP/2 reads without a word.
        if (this.#socket && !this.#isH2) socket.on('readable', () => this.#checkFraming());
        callback(null, socket);
      });
  }

  #checkFraming(): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    const framing = socket.bytesRead - this.#readBefore - this.#bodyBytes;
    if (framing > framingBytesMax(this.#bodyBytes)) socket.destroy(endlessFraming());
  }

  endEach(): void {
    this.#client.pipelining = 0;
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  destroy(): Promise<void> {
    return this.#client.destroy();
  }
}

type WatchedEvents = {
  /** Returns whether its connection has carried an answer. */
  readonly onStart: () => boolean;
  readonly onData: (bytes: number) => void;
  /** Returns why the answer has not ended, although undici says so. */
  readonly onEnd: () => Error | undefined;
  /** Returns whether the connection speaks HTTP/2. */
  readonly onError: () => boolean;
};

/** Undici has no codes for them: the host has not taken the request, and the host ends its session
 *  in good order, at which undici drops the answer that goes on. Source: RFC 9113, 6.8 and 8.7. */
const endsInOrder = /NGHTTP2_REFUSED_STREAM|"GOAWAY" frame received with code 0$/;
/** Did the session end? Its host closed the connection, perhaps right behind a whole answer, whose
 *  end undici then does not see; or it sent something else than HTTP/2, of which the code is
 *  Node's. By HTTP/1.1 it may answer. */
function isSessionEnd(error: Error): boolean {
  const isBroken = 'code' in error && error.code === 'ERR_HTTP2_ERROR';
  return isBroken || error.message === 'other side closed';
}

/** Tells a connection or session that its host closed as the request left from other failures. */
class Watched implements Handler {
  readonly #handler: Handler;
  /** Anything else must not be sent twice. */
  readonly #isGet: boolean;
  readonly #events: WatchedEvents;
  #isReused = false;
  #hasHead = false;

  constructor(handler: Handler, isGet: boolean, events: WatchedEvents) {
    this.#handler = handler;
    this.#isGet = isGet;
    this.#events = events;
  }

  onRequestStart(controller: Controller, context: unknown): void {
    this.#isReused = this.#events.onStart();
    this.#handler.onRequestStart?.(controller, context);
  }

  onResponseStart(...answer: Parameters<NonNullable<Handler['onResponseStart']>>): void {
    const [controller, status] = answer;
    if (this.#isReused && this.#isGet && status === requestTimeout) {
      controller.abort(gaveUpWaiting());
      return;
    }
    this.#hasHead = true;
    this.#handler.onResponseStart?.(...answer);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#events.onData(chunk.length);
    this.#handler.onResponseData?.(controller, chunk);
  }

  onResponseEnd(...end: Parameters<NonNullable<Handler['onResponseEnd']>>): void {
    const fault = this.#events.onEnd();
    if (fault !== undefined) this.#handler.onResponseError?.(end[0], fault);
    else this.#handler.onResponseEnd?.(...end);
  }

  onResponseError(controller: Controller, error: Error): void {
    const isH2 = this.#events.onError();
    const wasKept = this.#isReused && !this.#hasHead && isCutOff(error);
    const isEnd = endsInOrder.test(error.message) || (isH2 && isSessionEnd(error));
    const isStale = this.#isGet && (wasKept || isEnd);
    this.#handler.onResponseError?.(controller, isStale ? new StaleError(error) : error);
  }
}

/** Undici takes the end of a connection for that of a body without a length, also after a reset and
 *  after a fault of TLS. It gets the socket after this, so this hears of them first. Source: RFC
 *  9112, 8. */
function faultOf(socket: Socket): { error?: Error } {
  const fault: { error?: Error } = {};
  socket.on('error', (error) => {
    fault.error ??= error;
  });
  return fault;
}

/** The code is Node's, for a stream that ends by any other code. */
function takenBack(): Error {
  const error = new Error('the host took the stream back');
  return Object.assign(error, { code: 'ERR_HTTP2_STREAM_ERROR' });
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

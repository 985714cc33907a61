/**
 * A connection to an origin that reads plain answers itself, for less than half of undici's price.
 * An answer that is not plain is handed to undici with its connection; the bytes that were read are
 * put back, so the host is not asked twice.
 *
 *     closed ─dispatch─▶ connecting ─▶ busy ─end of the answer─▶ free ─dispatch─▶ busy …
 *        ▲                  │error       ├─ not plain ─▶ undici's
 *        └──────────────────┴────────────┴─ error, abort, or the host does not keep it
 *
 * Origin connections make it. Source: RFC 9112, 6 and 9; undici, lib/dispatcher/client-h1.js.
 */
import type { Socket } from 'node:net';
import {
  type Asked,
  type Connection,
  type ConnectionEvents,
  type Connector,
  type ConnectorCallback,
  type ConnectorTarget,
  type Handler,
  sentChannel,
} from './connection.ts';
import { LibraryConnection, type LibraryOptions, type Started } from './library-connection.ts';
import { requestTimeout, StaleError } from './outcome.ts';
import { PlainAnswer } from './plain-answer.ts';
import { isPlainRequest, requestHead } from './plain-request.ts';
import { mayBeStatusLine } from './response-head.ts';

type PlainOptions = {
  readonly origin: string;
  readonly connect: Connector;
  /** Of undici's connection. */
  readonly library: LibraryOptions;
};

type PlainEvents = ConnectionEvents & {
  /** An answer was not plain. */
  readonly onNotPlain: () => void;
};

const none = Buffer.alloc(0);
/** How long a connection without a request stays open. */
const unusedMs = 4_000;
const waitedLine = new RegExp(`^HTTP/1\\.[01] ${requestTimeout}`);

export class PlainConnection implements Connection {
  readonly #options: PlainOptions;
  readonly #target: ConnectorTarget;
  readonly #host: string;
  readonly #events: PlainEvents;
  readonly #waiting: PlainAnswer[] = [];
  #running: PlainAnswer | undefined;
  #socket: Socket | undefined;
  #isConnecting = false;
  /** It has carried an answer. */
  #isUsed = false;
  /** The request that is running has left. */
  #isSent = false;
  /** The host has closed while a reader paused. */
  #isEnded = false;
  #reuse: NodeJS.Immediate | undefined;
  #unused: NodeJS.Timeout | undefined;
  #unusedMs = 0;
  /** undici, once it has the connection. */
  #library: LibraryConnection | undefined;
  /** Called when all requests have ended. */
  #onEmpty: (() => void) | undefined;
  #isClosed = false;
  #keeps = true;

  constructor(options: PlainOptions, events: PlainEvents) {
    this.#options = options;
    this.#events = events;
    const { host, hostname, port, protocol } = new URL(options.origin);
    const isAddress6 = hostname.startsWith('[');
    const name = isAddress6 ? hostname.slice(1, -1) : hostname;
    this.#host = host;
    this.#target = { host, hostname: name, port, protocol };
  }

  get size(): number {
    if (this.#library !== undefined) return this.#library.size;
    return this.#waiting.length + (this.#running === undefined ? 0 : 1);
  }

  get isConnected(): boolean {
    return this.#library?.isConnected ?? this.#socket !== undefined;
  }

  dispatch(asked: Asked, handler: Handler): boolean {
    if (this.#library !== undefined) return this.#library.dispatch(asked, handler);
    if (this.#isClosed) throw destroyed();
    this.#waiting.push(
      new PlainAnswer(asked, handler, {
        onAbort: (answer, reason) => this.#abort(answer, reason),
        onResume: () => this.#take(none),
      }),
    );
    this.#proceed();
    return true;
  }

  endEach(): void {
    this.#keeps = false;
    this.#library?.endEach();
  }

  async close(): Promise<void> {
    if (this.#library === undefined && this.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
    }
    await (this.#library?.close() ?? this.destroy());
  }

  async destroy(): Promise<void> {
    this.#isClosed = true;
    for (const answer of this.#waiting.splice(0)) answer.fail(destroyed());
    if (this.#socket === undefined) this.#idle();
    else this.#lose(destroyed());
    await this.#library?.destroy();
  }

  /** Starts the next request if there is one, and the connection is free. */
  #proceed(): void {
    // A loop, since thousands that wait may all have been given up.
    let isStarted = true;
    while (isStarted && this.#running === undefined && this.#reuse === undefined) {
      const [next] = this.#waiting;
      isStarted = false;
      if (next === undefined) this.#idle();
      else if (!isPlainRequest(next.asked)) this.#leaveNext();
      else if (this.#socket === undefined) this.#open();
      else if (this.#isUsed) this.#reuseSoon();
      else {
        this.#start(this.#socket);
        isStarted = true;
      }
    }
  }

  /** Bytes that the host sent unasked are read before they could be taken for the next answer. */
  #reuseSoon(): void {
    this.#reuse = setImmediate(() => {
      this.#reuse = undefined;
      if (this.#socket !== undefined) this.#start(this.#socket);
      this.#proceed();
    });
  }

  #start(socket: Socket): void {
    const answer = this.#waiting.shift();
    if (answer === undefined) return;
    this.#running = answer;
    this.#isSent = false;
    try {
      answer.start(this.#isUsed);
    } catch (error) {
      answer.abort(errorOf(error));
    }
    if (this.#running !== answer) return;
    this.#isSent = true;
    socket.ref();
    if (sentChannel.hasSubscribers) sentChannel.publish({ request: answer.asked, socket });
    socket.write(requestHead(answer.asked, this.#host), 'latin1');
  }

  #open(): void {
    if (this.#isConnecting) return;
    this.#isConnecting = true;
    const settle: ConnectorCallback = (error, socket) => {
      this.#isConnecting = false;
      if (socket === null) {
        this.#events.onFailed();
        for (const answer of this.#waiting.splice(0)) answer.fail(errorOf(error));
        this.#idle();
      } else if (this.#isClosed || this.#library !== undefined) {
        socket.on('error', () => {}).destroy();
      } else {
        this.#attach(socket);
        this.#events.onOpen();
        this.#proceed();
      }
    };
    try {
      this.#options.connect(this.#target, settle);
    } catch (error) {
      settle(errorOf(error), null);
    }
  }

  #attach(socket: Socket): void {
    this.#socket = socket;
    this.#isUsed = false;
    this.#isEnded = false;
    socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('error', this.#onError)
      .on('close', this.#onEnd);
  }

  #detach(socket: Socket): void {
    this.#socket = undefined;
    clearImmediate(this.#reuse);
    clearTimeout(this.#unused);
    this.#reuse = undefined;
    this.#unused = undefined;
    // Errors after the end are of no interest.
    socket
      .on('error', () => {})
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('error', this.#onError)
      .off('close', this.#onEnd);
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#running !== undefined) this.#take(chunk);
    else {
      // Nobody asked for it.
      if (isUnasked(chunk)) this.#events.onUnasked();
      this.#lose(undefined);
    }
  };
  readonly #onEnd = (): void => {
    // A reader that pauses has not been told everything.
    if (this.#running?.paused) this.#isEnded = true;
    else this.#lose(undefined);
  };
  readonly #onError = (error: Error): void => this.#lose(error);

  #take(chunk: Buffer): void {
    const answer = this.#running;
    if (answer === undefined) return;
    try {
      const state = answer.read(chunk);
      if (this.#running !== answer) return;
      if (state === 'over') this.#end(answer);
      else if (state === 'odd') this.#handOver(answer);
      else if (answer.paused) this.#pause(answer);
      else if (this.#isEnded) this.#lose(undefined);
      else this.#socket?.resume();
    } catch (error) {
      answer.abort(errorOf(error));
    }
  }

  /** Puts unread bytes back: the socket does not end before they are read. */
  #pause(answer: PlainAnswer): void {
    this.#socket?.pause();
    const rest = answer.takeRest();
    if (rest.length > 0) this.#socket?.unshift(rest);
  }

  #end(answer: PlainAnswer): void {
    const { keptMs = 0, hasRest } = answer;
    const isFollowed = hasRest && isUnasked(answer.takeRest());
    // The first of two may be a late one, to an earlier request.
    const isDoubtful = isFollowed && this.#isUsed;
    if (isFollowed) this.#events.onUnasked();
    this.#running = undefined;
    this.#isUsed = true;
    const isKept = this.#keeps && keptMs > 0 && !hasRest && !this.#isEnded;
    if (isKept) this.#socket?.resume();
    else this.#lose(undefined);
    if (keptMs !== this.#unusedMs) {
      clearTimeout(this.#unused);
      this.#unused = undefined;
      this.#unusedMs = keptMs;
    }
    try {
      if (isDoubtful) answer.fail(new StaleError(new Error('two answers to one request')));
      else answer.end();
    } finally {
      this.#proceed();
    }
  }

  /** No request is left: the connection ends if none comes for a while. */
  #idle(): void {
    const empty = this.#onEmpty;
    this.#onEmpty = undefined;
    empty?.();
    if (this.#socket === undefined) return;
    this.#socket.unref();
    if (this.#unused !== undefined) this.#unused.refresh();
    else {
      const end = () => {
        if (this.size === 0) this.#lose(undefined);
      };
      this.#unused = setTimeout(end, this.#unusedMs || unusedMs).unref();
    }
  }

  #abort(answer: PlainAnswer, reason: Error): void {
    if (this.#running === answer) {
      this.#running = undefined;
      if (this.#isSent) this.#lose(undefined);
    }
    answer.fail(reason);
  }

  /** The connection has ended, or ends with this; the requests that wait get another. */
  #lose(error: Error | undefined): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    this.#detach(socket);
    socket.destroy();
    const answer = this.#running;
    this.#running = undefined;
    this.#events.onClosed();
    answer?.endWithConnection(error);
    this.#proceed();
  }

  /** undici reads this answer, and has the connection from now on. */
  #handOver(answer: PlainAnswer): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    const { connect } = this.#options;
    this.#detach(socket);
    this.#running = undefined;
    const { bytes, handler } = answer.handOver();
    this.#makeLibrary({ socket, bytes, connect }).dispatch(answer.asked, handler);
    this.#giveWaiting();
  }

  /** The next request is not plain: undici sends it, and all after it. */
  #leaveNext(): void {
    // The end of the socket leads here again, then without one.
    if (this.#socket !== undefined) this.#lose(undefined);
    else {
      this.#makeLibrary();
      this.#giveWaiting();
    }
  }

  #makeLibrary(started?: Started): LibraryConnection {
    const { origin, library } = this.#options;
    this.#library = new LibraryConnection(origin, library, this.#events, started);
    if (!this.#keeps) this.#library.endEach();
    this.#events.onNotPlain();
    return this.#library;
  }

  #giveWaiting(): void {
    const library = this.#library;
    if (library === undefined) return;
    for (const answer of this.#waiting.splice(0)) {
      try {
        library.dispatch(answer.asked, answer.handOver().handler);
      } catch (error) {
        answer.fail(errorOf(error));
      }
    }
    this.#onEmpty?.();
  }
}

/** Do these bytes, after an answer, begin another one? A 408 says that the host has waited for a
 *  request, and no more. */
function isUnasked(bytes: Buffer): boolean {
  const text = bytes.toString('latin1', 0, 64).trimStart();
  return text !== '' && mayBeStatusLine(Buffer.from(text)) && !waitedLine.test(text);
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function destroyed(): Error {
  return Object.assign(new Error('the connection is closed'), { code: 'UND_ERR_DESTROYED' });
}

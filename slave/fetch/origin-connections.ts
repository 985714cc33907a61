/**
 * The connections to one origin: a request gets one that is free, or a new one, or waits at the
 * one where least waits. undici's pool does that, too, with a queue of 2,048 places of its own:
 * with many hosts that never answer, making these was most of a slave's work. An origin whose
 * answers, or requests, are not plain has undici's connections from then on. One that sends an
 * answer unasked has one request per connection from then on: the answer to one request could be
 * taken for that to the next.
 */
import type { Asked, Connection, Handler } from './connection.ts';
import { LibraryConnection, type LibraryOptions } from './library-connection.ts';
import { PlainConnection } from './plain-connection.ts';

/** `connections`: at once. */
export type ConnectionOptions = LibraryOptions & {
  readonly connections?: number | null | undefined;
};

/** Called when a socket opens or closes. */
type SocketEvents = { readonly onOpen: () => void; readonly onClosed: () => void };

export class OriginConnections {
  readonly #origin: string;
  readonly #max: number;
  readonly #options: LibraryOptions;
  readonly #events: SocketEvents;
  readonly #all = new Set<Connection>();
  #isPlain: boolean;
  #keeps = true;

  constructor(origin: string, options: ConnectionOptions, events: SocketEvents) {
    const { connections, ...ofEach } = options;
    this.#origin = origin;
    this.#max = connections ?? Number.POSITIVE_INFINITY;
    this.#options = ofEach;
    this.#events = events;
    // With HTTP/2 in question undici decides, and a pipeline of 0 is its way to close each one.
    const isOther = ofEach.pipelining === 0 || (ofEach.allowH2 && !origin.startsWith('http:'));
    this.#isPlain = !isOther;
  }

  /** Open sockets that no request uses. */
  get unused(): number {
    let unused = 0;
    for (const { size, isConnected } of this.#all) if (size === 0 && isConnected) unused++;
    return unused;
  }

  get isUsed(): boolean {
    for (const { size } of this.#all) if (size > 0) return true;
    return false;
  }

  dispatch(asked: Asked, handler: Handler): boolean {
    let least: Connection | undefined;
    let leastSize = Number.POSITIVE_INFINITY;
    for (const connection of this.#all) {
      const { size } = connection;
      if (size >= leastSize) continue;
      [least, leastSize] = [connection, size];
      if (size === 0) break;
    }
    const isFull = this.#all.size >= this.#max;
    const connection = least !== undefined && (leastSize === 0 || isFull) ? least : this.#make();
    return connection.dispatch(asked, handler);
  }

  /** Closes when the requests under way have ended. */
  async close(): Promise<void> {
    await Promise.all([...this.#all].map((connection) => connection.close()));
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#all].map((connection) => connection.destroy()));
  }

  #make(): Connection {
    const { connect } = this.#options;
    const events = {
      onOpen: this.#events.onOpen,
      onClosed: () => {
        this.#events.onClosed();
        this.#forgetSpare(made);
      },
      // Requests that wait in it fail; it is not used again.
      onFailed: () => this.#all.delete(made),
      onNotPlain: () => {
        this.#isPlain = false;
      },
      onUnasked: () => this.#keepNone(),
    };
    const made: Connection =
      this.#isPlain && typeof connect === 'function'
        ? new PlainConnection({ origin: this.#origin, connect, library: this.#options }, events)
        : new LibraryConnection(this.#origin, this.#options, events);
    if (!this.#keeps) made.endEach();
    this.#all.add(made);
    return made;
  }

  #keepNone(): void {
    if (!this.#keeps) return;
    this.#keeps = false;
    for (const connection of this.#all) {
      if (connection.size > 0) connection.endEach();
      else {
        this.#all.delete(connection);
        void connection.destroy();
      }
    }
  }

  /** One without a socket is worth no more than a new one. */
  #forgetSpare(connection: Connection): void {
    if (this.#all.size > 1 && connection.size === 0) this.#all.delete(connection);
  }
}

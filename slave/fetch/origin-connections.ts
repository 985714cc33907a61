/**
 * The connections to one origin: a request gets one that is free, or a new one, or waits at the
 * one where least waits. undici's pool does that, too, with a queue of 2,048 places of its own:
 * with many hosts that never answer, making these was most of a slave's work.
 */
import type { Dispatcher } from 'undici';
import Client from 'undici/lib/dispatcher/client.js';

/** `connections`: at once. */
export type ConnectionOptions = Client.Options & {
  readonly connections?: number | null | undefined;
};

/** Called when a socket opens or closes. */
type SocketEvents = { readonly onOpen: () => void; readonly onClosed: () => void };

export class OriginConnections {
  readonly #origin: string;
  readonly #max: number;
  readonly #options: Client.Options;
  readonly #events: SocketEvents;
  readonly #clients = new Set<Client>();

  constructor(origin: string, options: ConnectionOptions, events: SocketEvents) {
    const { connections, ...ofEach } = options;
    this.#origin = origin;
    this.#max = connections ?? Number.POSITIVE_INFINITY;
    this.#options = ofEach;
    this.#events = events;
  }

  /** Open sockets that no request uses. */
  get unused(): number {
    let unused = 0;
    for (const { stats } of this.#clients) if (stats.size === 0 && stats.connected) unused++;
    return unused;
  }

  get isUsed(): boolean {
    for (const { stats } of this.#clients) if (stats.size > 0) return true;
    return false;
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    let least: Client | undefined;
    let leastSize = Number.POSITIVE_INFINITY;
    for (const client of this.#clients) {
      const { size } = client.stats;
      if (size >= leastSize) continue;
      [least, leastSize] = [client, size];
      if (size === 0) break;
    }
    const isFull = this.#clients.size >= this.#max;
    const client = least !== undefined && (leastSize === 0 || isFull) ? least : this.#make();
    return client.dispatch(options, handler);
  }

  /** Closes when the requests under way have ended. */
  async close(): Promise<void> {
    await Promise.all([...this.#clients].map((client) => client.close()));
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#clients].map((client) => client.destroy()));
  }

  #make(): Client {
    const client = new Client(this.#origin, this.#options);
    this.#clients.add(client);
    client.on('connect', this.#events.onOpen);
    client.on('disconnect', () => {
      this.#events.onClosed();
      this.#forgetSpare(client);
    });
    // What waits in it fails; it is not used again.
    client.on('connectionError', () => this.#clients.delete(client));
    return client;
  }

  /** One without a socket is worth no more than a new one. */
  #forgetSpare(client: Client): void {
    if (this.#clients.size > 1 && client.stats.size === 0) this.#clients.delete(client);
  }
}

/**
 * The connections of one client, a pool for each origin. Bounded, unlike undici's agent, in the
 * open sockets of a slave and in the number of origins. The origin unused for longest is
 * closed first, and none that a request needs. The clients and the proxy client use it.
 */
import type { Dispatcher } from 'undici';
import { type ConnectionOptions, OriginConnections } from './origin-connections.ts';

/** Counts the open sockets of all clients of a slave. */
export class SocketCount {
  readonly max: number;
  open = 0;

  constructor(max: number) {
    this.max = max;
  }
}

/** Origins of one client. */
const originsMax = 1_024;
/** Unused sockets of one client that stay open, however many are in use: those that wait for silent
 *  hosts should not cost the others theirs. */
const unusedMin = 256;
/** There may be too many for so long: all origins are looked at, so not at each connection. */
const sweepMs = 50;

export class Origins {
  readonly #options: ConnectionOptions;
  readonly #sockets: SocketCount;
  /** In order of use. */
  readonly #origins = new Map<string, OriginConnections>();
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: ConnectionOptions, sockets: SocketCount) {
    this.#options = options;
    this.#sockets = sockets;
  }

  /** Number of origins that it keeps connections of. */
  get count(): number {
    return this.#origins.size;
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const origin = String(options.origin);
    const connections = this.#origins.get(origin) ?? this.#make(origin);
    this.#origins.delete(origin);
    this.#origins.set(origin, connections);
    return connections.dispatch(options, handler);
  }

  /** Closes when the requests under way have ended. */
  async close(): Promise<void> {
    clearTimeout(this.#sweep);
    await Promise.all([...this.#origins.values()].map((connections) => connections.close()));
  }

  async destroy(): Promise<void> {
    clearTimeout(this.#sweep);
    await Promise.all([...this.#origins.values()].map((connections) => connections.destroy()));
  }

  #make(origin: string): OriginConnections {
    this.#makeRoomSoon();
    return new OriginConnections(origin, this.#options, {
      onOpen: () => {
        this.#sockets.open++;
        this.#makeRoomSoon();
      },
      onClosed: () => {
        this.#sockets.open--;
      },
    });
  }

  #makeRoomSoon(): void {
    const { max, open } = this.#sockets;
    if (open <= max && this.#origins.size <= originsMax) return;
    this.#sweep ??= setTimeout(() => {
      this.#sweep = undefined;
      this.#makeRoom();
    }, sweepMs);
  }

  #makeRoom(): void {
    const { max, open } = this.#sockets;
    let sockets = Math.min(open - max, this.#unused() - unusedMin);
    let origins = this.#origins.size - originsMax;
    for (const [origin, connections] of this.#origins) {
      if (sockets <= 0 && origins <= 0) return;
      const { unused, isUsed } = connections;
      if (isUsed || (origins <= 0 && unused === 0)) continue;
      this.#origins.delete(origin);
      sockets -= unused;
      origins--;
      void connections.close();
    }
  }

  #unused(): number {
    let unused = 0;
    for (const connections of this.#origins.values()) unused += connections.unused;
    return unused;
  }
}

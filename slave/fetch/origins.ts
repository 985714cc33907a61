/**
 * The connections of one client, a pool for each origin. Bounded, unlike undici's agent, in the
 * open sockets of a slave and in the number of origins. The pool unused for longest is closed
 * first, and none that a request needs. The clients and the proxy client use it.
 */
import type { Dispatcher } from 'undici';
import Pool from 'undici/lib/dispatcher/pool.js';

/** Counts the open sockets of all clients of a slave. */
export class SocketCount {
  readonly max: number;
  open = 0;

  constructor(max: number) {
    this.max = max;
  }
}

/** Origins of one client: an unused pool takes some 10 KB. */
const originsMax = 1_024;

export class Origins {
  readonly #options: Pool.Options;
  readonly #sockets: SocketCount;
  /** In order of use. */
  readonly #pools = new Map<string, Pool>();

  constructor(options: Pool.Options, sockets: SocketCount) {
    this.#options = options;
    this.#sockets = sockets;
  }

  /** Number of origins that have a pool. */
  get count(): number {
    return this.#pools.size;
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const origin = String(options.origin);
    const pool = this.#pools.get(origin) ?? this.#make(origin);
    this.#pools.delete(origin);
    this.#pools.set(origin, pool);
    return pool.dispatch(options, handler);
  }

  /** Closes when the requests under way have ended. */
  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()));
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }

  #make(origin: string): Pool {
    const pool = new Pool(origin, this.#options);
    pool.on('connect', () => {
      this.#sockets.open++;
      this.#makeRoom();
    });
    pool.on('disconnect', () => {
      this.#sockets.open--;
    });
    this.#pools.set(origin, pool);
    this.#makeRoom();
    return pool;
  }

  #makeRoom(): void {
    const { max, open } = this.#sockets;
    let sockets = open - max;
    let origins = this.#pools.size - originsMax;
    for (const [origin, pool] of this.#pools) {
      if (sockets <= 0 && origins <= 0) return;
      const { connected, size } = pool.stats;
      if (size > 0 || (origins <= 0 && connected === 0)) continue;
      this.#pools.delete(origin);
      sockets -= connected;
      origins--;
      void pool.close();
    }
  }
}

/**
 * The connections of one client, a pool for each origin. Bounded, where undici's agent is not: of
 * all the sockets of a slave no more than a number stay open, and of origins no more are kept. What
 * was unused for longest is closed first, and nothing that a request needs.
 * The clients and the proxy client make it.
 */
import type { Dispatcher } from 'undici';
import Pool from 'undici/lib/dispatcher/pool.js';

/** Sockets that are open, of all clients of a slave. */
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

  /** Origins that have a pool. */
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

  /** Ends when what is under way has ended. */
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

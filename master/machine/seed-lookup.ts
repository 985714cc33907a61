/**
 * Finds where the hosts of seeds are, by the same look-ups as a slave's fetches. Bounded in all: so
 * many names at once, so long for a name, and so long for all names of one request; what is not
 * answered by then counts as not resolved. The master makes one and the frontier asks it.
 *
 *     find --slot free--> asking --answer, failure, deadline--> told
 *        +------- time of the request is over, close() -------> told without the rest
 */
import { AddressCache, type Resolve, systemResolve } from '../../shared/resolver.ts';

export type SeedLookupOptions = {
  readonly resolve?: Resolve;
  /** Names under way at once; each takes a socket. */
  readonly atOnce?: number;
  readonly nameMs?: number;
  readonly requestMs?: number;
};

/** How long name servers and the hosts file count as what they were: a VPN changes them. */
const systemMs = 5_000;
/** How long a name that could not be resolved is not asked for again. */
const failureMs = 1_000;

export class SeedLookup {
  readonly #cache: AddressCache;
  readonly #atOnce: number;
  readonly #requestMs: number;
  readonly #ends = new Set<() => void>();
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;
  #isClosed = false;

  constructor(options: SeedLookupOptions = {}) {
    const { resolve = recentSystem(), atOnce = 128, nameMs = 5_000, requestMs = 10_000 } = options;
    this.#cache = new AddressCache(resolve, { deadlineMs: nameMs, failureMs });
    this.#atOnce = atOnce;
    this.#requestMs = requestMs;
  }

  /** Addresses of each of these names that has some; never rejects. A name that is not there could
   *  not be resolved. */
  async find(hostnames: Iterable<string>): Promise<ReadonlyMap<string, readonly string[]>> {
    const found = new Map<string, readonly string[]>();
    if (this.#isClosed) return found;
    let isOver = false;
    const ask = async (hostname: string): Promise<void> => {
      await this.#slot();
      try {
        if (isOver) return;
        const addresses = await this.#cache.resolve(hostname).catch(() => []);
        if (!isOver && addresses.length > 0) {
          found.set(
            hostname,
            addresses.map(({ address }) => address),
          );
        }
      } finally {
        this.#underWay--;
        this.#waiting.shift()?.();
      }
    };
    const all = Promise.all([...hostnames].map(ask));
    await new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#ends.delete(end);
        isOver = true;
        resolve();
      };
      const timer = setTimeout(end, this.#requestMs);
      this.#ends.add(end);
      void all.then(end);
    });
    return found;
  }

  /** Ends all requests with what they have found. Idempotent. */
  close(): void {
    this.#isClosed = true;
    for (const end of [...this.#ends]) end();
  }

  async #slot(): Promise<void> {
    if (this.#underWay >= this.#atOnce) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#underWay++;
  }
}

/** The system's resolver as it is now, not as it was when the master started. */
function recentSystem(): Resolve {
  let resolve = systemResolve();
  let madeAt = performance.now();
  return (hostname) => {
    if (performance.now() - madeAt > systemMs) {
      resolve = systemResolve();
      madeAt = performance.now();
    }
    return resolve(hostname);
  };
}

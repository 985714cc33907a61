/**
 * Finds the addresses of seeds' hosts, by the same look-ups as a slave's fetches. It limits the
 * names under way at once, the time for a name, and the time for all names of one request; a name
 * without an answer by then counts as not resolved. The master makes one, and the frontier uses it.
 *
 *     find --slot free--> asking --answer, failure, deadline--> answered
 *        +------- time of the request is over, close() -------> answered without the rest
 */
import { AwakeTimer } from '../../shared/awake.ts';
import { AddressCache, type Resolve, systemResolve } from '../../shared/resolver.ts';

type SeedLookupOptions = {
  readonly resolve?: Resolve;
  /** Maximum number of names under way at once; each takes a socket. */
  readonly atOnce?: number;
  readonly nameMs?: number;
  readonly requestMs?: number;
};

/** Time for which name servers and the hosts file are cached: a VPN changes them. */
const systemMs = 5_000;
/** Time for which a name that could not be resolved is not queried again. */
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

  /** Returns the addresses of each name; never rejects. A missing name could not be resolved. */
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
        timer.clear();
        this.#ends.delete(end);
        isOver = true;
        resolve();
      };
      const timer = new AwakeTimer(end, this.#requestMs);
      this.#ends.add(end);
      void all.then(end);
    });
    return found;
  }

  /** Ends all requests with the addresses found so far. Idempotent. */
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

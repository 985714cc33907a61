/**
 * How many requests of browser pages may be under way to one host, over all pages of a slave: the
 * rest waits, first come, first served. Pure.
 */

type Waiting = { readonly host: string; go(): void };

export class HostSeats {
  readonly #perHost: number;
  readonly #taken = new Map<string, number>();
  readonly #waiting = new Set<Waiting>();

  constructor(perHost: number) {
    this.#perHost = perHost;
  }

  /** Resolves with the function that gives the seat back, once there is one. A wait that `signal`
   *  ends resolves with nothing. */
  async take(host: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    if ((this.#taken.get(host) ?? 0) >= this.#perHost) {
      const isGiven = await this.#wait(host, signal);
      if (!isGiven) return undefined;
    } else this.#count(host, 1);
    let isBack = false;
    return () => {
      if (isBack) return;
      isBack = true;
      this.#giveBack(host);
    };
  }

  /** The seat goes over to the one that has waited longest. */
  #giveBack(host: string): void {
    for (const one of this.#waiting) {
      if (one.host !== host) continue;
      this.#waiting.delete(one);
      one.go();
      return;
    }
    this.#count(host, -1);
  }

  #wait(host: string, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const leave = () => {
        if (this.#waiting.delete(one)) resolve(false);
      };
      const one = {
        host,
        go: () => {
          signal.removeEventListener('abort', leave);
          resolve(true);
        },
      };
      this.#waiting.add(one);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #count(host: string, by: number): void {
    const count = (this.#taken.get(host) ?? 0) + by;
    if (count === 0) this.#taken.delete(host);
    else this.#taken.set(host, count);
  }
}

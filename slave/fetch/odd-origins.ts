/**
 * The origins whose answers undici refused to parse: lenient clients, which correct heads and use
 * one request per connection, serve them. Bounded; an origin with many good answers is removed, so
 * that a single odd page does not cost a large site its kept connections. Pure; the fetcher owns
 * it.
 */

const originsMax = 10_000;
/** Good answers in a row after which an origin is removed. An odd answer costs one more request. */
const goodMax = 100;

export class OddOrigins {
  /** Good answers in a row, by origin; the one unused for longest first. */
  readonly #good = new Map<string, number>();

  has(origin: string): boolean {
    return this.#good.has(origin);
  }

  add(origin: string): void {
    this.#good.delete(origin);
    this.#good.set(origin, 0);
    const [oldest] = this.#good.keys();
    if (this.#good.size > originsMax && oldest !== undefined) this.#good.delete(oldest);
  }

  /** An answer of the origin was read; `isOdd`: something was corrected. */
  answered(origin: string, isOdd: boolean): void {
    const good = this.#good.get(origin);
    if (good === undefined) return;
    this.#good.delete(origin);
    if (isOdd) this.#good.set(origin, 0);
    else if (good + 1 < goodMax) this.#good.set(origin, good + 1);
  }
}

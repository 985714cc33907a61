/**
 * The addresses of hosts with several ones that have failed: a connection takes them last. The way
 * to find the first one that connects does not see an address that accepts connections and gives
 * no answer, or no TLS: each attempt of a page would go there. Nor should each connection wait
 * for one that is dead. Bounded; only an order, so an entry may be wrong or old. The connectors of
 * a slave share it.
 * Source: RFC 8305, 4: the history of addresses.
 */

const hostsMax = 10_000;
const addressesMax = 16;

export class PoorAddresses {
  /** The address that failed last is the last one; the host unused for longest comes first. */
  readonly #failed = new Map<string, readonly string[]>();

  /** `host`: name and port. */
  failed(host: string, address: string): void {
    const others = (this.#failed.get(host) ?? []).filter((one) => one !== address);
    this.#failed.delete(host);
    this.#failed.set(host, [...others, address].slice(-addressesMax));
    const [oldest] = this.#failed.keys();
    if (this.#failed.size > hostsMax && oldest !== undefined) this.#failed.delete(oldest);
  }

  worked(host: string, address: string): void {
    const failed = this.#failed.get(host);
    if (failed === undefined || !failed.includes(address)) return;
    const others = failed.filter((one) => one !== address);
    if (others.length === 0) this.#failed.delete(host);
    else this.#failed.set(host, others);
  }

  /** Returns the addresses with those that failed at the end. */
  sorted(host: string, addresses: readonly string[]): string[] {
    const failed = this.#failed.get(host);
    if (failed === undefined) return [...addresses];
    const good = addresses.filter((one) => !failed.includes(one));
    return [...good, ...failed.filter((one) => addresses.includes(one))];
  }
}

/**
 * The connections whose first message has not arrived, and the one to drop when there are too many:
 *
 *     1. refused:     a wrong answer, or an end that its peer does not follow; the oldest
 *     2. unanswered:  no answer yet; the oldest one of the address that has most of them
 *     3. proved:      a right answer, but no first message; the oldest
 *
 * So connections that guess keys displace each other, and silent ones displace each other. Neither
 * displaces an honest peer, which answers within a round trip, even one of the same address. Pure.
 * Source: PROTOCOL.md [L-1].
 */

type Standing = { state: 'unanswered' | 'refused' | 'proved'; readonly address: string };

export class Strangers<Peer> {
  readonly #standings = new Map<Peer, Standing>();
  readonly #refused = new Set<Peer>();
  readonly #proved = new Set<Peer>();
  /** The unanswered connections of each address, in the order of arrival. */
  readonly #unanswered = new Map<string, Set<Peer>>();
  /** At index n: the addresses with n unanswered connections; the last is never empty. */
  readonly #byCount: Set<string>[] = [new Set()];

  get size(): number {
    return this.#standings.size;
  }

  [Symbol.iterator](): IterableIterator<Peer> {
    return this.#standings.keys();
  }

  has(peer: Peer): boolean {
    return this.#standings.has(peer);
  }

  add(peer: Peer, address: string): void {
    this.#standings.set(peer, { state: 'unanswered', address });
    const peers = this.#unanswered.get(address) ?? new Set();
    this.#unanswered.set(address, peers.add(peer));
    this.#recount(address, peers.size - 1, peers.size);
  }

  /** It gave a wrong answer, or its end has begun. No effect on an unknown connection. */
  refused(peer: Peer): void {
    if (this.#move(peer, 'refused')) this.#refused.add(peer);
  }

  /** It gave the right answer. */
  proved(peer: Peer): void {
    if (this.#move(peer, 'proved')) this.#proved.add(peer);
  }

  delete(peer: Peer): void {
    const standing = this.#standings.get(peer);
    if (standing === undefined) return;
    this.#standings.delete(peer);
    this.#take(peer, standing);
  }

  /** Returns the connection to drop; undefined: there is none. */
  first(): Peer | undefined {
    const [refused] = this.#refused;
    if (refused !== undefined) return refused;
    const [address] = this.#byCount.at(-1) ?? [];
    const [unanswered] = (address !== undefined && this.#unanswered.get(address)) || [];
    if (unanswered !== undefined) return unanswered;
    const [proved] = this.#proved;
    return proved;
  }

  #move(peer: Peer, state: Standing['state']): boolean {
    const standing = this.#standings.get(peer);
    if (standing === undefined || standing.state === state) return false;
    this.#take(peer, standing);
    standing.state = state;
    return true;
  }

  #take(peer: Peer, { state, address }: Standing): void {
    if (state === 'refused') this.#refused.delete(peer);
    else if (state === 'proved') this.#proved.delete(peer);
    else {
      const peers = this.#unanswered.get(address);
      if (peers === undefined) return;
      peers.delete(peer);
      if (peers.size === 0) this.#unanswered.delete(address);
      this.#recount(address, peers.size + 1, peers.size);
    }
  }

  /** The two differ by one, so that the longest list is always found in one step. */
  #recount(address: string, before: number, now: number): void {
    this.#byCount[before]?.delete(address);
    if (now > 0) {
      const addresses = this.#byCount[now] ?? new Set();
      this.#byCount[now] = addresses.add(address);
    }
    if (this.#byCount.length > 1 && this.#byCount.at(-1)?.size === 0) this.#byCount.pop();
  }
}

/**
 * A group of hosts without a delay keeps its place in the line for a few requests that come soon
 * after each other, and goes to the end of the line then. If it had to wait for all the others
 * after each request, its connections would be closed before its next turn comes, and with many
 * hosts every page would cost a TLS handshake. Pure: time is an argument (ms).
 */

/** Maximum number of requests by which its turn comes earlier than that of others. */
const requestsMax = 8;
/** Servers close a connection that is unused for some 5 s. */
const lastsMs = 2_000;

export class Visit {
  #place = 0;
  #requests = requestsMax;
  #endsAt = Number.NEGATIVE_INFINITY;

  /** A request is handed out to a group that was in the line since `place`. */
  request(place: number, now: number): void {
    if (this.#isOver(now)) {
      // The place of the previous visit is used up.
      this.#place = place === this.#place ? now : place;
      this.#requests = 0;
      this.#endsAt = now + lastsMs;
    }
    this.#requests++;
  }

  /** Returns the place in the line of a group that may be asked from `dueAt` on. */
  place(dueAt: number, now: number): number {
    return dueAt > now || this.#isOver(now) ? dueAt : Math.min(dueAt, this.#place);
  }

  #isOver(now: number): boolean {
    return this.#requests >= requestsMax || now >= this.#endsAt;
  }
}

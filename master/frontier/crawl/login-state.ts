/** The login of a crawl as this master knows it: nothing of it is on record, so each start tries
 *  anew. Source: PROTOCOL.md [T-93] [T-94]. */

export class LoginState {
  /** Slaves try again what failed when this is another number. */
  #round = Date.now();
  #fault: string | undefined;

  get round(): number {
    return this.#round;
  }

  /** Why the crawl is held until an operator resumes it. */
  get fault(): string | undefined {
    return this.#fault;
  }

  failed(why: string): void {
    this.#fault = `the login failed: ${why}`;
  }

  /** An operator wants it to be tried again. */
  again(): void {
    if (this.#fault === undefined) return;
    this.#fault = undefined;
    this.#round = Math.max(Date.now(), this.#round + 1);
  }
}

/**
 * The jobs of one writer. They wait in their order, and one round after the other takes some of
 * them:
 *
 *     push --> waiting --> round --> round --> …      alone: between two rounds
 */
export class Rounds<J> {
  /** A round takes those that it wants from the front, at least one. */
  readonly waiting: J[] = [];
  readonly #round: () => Promise<void>;
  #work: Promise<void> = Promise.resolve();
  #isUnderWay = false;

  constructor(round: () => Promise<void>) {
    this.#round = round;
  }

  /** Resolves when no job waits any more. Rejects with the error of a round; none follows it. */
  push(job: J): Promise<void> {
    this.waiting.push(job);
    if (!this.#isUnderWay) {
      this.#isUnderWay = true;
      this.#work = this.#work.then(() => this.#all());
    }
    return this.#work;
  }

  /** Does something while no round is under way. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#work.then(work);
    this.#work = done.then(
      () => {},
      () => {},
    );
    return await done;
  }

  /** Resolves when no job waits, and no round is under way. */
  async idle(): Promise<void> {
    while (this.#isUnderWay) await this.#work;
    await this.#work;
  }

  async #all(): Promise<void> {
    while (this.waiting.length > 0) await this.#round();
    // At once: what is pushed from now on begins a round.
    this.#isUnderWay = false;
  }
}

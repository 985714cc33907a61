/** Events of the sinks, for all subscribers. */

export interface ResultEvents<C> {
  /** A sink has written; the crawl may be done. */
  written(crawl: C): void;
  /** A sink cannot go on, for this reason: nothing of the crawl is to be fetched. `isPassing`: too
   *  much waits for it, and `released` comes when it has written. */
  held(crawl: C, reason: string, isPassing?: boolean): void;
  /** A crawl that was held because too much waited may go on. */
  released(crawl: C): void;
  /** A sink cannot write for now; or can again. */
  unavailable(crawl: C, sink: string, reason: string): void;
  available(crawl: C, sink: string): void;
  /** An output, or its crawl, was given up, and that number of records waited for it. */
  missed(crawl: C, sink: string, records: number): void;
  /** The master ends, and that number of records waits for an output that cannot be written. */
  left(crawl: C, sink: string, records: number): void;
  /** It was given up, and its result files lack that number of records. */
  dropped(crawl: C, records: number): void;
}

/** Hears the events that it has methods for. */
export type ResultListener<C> = Partial<ResultEvents<C>>;

export class ResultStream<C> implements ResultEvents<C> {
  readonly #listeners: ResultListener<C>[] = [];

  subscribe(listener: ResultListener<C>): void {
    this.#listeners.push(listener);
  }

  written(crawl: C): void {
    for (const listener of this.#listeners) listener.written?.(crawl);
  }

  held(crawl: C, reason: string, isPassing?: boolean): void {
    for (const listener of this.#listeners) listener.held?.(crawl, reason, isPassing);
  }

  released(crawl: C): void {
    for (const listener of this.#listeners) listener.released?.(crawl);
  }

  unavailable(crawl: C, sink: string, reason: string): void {
    for (const listener of this.#listeners) listener.unavailable?.(crawl, sink, reason);
  }

  available(crawl: C, sink: string): void {
    for (const listener of this.#listeners) listener.available?.(crawl, sink);
  }

  missed(crawl: C, sink: string, records: number): void {
    for (const listener of this.#listeners) listener.missed?.(crawl, sink, records);
  }

  left(crawl: C, sink: string, records: number): void {
    for (const listener of this.#listeners) listener.left?.(crawl, sink, records);
  }

  dropped(crawl: C, records: number): void {
    for (const listener of this.#listeners) listener.dropped?.(crawl, records);
  }
}

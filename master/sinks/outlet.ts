/**
 * One sink of one crawl: how far it has written, and its present state.
 *
 *     writing --HeldError--> held --resume--> writing
 *        |
 *        +--UnavailableError--> failing --a later try--> writing
 */
import type { SinkCursor } from '../store/records.ts';
import type { Sink, SinkKind } from './sink.ts';

const retryFirstMs = 1_000;
const retryMaxMs = 60_000;

export class Outlet {
  readonly kind: SinkKind;
  state: 'writing' | 'failing' | 'held' = 'writing';
  /** Why it is not writing. */
  reason = '';
  sink: Sink | undefined;
  mark: unknown;
  /** It has the rows up to this commit. */
  commit: number;
  #work: Promise<void> | undefined;
  #isBroken = false;
  /** Those who wait for it to be idle. */
  #claims = 0;
  #retryMs = retryFirstMs;
  #timer: NodeJS.Timeout | undefined;

  constructor(kind: SinkKind, cursor: SinkCursor | undefined) {
    this.kind = kind;
    this.mark = cursor?.mark;
    this.commit = cursor?.commit ?? 0;
  }

  get isWriting(): boolean {
    return this.state === 'writing';
  }

  get isBusy(): boolean {
    return this.#work !== undefined;
  }

  /** An error has ended what was done with it: nothing more is. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Somebody waits for it to be idle: no write is begun. */
  get isClaimed(): boolean {
    return this.#claims > 0;
  }

  claim(): void {
    this.#claims++;
  }

  unclaim(): void {
    this.#claims--;
  }

  /** One thing at a time is done with a sink; after an error, nothing more. */
  work(work: () => Promise<void>, onError: (error: unknown) => void): Promise<void> {
    this.#work = work().then(
      () => {
        this.#work = undefined;
      },
      (error: unknown) => {
        this.#isBroken = true;
        onError(error);
      },
    );
    return this.#work;
  }

  /** Resolves when nothing is done with the sink any more. */
  async idle(): Promise<void> {
    for (let work = this.#work; work !== undefined; ) {
      await work;
      // After an error it stays.
      work = this.#work === work ? undefined : this.#work;
    }
  }

  /** Later and later. */
  retry(again: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(again, this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }

  recovered(): void {
    clearTimeout(this.#timer);
    this.#retryMs = retryFirstMs;
    this.state = 'writing';
    this.reason = '';
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.sink?.close();
  }
}

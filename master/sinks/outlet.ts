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
/** A server that has owed an answer for so long hangs. */
const hangingMs = 3_000;

export class Outlet {
  readonly kind: SinkKind;
  state: 'writing' | 'failing' | 'held' = 'writing';
  /** Why it is not writing. */
  reason = '';
  sink: Sink | undefined;
  mark: unknown;
  /** It has the rows up to this commit. */
  commit: number;
  /** It was given the rows up to this commit: those behind the other one it gathers. */
  given: number;
  /** Nothing more comes for it: what it gathers is written now. */
  isEnding = false;
  /** Rows that it gathers: their commits, and the numbers of their last records. */
  #gathered: { readonly commit: number; readonly seq: number }[] = [];
  #work: Promise<void> | undefined;
  #isBroken = false;
  /** Those who wait for it to be idle. */
  #claims = 0;
  /** Those who wait for what is done with it. */
  #hasty = 0;
  #retryMs = retryFirstMs;
  #timer: NodeJS.Timeout | undefined;
  #failingAt = 0;
  #onStir: () => void = () => {};

  constructor(kind: SinkKind, cursor: SinkCursor | undefined) {
    this.kind = kind;
    this.mark = cursor?.mark;
    this.commit = cursor?.commit ?? 0;
    this.given = this.commit;
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
    this.sink?.interrupt?.();
    this.#addHaste(1);
    this.stir();
  }

  unclaim(): void {
    this.#claims--;
    this.#addHaste(-1);
  }

  /** Does something that an operator waits for: its server gets less time. */
  async hastily(work: () => Promise<void>): Promise<void> {
    this.#addHaste(1);
    try {
      await work();
    } finally {
      this.#addHaste(-1);
    }
  }

  /** Its crawl is over, and an operator waits for that: its server gets less time from now on. */
  hasten(): void {
    this.#addHaste(1);
  }

  #addHaste(by: number): void {
    this.#hasty += by;
    this.kind.hasten?.(this.#hasty > 0);
  }

  /** Its server owes an answer: to try it again now would be another wait. */
  get isHanging(): boolean {
    return this.kind.silentMs?.() !== undefined;
  }

  /** Why it cannot write for now, and for how long it could not. */
  get trouble(): { readonly reason: string; readonly ms: number } | undefined {
    const silentMs = this.kind.silentMs?.() ?? 0;
    if (this.state === 'failing') {
      return { reason: this.reason, ms: Math.max(silentMs, performance.now() - this.#failingAt) };
    }
    if (this.state === 'held' || silentMs < hangingMs) return undefined;
    return { reason: `${this.kind.name}: the server does not answer`, ms: silentMs };
  }

  /** To be called when its next write may begin: rows, the end of its crawl or a claim came. */
  stir(): void {
    this.#onStir();
  }

  /** Resolves as soon as it is stirred and `isTime` is true, and after `ms` at the latest. */
  stirred(isTime: () => boolean, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#onStir = () => {};
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#onStir = () => {
        if (isTime()) end();
      };
    });
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

  get isGathering(): boolean {
    return this.given > this.commit;
  }

  /** It was given these rows. Returns whether it has more than before. */
  take(
    rows: readonly { readonly commit: number; readonly seq: number }[],
    { reached }: Sink,
  ): boolean {
    const last = rows.at(-1);
    if (last !== undefined) this.given = last.commit;
    if (reached === undefined) {
      this.#gathered = [];
      const isMore = this.given > this.commit;
      this.commit = this.given;
      return isMore;
    }
    for (const row of rows) this.#gathered.push(row);
    let count = 0;
    while ((this.#gathered[count]?.seq ?? Number.POSITIVE_INFINITY) <= reached) count++;
    const done = this.#gathered.splice(0, count).at(-1);
    if (done !== undefined) this.commit = done.commit;
    return done !== undefined;
  }

  /** It gets the rows that it has gathered once more. */
  forget(): void {
    this.#gathered = [];
    this.given = this.commit;
  }

  held(reason: string): void {
    this.state = 'held';
    this.reason = reason;
  }

  failed(reason: string): void {
    if (this.state !== 'failing') this.#failingAt = performance.now();
    this.state = 'failing';
    this.reason = reason;
  }

  /** Later and later. A try that is due already stays so: commands that come again and again, as a
   *  rotation each minute, would put it off for ever. */
  retry(again: () => void): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      again();
    }, this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, retryMaxMs);
  }

  recovered(): void {
    this.#noRetry();
    this.#retryMs = retryFirstMs;
    this.state = 'writing';
    this.reason = '';
  }

  #noRetry(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async close(): Promise<void> {
    this.#noRetry();
    await this.sink?.close();
  }
}

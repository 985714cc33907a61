/**
 * Group commit: everything that wants to be on the disk within a few milliseconds goes there in
 * one transaction.
 *
 * Parts come from two sides: `submit` hands one over, and a *gatherer* is asked for its part when
 * a commit is about to start, so that it can do a batch of work at its own pace. Two commits may
 * be under way, so that one is prepared while the other is flushed; they end in order. After one
 * that failed none is begun, and none is done: each builds on the one before it.
 */
import type { Change, Store } from './store.ts';

/** Changes that belong together, and what to do when they are on the disk. */
export type Part = { readonly changes: Change[]; readonly done: () => void };

/** Gives its part, or undefined when it has nothing to commit. */
export type Gatherer = () => Part | undefined;

/** The disk that commits go to: none is begun while it is short. */
export type Room = { readonly isShort: boolean; room(): Promise<void> };
const plenty: Room = { isShort: false, room: () => Promise.resolve() };

const underWayMax = 2;

export class GroupCommit {
  readonly #store: Store;
  readonly #everyMs: number;
  readonly #onError: (error: unknown) => void;
  readonly #room: Room;
  readonly #gatherers: Gatherer[] = [];
  #parts: Part[] = [];
  #state: 'working' | 'failed' = 'working';
  #underWay = 0;
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #wanted = false;
  #startedAt = 0;
  #idle: (() => void)[] = [];
  /** The end of all commits that were started. */
  #ended: Promise<void> = Promise.resolve();

  constructor(options: {
    store: Store;
    everyMs: number;
    onError: (error: unknown) => void;
    /** Default: there always is. */
    room?: Room;
  }) {
    this.#store = options.store;
    this.#everyMs = options.everyMs;
    this.#onError = options.onError;
    this.#room = options.room ?? plenty;
  }

  /** Commits that were started so far. */
  get count(): number {
    return this.#count;
  }

  addGatherer(gatherer: Gatherer): void {
    this.#gatherers.push(gatherer);
  }

  submit(changes: Change[], done: () => void = () => {}): void {
    this.#parts.push({ changes, done });
    this.request();
  }

  /** There is something to gather: a commit starts when the pace allows. */
  request(): void {
    this.#wanted = true;
    if (this.#timer !== undefined || this.#underWay >= underWayMax) return;
    const waitMs = Math.max(0, this.#startedAt + this.#everyMs - performance.now());
    this.#timer = setTimeout(() => {
      this.#startWithRoom().catch(this.#onError);
    }, waitMs);
  }

  /** Resolves when all that was asked for so far is on the disk. */
  flushed(): Promise<void> {
    if (!this.#wanted && this.#underWay === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Why a commit under way fails, if one does, else `error`: when a commit has failed, whoever reads
   *  the store may be told first. */
  causeOf(error: unknown): Promise<unknown> {
    return this.#ended.then(
      () => error,
      (cause: unknown) => cause,
    );
  }

  async #startWithRoom(): Promise<void> {
    if (this.#room.isShort) await this.#room.room();
    this.#timer = undefined;
    this.#start();
  }

  #start(): void {
    if (this.#state === 'failed') return;
    this.#wanted = false;
    this.#startedAt = performance.now();
    const parts = this.#parts;
    this.#parts = [];
    for (const gather of this.#gatherers) {
      const part = gather();
      if (part !== undefined) parts.push(part);
    }
    if (parts.length > 0) this.#commit(parts);
    this.#settleIdle();
  }

  #commit(parts: readonly Part[]): void {
    this.#underWay++;
    this.#count++;
    const changes =
      parts.length === 1 ? (parts[0]?.changes ?? []) : parts.flatMap((p) => p.changes);
    // One that changes nothing ends with the one before it.
    if (changes.length > 0) this.#ended = both(this.#ended, this.#store.commit(changes));
    this.#ended.then(
      () => {
        if (this.#state === 'failed') return;
        this.#underWay--;
        for (const part of parts) part.done();
        if (this.#wanted) this.request();
        this.#settleIdle();
      },
      // Nothing was acknowledged, so nothing is lost: the master stops and a restart recovers.
      (error: unknown) => {
        if (this.#state === 'failed') return;
        this.#state = 'failed';
        this.#onError(error);
      },
    );
  }

  #settleIdle(): void {
    if (this.#wanted || this.#underWay > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }
}

async function both(first: Promise<void>, second: Promise<void>): Promise<void> {
  await Promise.all([first, second]);
}

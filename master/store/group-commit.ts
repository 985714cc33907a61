/**
 * Group commit: all changes of a few milliseconds go to the disk in one transaction.
 *
 * Parts come from two sides: `submit` hands one over, and a *gatherer* supplies its part when a
 * commit is about to start, so that it can do a batch of work at its own pace. Some commits may be
 * under way, so that the next ones are prepared while one is flushed; they end in order. After a
 * failed commit no other starts or succeeds, since each builds on the one before it.
 */
import { ownTurn } from '../machine/own-turn.ts';
import type { Change, Store } from './store.ts';

/** Changes that belong together, a list that the commit empties, and a function to call when they
 *  are on the disk. `tookMs`: the duration of their commit. */
export type Part = { readonly changes: Change[]; readonly done: (tookMs: number) => void };

/** Returns its part, or undefined if it has nothing to commit. */
type Gatherer = () => Part | undefined;

/** The disk that commits go to: none starts while it is short of space. */
export type Room = { readonly isShort: boolean; room(): Promise<void> };
/** The disk that others write to; it hears of what was refused, in which folder. */
export type FolderRoom = Room & { refused(folder: string): void };
const plenty: Room = { isShort: false, room: () => Promise.resolve() };

/** All but the first become one flush, which writes the last page of each host's tasks and the
 *  pages above it: the fewer flushes, the fewer bytes a link. More than this, of many hosts, would
 *  take too long to hand to LMDB in one turn. */
const underWayMax = 6;

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
  /** When the next one starts; infinite: none is wanted. */
  #dueAt = Number.POSITIVE_INFINITY;
  /** It is due, and may wait for room. */
  #isStarting = false;
  #startedAt = Number.NEGATIVE_INFINITY;
  #idle: (() => void)[] = [];
  /** The end of all commits that were started. */
  #ended: Promise<void> = Promise.resolve();

  constructor(options: {
    store: Store;
    everyMs: number;
    onError: (error: unknown) => void;
    /** Default: there is always room. */
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

  /** `withinMs`: see `request`. */
  submit(changes: Change[], done: Part['done'] = () => {}, withinMs = 0): void {
    this.#parts.push({ changes, done });
    this.request(withinMs);
  }

  /** Resolves when these changes, and all that were submitted before, are on the disk. */
  written(changes: Change[], withinMs = 0): Promise<void> {
    return new Promise((done) => this.submit(changes, () => done(), withinMs));
  }

  /** Asks for a commit, which starts when the pace allows. `withinMs`: nobody waits for it, so that
   *  it may wait so long for another one to join; a commit costs more than what is in it. */
  request(withinMs = 0): void {
    const now = performance.now();
    const mayWaitMs = this.#idle.length > 0 ? 0 : withinMs;
    this.#startBy(Math.max(this.#startedAt + this.#everyMs, now + mayWaitMs), now);
  }

  /** A gatherer has more work than it may do at once: the next commit starts in the next turn. */
  requestMore(): void {
    const now = performance.now();
    this.#startBy(now, now);
  }

  /** Resolves when all earlier requests are on the disk. */
  flushed(): Promise<void> {
    if (!this.#isWanted && this.#underWay === 0) return Promise.resolve();
    const flushed = new Promise<void>((resolve) => this.#idle.push(resolve));
    if (this.#isWanted) this.request();
    return flushed;
  }

  get #isWanted(): boolean {
    return this.#dueAt !== Number.POSITIVE_INFINITY;
  }

  #startBy(at: number, now: number): void {
    if (at >= this.#dueAt) return;
    this.#dueAt = at;
    this.#arm(now);
  }

  #arm(now: number): void {
    if (this.#isStarting || this.#underWay >= underWayMax) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        this.#isStarting = true;
        this.#startWithRoom().catch(this.#onError);
      },
      Math.max(0, this.#dueAt - now),
    );
  }

  /** Returns why a commit under way fails, if one does, else `error`: after a failed commit a read
   *  of the store may fail first. */
  causeOf(error: unknown): Promise<unknown> {
    return this.#ended.then(
      () => error,
      (cause: unknown) => cause,
    );
  }

  async #startWithRoom(): Promise<void> {
    if (this.#room.isShort) await this.#room.room();
    await ownTurn();
    this.#isStarting = false;
    this.#start();
  }

  #start(): void {
    if (this.#state === 'failed') return;
    this.#dueAt = Number.POSITIVE_INFINITY;
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
    // Emptied: the parts live until the disk answers, and what lives so long is dear to collect.
    const changes = parts.flatMap((part) => part.changes.splice(0));
    const began = performance.now();
    // A commit without changes ends with the one before it.
    if (changes.length > 0) this.#ended = both(this.#ended, this.#store.commit(changes));
    this.#ended.then(
      () => void this.#land(parts, performance.now() - began),
      // Nothing was acknowledged, so nothing is lost: the master stops and a restart recovers.
      (error: unknown) => {
        if (this.#state === 'failed') return;
        this.#state = 'failed';
        this.#onError(error);
      },
    );
  }

  /** Calls that follow a commit on the disk. */
  async #land(parts: readonly Part[], tookMs: number): Promise<void> {
    await ownTurn();
    if (this.#state === 'failed') return;
    this.#underWay--;
    for (const part of parts) part.done(tookMs);
    if (this.#isWanted) this.#arm(performance.now());
    this.#settleIdle();
  }

  #settleIdle(): void {
    if (this.#isWanted || this.#underWay > 0) return;
    const idle = this.#idle;
    this.#idle = [];
    for (const resolve of idle) resolve();
  }
}

async function both(first: Promise<void>, second: Promise<void>): Promise<void> {
  await Promise.all([first, second]);
}

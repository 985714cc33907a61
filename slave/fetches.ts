/** The fetches under way: begins one for a task, and says what came of it. */
import type { MasterClient } from '../shared/client.ts';
import type { FetchSpec } from '../shared/crawl.ts';
import { messageOf } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import type { TaskPush } from '../shared/protocol.ts';
import type { AfterFetch } from './after-fetch.ts';
import type { BodyRoom } from './body-room.ts';
import type { Fetcher } from './fetch/fetcher.ts';
import type { FailedOutcome } from './fetch/outcome.ts';
import { FetchLog } from './fetch-log.ts';
import type { Kind } from './kinds/kind.ts';
import { kindOf } from './kinds/kinds.ts';
import type { KnownCrawls } from './known-crawls.ts';
import type { Outbox } from './outbox.ts';
import type { Slots } from './slots.ts';
import { internalError, ofFailure, ofOutcome, unable, unknownKind } from './statements.ts';
import { TaskFetch } from './task-fetch.ts';
import type { Trains } from './trains.ts';
import { Turns } from './turns.ts';

type FetchesOptions = {
  readonly crawls: KnownCrawls;
  readonly fetcher: Fetcher;
  readonly slots: Slots;
  readonly bodies: BodyRoom;
  readonly trains: Trains;
  readonly after: AfterFetch;
  readonly outbox: Outbox;
  readonly master: () => MasterClient | undefined;
  readonly canRender: () => boolean;
  readonly hasPageFunction: boolean;
  /** The answer to a task was a failure. */
  readonly onFailed: (task: TaskPush, outcome: FailedOutcome) => void;
  /** There may be room for the next task. */
  readonly onEnded: (task: TaskPush) => void;
  readonly log: Logger;
};

export class Fetches {
  readonly #options: FetchesOptions;
  readonly #underWay = new Map<TaskPush, AbortController>();
  /** A controller serves fetch after fetch until it has aborted one: they are slow to make. */
  readonly #spareAborts: AbortController[] = [];
  readonly #log: FetchLog | undefined;

  constructor(options: FetchesOptions) {
    this.#options = options;
    this.#log = FetchLog.of(options.log);
  }

  get size(): number {
    return this.#underWay.size;
  }

  get tasks(): Iterable<TaskPush> {
    return this.#underWay.keys();
  }

  /** Fetches a task, and tells the master what came of it. Resolves with whether its host gave a
   *  definite answer; never rejects. */
  async begin(task: TaskPush): Promise<boolean> {
    const { crawls, fetcher, slots, bodies, log } = this.#options;
    const crawl = crawls.of(task.crawl);
    if (crawl === undefined) return false; // the master tells it before the first task
    const kind = this.#kindOf(task, crawl.spec);
    if (kind === undefined) return this.#refuse(task, unknownKind);
    const putOff = this.#putOff(kind, crawl.spec);
    if (putOff !== undefined) return this.#refuse(task, putOff);
    const abort = this.#spareAborts.pop() ?? new AbortController();
    this.#underWay.set(task, abort);
    const begunAt = performance.now();
    const { signal } = abort;
    slots.begins(task);
    const seat = bodies.enter();
    const turns = this.#turnsOf(task, abort);
    const fetch = new TaskFetch({ task, kind, crawl, fetcher, slots, seat, turns, signal, log });
    try {
      const outcome = await fetch.outcome();
      this.#log?.ended(task, outcome, performance.now() - begunAt);
      this.#tell(task, kind, fetch, outcome);
      return outcome.ok;
    } catch (error) {
      if (!signal.aborted) {
        log.error({ url: task.url }, `fetch: ${messageOf(error)}`);
        return this.#refuse(task, internalError);
      }
      this.#log?.aborted(task, performance.now() - begunAt);
      return false;
    } finally {
      turns.tell();
      this.#underWay.delete(task);
      slots.answered(task);
      seat.leave();
      if (!signal.aborted) this.#spareAborts.push(abort);
      this.#options.onEnded(task);
    }
  }

  /** Ends those that `isMeant` names, without a word to the master. */
  abort(isMeant: (task: TaskPush) => boolean = () => true): void {
    for (const [task, abort] of this.#underWay) if (isMeant(task)) abort.abort();
  }

  close(): void {
    this.#log?.close();
  }

  /** Undefined: this slave does not know it. */
  #kindOf(task: TaskPush, { items, follow, render }: FetchSpec): Kind | undefined {
    const rules = (items ?? follow) ? 'rules' : undefined;
    const ruledBy = this.#options.hasPageFunction ? 'function' : rules;
    return kindOf(task, ruledBy, render !== undefined);
  }

  #putOff(kind: Kind, spec: FetchSpec): FailedOutcome | undefined {
    if (spec.render !== undefined && !this.#options.canRender()) return unable;
    return kind.putOff?.(spec);
  }

  #turnsOf(task: TaskPush, abort: AbortController): Turns {
    const { trains, master } = this.#options;
    return new Turns({
      lease: task.lease,
      isTimed: task.timed === true,
      tellMs: task.tellMs,
      master,
      onLost: () => abort.abort(),
      onLeft: () => trains.left(task),
      onAsk: () => trains.interrupted(task),
    });
  }

  #tell(
    task: TaskPush,
    kind: Kind,
    { spec, identity, recording }: TaskFetch,
    outcome: { readonly ok: true } | FailedOutcome,
  ): void {
    const { after, outbox, onFailed } = this.#options;
    if (outcome.ok && identity !== undefined) {
      if (after.take({ task, kind, found: outcome, spec, identity, recording })) return;
    }
    const statements = ofOutcome(task, outcome, recording, (held, found) =>
      kind.statements(held, found),
    );
    for (const statement of statements) outbox.tell(statement);
    if (!outcome.ok) onFailed(task, outcome);
  }

  #refuse(task: TaskPush, why: FailedOutcome): false {
    this.#options.outbox.tell(ofFailure(task, why));
    return false;
  }
}

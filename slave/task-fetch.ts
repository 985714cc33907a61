/**
 * The fetch of one task: through the identities of its crawl, after the login if the crawl has one,
 * and with the turns that the master gives it.
 */
import type { FetchSpec } from '../shared/crawl.ts';
import type { Logger } from '../shared/log.ts';
import type { TaskPush } from '../shared/protocol.ts';
import type { BodySeat } from './body-room.ts';
import type { FetchContext, Fetcher } from './fetch/fetcher.ts';
import type { Identity } from './fetch/identities.ts';
import type { FailedOutcome } from './fetch/outcome.ts';
import { type Recording, recordingOf } from './fetch/recording.ts';
import type { Kind } from './kinds/kind.ts';
import type { KnownCrawl } from './known-crawls.ts';
import type { Slots } from './slots.ts';
import type { Turns } from './turns.ts';

type TaskFetchOptions = {
  readonly task: TaskPush;
  readonly kind: Kind;
  readonly crawl: KnownCrawl;
  readonly fetcher: Fetcher;
  readonly slots: Slots;
  readonly seat: BodySeat;
  readonly turns: Turns;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

export class TaskFetch {
  readonly #options: TaskFetchOptions;
  /** The one that was used last. */
  #identity: Identity | undefined;
  #recording: Recording | undefined;

  constructor(options: TaskFetchOptions) {
    this.#options = options;
  }

  /** Undefined: none was free. */
  get identity(): Identity | undefined {
    return this.#identity;
  }

  /** Its exchanges for the archive; undefined: none. */
  get recording(): Recording | undefined {
    return this.#recording;
  }

  get spec(): FetchSpec {
    return this.#options.crawl.spec;
  }

  /** Rejects when the signal fires. */
  async outcome(): Promise<{ readonly ok: true } | FailedOutcome> {
    const { crawl, kind, turns, signal, log } = this.#options;
    const fetched = await crawl.identities.through((identity) => this.#fetch(identity), signal);
    turns.tell();
    const completed = fetched.ok ? await kind.complete?.(fetched, crawl.spec, log) : undefined;
    signal.throwIfAborted();
    return completed ?? fetched;
  }

  async #fetch(identity: Identity): Promise<{ readonly ok: true } | FailedOutcome> {
    this.#identity = identity;
    const { task, kind, fetcher, signal } = this.#options;
    const failed = await this.#logIn(identity);
    if (failed !== undefined) return failed;
    const context = this.#contextOf(identity);
    return kind.outcome(await fetcher.fetch(kind.plan, task.url, this.spec, signal, context));
  }

  /** Returns why the page cannot be fetched now. */
  async #logIn(identity: Identity): Promise<FailedOutcome | undefined> {
    const { task, kind, crawl, turns, signal } = this.#options;
    if (crawl.logins === undefined || !kind.needsLogin) return undefined;
    const url = task.url.replace(/#.*/, '');
    return await crawl.logins.enter({
      url,
      spec: crawl.spec,
      identity,
      signal,
      open: task.open,
      blocks: task.private,
      isTimed: turns.isTimed,
      onStart: this.#onStart,
      onAnswer: this.#onAnswer,
      turn: () => turns.follow(url),
    });
  }

  #contextOf({ userAgent, proxy, cookies }: Identity): FetchContext {
    const { task, kind, seat, turns } = this.#options;
    const { etag, lastModified } = task;
    this.#recording = recordingOf(this.spec, kind.archivedBytes?.(this.spec));
    // Named one by one: to spread them takes V8 a hundred times as long.
    return {
      userAgent,
      proxy,
      cookies,
      open: task.open,
      blocks: task.private,
      validators: etag || lastModified ? { etag, lastModified } : undefined,
      validatedUrl: task.validatedUrl,
      // A proxy's delay says nothing about the host.
      isFirst: task.trial === 'first' && proxy === undefined,
      last: task.last,
      request: task.request,
      onStart: this.#onStart,
      onAnswer: this.#onAnswer,
      follow: turns.follow,
      attempt: task.attempt,
      recording: this.#recording,
      seat,
    };
  }

  readonly #onStart = (): void => {
    const { task, slots, turns, signal } = this.#options;
    // A proxy gets no more connections than there are slots.
    if (!signal.aborted) slots.asks(task, this.#identity?.proxy === undefined);
    turns.started();
  };

  readonly #onAnswer = (): void => this.#options.slots.answered(this.#options.task);
}

/**
 * One slave process: takes tasks from the master, fetches them in its slots, reports.
 *
 *     queued --slot free--> fetching --> reported --acknowledged--> forgotten
 *        |                      |            ^
 *        +-- cancelled ---------+            +-- sent again after a lost connection
 *
 * A trial, which is a task of a host that may not answer, begins at once, and holds no slot until
 * an answer begins: many hosts are dead, and other tasks must not wait for them.
 *
 * The slave keeps a result until the master has it on disk. When the connection is lost it drops
 * all other tasks, also in the middle of a fetch: the master gives them to another slave, and a
 * host must not be asked by both.
 */
import { randomInt } from 'node:crypto';
import { archiveBytesDefault } from '../shared/archive.ts';
import type { Joining } from '../shared/cli.ts';
import type { MasterClient } from '../shared/client.ts';
import { type FetchSpec, fetchSpecSchema } from '../shared/crawl.ts';
import { CommandError, ConfigError, messageOf } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { limits, type Push, type TaskPush } from '../shared/protocol.ts';
import type { Replies } from '../shared/replies.ts';
import { version } from '../shared/version.ts';
import { CreditWindow } from './credit.ts';
import { Fetcher } from './fetch/fetcher.ts';
import { Identities } from './fetch/identities.ts';
import type { Turn } from './fetch/outcome.ts';
import { Proxies } from './fetch/proxies.ts';
import { Recording } from './fetch/recording.ts';
import { FetchLog } from './fetch-log.ts';
import type { RulePage } from './kinds/kind.ts';
import { kindOf } from './kinds/kinds.ts';
import { MasterLink } from './master-link.ts';
import { Outbox } from './outbox.ts';
import { CrawlRules } from './rules/crawl-rules.ts';
import type { Evaluated } from './rules/fit.ts';
import { archiveWith, ofFailure, type Statement } from './statements.ts';

type WorkerOptions = {
  readonly master: Joining;
  readonly name: string;
  readonly slots: number;
  readonly takes: 'all' | 'probes';
  readonly joinTimeoutMs: number;
  /** File of a page function, absolute; undefined: none. */
  readonly page: string | undefined;
  readonly log: Logger;
};

/** Trials at once, for each slot, and in all: a connection that is waited for costs little. */
const trialsPerSlot = 32;
const trialsMax = 1_024;
/** How long a drain waits for fetches under way. */
const drainMs = 35_000;
/** A fetch goes on after a shorter stop of the process. */
const stoppedMsMax = 1_000;
/** How often the credit is looked at, and at how many of these looks the way is measured. */
const creditEveryMs = 500;
const looksPerTrip = 10;
/** How often the slave says how it is. */
const stateEveryMs = 10_000;

/** A newer master may know more kinds of tasks. */
const unknownKind = {
  ok: false,
  error: { kind: 'protocol', message: 'not known to this slave' },
} as const;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #link: MasterLink;
  readonly #fetcher: Fetcher;
  readonly #fetchLog: FetchLog | undefined;
  readonly #proxies: Proxies;
  /** Specs of crawls from the master. `isStale`: of an earlier session. */
  readonly #crawls = new Map<
    number,
    { spec: FetchSpec; identities: Identities; isStale: boolean }
  >();
  #queued: TaskPush[] = [];
  readonly #fetching = new Map<TaskPush, AbortController>();
  /** Trials among them without an answer so far. */
  readonly #unanswered = new Set<TaskPush>();
  /** A controller serves fetch after fetch until it has aborted one: they are slow to make. */
  readonly #spareAborts: AbortController[] = [];
  readonly #outbox: Outbox;
  readonly #rules: CrawlRules;
  /** Fetched, and out of their slots: their pages wait for the rules. */
  readonly #evaluating = new Set<TaskPush>();
  #state: 'working' | 'draining' | 'stopped' = 'working';
  #onIdle: () => void = () => {};
  #extender: NodeJS.Timeout | undefined;
  #credit: CreditWindow;
  #creditTimer: NodeJS.Timeout | undefined;
  #stateTimer: NodeJS.Timeout | undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#credit = new CreditWindow(options.slots);
    this.#fetchLog = FetchLog.of(options.log);
    this.#fetcher = new Fetcher({ connections: options.slots });
    this.#proxies = new Proxies({
      onAside: ({ name }, reason, ms) => {
        const forS = Math.round(ms / 1000);
        options.log.warn({ proxy: name, forS }, `proxy set aside: ${reason}`);
        this.#tellProxies();
      },
      onBack: ({ name }) => {
        options.log.info({ proxy: name }, 'proxy in use again');
        this.#tellProxies();
      },
    });
    this.#outbox = new Outbox({
      master: () => this.#link.master,
      onRoom: () => this.#fill(),
      log: options.log,
    });
    const onKilled = (why: string) => options.log.warn(`rules: a page ${why}; it is counted`);
    this.#rules = new CrawlRules({ onKilled, page: options.page });
    this.#link = new MasterLink(options, {
      onJoined: (master) => this.#joined(master),
      onPush: (push) => this.#take(push),
      onLost: () => this.#stop(),
    });
  }

  /** Works until `drain`, or until the master says that all is done.
   *  @throws AuthError · ConfigError, also for a page function that cannot be loaded */
  async run(): Promise<void> {
    try {
      const fault = await this.#rules.load();
      if (fault !== undefined) throw new ConfigError(`--page ${this.#options.page}: ${fault}`);
      await this.#link.run();
    } finally {
      this.#state = 'stopped';
      clearInterval(this.#extender);
      clearInterval(this.#creditTimer);
      clearInterval(this.#stateTimer);
      this.#fetchLog?.close();
      await Promise.all([this.#fetcher.close(), this.#rules.close()]);
    }
  }

  /** Takes no more tasks, gives the queued ones back, finishes what is being fetched, leaves.
   *  Idempotent. */
  async drain(): Promise<void> {
    if (this.#state !== 'working') return;
    this.#state = 'draining';
    if (this.#fetching.size > 0) {
      this.#options.log.info(
        { fetching: this.#fetching.size },
        'leaving when the current fetches are done; a second signal ends at once',
      );
    }
    const { master } = this.#link;
    master?.notify('task.credit', { count: 0, slots: 0 });
    for (const task of this.#unanswered) this.#fetching.get(task)?.abort();
    for (const { task, lease } of [...this.#queued, ...this.#unanswered]) {
      master?.request('task.release', { task, lease }).catch(() => {});
    }
    this.#queued = [];
    await this.#idle();
    await this.#link.close();
  }

  /** The process stood still for so long. Fetches that would fail for that are given back: the
   *  limits of time and the hosts did not stand still, and it is no fault of theirs. */
  resumed(stoppedMs: number): void {
    if (stoppedMs < stoppedMsMax) return;
    for (const [{ task, lease }, abort] of this.#fetching) {
      abort.abort();
      this.#link.master?.request('task.release', { task, lease }).catch(() => {});
    }
  }

  #joined(master: MasterClient): void {
    // A slave that leaves reports its results first.
    this.#outbox.tellAll(master);
    if (this.#state !== 'working') return;
    // A crawl of which a whole session said nothing ended while we were away.
    for (const [id, crawl] of this.#crawls) {
      if (crawl.isStale) this.#forget(id);
      crawl.isStale = true;
    }
    clearInterval(this.#extender);
    this.#extender = setInterval(() => this.#extend(), master.hello.leaseMs / 4);
    // A master that does not know the verb takes no notice. [S-6]
    master.notify('slave.can', { what: ['rules', 'post', 'archive'] });
    this.#keepCredit(master);
    this.#keepState(master);
    if (this.#proxies.troubles(performance.now()).length > 0) this.#tellProxies();
  }

  /** Says how many leases it takes, and again whenever that changes. */
  #keepCredit(master: MasterClient): void {
    const { slots, takes } = this.#options;
    const credit = new CreditWindow(slots);
    this.#credit = credit;
    const trials = Math.min(slots * trialsPerSlot, trialsMax);
    // Beside them, what the slots and the way to the master want.
    const countOf = (wanted: number) => Math.min(wanted + trials, limits.creditMax);
    const tell = () => master.notify('task.credit', { count, slots, trials, takes });
    let count = countOf(credit.count);
    let looks = 0;
    let lookedAt = performance.now();
    const look = () => {
      const now = performance.now();
      const next = countOf(credit.next(Math.max(now - lookedAt, 1)));
      lookedAt = now;
      if (looks++ % looksPerTrip === 0) void this.#measureTrip(master, credit);
      if (next === count || this.#state !== 'working') return;
      count = next;
      tell();
    };
    clearInterval(this.#creditTimer);
    this.#creditTimer = setInterval(look, creditEveryMs);
    tell();
    look();
  }

  /** Says how it is. A master that does not know the verb takes no notice. [S-6] */
  #keepState(master: MasterClient): void {
    const tell = () =>
      master.notify('slave.state', {
        version,
        memoryBytes: process.memoryUsage.rss(),
        fetching: Math.min(this.#fetching.size, limits.creditMax),
      });
    clearInterval(this.#stateTimer);
    this.#stateTimer = setInterval(tell, stateEveryMs);
    tell();
  }

  async #measureTrip(master: MasterClient, credit: CreditWindow): Promise<void> {
    const askedAt = performance.now();
    try {
      await master.request('ping', {});
      credit.measured(performance.now() - askedAt);
    } catch {
      // The next connection may have another round-trip time.
    }
  }

  /** All of them each time, so that one message lost is made good by the next. */
  #tellProxies(): void {
    const proxies = this.#proxies.troubles(performance.now()).slice(0, limits.proxiesMax);
    this.#link.master?.notify('proxy.state', { proxies });
  }

  #take(push: Push): void {
    switch (push.verb) {
      case 'crawl.spec':
        this.#learn(push.crawl, fetchSpecSchema.parse(push.fetch));
        return;
      case 'crawl.ended':
        this.#forget(push.crawl);
        return;
      case 'task.push':
        if (this.#state === 'working') this.#queue(push.tasks);
        this.#fill();
        return;
      case 'task.cancel':
        this.#cancel(new Set(push.leases));
        return;
      case 'drain':
        void this.drain();
        return;
      case 'ping':
      case 'error': // the connection ends by it
        return;
      default:
        push satisfies never; // a newer master may say more
    }
  }

  /** The first spec of a crawl, or another one: it is that of all tasks that are not begun. */
  #learn(id: number, spec: FetchSpec): void {
    const known = this.#crawls.get(id)?.identities;
    const identities = new Identities(spec, this.#proxies, randomInt(2 ** 16), known);
    this.#crawls.set(id, { spec, identities, isStale: false });
    this.#rules.learn(id, spec);
  }

  #forget(crawl: number): void {
    this.#crawls.delete(crawl);
    this.#rules.forget(crawl);
  }

  #queue(tasks: readonly TaskPush[]): void {
    const urgent = tasks.filter(isUrgent);
    if (urgent.length > 0) this.#queued = [...urgent, ...this.#queued];
    this.#queued.push(...tasks.filter((task) => !isUrgent(task)));
  }

  #fill(): void {
    while (!this.#outbox.isFull && !this.#rules.isFull && this.#state === 'working') {
      const hasSlot = this.#fetching.size - this.#unanswered.size < this.#options.slots;
      const [task] = this.#queued;
      if (task === undefined || !(hasSlot || isUrgent(task))) break;
      this.#queued.shift();
      void this.#work(task);
    }
    const underWay = this.#fetching.size + this.#evaluating.size;
    if (underWay === 0 && this.#outbox.isEmpty) this.#onIdle();
  }

  async #work(task: TaskPush): Promise<void> {
    const crawl = this.#crawls.get(task.crawl);
    if (crawl === undefined) return; // the master tells it before the first task
    const { page: pageFile } = this.#options;
    const { items, follow: rules } = crawl.spec;
    const hasRules = items !== undefined || rules !== undefined;
    const kind = kindOf(task, pageFile ? 'function' : hasRules ? 'rules' : undefined);
    if (kind === undefined) {
      this.#outbox.tell(ofFailure(task, unknownKind));
      return;
    }
    const abort = this.#spareAborts.pop() ?? new AbortController();
    this.#fetching.set(task, abort);
    const begunAt = performance.now();
    const { signal } = abort;
    const { lease, open, last, private: blocks, trial, request } = task;
    const { etag, lastModified, validatedUrl } = task;
    if (trial !== undefined) this.#unanswered.add(task);
    const validators = etag || lastModified ? { etag, lastModified } : undefined;
    let isTimed = task.timed === true;
    let recording: Recording | undefined;
    const onAnswer = () => void this.#unanswered.delete(task);
    const onStart = () => {
      // A redirect may lead to another unknown host.
      if (trial !== undefined && !signal.aborted) this.#unanswered.add(task);
      if (!isTimed) return;
      // When it has left. Said before, it could leave late, and the next one came too early.
      process.nextTick(() => this.#link.master?.notify('task.started', { lease }));
    };
    const follow = async (url: string): Promise<Turn> => {
      const { state, timed = false } = await this.#askTurn(lease, url);
      if (state === 'lost') abort.abort();
      isTimed = timed;
      return state === 'go' || state === 'later' ? state : 'leave';
    };
    try {
      const { spec, identities } = crawl;
      const outcome = await identities.through(async (identity) => {
        // A proxy's delay says nothing about the host.
        const isFirst = trial === 'first' && identity.proxy === undefined;
        const known = { validators, validatedUrl, isFirst, last, request };
        recording = recordingOf(spec);
        const hears = { onStart, onAnswer, follow, recording };
        const context = { ...identity, open, blocks, ...known, ...hears };
        return kind.outcome(await this.#fetcher.fetch(kind.plan, task.url, spec, signal, context));
      }, signal);
      this.#fetchLog?.ended(task, outcome, performance.now() - begunAt);
      const held = { task: task.task, lease };
      const page = outcome.ok ? kind.rulePage?.(outcome) : undefined;
      if (outcome.ok && page !== undefined) {
        void this.#evaluate(task, page, (made) =>
          archiveWith(kind.statements(held, outcome, made), recording),
        );
        return;
      }
      const statements = outcome.ok ? kind.statements(held, outcome) : [ofFailure(held, outcome)];
      const isPutOff = !outcome.ok && outcome.isPutOff === true;
      const all = isPutOff ? statements : archiveWith(statements, recording);
      for (const statement of all) this.#outbox.tell(statement);
    } catch (error) {
      if (abort.signal.aborted) this.#fetchLog?.aborted(task, performance.now() - begunAt);
      else {
        this.#options.log.error({ url: task.url }, `fetch: ${messageOf(error)}`);
        const why = { kind: 'protocol', message: 'internal error' } as const;
        this.#outbox.tell(ofFailure(task, { ok: false, error: why }));
      }
    } finally {
      this.#fetching.delete(task);
      this.#unanswered.delete(task);
      if (task.trial === undefined) this.#credit.ended();
      if (!abort.signal.aborted) this.#spareAborts.push(abort);
      this.#fill();
    }
  }

  /** Has the rules of its crawl evaluated on a page, then reports it. Its slot is free. */
  async #evaluate(
    task: TaskPush,
    { input, fault }: RulePage,
    statements: (made: Evaluated) => Statement[],
  ): Promise<void> {
    const { crawl, url, depth } = task;
    this.#evaluating.add(task);
    const made = await this.#rules.evaluate(crawl, { ...input, url, depth }, fault);
    this.#evaluating.delete(task);
    for (const statement of statements(made)) this.#outbox.tell(statement);
    this.#fill();
  }

  /** Asks whether a redirect may be followed; answered when it is its turn. */
  async #askTurn(lease: number, url: string): Promise<Replies['task.hop']> {
    try {
      return (await this.#link.master?.request('task.hop', { lease, url })) ?? { state: 'lost' };
    } catch (error) {
      if (error instanceof CommandError) throw error;
      return { state: 'lost' };
    }
  }

  #cancel(leases: ReadonlySet<number>): void {
    this.#queued = this.#queued.filter(({ lease }) => !leases.has(lease));
    for (const [{ lease }, abort] of this.#fetching) if (leases.has(lease)) abort.abort();
  }

  /** The master is gone, and with it all leases. */
  #stop(): void {
    clearInterval(this.#creditTimer);
    clearInterval(this.#stateTimer);
    this.#queued = [];
    for (const abort of this.#fetching.values()) abort.abort();
  }

  /** Asks for more time for everything that is still to be done. */
  #extend(): void {
    const all = [...this.#queued, ...this.#fetching.keys(), ...this.#evaluating];
    const leases = all.map(({ lease }) => lease);
    if (leases.length === 0) return;
    this.#link.master?.request('task.extend', { leases }).then(
      ({ lost }) => this.#cancel(new Set(lost)),
      () => {},
    );
  }

  /** Resolves when nothing is fetched or unacknowledged, or after the drain's limit. */
  #idle(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, drainMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#fill();
    });
  }
}

/** Undefined: the crawl has no archive. */
function recordingOf({ archive, archiveBytes = archiveBytesDefault }: FetchSpec) {
  return archive === undefined ? undefined : new Recording(archiveBytes);
}

/** It does not wait for a slot: other tasks wait for it, or it is a trial and holds none. */
function isUrgent(task: TaskPush): boolean {
  return task.trial !== undefined || kindOf(task)?.isUrgent === true;
}

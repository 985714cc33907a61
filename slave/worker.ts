/**
 * One slave process: takes tasks from the master, fetches them in its slots, reports.
 *
 *     queued --slot free--> fetching --> reported --acknowledged--> forgotten
 *        |                      |            ^
 *        +-- cancelled ---------+            +-- sent again after a lost connection
 *
 * The slave keeps a result until the master has it on disk. When the connection is lost it drops
 * all other tasks, also in the middle of a fetch: the master gives them to another slave, and a
 * host must not be asked by both.
 */
import { randomInt } from 'node:crypto';
import type { Joining } from '../shared/cli.ts';
import type { MasterClient } from '../shared/client.ts';
import { type FetchSpec, fetchSpecSchema } from '../shared/crawl.ts';
import { ConfigError, messageOf } from '../shared/errors.ts';
import { rarely } from '../shared/flags.ts';
import type { Logger } from '../shared/log.ts';
import { limits, type Push, type TaskPush } from '../shared/protocol.ts';
import { version } from '../shared/version.ts';
import { Abilities } from './abilities.ts';
import { AfterFetch } from './after-fetch.ts';
import { BodyRoom } from './body-room.ts';
import { Browsers } from './browser/browsers.ts';
import type { BrowserSettings } from './browser/find.ts';
import { CreditTeller } from './credit-teller.ts';
import type { Executor } from './exec/executor.ts';
import { type FetchContext, Fetcher } from './fetch/fetcher.ts';
import { Identities, type Identity } from './fetch/identities.ts';
import { slaveAddresses } from './fetch/name-outage.ts';
import type { FailedOutcome } from './fetch/outcome.ts';
import { Proxies } from './fetch/proxies.ts';
import { type Recording, recordingOf } from './fetch/recording.ts';
import { FetchLog } from './fetch-log.ts';
import { isUrgent, kindOf } from './kinds/kinds.ts';
import { Lacks } from './lack.ts';
import { Logins } from './logins.ts';
import { MasterLink } from './master-link.ts';
import { Outbox } from './outbox.ts';
import { residentBytes } from './resident-bytes.ts';
import { CrawlRules } from './rules/crawl-rules.ts';
import { Slots, socketsOf } from './slots.ts';
import { archiveWith, internalError, ofFailure, unable, unknownKind } from './statements.ts';
import { giveBack, Trains } from './trains.ts';
import { Turns } from './turns.ts';
import { WaitingTasks } from './waiting-tasks.ts';

type WorkerOptions = {
  readonly master: Joining;
  readonly name: string;
  readonly slots: number;
  readonly takes: 'all' | 'probes';
  readonly joinTimeoutMs: number;
  /** File of a page function, absolute; undefined: none. */
  readonly page: string | undefined;
  /** Undefined: no pages are rendered. */
  readonly browser: BrowserSettings | undefined;
  /** Its commands; undefined: it takes none. */
  readonly executor: Executor | undefined;
  readonly log: Logger;
};

type KnownCrawl = {
  readonly spec: FetchSpec;
  readonly identities: Identities;
  /** Undefined: it needs no login. */
  readonly logins: Logins | undefined;
  isStale: boolean;
};

/** How long a drain waits for fetches under way. */
const drainMs = 35_000;
/** A fetch goes on after a shorter stop of the process. */
const stoppedMsMax = 1_000;
/** How often the slave says how it is. */
const stateEveryMs = 10_000;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #link: MasterLink;
  readonly #fetcher: Fetcher;
  readonly #fetchLog: FetchLog | undefined;
  readonly #proxies: Proxies;
  /** Specs of crawls from the master. `isStale`: of an earlier session. */
  readonly #crawls = new Map<number, KnownCrawl>();
  readonly #queued = new WaitingTasks();
  readonly #trains: Trains;
  readonly #fetching = new Map<TaskPush, AbortController>();
  readonly #slots: Slots;
  readonly #bodies: BodyRoom;
  /** A controller serves fetch after fetch until it has aborted one: they are slow to make. */
  readonly #spareAborts: AbortController[] = [];
  readonly #outbox: Outbox;
  readonly #rules: CrawlRules;
  /** Fetched, and out of their slots: their pages wait for the browser, and for the rules. */
  readonly #after: AfterFetch;
  readonly #addresses = slaveAddresses();
  #browsers: Browsers | undefined;
  #state: 'working' | 'draining' | 'stopped' = 'working';
  #onIdle: () => void = () => {};
  #extender: NodeJS.Timeout | undefined;
  readonly #credit: CreditTeller;
  #stateTimer: NodeJS.Timeout | undefined;
  readonly #abilities: Abilities;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#abilities = new Abilities(options.log);
    this.#credit = new CreditTeller(options, () => this.#state === 'working');
    this.#slots = new Slots(options.slots, (lent) => {
      this.#credit.lent(lent);
      this.#fill();
    });
    this.#fetchLog = FetchLog.of(options.log);
    const lacks = new Lacks(options.log);
    this.#fetcher = new Fetcher({ ...socketsOf(options.slots), addresses: this.#addresses, lacks });
    this.#bodies = new BodyRoom(options.slots, () => this.#outbox.isFull);
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
    this.#trains = new Trains({
      begin: (task) => {
        this.#queued.addFirst(task);
        this.#fill();
      },
      master: () => this.#link.master,
    });
    this.#outbox = new Outbox({
      master: () => this.#link.master,
      onRoom: () => this.#fill(),
      isAlone: () => this.#fetching.size + this.#after.size <= 1,
      holdMs: (lease) => this.#trains.holdMs(lease),
      log: options.log,
    });
    const onKilled = (why: string) => options.log.warn(`rules: a page ${why}; it is counted`);
    const onMissing = (crawl: string, why: string) =>
      options.log.warn({ crawl }, `gets no pages of this crawl: article ${why}`);
    this.#rules = new CrawlRules({ onKilled, onMissing, page: options.page, lacks });
    this.#after = new AfterFetch({
      ...{ rules: this.#rules, fetcher: this.#fetcher, outbox: this.#outbox },
      master: () => this.#link.master,
      browsers: () => this.#browsers,
      onDone: () => this.#fill(),
    });
    this.#link = new MasterLink(options, {
      onJoined: (master) => {
        options.executor?.joined(master);
        this.#joined(master);
      },
      onPush: (push) => void (options.executor?.heard(push) || this.#take(push)),
      onLost: () => {
        options.executor?.lost();
        this.#stop();
      },
    });
  }

  /** Works until `drain`, or until the master says that all is done.
   *  @throws AuthError · ConfigError, also for a page function that cannot be loaded */
  async run(): Promise<void> {
    try {
      const fault = await this.#rules.load();
      if (fault !== undefined) throw new ConfigError(`--page ${this.#options.page}: ${fault}`);
      const { browser } = this.#options;
      if (browser !== undefined) {
        this.#browsers = await Browsers.open(browser, {
          ...{ addresses: this.#addresses, slots: this.#options.slots, log: this.#options.log },
          onAble: () => this.#tellAbilities(this.#link.master),
        });
      }
      await this.#link.run();
    } finally {
      this.#state = 'stopped';
      clearInterval(this.#extender);
      this.#credit.close();
      clearInterval(this.#stateTimer);
      this.#fetchLog?.close();
      this.#options.executor?.close();
      await Promise.all([this.#fetcher.close(), this.#rules.close(), this.#browsers?.close()]);
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
    const { trials } = this.#slots;
    for (const task of trials) this.#fetching.get(task)?.abort();
    this.#trains.giveBack();
    giveBack(master, [...this.#queued.clear(), ...trials]);
    await Promise.all([this.#idle(), this.#options.executor?.drain()]);
    await this.#link.close();
  }

  /** The process stood still for so long. Fetches that would fail for that are given back: the
   *  limits of time and the hosts did not stand still, and it is no fault of theirs. */
  resumed(stoppedMs: number): void {
    if (stoppedMs < stoppedMsMax) return;
    this.#after.giveBack();
    this.#trains.giveBack();
    for (const abort of this.#fetching.values()) abort.abort();
    giveBack(this.#link.master, this.#fetching.keys());
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
    this.#tellAbilities(master);
    this.#credit.tell(master);
    this.#keepState(master);
    if (this.#proxies.troubles(performance.now()).length > 0) this.#tellProxies();
  }

  #tellAbilities(master: MasterClient | undefined): void {
    if (master !== undefined) this.#abilities.tell(master, this.#browsers?.isAble === true);
  }

  /** Says how it is. A master that does not know the verb takes no notice. [S-6] */
  #keepState(master: MasterClient): void {
    const tell = () =>
      master.notify('slave.state', {
        version,
        memoryBytes: residentBytes(),
        fetching: Math.min(this.#fetching.size, limits.creditMax),
      });
    clearInterval(this.#stateTimer);
    this.#stateTimer = setInterval(tell, stateEveryMs);
    tell();
  }

  /** All of them each time, so that one message lost is made good by the next. */
  #tellProxies(): void {
    const proxies = this.#proxies.troubles(performance.now()).slice(0, limits.proxiesMax);
    this.#link.master?.notify('proxy.state', { proxies });
  }

  #take(push: Push): void {
    switch (push.verb) {
      case 'crawl.spec':
        this.#learn(push.crawl, fetchSpecSchema.parse(push.fetch, rarely), push.round, push.name);
        return;
      case 'crawl.ended':
        this.#forget(push.crawl);
        return;
      case 'task.push':
        if (this.#state === 'working') this.#queued.add(this.#trains.take(push.tasks));
        // They were on their way when it began to leave: their hosts would wait until it has left.
        else giveBack(this.#link.master, push.tasks);
        this.#fill();
        return;
      case 'task.cancel':
        this.#cancel(new Set(push.leases));
        return;
      case 'task.recall':
        this.#trains.recall(new Set(push.leases));
        giveBack(this.#link.master, this.#queued.recall(new Set(push.leases)));
        return;
      case 'drain':
        void this.drain();
        return;
      default: // `ping`; `error`, by which the connection ends; what a newer master says
        return;
    }
  }

  /** The first spec of a crawl, or another one: it is that of all tasks that are not begun. */
  #learn(id: number, spec: FetchSpec, round = 0, name = ''): void {
    const known = this.#crawls.get(id);
    const turn = randomInt(2 ** 16);
    const identities = new Identities(spec, this.#proxies, turn, known?.identities);
    const logins = this.#loginsOf(id, spec, round, known?.logins);
    this.#crawls.set(id, { spec, identities, logins, isStale: false });
    this.#rules.learn(id, spec, name);
  }

  #loginsOf(crawl: number, { login }: FetchSpec, round: number, before?: Logins) {
    if (login === undefined) return undefined;
    const onFailed = (why: string) =>
      this.#link.master?.notify('login.failed', { crawl, round, why });
    const parts = { fetcher: this.#fetcher, rules: this.#rules };
    return new Logins({ login, round, onFailed, ...parts }, before);
  }

  #forget(crawl: number): void {
    this.#crawls.delete(crawl);
    this.#rules.forget(crawl);
  }

  #fill(): void {
    this.#bodies.look();
    while (!this.#outbox.isFull && !this.#after.isFull && this.#state === 'working') {
      const task = this.#queued.first;
      if (task === undefined) break;
      if (!this.#slots.isFree(this.#fetching.size) && !isUrgent(task)) break;
      this.#queued.takeFirst();
      if (task.train === undefined) void this.#work(task);
      else void this.#work(task).then((isFine) => this.#trains.ended(task, isFine));
    }
    if (this.#fetching.size + this.#after.size === 0 && this.#outbox.isEmpty) this.#onIdle();
  }

  /** Returns whether the host gave a definite answer. */
  async #work(task: TaskPush): Promise<boolean> {
    const crawl = this.#crawls.get(task.crawl);
    if (crawl === undefined) return false; // the master tells it before the first task
    const { items, follow: rules, render } = crawl.spec;
    const isRendered = render !== undefined;
    const way = this.#options.page ? 'function' : (items ?? rules) ? 'rules' : undefined;
    const kind = kindOf(task, way, isRendered);
    if (kind === undefined) return this.#refuse(task, unknownKind);
    const isUnable = isRendered && this.#browsers?.isAble !== true;
    const putOff = isUnable ? unable : kind.putOff?.(crawl.spec);
    if (putOff !== undefined) return this.#refuse(task, putOff);
    const abort = this.#spareAborts.pop() ?? new AbortController();
    this.#fetching.set(task, abort);
    const begunAt = performance.now();
    const { signal } = abort;
    const { lease, open, last, private: blocks, trial, request } = task;
    const { etag, lastModified, validatedUrl, tellMs } = task;
    this.#slots.begins(task);
    const seat = this.#bodies.enter();
    const validators = etag || lastModified ? { etag, lastModified } : undefined;
    const isTimed = task.timed === true;
    const master = () => this.#link.master;
    const onLeft = () => this.#trains.left(task);
    const onAsk = () => this.#trains.interrupted(task);
    const onLost = () => abort.abort();
    const turns = new Turns({ lease, isTimed, tellMs, master, onLost, onLeft, onAsk });
    let recording: Recording | undefined;
    let used: Identity | undefined;
    const onAnswer = () => this.#slots.answered(task);
    const onStart = () => {
      // A proxy gets no more connections than there are slots.
      if (!signal.aborted) this.#slots.asks(task, used?.proxy === undefined);
      turns.started();
    };
    try {
      const { spec, identities, logins } = crawl;
      const fetched = await identities.through(async (identity) => {
        used = identity;
        if (logins !== undefined && kind.needsLogin) {
          const url = task.url.replace(/#.*/, '');
          const turn = () => turns.follow(url);
          const hears = { onStart, onAnswer, turn };
          const { isTimed } = turns;
          const at = { ...{ url, spec, identity, signal, open, blocks }, isTimed, ...hears };
          const failed = await logins.enter(at);
          if (failed !== undefined) return failed;
        }
        // A proxy's delay says nothing about the host.
        const isFirst = trial === 'first' && identity.proxy === undefined;
        recording = recordingOf(spec, kind.archivedBytes?.(spec));
        // Named one by one: to spread them takes V8 a hundred times as long.
        const context: FetchContext = {
          userAgent: identity.userAgent,
          proxy: identity.proxy,
          cookies: identity.cookies,
          open,
          blocks,
          validators,
          validatedUrl,
          isFirst,
          last,
          request,
          onStart,
          onAnswer,
          follow: turns.follow,
          attempt: task.attempt,
          recording,
          seat,
        };
        return kind.outcome(await this.#fetcher.fetch(kind.plan, task.url, spec, signal, context));
      }, signal);
      turns.tell();
      const { log } = this.#options;
      const completed = fetched.ok ? await kind.complete?.(fetched, spec, log) : undefined;
      signal.throwIfAborted();
      const outcome = completed ?? fetched;
      this.#fetchLog?.ended(task, outcome, performance.now() - begunAt);
      const held = { task: task.task, lease };
      if (outcome.ok && used !== undefined) {
        const answered = { task, kind, found: outcome, spec, identity: used, recording };
        if (this.#after.take(answered)) return true;
      }
      const statements = outcome.ok ? kind.statements(held, outcome) : [ofFailure(held, outcome)];
      const isPutOff = !outcome.ok && outcome.isPutOff === true;
      const all = isPutOff ? statements : archiveWith(statements, recording);
      for (const statement of all) this.#outbox.tell(statement);
      if (!outcome.ok) giveBack(master(), this.#queued.takeRefused(task, outcome));
      return outcome.ok;
    } catch (error) {
      if (abort.signal.aborted) this.#fetchLog?.aborted(task, performance.now() - begunAt);
      else {
        this.#options.log.error({ url: task.url }, `fetch: ${messageOf(error)}`);
        return this.#refuse(task, internalError);
      }
      return false;
    } finally {
      turns.tell();
      this.#fetching.delete(task);
      this.#slots.answered(task);
      seat.leave();
      if (task.trial === undefined) this.#credit.ended();
      if (!abort.signal.aborted) this.#spareAborts.push(abort);
      this.#fill();
    }
  }

  #refuse(task: TaskPush, why: FailedOutcome): false {
    this.#outbox.tell(ofFailure(task, why));
    return false;
  }

  #cancel(leases: ReadonlySet<number>): void {
    this.#queued.cancel(leases);
    this.#trains.cancel(leases);
    for (const [{ lease }, abort] of this.#fetching) if (leases.has(lease)) abort.abort();
    this.#after.cancel(leases);
  }

  /** The master is gone, and with it all leases. */
  #stop(): void {
    this.#credit.close();
    clearInterval(this.#stateTimer);
    this.#queued.clear();
    this.#trains.clear();
    for (const abort of this.#fetching.values()) abort.abort();
    this.#after.stop();
  }

  /** Asks for more time for everything that is still to be done. */
  #extend(): void {
    const waiting = [...this.#queued, ...this.#trains.waiting];
    const all = [...waiting, ...this.#fetching.keys(), ...this.#after.tasks];
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

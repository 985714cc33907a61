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
import type { Joining } from '../shared/cli.ts';
import type { MasterClient } from '../shared/client.ts';
import { ConfigError } from '../shared/errors.ts';
import type { Logger } from '../shared/log.ts';
import { limits, type Push } from '../shared/protocol.ts';
import { version } from '../shared/version.ts';
import { Abilities } from './abilities.ts';
import { AfterFetch } from './after-fetch.ts';
import { BodyRoom } from './body-room.ts';
import { Browsers } from './browser/browsers.ts';
import type { BrowserSettings } from './browser/find.ts';
import { CreditTeller } from './credit-teller.ts';
import type { Executor } from './exec/executor.ts';
import { Fetcher } from './fetch/fetcher.ts';
import { slaveAddresses } from './fetch/name-outage.ts';
import { Proxies } from './fetch/proxies.ts';
import { Fetches } from './fetches.ts';
import { isUrgent, sharedFolders } from './kinds/kinds.ts';
import { KnownCrawls } from './known-crawls.ts';
import { Lacks } from './lack.ts';
import { MasterLink } from './master-link.ts';
import { Outbox } from './outbox.ts';
import { residentBytes } from './resident-bytes.ts';
import { CrawlRules } from './rules/crawl-rules.ts';
import { Slots, socketsOf } from './slots.ts';
import { giveBack, Trains } from './trains.ts';
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
  readonly #proxies: Proxies;
  readonly #crawls: KnownCrawls;
  readonly #queued = new WaitingTasks();
  readonly #trains: Trains;
  readonly #fetches: Fetches;
  readonly #slots: Slots;
  readonly #bodies: BodyRoom;
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
      onForgotten: () => this.#tellProxies(),
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
      isAlone: () => this.#fetches.size + this.#after.size <= 1,
      holdMs: (lease) => this.#trains.holdMs(lease),
      log: options.log,
    });
    const onKilled = (why: string) => options.log.warn(`rules: a page ${why}; it is counted`);
    const onMissing = (crawl: string, why: string) =>
      options.log.warn({ crawl }, `gets no pages of this crawl: article ${why}`);
    this.#rules = new CrawlRules({ onKilled, onMissing, page: options.page, lacks });
    const parts = {
      fetcher: this.#fetcher,
      rules: this.#rules,
      outbox: this.#outbox,
      master: () => this.#link.master,
    };
    this.#after = new AfterFetch({
      ...parts,
      browsers: () => this.#browsers,
      onDone: () => this.#fill(),
    });
    this.#crawls = new KnownCrawls({ ...parts, proxies: this.#proxies, folders: sharedFolders });
    this.#fetches = new Fetches({
      ...parts,
      crawls: this.#crawls,
      slots: this.#slots,
      bodies: this.#bodies,
      trains: this.#trains,
      after: this.#after,
      canRender: () => this.#browsers?.isAble === true,
      hasPageFunction: options.page !== undefined,
      onFailed: (task, outcome) =>
        giveBack(this.#link.master, this.#queued.takeRefused(task, outcome)),
      onEnded: (task) => {
        if (task.trial === undefined) this.#credit.ended();
        this.#fill();
      },
      log: options.log,
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
          addresses: this.#addresses,
          slots: this.#options.slots,
          log: this.#options.log,
          onAble: () => this.#tellAbilities(this.#link.master),
        });
      }
      await this.#link.run();
    } finally {
      this.#state = 'stopped';
      clearInterval(this.#extender);
      this.#credit.close();
      clearInterval(this.#stateTimer);
      this.#fetches.close();
      this.#options.executor?.close();
      await Promise.all([this.#fetcher.close(), this.#rules.close(), this.#browsers?.close()]);
    }
  }

  /** Takes no more tasks, gives the queued ones back, finishes what is being fetched, leaves.
   *  Idempotent. */
  async drain(): Promise<void> {
    if (this.#state !== 'working') return;
    this.#state = 'draining';
    if (this.#fetches.size > 0) {
      this.#options.log.info(
        { fetching: this.#fetches.size },
        'leaving when the current fetches are done; a second signal ends at once',
      );
    }
    const { master } = this.#link;
    master?.notify('task.credit', { count: 0, slots: 0 });
    const { trials } = this.#slots;
    this.#fetches.abort((task) => trials.includes(task));
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
    this.#fetches.abort();
    giveBack(this.#link.master, this.#fetches.tasks);
  }

  #joined(master: MasterClient): void {
    // A slave that leaves reports its results first.
    this.#outbox.tellAll(master);
    if (this.#state !== 'working') return;
    this.#crawls.sessionBegins();
    clearInterval(this.#extender);
    this.#extender = setInterval(() => this.#extend(), master.hello.leaseMs / 4);
    // A master that does not know the verb takes no notice. [S-6]
    this.#tellAbilities(master);
    this.#credit.begin(master);
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
        fetching: Math.min(this.#fetches.size, limits.creditMax),
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
        this.#crawls.learn(push);
        return;
      case 'crawl.ended':
        this.#crawls.forget(push.crawl);
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

  #fill(): void {
    this.#bodies.look();
    while (!this.#outbox.isFull && !this.#after.isFull && this.#state === 'working') {
      const task = this.#queued.first;
      if (task === undefined) break;
      if (!this.#slots.isFree(this.#fetches.size) && !isUrgent(task)) break;
      this.#queued.takeFirst();
      const end = this.#fetches.begin(task);
      if (task.train !== undefined) void end.then((isFine) => this.#trains.ended(task, isFine));
    }
    if (this.#fetches.size + this.#after.size === 0 && this.#outbox.isEmpty) this.#onIdle();
  }

  #cancel(leases: ReadonlySet<number>): void {
    this.#queued.cancel(leases);
    this.#trains.cancel(leases);
    this.#fetches.abort(({ lease }) => leases.has(lease));
    this.#after.cancel(leases);
  }

  /** The master is gone, and with it all leases. */
  #stop(): void {
    this.#credit.close();
    clearInterval(this.#stateTimer);
    this.#queued.clear();
    this.#trains.clear();
    this.#fetches.abort();
    this.#after.stop();
  }

  /** Asks for more time for everything that is still to be done. */
  #extend(): void {
    const waiting = [...this.#queued, ...this.#trains.waiting];
    const all = [...waiting, ...this.#fetches.tasks, ...this.#after.tasks];
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

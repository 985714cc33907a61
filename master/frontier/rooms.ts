/**
 * The rooms of the frontier, made, joined, and ended. For its owner: everybody else sees
 * `Frontier`. Rooms that have something to say tell a listener: politeness and dispatcher tell
 * `Reports`, the sinks tell `LifeCycle`, and all tell the listeners of `FrontierEvents`.
 */
import { clockMs } from '../machine/clock.ts';
import { Admission } from './admission.ts';
import { Buried } from './commit/buried.ts';
import { EarlierPages } from './commit/earlier-pages.ts';
import { Outcomes } from './commit/outcomes.ts';
import { Pipeline } from './commit/pipeline.ts';
import { Reports } from './commit/reports.ts';
import { Seeding } from './commit/seeding.ts';
import { Crawls, hasCrawls } from './crawl/crawls.ts';
import { CrawlList } from './crawl-list.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Fingerprinter } from './filter/fingerprint.ts';
import { RecentTable } from './filter/recent.ts';
import type { FrontierOptions } from './frontier-options.ts';
import { HostList } from './host-list.ts';
import { LifeCycle } from './life-cycle.ts';
import { Feedback } from './politeness/feedback.ts';
import { Grouping } from './politeness/grouping.ts';
import { HostSettings } from './politeness/host-settings.ts';
import { Politeness } from './politeness/politeness.ts';
import { HostRecords } from './politeness/records.ts';
import { StoredHosts } from './politeness/stored-hosts.ts';
import { RobotsBudget } from './robots/budget.ts';
import { TaskNames } from './tasks/task-names.ts';

export class FrontierRooms {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly dispatcher: Dispatcher;
  readonly lifeCycle: LifeCycle;
  readonly pipeline: Pipeline;
  readonly reports: Reports;
  readonly admission: Admission;
  readonly buried: Buried;
  readonly list: CrawlList;
  readonly hosts: HostList;
  readonly #options: FrontierOptions;

  constructor(options: FrontierOptions) {
    const { store, commits, results, events, hostSecret } = options;
    this.#options = options;
    const hashers = {
      fingerprinter: new Fingerprinter(),
      /** For hosts, too, which are hashed in the middle of hashing links. */
      nested: new Fingerprinter(),
    };
    const records = new HostRecords(store, commits);
    const settings = new HostSettings(store, commits);
    const grouping = new Grouping(options.grouping);
    const politeness = new Politeness({
      hosts: new StoredHosts(records, settings, grouping, hostSecret, hashers.nested),
      robotsBudget: new RobotsBudget(options.robotsBytesMax),
      askedUntil: hasCrawls(store) ? clockMs() : Number.NEGATIVE_INFINITY,
    });
    const recent = new RecentTable(options.recentEntries);
    const crawls = new Crawls({ ...options, politeness, recent });
    const names = new TaskNames(hostSecret, hashers.nested);
    const dispatcher = new Dispatcher({ ...options, crawls, politeness, names, records });
    const lifeCycle = new LifeCycle({ crawls, dispatcher, commits, results, events });
    const earlier = new EarlierPages(store);
    const pipeline = new Pipeline({
      ...{ commits, crawls, dispatcher, events, hashers, lifeCycle, politeness, results },
      memory: options.memory,
      outcomes: new Outcomes(earlier),
      seeding: new Seeding(politeness, records, recent),
    });
    const feedback = new Feedback(politeness, records, events, options.trace);
    this.crawls = crawls;
    this.politeness = politeness;
    this.dispatcher = dispatcher;
    this.lifeCycle = lifeCycle;
    this.pipeline = pipeline;
    this.reports = new Reports({
      ...{ crawls, dispatcher, politeness, feedback, pipeline },
      trace: options.trace,
    });
    this.admission = new Admission({ ...options, crawls, dispatcher, pipeline });
    this.buried = new Buried(store, pipeline);
    this.list = new CrawlList({ crawls, dispatcher, earlier, buried: this.buried });
    const rooms = { store, crawls, politeness, dispatcher, records, settings };
    this.hosts = new HostList({ ...rooms, buried: this.buried });
    politeness.tell(this.reports);
    dispatcher.tell(this.reports);
    // A crash may have come in the middle of it.
    for (const crawl of crawls) {
      if (crawl.state === 'cancelled' && crawl.counters.seen > 0) void lifeCycle.erase(crawl);
    }
  }

  /** Takes up what an earlier master left unwritten. @throws ConfigError the disk fails */
  async restore(): Promise<void> {
    for (const crawl of this.crawls) await this.#options.results.restore?.(crawl);
  }

  /** Looks up hosts of seeds that an earlier master did not find. */
  start(): void {
    void this.admission.resolve();
  }

  /** Leases at slaves. */
  get leaseCount(): number {
    return this.dispatcher.leaseCount;
  }

  /** Ends crawls that were done when an earlier master ended. */
  settle(): void {
    for (const crawl of this.crawls) this.lifeCycle.settle(crawl);
  }

  /** Grants no more leases; present ones may end normally. */
  drain(): void {
    this.dispatcher.drain();
  }

  /** Ends the timers and saves the filters. Everything else is on the disk already. */
  async close(): Promise<void> {
    const { commits } = this.#options;
    this.dispatcher.close();
    await commits.flushed();
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled') continue;
      const changes = await crawl.filter.save(crawl.lastCommit).catch(() => []);
      await commits.written([...changes, ...crawl.trapChanges(true)]);
    }
  }
}

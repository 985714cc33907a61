/**
 * The rooms of the frontier, made, joined, and ended. For its owner: everybody else sees
 * `Frontier`. Rooms that have something to say tell a listener: politeness and dispatcher tell
 * `Reports`, the sinks tell `LifeCycle`, and all tell the listeners of `FrontierEvents`.
 */
import { clockMs } from '../machine/clock.ts';
import type { SinkState } from '../sinks/result-queue.ts';
import { archivePrefix } from '../store/archive-rows.ts';
import { Eraser } from '../store/eraser.ts';
import { rotatingCrawls, rotatingPrefix } from '../store/parts.ts';
import {
  afterPrefix,
  crawlKey,
  cursorPrefix,
  requestPrefix,
  scheduleKey,
  trapsKey,
} from '../store/records.ts';
import { repeatKeys } from '../store/repeat-rows.ts';
import type { CrawlTable, Store } from '../store/store.ts';
import { Admission } from './admission.ts';
import { Archiving } from './commit/archiving.ts';
import { Buried } from './commit/buried.ts';
import { EarlierPages } from './commit/earlier-pages.ts';
import { Outcomes } from './commit/outcomes.ts';
import { Pictures } from './commit/pictures.ts';
import { Pipeline } from './commit/pipeline.ts';
import { Reports } from './commit/reports.ts';
import { Seeding } from './commit/seeding.ts';
import { Sources } from './commit/sources.ts';
import type { Crawl } from './crawl/crawl.ts';
import { Crawls, hasCrawls } from './crawl/crawls.ts';
import { CrawlList } from './crawl-list.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { Fingerprinter } from './filter/fingerprint.ts';
import { RecentTable } from './filter/recent.ts';
import type { FrontierOptions } from './frontier-options.ts';
import { HostList } from './host-list.ts';
import { LifeCycle } from './life-cycle.ts';
import { UrlLook } from './look/url-look.ts';
import { Feedback } from './politeness/feedback.ts';
import { Grouping } from './politeness/grouping.ts';
import { HostSettings } from './politeness/host-settings.ts';
import { Politeness } from './politeness/politeness.ts';
import { HostRecords } from './politeness/records.ts';
import { StoredHosts } from './politeness/stored-hosts.ts';
import { RobotsBudget } from './robots/budget.ts';
import { SpecChanges } from './spec-changes.ts';
import { TaskNames } from './tasks/task-names.ts';
import { TaskRequests } from './tasks/task-requests.ts';

export class FrontierRooms {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly dispatcher: Dispatcher;
  readonly lifeCycle: LifeCycle;
  readonly pipeline: Pipeline;
  readonly reports: Reports;
  readonly admission: Admission;
  readonly specChanges: SpecChanges;
  readonly buried: Buried;
  readonly list: CrawlList;
  readonly hosts: HostList;
  readonly look: UrlLook;
  readonly #options: FrontierOptions;
  readonly #eraser: Eraser;

  constructor(options: FrontierOptions) {
    const { store, commits, results, archives, images, events, hostSecret } = options;
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
    this.#eraser = new Eraser(store, commits);
    const pictures = new Pictures(store);
    const metaKeysOf = (crawl: number) => metaKeys(store, crawl);
    const lifeCycle = new LifeCycle({
      crawls,
      dispatcher,
      commits,
      results,
      archives,
      images,
      pictures,
      events,
      metaKeysOf,
      eraser: this.#eraser,
      env: options.env,
    });
    const earlier = new EarlierPages(store);
    const sources = new Sources(store);
    const pipeline = new Pipeline({
      commits,
      crawls,
      dispatcher,
      events,
      hashers,
      lifeCycle,
      politeness,
      results,
      images,
      memory: options.memory,
      outcomes: new Outcomes(earlier, pictures),
      seeding: new Seeding(politeness, records, recent),
      sources,
    });
    const feedback = new Feedback(politeness, records, events, options.trace);
    this.crawls = crawls;
    this.politeness = politeness;
    this.dispatcher = dispatcher;
    this.lifeCycle = lifeCycle;
    this.pipeline = pipeline;
    this.reports = new Reports({
      crawls,
      dispatcher,
      politeness,
      feedback,
      pipeline,
      archiving: new Archiving(archives, pipeline, sources),
      images,
      pictures,
      onFault: (crawl, why) => lifeCycle.imagesFailed(crawl, why),
      trace: options.trace,
    });
    this.specChanges = new SpecChanges({
      crawls,
      dispatcher,
      commits,
      lifeCycle,
      events,
      results,
      resolve: (crawl) => void this.admission.resolve(crawl),
    });
    const { specChanges } = this;
    this.admission = new Admission({
      ...options,
      crawls,
      dispatcher,
      pipeline,
      specChanges,
      lifeCycle,
    });
    this.buried = new Buried(store, pipeline);
    const requests = new TaskRequests(store);
    const { buried } = this;
    const { env } = options;
    this.list = new CrawlList({
      crawls,
      dispatcher,
      earlier,
      archives,
      requests,
      buried,
      results,
      env,
    });
    const rooms = { store, crawls, politeness, dispatcher, records, settings };
    this.hosts = new HostList({ ...rooms, buried: this.buried });
    this.look = new UrlLook(store, { crawls, politeness, dispatcher, results });
    politeness.tell(this.reports);
    dispatcher.tell(this.reports);
  }

  /** Takes up what an earlier master left unwritten, or did not remove to the end.
   *  @throws ConfigError the disk fails */
  async restore(): Promise<void> {
    const { archives, results, store } = this.#options;
    await this.lifeCycle.restoreNames();
    const unwritten = crawlsIn(store, 'results');
    const rotating = rotatingCrawls(store);
    for (const crawl of this.crawls) {
      if (crawl.hasKept) await archives?.restore(crawl);
      const { id, isOpen } = crawl;
      if (isOpen || unwritten.has(id) || rotating.has(id)) await results.restore?.(crawl);
      this.lifeCycle.checkLogin(crawl);
    }
    await this.lifeCycle.restore();
  }

  /** Leaves the open crawls alone, but for one. */
  setAside(except: string): void {
    for (const crawl of this.crawls) {
      if (crawl.isOpen && crawl.name !== except) this.lifeCycle.setAside(crawl);
    }
  }

  /** Looks up hosts of seeds that an earlier master did not find. */
  start(): void {
    void this.admission.resolveAll();
  }

  /** The sinks of a crawl, and what waits for each. */
  readonly sinksOf = (crawl: Crawl): SinkState[] => this.#options.results.sinksOf?.(crawl) ?? [];

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
    this.#eraser.close();
    this.lifeCycle.close();
    await commits.flushed();
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled' || !crawl.filter.isAwake) continue;
      const changes = await crawl.filter.save(crawl.lastCommit).catch(() => []);
      await commits.written([...changes, ...crawl.trapChanges(true)]);
    }
  }
}

/** Numbers of the crawls that have rows in a table, found without reading all of them. */
function crawlsIn(store: Store, table: CrawlTable): Set<number> {
  const found = new Set<number>();
  const to = afterPrefix(crawlKey(2 ** 32 - 1));
  for (let from = crawlKey(0); ; ) {
    const [key] = store.keys(table, { from, to, limit: 1 });
    if (key === undefined) return found;
    const crawl = key.readUInt32BE(0);
    found.add(crawl);
    from = crawlKey(crawl + 1);
  }
}

/** The keys of a crawl in `meta`. */
function metaKeys(store: Store, crawl: number): Buffer[] {
  const prefixes = [
    cursorPrefix(crawl),
    rotatingPrefix(crawl),
    archivePrefix(crawl),
    requestPrefix(crawl),
  ];
  const found = prefixes.flatMap((from) => store.keys('meta', { from, to: afterPrefix(from) }));
  return [trapsKey(crawl), scheduleKey(crawl), ...repeatKeys(crawl), ...found];
}

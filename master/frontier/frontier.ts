/**
 * The frontier: everything known about URLs that are not yet done. It owns the filter queue
 * (`#filterQueue`) and the order of events:
 *
 *     offer / report / fail --> filter queue --> one commit --on disk--> answer, admit, dispatch
 *
 * Nothing is acknowledged before it is on the disk. Work that is gathered but not committed is lost
 * with the process and was never acknowledged.
 */
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError } from '../../shared/errors.ts';
import type { Replies } from '../../shared/protocol.ts';
import { canonicalUrl, hostKeyOf } from '../../shared/url.ts';
import { clockMs } from '../machine/clock.ts';
import type { Part } from '../store/group-commit.ts';
import { crawlKey, encodeCrawl } from '../store/records.ts';
import type { SealedRow } from '../store/result-rows.ts';
import type { Change } from '../store/store.ts';
import { answerCancelled, handle } from './commit/apply.ts';
import { Buried } from './commit/buried.ts';
import { CommitBatch } from './commit/commit-batch.ts';
import { EarlierPages } from './commit/earlier-pages.ts';
import {
  type EarlierUrl,
  type Entry,
  type Offer,
  type SeedVerdict,
  smallEntryBytes,
} from './commit/entry.ts';
import { FilterQueue } from './commit/filter-queue.ts';
import { Outcomes } from './commit/outcomes.ts';
import { Reports } from './commit/reports.ts';
import { Seeding, seedHostChanges } from './commit/seeding.ts';
import { Sitemaps } from './commit/sitemaps.ts';
import type { Crawl } from './crawl/crawl.ts';
import { Crawls, hasCrawls } from './crawl/crawls.ts';
import type { FoundAddresses } from './crawl/seed-hosts.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { askHop, type HopVerdict } from './dispatch/hops.ts';
import type { LeaseHolder } from './dispatch/leases.ts';
import { Fingerprinter } from './filter/fingerprint.ts';
import { RecentTable } from './filter/recent.ts';
import type { FrontierOptions } from './frontier-options.ts';
import { Feedback } from './politeness/feedback.ts';
import type { Host } from './politeness/host.ts';
import { Politeness } from './politeness/politeness.ts';
import { HostRecords } from './politeness/records.ts';
import { RobotsRoom } from './robots/room.ts';
import { TaskNames } from './tasks/task-names.ts';

/** A new link costs twenty times as much as a known one, so not only bytes but also time bounds a
 *  commit: no request is served while it is gathered. Its cost after that is about the same
 *  again. */
const gatherMsMax = 15;
const nothingFound: FoundAddresses = new Map();

export class Frontier {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly reports: Reports;
  readonly sitemaps: Sitemaps;
  readonly buried: Buried;
  readonly earlier: EarlierPages;
  readonly #options: FrontierOptions;
  readonly #hashers = {
    fingerprinter: new Fingerprinter(),
    /** For hosts, too, which are hashed in the middle of hashing links. */
    nested: new Fingerprinter(),
  };
  readonly #politeness: Politeness;
  readonly #filterQueue: FilterQueue;
  readonly #records: HostRecords;
  readonly #feedback: Feedback;
  readonly #seeding: Seeding;
  readonly #outcomes: Outcomes;
  /** Crawls whose files are checked before they are done. */
  readonly #ending = new Set<Crawl>();

  constructor(options: FrontierOptions) {
    this.#options = options;
    this.#filterQueue = new FilterQueue(options.isTight);
    this.earlier = new EarlierPages(options.store);
    this.#records = new HostRecords(options.store, (changes) => this.#commit(changes));
    this.#politeness = new Politeness({
      hashOf: (key) => Buffer.from(this.#hashers.nested.one(options.hostSecret, key).buffer, 0, 8),
      groupOf: (key) => options.grouping.groupOf(key, clockMs()),
      robotsOf: (hash) => this.#records.robotsFile(hash),
      robotsRoom: new RobotsRoom(options.robotsBytesMax),
      onHost: (host) => this.#feedback.met(host, options.grouping),
      onGroup: (group) => this.#records.restoreGroup(group),
      askedUntil: hasCrawls(options.store) ? clockMs() : Number.NEGATIVE_INFINITY,
      onMet: (host, crawl) => this.sitemaps.met(host, crawl),
      onRefused: (host, task, access) => this.reports.refuse(host, task, access),
    });
    this.#feedback = new Feedback(this.#politeness, this.#records);
    const recent = new RecentTable(options.recentEntries);
    this.#seeding = new Seeding(this.#politeness, this.#records, recent);
    this.#outcomes = new Outcomes(this.earlier);
    this.crawls = new Crawls({
      store: options.store,
      politeness: this.#politeness,
      recent,
      folder: options.folder,
      bloomBytesMax: options.bloomBytesMax,
      patternBytesMax: options.patternBytesMax,
      queuesMax: options.queuesMax,
      tasksMax: options.tasksMax,
    });
    this.dispatcher = new Dispatcher({
      crawls: this.crawls,
      politeness: this.#politeness,
      names: new TaskNames(options.hostSecret, this.#hashers.nested),
      leaseMs: options.leaseMs,
      leaseMarginMs: options.leaseMarginMs,
      mayFetch: () => !options.results.isFull,
      onTick: (now) => this.#records.sweep(now),
      onFilesWanted: options.onFilesWanted,
      onHopeless: (task, slave) => this.reports.giveUp(task, slave),
    });
    this.reports = new Reports({
      crawls: this.crawls,
      dispatcher: this.dispatcher,
      politeness: this.#politeness,
      feedback: this.#feedback,
      put: (entry) => this.#put(entry),
    });
    this.sitemaps = new Sitemaps({
      crawls: this.crawls,
      dispatcher: this.dispatcher,
      put: (entry) => this.#put(entry),
    });
    this.buried = new Buried(options.store, (entry) => this.#put(entry));
    options.commits.addGatherer(() => this.#fill());
    // A crash may have come in the middle of it.
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled' && crawl.counters.seen > 0) void this.#erase(crawl);
    }
  }

  /** True when senders should wait: see `room`. */
  get isFull(): boolean {
    return this.#filterQueue.isFull;
  }

  /** Resolves when the filter queue has room again. */
  room(): Promise<void> {
    return this.#filterQueue.room();
  }

  /** Offers seeds to a crawl, which is created if it does not exist: they add their hosts to its
   *  scope and are fetched at depth 0. @throws CommandError the crawl was cancelled */
  async seed(
    name: string,
    spec: CrawlSpec,
    urls: readonly string[],
    priority = 0,
  ): Promise<SeedVerdict> {
    const { crawl, isNew } = this.#openCrawl(name, spec);
    if (isNew) this.#options.onMade(crawl, urls);
    const bytes = urls.length * smallEntryBytes;
    const put = (found: FoundAddresses) =>
      new Promise<SeedVerdict>((done) =>
        this.#put({ kind: 'seeds', crawl, bytes, urls, priority, found, done }),
      );
    return await this.#withHosts(crawl, { texts: urls, bytes }, put);
  }

  /** Offers URLs of an earlier crawl to one that is created, and paused, if it does not exist;
   *  those of depth 0 are its seeds. @throws CommandError the crawl was cancelled */
  async again(
    name: string,
    spec: CrawlSpec,
    urls: readonly EarlierUrl[],
  ): Promise<Replies['crawl.recrawl']> {
    const { crawl, isNew } = this.#openCrawl(name, spec);
    if (isNew) {
      // Otherwise it could be done before the rest of its URLs arrives.
      crawl.moveTo('paused');
      this.#options.onMade(
        crawl,
        urls.map(({ url }) => url),
      );
    }
    const images = urls.reduce((sum, { page }) => sum + (page?.images.length ?? 0), 0);
    const bytes = urls.length * smallEntryBytes + images * 128;
    const texts = urls.filter(({ depth }) => depth === 0).map(({ url }) => url);
    const put = (found: FoundAddresses) =>
      new Promise<Replies['crawl.recrawl']>((done) =>
        this.#put({ kind: 'again', crawl, bytes, urls, found, done }),
      );
    return await this.#withHosts(crawl, { texts, bytes }, put);
  }

  /** Takes links and images that belong to no task. Resolves when they are on the disk. */
  async offer(crawl: Crawl, offer: Offer): Promise<void> {
    const bytes = smallEntryBytes + offer.links.length + offer.images.length * 128;
    await new Promise<void>((done) => this.#put({ kind: 'offer', crawl, bytes, offer, done }));
  }

  hop(holder: LeaseHolder, leaseId: number, text: string): Promise<HopVerdict> {
    return askHop(this, this.#politeness, holder, leaseId, text);
  }

  /** A held crawl stays held. */
  async setPaused(crawl: Crawl, paused: boolean): Promise<void> {
    if (crawl.held !== undefined || crawl.state !== (paused ? 'running' : 'paused')) return;
    crawl.moveTo(paused ? 'paused' : 'running');
    this.#turned(crawl);
    await this.#save(crawl);
    // Its last report may have come in the meantime.
    this.settle(crawl);
  }

  /** The crawl's results cannot be written, for that reason: it fetches nothing until `release`.
   *  Reports under way may arrive, and stay in the store. */
  hold(crawl: Crawl, reason: string): void {
    if (!crawl.isOpen) return;
    crawl.hold(reason);
    this.#turned(crawl);
  }

  /** The crawl's results can be written again. */
  release(crawl: Crawl): void {
    if (crawl.held === undefined) return;
    crawl.release();
    this.#turned(crawl);
    this.settle(crawl);
  }

  /** The crawl now runs, or no longer runs. */
  #turned(crawl: Crawl): void {
    if (!crawl.isRunning) this.dispatcher.putOffHops(crawl.id);
    this.crawls.queues.wake(crawl);
    if (!crawl.isRunning) this.crawls.queues.park(crawl);
    this.dispatcher.dispatchSoon();
  }

  /** Ends a crawl permanently: it fetches nothing more. Its files stay. */
  async cancel(crawl: Crawl): Promise<void> {
    if (crawl.state !== 'cancelled') crawl.moveTo('cancelled');
    crawl.release();
    this.dispatcher.cancel(crawl.id);
    this.crawls.queues.leaveAll(crawl);
    // Commits end in order: with this one, all that was gathered for the crawl is on the disk.
    await this.#save(crawl);
    await this.#erase(crawl);
    await this.#options.results.giveUp?.(crawl);
    this.#options.onEnded(crawl);
  }

  /** Looks up the hosts of seeds that are not settled: those of an older store, and names that
   *  could not be resolved when they were added. Until then nothing of their crawls is leased. */
  async resolveSeeds(): Promise<void> {
    const pending = [...this.crawls].filter((crawl) => wantedOf(crawl).size > 0);
    for (const crawl of pending) crawl.resolving(true);
    const open = pending.filter(({ isOpen }) => isOpen);
    await Promise.all(open.map((crawl) => this.#resolveSeedsOf(crawl)));
    // These wait for nothing, so that they do not ask for all of their names at once.
    for (const crawl of pending) if (!open.includes(crawl)) await this.#resolveSeedsOf(crawl);
  }

  async #resolveSeedsOf(crawl: Crawl): Promise<void> {
    const { id, scope, seedHosts } = crawl;
    const wanted = wantedOf(crawl);
    const found = await this.#options.lookUp(wanted);
    crawl.resolving(false);
    // It may have been cancelled since, and erased.
    if (crawl.state === 'cancelled') return;
    const changes = scope.seedUrls.flatMap((url) =>
      seedHostChanges(id, url, seedHosts.settle(url, found)),
    );
    if (changes.length > 0) void this.#commit(changes);
    if (crawl.isOpen) this.#options.onSeedsFound(crawl, seedHosts.news(wanted, found));
    this.crawls.queues.wake(crawl);
    this.dispatcher.dispatchSoon();
  }

  /** Looks up the hosts of these seeds that are not settled, then puts what needs them. Until then
   *  the seeds count as offered. */
  async #withHosts<T>(
    crawl: Crawl,
    { texts, bytes }: { readonly texts: readonly string[]; readonly bytes: number },
    put: (found: FoundAddresses) => Promise<T>,
  ): Promise<T> {
    const urls = texts.map(canonicalUrl).filter((url) => url !== undefined);
    const wanted = crawl.seedHosts.wanted(urls);
    if (wanted.size === 0) return await put(nothingFound);
    const arrived = this.#filterQueue.expect(crawl, bytes);
    const found = await this.#options.lookUp(wanted);
    arrived();
    this.#options.onSeedsFound(crawl, crawl.seedHosts.news(wanted, found));
    return await put(found);
  }

  async #erase(crawl: Crawl): Promise<void> {
    await this.crawls.erase(crawl, (changes) => this.#commit(changes));
    await this.#save(crawl);
  }

  /** Checks whether a crawl has ended, after a write of a sink or a commit. */
  settle(crawl: Crawl): void {
    if (!crawl.isDone || this.#ending.has(crawl)) return;
    const confirmed = this.#options.results.confirm?.(crawl);
    if (confirmed === undefined) {
      this.#finish(crawl);
      return;
    }
    this.#ending.add(crawl);
    void confirmed.then(() => {
      this.#ending.delete(crawl);
      // A seed may have come since, or its files are gone.
      if (crawl.isDone) this.#finish(crawl);
    });
  }

  #finish(crawl: Crawl): void {
    crawl.moveTo('finished');
    // With a page limit it may have tasks.
    this.crawls.queues.park(crawl);
    void this.#save(crawl).then(() => this.#options.onEnded(crawl));
  }

  /** Ends the timers and saves the filters. Everything else is on the disk already. */
  async close(): Promise<void> {
    this.dispatcher.close();
    await this.#options.commits.flushed();
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled') continue;
      const changes = await crawl.filter.save(crawl.lastCommit).catch(() => []);
      await this.#commit([...changes, ...crawl.trapChanges(true)]);
    }
  }

  #openCrawl(name: string, spec: CrawlSpec): { crawl: Crawl; isNew: boolean } {
    const isNew = !this.crawls.has(name);
    const crawl = this.crawls.open(name, spec);
    if (crawl.state !== 'cancelled') return { crawl, isNew };
    throw new CommandError('E_BAD_REQUEST', `the crawl "${name}" was cancelled; use another name`);
  }

  #put(entry: Entry): void {
    this.#filterQueue.put(entry);
    this.#options.commits.request();
  }

  /** Takes a batch of entries off the filter queue and makes one part of them. */
  #fill(): Part | undefined {
    const batches = new Map<Crawl, CommitBatch>();
    const entries: Entry[] = [];
    const answers: (() => void)[] = [];
    const began = performance.now();
    for (const entry of this.#filterQueue.take()) {
      entries.push(entry);
      answers.push(this.#handle(entry, batches));
      if (performance.now() - began > gatherMsMax) break;
    }
    if (entries.length === 0) return undefined;
    if (!this.#filterQueue.isEmpty) this.#options.commits.request();
    const sealed = [...batches.values()].map((batch) => ({
      batch,
      unpend: batch.crawl.filter.seal(),
      ...batch.seal(),
    }));
    return {
      changes: sealed.flatMap(({ changes }) => changes),
      done: () => {
        for (const { unpend } of sealed) unpend();
        for (const answer of answers) answer();
        this.#filterQueue.settle(entries);
        for (const { batch, commit, results } of sealed) {
          this.#apply(batch, commit, results);
        }
        this.#filterQueue.makeRoom();
        this.dispatcher.dispatchSoon();
      },
    };
  }

  /** Applies one entry; returns the answer to send when it is on the disk. */
  #handle(entry: Entry, batches: Map<Crawl, CommitBatch>): () => void {
    const { crawl } = entry;
    if (crawl.state === 'cancelled') return () => answerCancelled(entry);
    const batch = this.#batch(crawl, batches);
    return handle(entry, batch, { outcomes: this.#outcomes, offers: this.#seeding }, clockMs());
  }

  #batch(crawl: Crawl, batches: Map<Crawl, CommitBatch>): CommitBatch {
    let batch = batches.get(crawl);
    if (batch === undefined) {
      const hostOf = (url: URL) => {
        const key = hostKeyOf(url);
        return { key, hash: this.#politeness.hashOf(key) };
      };
      batch = new CommitBatch(crawl, this.#hashers, hostOf);
      batches.set(crawl, batch);
    }
    return batch;
  }

  /** A batch has reached the disk: memory follows. */
  #apply(batch: CommitBatch, commit: number, results: SealedRow | undefined): void {
    const { crawl, admitted, removed, released } = batch;
    for (const task of removed) task.queue.remove(task);
    // Results from before a crawl was cancelled are written all the same.
    if (results !== undefined) this.#options.results.offer(crawl, commit, results);
    if (crawl.state === 'cancelled') return;
    const { queues } = this.crawls;
    const hosts = new Set<Host>();
    for (const { host: name, record, ...position } of admitted) {
      const host = queues.add(crawl, name, record, position);
      if (host !== undefined) hosts.add(host);
    }
    for (const { task, record } of released) {
      task.queue.release(task, record);
      const known = crawl.queues.get(task.queue.host.toString('latin1'));
      if (known !== undefined) hosts.add(known.host);
    }
    const now = clockMs();
    for (const host of hosts) this.#politeness.wake(host, now);
    for (const { queue } of removed) queues.leaveIfDone(crawl, queue.host);
    // A page less under way: a crawl at its page limit may have room for another.
    if (crawl.spec.maxPages !== undefined && crawl.active) queues.wake(crawl);
    if (crawl.filter.wantsSave) this.#saveFilter(crawl);
    this.settle(crawl);
  }

  #saveFilter({ filter, lastCommit }: Crawl): void {
    filter.save(lastCommit).then(
      (changes) => this.#commit(changes),
      // The rows that it would have replaced are still there: the next start reads them all.
      () => {},
    );
  }

  async #save(crawl: Crawl): Promise<void> {
    const value = encodeCrawl(crawl.record());
    await this.#commit([{ table: 'crawls', key: crawlKey(crawl.id), value }]);
  }

  #commit(changes: Change[]): Promise<void> {
    return new Promise((done) => this.#options.commits.submit(changes, done));
  }
}

/** Returns the names of its seeds that must be looked up. */
function wantedOf({ state, scope, seedHosts }: Crawl): Set<string> {
  return state === 'cancelled' ? new Set() : seedHosts.wanted(scope.seedUrls);
}

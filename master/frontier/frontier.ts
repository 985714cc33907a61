/**
 * The frontier: everything known about URLs that are not yet done. It owns the filter queue
 * (`#inbox`) and the order of events:
 *
 *     offer / report / fail --> inbox --gather--> one commit --on disk--> answer, admit, dispatch
 *
 * Nothing is answered before it is on the disk. Whatever is gathered but not committed is lost
 * with the process and was never promised.
 */
import { clockMs } from '../../shared/clock.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError } from '../../shared/errors.ts';
import { Fingerprinter } from '../../shared/fingerprint.ts';
import type { FetchErrorBody, Replies } from '../../shared/protocol.ts';
import { canonicalUrl, hostKeyOf } from '../../shared/url.ts';
import type { GroupCommit, Part } from '../store/group-commit.ts';
import { crawlKey, decodeBuried, encodeCrawl } from '../store/records.ts';
import type { Change, Row, Store } from '../store/store.ts';
import type { Crawl } from './crawl.ts';
import { Crawls } from './crawls.ts';
import { Dispatcher } from './dispatcher.ts';
import { Gathering, type Offer, type Report } from './gathering.ts';
import type { LeaseHolder } from './leases.ts';
import { type Host, Politeness } from './politeness.ts';
import { RecentTable } from './recent.ts';
import type { Task } from './tasks.ts';

/** What became of a report: `stale` when its task was done already. */
export type Verdict = 'done' | 'stale';
export type SeedVerdict = Replies['crawl.add'];

/** Where findings go when they are on the disk. */
export type Findings = {
  /** Takes over a row of the result queue. */
  offer(crawl: Crawl, commit: number, row: Buffer): void;
  /** True while sinks lag so far behind that no more should be fetched. */
  readonly isFull: boolean;
};

export type FrontierOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  readonly results: Findings;
  /** Folder for the saved Bloom filters; undefined: they are not saved. */
  readonly folder: string | undefined;
  /** Keys the hosts' places in the store: 16 bytes, the same at every start. */
  readonly hostSecret: Buffer;
  readonly leaseMs: number;
  /** Entries of the table of recent fingerprints, 16 bytes each. */
  readonly recentEntries: number;
  /** It is finished or cancelled, and that is on the disk. */
  readonly onEnded: (crawl: Crawl) => void;
};

/** One thing that waits to be gathered. `bytes`: what it holds in memory, about. */
type Entry = { readonly crawl: Crawl; readonly bytes: number } & (
  | { kind: 'report'; task: Task; report: Report; slave: string; done: (v: Verdict) => void }
  | { kind: 'offer'; offer: Offer; done: () => void }
  | { kind: 'failure'; failure: Failure; done: (v: Verdict) => void }
  | { kind: 'replay'; rows: readonly Row[]; done: () => void }
  | { kind: 'seeds'; urls: readonly string[]; priority: number; done: (v: SeedVerdict) => void }
);

type Failure = {
  readonly task: Task;
  readonly error: FetchErrorBody;
  /** Undefined: never again, whatever attempts it has left. */
  readonly retryAt: number | undefined;
  readonly slave: string;
};

/** Bytes of one commit's entries: bounds the time that one gathering takes. */
const gatherBytesMax = 512 << 10;
/** Bytes in the inbox above which senders have to wait. */
const inboxBytesMax = 4 << 20;
const smallEntryBytes = 512;
const retryFirstMs = 1_000;
const retryMaxMs = 300_000;
const replayBatch = 1_000;

export class Frontier {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly #options: FrontierOptions;
  readonly #fingerprinter = new Fingerprinter();
  readonly #politeness: Politeness;
  readonly #recent: RecentTable;
  #replaying: Promise<unknown> = Promise.resolve();
  #inbox: Entry[] = [];
  #inboxBytes = 0;
  #waitingForRoom: (() => void)[] = [];

  constructor(options: FrontierOptions) {
    this.#options = options;
    // A hasher of its own: hosts are hashed in the middle of hashing links.
    const hosts = new Fingerprinter();
    this.#politeness = new Politeness((key) =>
      Buffer.from(hosts.one(options.hostSecret, key).buffer, 0, 8),
    );
    this.#recent = new RecentTable(options.recentEntries);
    this.crawls = new Crawls({
      store: options.store,
      politeness: this.#politeness,
      recent: this.#recent,
      folder: options.folder,
    });
    this.dispatcher = new Dispatcher({
      crawls: this.crawls,
      politeness: this.#politeness,
      leaseMs: options.leaseMs,
      mayFetch: () => !options.results.isFull,
      onHopeless: (task, slave) => this.#giveUp(task, slave),
    });
    options.commits.addGatherer(() => this.#gather());
    // A crash may have come in the middle of it.
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled' && crawl.counters.seen > 0) void this.#erase(crawl);
    }
  }

  /** True when senders should wait: see `room`. */
  get isFull(): boolean {
    return this.#inboxBytes > inboxBytesMax;
  }

  /** Resolves when the inbox has room again. */
  room(): Promise<void> {
    return this.isFull
      ? new Promise((resolve) => this.#waitingForRoom.push(resolve))
      : Promise.resolve();
  }

  /** Offers seeds to a crawl, made if there is none of that name: they open its scope for their
   *  hosts and are fetched at depth 0. @throws CommandError the crawl was cancelled */
  async seed(
    name: string,
    spec: CrawlSpec,
    urls: readonly string[],
    priority = 0,
  ): Promise<SeedVerdict> {
    const crawl = this.crawls.open(name, spec);
    if (crawl.state === 'cancelled') {
      throw new CommandError(
        'E_BAD_REQUEST',
        `the crawl "${name}" was cancelled; use another name`,
      );
    }
    const bytes = urls.length * smallEntryBytes;
    return await new Promise((done) =>
      this.#put({ kind: 'seeds', crawl, bytes, urls, priority, done }),
    );
  }

  /** Takes a report. Resolves when it is on the disk. */
  async report(
    holder: LeaseHolder,
    leaseId: number,
    id: Uint8Array,
    report: Report,
  ): Promise<Verdict> {
    const task = this.dispatcher.claim(holder, leaseId, id);
    const crawl = task && this.crawls.of(task);
    if (task === undefined || crawl === undefined) return 'stale';
    const bytes = smallEntryBytes + report.links.length + report.images.length * 128;
    return await new Promise((done) =>
      this.#put({ kind: 'report', crawl, bytes, task, report, slave: holder.name, done }),
    );
  }

  /** Takes links and images that come by themselves. Resolves when they are on the disk. */
  async offer(crawl: Crawl, offer: Offer): Promise<void> {
    const bytes = smallEntryBytes + offer.links.length + offer.images.length * 128;
    await new Promise<void>((done) => this.#put({ kind: 'offer', crawl, bytes, offer, done }));
  }

  /** Takes a failed fetch: again later, or buried. Resolves when it is on the disk. */
  async fail(
    holder: LeaseHolder,
    leaseId: number,
    id: Uint8Array,
    error: FetchErrorBody,
    retryAfterMs = 0,
  ): Promise<Verdict> {
    const task = this.dispatcher.claim(holder, leaseId, id);
    if (task === undefined) return 'stale';
    const backOffMs = Math.min(retryMaxMs, retryFirstMs * 4 ** task.attempts);
    // Jitter, so that a host that was down is not asked for everything at once.
    const waitMs = Math.max(retryAfterMs, backOffMs * (0.75 + Math.random() / 2));
    return await this.#fail({ task, error, retryAt: clockMs() + waitMs, slave: holder.name });
  }

  async setPaused(crawl: Crawl, paused: boolean): Promise<void> {
    if (crawl.state !== (paused ? 'running' : 'paused')) return;
    crawl.state = paused ? 'paused' : 'running';
    this.crawls.wake(crawl);
    this.dispatcher.dispatchSoon();
    await this.#save(crawl);
    // Its last report may have come in the meantime.
    this.settle(crawl);
  }

  /** Ends a crawl for good: nothing of it is fetched any more. Its files stay. */
  async cancel(crawl: Crawl): Promise<void> {
    crawl.state = 'cancelled';
    this.dispatcher.cancel(crawl.id);
    this.crawls.leaveAll(crawl);
    // Commits end in order: with this one, all that was gathered for the crawl is on the disk.
    await this.#save(crawl);
    await this.#erase(crawl);
    this.#options.onEnded(crawl);
  }

  async #erase(crawl: Crawl): Promise<void> {
    await this.crawls.erase(crawl, (changes) => this.#commit(changes));
    await this.#save(crawl);
  }

  /** Buried URLs in the order of their fingerprints, `limit` of them from beyond `after`. */
  buried(crawl: Crawl, after: Uint8Array | undefined, limit: number): Replies['crawl.buried'] {
    const rows = this.#buriedRows(crawl, after, limit);
    const urls = rows.map(({ value }) => {
      const { url, kind, message, attempts } = decodeBuried(value);
      return { url, kind, message, attempts };
    });
    const last = rows.at(-1);
    return last !== undefined && rows.length === limit ? { urls, next: last.key } : { urls };
  }

  /** Buried URLs back into the task queue: one, or all. Gives how many. */
  replay(crawl: Crawl, url: string | undefined): Promise<number> {
    // One after the other: two would read the same rows and admit their URLs twice.
    const replayed = this.#replaying.then(() => this.#replay(crawl, url));
    this.#replaying = replayed.catch(() => {});
    return replayed;
  }

  async #replay(crawl: Crawl, url: string | undefined): Promise<number> {
    let replayed = 0;
    let after: Uint8Array | undefined;
    while (crawl.state !== 'cancelled') {
      const page = this.#buriedRows(crawl, after, replayBatch);
      const rows = page.filter(({ value }) => url === undefined || decodeBuried(value).url === url);
      if (rows.length > 0) {
        const bytes = rows.length * smallEntryBytes;
        await new Promise<void>((done) => this.#put({ kind: 'replay', crawl, bytes, rows, done }));
      }
      replayed += rows.length;
      after = page.at(-1)?.key;
      if (after === undefined || (url !== undefined && rows.length > 0)) break;
    }
    return replayed;
  }

  /** Looks whether a crawl has ended: a sink has written, a commit is on the disk. */
  settle(crawl: Crawl): void {
    if (!crawl.isDone) return;
    crawl.state = 'finished';
    this.#save(crawl).then(() => this.#options.onEnded(crawl));
  }

  /** Ends the timers and saves the filters. Everything else is on the disk already. */
  async close(): Promise<void> {
    this.dispatcher.close();
    await this.#options.commits.flushed();
    for (const crawl of this.crawls) {
      if (crawl.state === 'cancelled') continue;
      await this.#options.store.commit(await crawl.filter.save(crawl.lastCommit));
    }
  }

  #put(entry: Entry): void {
    entry.crawl.inbox++;
    this.#inbox.push(entry);
    this.#inboxBytes += entry.bytes;
    this.#options.commits.request();
  }

  async #fail(failure: Failure): Promise<Verdict> {
    const crawl = this.crawls.of(failure.task);
    if (crawl === undefined) return 'stale';
    return await new Promise((done) =>
      this.#put({ kind: 'failure', crawl, bytes: smallEntryBytes, failure, done }),
    );
  }

  /** A page that takes its slaves with it is buried, whatever attempts it has left. */
  #giveUp(task: Task, slave: string): void {
    const error = { kind: 'lost', message: 'every slave that had it was lost' } as const;
    void this.#fail({ task, error, retryAt: undefined, slave });
  }

  /** Takes entries off the inbox, up to a batch, and makes one part of them. */
  #gather(): Part | undefined {
    let bytes = 0;
    const taken = this.#inbox.findIndex((entry) => {
      bytes += entry.bytes;
      return bytes > gatherBytesMax + entry.bytes;
    });
    const entries = this.#inbox.splice(0, taken < 0 ? this.#inbox.length : taken);
    if (entries.length === 0) return undefined;
    if (this.#inbox.length > 0) this.#options.commits.request();
    const gatherings = new Map<Crawl, Gathering>();
    const answers = entries.map((entry) => this.#handle(entry, gatherings));
    const sealed = [...gatherings.values()].map((gathering) => ({
      gathering,
      unpend: gathering.crawl.filter.seal(),
      ...gathering.seal(),
    }));
    return {
      changes: sealed.flatMap(({ changes }) => changes),
      done: () => {
        for (const { unpend } of sealed) unpend();
        for (const answer of answers) answer();
        for (const entry of entries) {
          entry.crawl.inbox--;
          this.#inboxBytes -= entry.bytes;
        }
        for (const { gathering, commit, results } of sealed) {
          this.#apply(gathering, commit, results);
        }
        this.#makeRoom();
        this.dispatcher.dispatchSoon();
      },
    };
  }

  /** Does one entry; gives the answer for when it is on the disk. */
  #handle(entry: Entry, gatherings: Map<Crawl, Gathering>): () => void {
    const { crawl, kind } = entry;
    if (crawl.state === 'cancelled') return () => answerCancelled(entry);
    const gathering = this.#gathering(crawl, gatherings);
    switch (kind) {
      case 'report': {
        const isTaken = gathering.report(entry.task, entry.report, entry.slave, clockMs());
        return () => entry.done(isTaken ? 'done' : 'stale');
      }
      case 'offer':
        gathering.offer(entry.offer);
        return entry.done;
      case 'failure': {
        const { task, error, retryAt, slave } = entry.failure;
        gathering.failure(task, error, retryAt, slave, clockMs());
        return () => entry.done('done');
      }
      case 'seeds': {
        const verdict = this.#takeSeeds(gathering, entry.urls, entry.priority);
        if (crawl.state === 'finished' && verdict.admitted > 0) crawl.state = 'running';
        return () => entry.done(verdict);
      }
      case 'replay':
        for (const { key, value } of entry.rows) {
          const { url, depth, priority } = decodeBuried(value);
          gathering.replay(new URL(url), depth, priority, key);
        }
        if (crawl.state === 'finished') crawl.state = 'running';
        return entry.done;
      default:
        return entry satisfies never;
    }
  }

  #takeSeeds(gathering: Gathering, texts: readonly string[], priority: number): SeedVerdict {
    const verdict: SeedVerdict = { admitted: 0, known: 0, refused: [] };
    const { scope, counters } = gathering.crawl;
    const urls = texts.map((text) => ({ text, url: canonicalUrl(text) }));
    const opened = urls.filter(({ url }) => url !== undefined && scope.addSeed(url));
    // What was settled as out of scope may belong to the crawl now.
    if (opened.length > 0 && counters.seen > 0) this.#recent.clear();
    for (const { text, url } of urls) {
      const why = url && scope.refuses(url);
      if (url === undefined) verdict.refused.push({ url: text, why: 'not an http or https URL' });
      else if (why) verdict.refused.push({ url: text, why: `left out by --${why}` });
      else if (gathering.seed(url, priority)) verdict.admitted++;
      else verdict.known++;
    }
    return verdict;
  }

  #gathering(crawl: Crawl, gatherings: Map<Crawl, Gathering>): Gathering {
    let gathering = gatherings.get(crawl);
    if (gathering === undefined) {
      gathering = new Gathering(crawl, this.#fingerprinter, (url) =>
        this.#politeness.host(hostKeyOf(url)),
      );
      gatherings.set(crawl, gathering);
    }
    return gathering;
  }

  /** A gathering has reached the disk: memory follows. */
  #apply(gathering: Gathering, commit: number, results: Buffer | undefined): void {
    const { crawl, admitted, removed, released } = gathering;
    for (const task of removed) task.queue.remove(task);
    // What was found before a crawl was cancelled is written all the same.
    if (results !== undefined) this.#options.results.offer(crawl, commit, results);
    if (crawl.state === 'cancelled') return;
    const hosts = new Set<Host>();
    for (const {
      host: { key },
      record,
      ...position
    } of admitted) {
      // Not the host of then: it may have been forgotten since, and made anew.
      const host = this.#politeness.host(key);
      this.crawls.queue(crawl, host, new URL(record.url), true).add(record, position);
      hosts.add(host);
    }
    for (const { task, record } of released) {
      task.queue.release(task, record);
      hosts.add(this.#politeness.host(hostKeyOf(new URL(record.url))));
    }
    const now = clockMs();
    for (const host of hosts) this.#politeness.wake(host, now);
    for (const task of removed) {
      this.crawls.leaveIfEmpty(crawl, this.#politeness.host(hostKeyOf(new URL(task.url))));
    }
    // A page less under way: a crawl at its page limit may have room for another.
    if (crawl.spec.maxPages !== undefined && crawl.active) this.crawls.wake(crawl);
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

  #makeRoom(): void {
    if (this.#inboxBytes > inboxBytesMax / 2) return;
    const waiting = this.#waitingForRoom;
    this.#waitingForRoom = [];
    for (const resolve of waiting) resolve();
  }

  #buriedRows(crawl: Crawl, after: Uint8Array | undefined, limit: number): Row[] {
    return this.#options.store.range('buried', {
      from: after ?? crawlKey(crawl.id),
      after: after !== undefined,
      to: crawlKey(crawl.id + 1),
      limit,
    });
  }

  async #save(crawl: Crawl): Promise<void> {
    const value = encodeCrawl(crawl.record());
    await this.#commit([{ table: 'crawls', key: crawlKey(crawl.id), value }]);
  }

  #commit(changes: Change[]): Promise<void> {
    return new Promise((done) => this.#options.commits.submit(changes, done));
  }
}

function answerCancelled(entry: Entry): void {
  if (entry.kind === 'seeds') entry.done({ admitted: 0, known: 0, refused: [] });
  else if (entry.kind === 'replay' || entry.kind === 'offer') entry.done();
  else entry.done('stale');
}

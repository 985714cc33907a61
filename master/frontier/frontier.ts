/**
 * The frontier: everything known about URLs that are not yet done. It owns the crawls, the filter
 * queue (`#inbox`), the leases and the order of events:
 *
 *     offer / report / fail --> inbox --gather--> one commit --on disk--> answer, admit, dispatch
 *
 * Nothing is answered before it is on the disk. Whatever is gathered but not committed is lost
 * with the process and was never promised.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { clockMs } from '../../shared/clock.ts';
import type { CrawlSpec } from '../../shared/crawl.ts';
import { CommandError } from '../../shared/errors.ts';
import { Fingerprinter } from '../../shared/fingerprint.ts';
import type { FetchErrorBody, Replies } from '../../shared/protocol.ts';
import { canonicalUrl, hostKeyOf } from '../../shared/url.ts';
import type { GroupCommit, Part } from '../store/group-commit.ts';
import {
  afterPrefix,
  type CrawlRecord,
  crawlKey,
  decodeBuried,
  decodeCrawl,
  decodeTask,
  encodeCrawl,
  parseTaskKey,
} from '../store/records.ts';
import type { Change, Row, Store } from '../store/store.ts';
import { Crawl, noCounters } from './crawl.ts';
import { Filter } from './filter.ts';
import { Gathering, keyOf, type Report } from './gathering.ts';
import { type Lease, type LeaseHolder, Leases } from './leases.ts';
import { type Host, Politeness } from './politeness.ts';
import { RecentTable } from './recent.ts';
import { type Task, TaskQueue } from './tasks.ts';

/** What became of a report: `stale` when its task was done already. */
export type Verdict = 'done' | 'stale';
export type SeedVerdict = {
  admitted: number;
  known: number;
  refused: { url: string; why: string }[];
};

/** Where findings go when they are on the disk. */
export type ResultQueue = {
  /** Takes over a row of the result queue. */
  offer(crawl: Crawl, commit: number, row: Buffer): void;
  /** True while sinks lag so far behind that no more should be fetched. */
  readonly isFull: boolean;
};

type Entry = { readonly crawl: Crawl } & (
  | { kind: 'report'; task: Task; report: Report; slave: string; done: (v: Verdict) => void }
  | {
      kind: 'failure';
      task: Task;
      error: FetchErrorBody;
      retryAt: number;
      slave: string;
      done: (v: Verdict) => void;
    }
  | { kind: 'replay'; rows: readonly Row[]; done: () => void }
  | { kind: 'seeds'; urls: readonly string[]; priority: number; done: (v: SeedVerdict) => void }
);

export type FrontierOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  readonly results: ResultQueue;
  /** Folder for the saved Bloom filters; undefined: they are not saved. */
  readonly folder: string | undefined;
  readonly leaseMs: number;
  /** Entries of the table of recent fingerprints, 16 bytes each. */
  readonly recentEntries: number;
  readonly onFinished: (crawl: Crawl) => void;
};

/** Links of one commit, about: bounds the time that one gathering takes. */
const gatherBytesMax = 2 << 20;
/** Bytes in the inbox above which senders have to wait. */
const inboxBytesMax = 64 << 20;
/** A lost lease counts against its page only when it happens again and again. */
const lossesFree = 3;
const lossesMax = 12;
const retryFirstMs = 1_000;
const retryMaxMs = 300_000;

export class Frontier {
  readonly politeness: Politeness;
  readonly #options: FrontierOptions;
  readonly #store: Store;
  readonly #fingerprinter = new Fingerprinter();
  readonly #hostSecret: Buffer;
  readonly #recent: RecentTable;
  readonly #leases: Leases;
  readonly #crawls = new Map<string, Crawl>();
  readonly #byId = new Map<number, Crawl>();
  readonly #holders: LeaseHolder[] = [];
  #nextHolder = 0;
  #inbox: Entry[] = [];
  #inboxBytes = 0;
  #waitingForRoom: (() => void)[] = [];
  #dispatchTimer: NodeJS.Timeout | undefined;
  #dispatchQueued = false;
  #draining = false;
  readonly #ticker: NodeJS.Timeout;

  /** `hostSecret` keys the hosts' places in the store: 16 bytes, the same at every start. */
  constructor(options: FrontierOptions, hostSecret: Buffer) {
    this.#options = options;
    this.#store = options.store;
    this.#hostSecret = hostSecret;
    this.#recent = new RecentTable(options.recentEntries);
    this.#leases = new Leases(options.leaseMs, randomBytes(5).readUIntBE(0, 5) * 1024);
    this.politeness = new Politeness((key) => this.#hashHost(key));
    options.commits.addGatherer(() => this.#gather());
    this.#load();
    this.#ticker = setInterval(() => this.#tick(), 1_000);
  }

  get crawls(): Crawl[] {
    return [...this.#crawls.values()];
  }

  get leaseCount(): number {
    return this.#leases.count;
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

  crawl(name: string): Crawl {
    const crawl = this.#crawls.get(name);
    if (crawl === undefined) throw new CommandError('E_NO_CRAWL', `there is no crawl "${name}"`);
    return crawl;
  }

  has(name: string): boolean {
    return this.#crawls.has(name);
  }

  crawlById(id: number): Crawl | undefined {
    return this.#byId.get(id);
  }

  /** The crawl of that name, made if there is none; on disk with its first seeds. */
  open(name: string, spec: CrawlSpec): Crawl {
    const known = this.#crawls.get(name);
    if (known !== undefined) return known;
    return this.#register({
      id: Math.max(0, ...this.#byId.keys()) + 1,
      name,
      state: 'running',
      spec,
      secret: randomBytes(16),
      seedHosts: [],
      nextSeq: 1,
      nextCommit: 1,
      counters: { ...noCounters },
      startedAt: Date.now(),
    });
  }

  /** Offers seeds: they open the scope for their host and are fetched at depth 0. */
  seed(crawl: Crawl, urls: readonly string[], priority = 0): Promise<SeedVerdict> {
    if (crawl.state === 'cancelled') {
      return Promise.reject(
        new CommandError(
          'E_BAD_REQUEST',
          `the crawl "${crawl.name}" was cancelled; use another name`,
        ),
      );
    }
    return new Promise((done) => this.#put({ kind: 'seeds', crawl, urls, priority, done }, 0));
  }

  /** From now on gets tasks as its credit allows. */
  addHolder(holder: LeaseHolder): void {
    this.#holders.push(holder);
    this.dispatchSoon();
  }

  /** The session ended: its leases return at once. */
  removeHolder(holder: LeaseHolder): void {
    const index = this.#holders.indexOf(holder);
    if (index >= 0) this.#holders.splice(index, 1);
    for (const lease of [...holder.leases]) {
      this.#leases.end(lease);
      this.#lost(lease);
    }
    this.dispatchSoon();
  }

  /** Takes a report. The promise resolves when it is on the disk. */
  report(holder: LeaseHolder, leaseId: number, id: Uint8Array, report: Report): Promise<Verdict> {
    const task = this.#claim(holder, leaseId, id);
    const crawl = task && this.#byId.get(task.queue.crawl);
    if (task === undefined || crawl === undefined) return Promise.resolve('stale');
    return new Promise((done) => {
      this.#put({ kind: 'report', crawl, task, report, slave: holder.name, done }, sizeOf(report));
    });
  }

  /** Takes a failed fetch: again later, or buried. */
  fail(
    holder: LeaseHolder,
    leaseId: number,
    id: Uint8Array,
    error: FetchErrorBody,
    retryAfterMs = 0,
  ): Promise<Verdict> {
    const task = this.#claim(holder, leaseId, id);
    const crawl = task && this.#byId.get(task.queue.crawl);
    if (task === undefined || crawl === undefined) return Promise.resolve('stale');
    const backOff = Math.min(retryMaxMs, retryFirstMs * 4 ** task.attempts);
    const retryAt = clockMs() + Math.max(retryAfterMs, backOff * (0.75 + Math.random() / 2));
    return new Promise((done) => {
      this.#put({ kind: 'failure', crawl, task, error, retryAt, slave: holder.name, done }, 0);
    });
  }

  /** A task comes back unfetched. */
  release(holder: LeaseHolder, leaseId: number): Verdict {
    const lease = this.#leases.held(leaseId, holder);
    if (lease === undefined) return 'stale';
    this.#leases.end(lease);
    lease.task.queue.release(lease.task, lease.task);
    this.#leaseEnded(lease);
    return 'done';
  }

  /** More time for these; gives those that are not held any more. */
  extend(holder: LeaseHolder, leaseIds: readonly number[]): number[] {
    const now = clockMs();
    return leaseIds.filter((id) => {
      const lease = this.#leases.held(id, holder);
      if (lease !== undefined) this.#leases.extend(lease, now);
      return lease === undefined;
    });
  }

  setPaused(crawl: Crawl, paused: boolean): Promise<void> {
    if (crawl.state === (paused ? 'running' : 'paused')) {
      crawl.state = paused ? 'paused' : 'running';
      this.#wakeAll(crawl);
    }
    return this.#save(crawl);
  }

  /** Ends a crawl for good: nothing of it is fetched any more. Its files stay. */
  async cancel(crawl: Crawl): Promise<void> {
    crawl.state = 'cancelled';
    const cancelled = [...this.#leases].filter((lease) => lease.task.queue.crawl === crawl.id);
    for (const lease of cancelled) {
      this.#leases.end(lease);
      this.#leaseEnded(lease);
      lease.holder.cancel([lease]);
    }
    for (const { host } of crawl.queues.values()) {
      this.politeness.leave(host, crawl.id, clockMs());
      this.politeness.wake(host, clockMs());
    }
    crawl.queues.clear();
    await this.#save(crawl);
    await this.#options.commits.flushed();
    await this.#erase(crawl);
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
  async replay(crawl: Crawl, url: string | undefined): Promise<number> {
    let replayed = 0;
    let after: Uint8Array | undefined;
    while (crawl.state !== 'cancelled') {
      const page = this.#buriedRows(crawl, after, 1_000);
      const rows = page.filter(({ value }) => url === undefined || decodeBuried(value).url === url);
      replayed += rows.length;
      if (rows.length > 0) {
        await new Promise<void>((done) => this.#put({ kind: 'replay', crawl, rows, done }, 0));
      }
      after = page.at(-1)?.key;
      if (after === undefined || (url !== undefined && rows.length > 0)) break;
    }
    return replayed;
  }

  #buriedRows(crawl: Crawl, after: Uint8Array | undefined, limit: number): Row[] {
    return this.#store.range('buried', {
      from: after ?? crawlKey(crawl.id),
      after: after !== undefined,
      to: crawlKey(crawl.id + 1),
      limit,
    });
  }

  /** No more leases; reports are still taken. */
  drain(): void {
    this.#draining = true;
  }

  /** Ends the timers and saves the filters. Everything else is on the disk already. */
  async close(): Promise<void> {
    clearInterval(this.#ticker);
    clearTimeout(this.#dispatchTimer);
    this.#draining = true;
    await this.#options.commits.flushed();
    for (const crawl of this.#crawls.values()) {
      if (crawl.state === 'cancelled') continue;
      const changes = await crawl.filter.save(crawl.lastCommit);
      await this.#store.commit(changes);
    }
  }

  /** Looks again whether a crawl has ended: a sink has written, a lease has ended. */
  settle(crawl: Crawl): void {
    if (!crawl.isDone) return;
    crawl.state = 'finished';
    this.#save(crawl).then(() => this.#options.onFinished(crawl));
  }

  /** Hands out tasks in this turn of the event loop, once, however often it is asked for. */
  dispatchSoon(): void {
    if (this.#dispatchQueued) return;
    this.#dispatchQueued = true;
    setImmediate(() => {
      this.#dispatchQueued = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    clearTimeout(this.#dispatchTimer);
    if (this.#draining || this.#options.results.isFull || this.#holders.length === 0) return;
    const now = clockMs();
    const pushes = new Map<LeaseHolder, Lease[]>();
    while (true) {
      const timely = this.#holderWith((holder) => Math.min(holder.slots, holder.credit));
      const holder = timely ?? this.#holderWith(({ credit }) => credit);
      const taken = holder && this.politeness.take(now, timely === undefined);
      if (holder === undefined || taken === undefined) break;
      this.#nextHolder = (this.#holders.indexOf(holder) + 1) % this.#holders.length;
      const lease = this.#leases.give(taken.task, taken.host, holder, now);
      const crawl = this.#byId.get(taken.task.queue.crawl);
      if (crawl !== undefined) crawl.leased++;
      const list = pushes.get(holder);
      if (list === undefined) pushes.set(holder, [lease]);
      else list.push(lease);
    }
    for (const [holder, leases] of pushes) holder.push(leases);
    const dueAt = this.politeness.nextDueAt();
    if (dueAt !== undefined && dueAt > now) {
      this.#dispatchTimer = setTimeout(() => this.#dispatch(), Math.min(dueAt - now, 60_000));
    }
  }

  /** The next holder in turn that has room. */
  #holderWith(room: (holder: LeaseHolder) => number): LeaseHolder | undefined {
    const { length } = this.#holders;
    for (let i = 0; i < length; i++) {
      const holder = this.#holders[(this.#nextHolder + i) % length];
      if (holder !== undefined && holder.leases.size < room(holder)) return holder;
    }
    return undefined;
  }

  #put(entry: Entry, bytes: number): void {
    entry.crawl.inbox++;
    this.#inbox.push(entry);
    this.#inboxBytes += bytes;
    this.#options.commits.request();
  }

  /** Takes entries off the inbox, up to a batch, and makes one part of them. */
  #gather(): Part | undefined {
    if (this.#inbox.length === 0) return undefined;
    const gatherings = new Map<Crawl, Gathering>();
    const answers: (() => void)[] = [];
    let bytes = 0;
    let taken = 0;
    for (const entry of this.#inbox) {
      if (bytes >= gatherBytesMax) break;
      taken++;
      bytes += 256 + (entry.kind === 'report' ? sizeOf(entry.report) : 0);
      answers.push(this.#handle(entry, gatherings));
      this.#inboxBytes -= entry.kind === 'report' ? sizeOf(entry.report) : 0;
    }
    const entries = this.#inbox.splice(0, taken);
    if (this.#inbox.length > 0) this.#options.commits.request();
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
        for (const entry of entries) entry.crawl.inbox--;
        for (const { gathering, commit, results } of sealed)
          this.#apply(gathering, commit, results);
        this.#makeRoom();
        this.dispatchSoon();
      },
    };
  }

  #handle(entry: Entry, gatherings: Map<Crawl, Gathering>): () => void {
    const { crawl } = entry;
    if (crawl.state === 'cancelled') {
      return () => {
        if (entry.kind === 'seeds') entry.done({ admitted: 0, known: 0, refused: [] });
        else if (entry.kind === 'replay') entry.done();
        else entry.done('stale');
      };
    }
    let gathering = gatherings.get(crawl);
    if (gathering === undefined) {
      gathering = new Gathering(crawl, this.#fingerprinter, (url) =>
        this.politeness.host(hostKeyOf(url)),
      );
      gatherings.set(crawl, gathering);
    }
    switch (entry.kind) {
      case 'report':
        gathering.report(entry.task, entry.report, entry.slave, clockMs());
        return () => entry.done('done');
      case 'failure':
        gathering.failure(entry.task, entry.error, entry.retryAt, entry.slave, clockMs());
        return () => entry.done('done');
      case 'seeds': {
        const verdict = takeSeeds(gathering, entry.urls, entry.priority);
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

  /** A gathering has reached the disk. */
  #apply(gathering: Gathering, commit: number, results: Buffer | undefined): void {
    const { crawl, admitted, removed, released } = gathering;
    const now = clockMs();
    const woken = new Set<Host>();
    for (const task of removed) task.queue.remove(task);
    if (crawl.state === 'cancelled') return;
    for (const queue of new Set(removed.map((task) => task.queue)))
      this.#leaveIfEmpty(crawl, queue);
    for (const { host, record, ...position } of admitted) {
      this.#queueOf(crawl, host, new URL(record.url), true).add(record, position);
      woken.add(host);
    }
    for (const { task, record } of released) {
      task.queue.release(task, record);
      woken.add(this.politeness.host(hostKeyOf(new URL(record.url))));
    }
    for (const host of woken) this.politeness.wake(host, now);
    if (results !== undefined) this.#options.results.offer(crawl, commit, results);
    if (crawl.spec.maxPages !== undefined && crawl.active) this.#wakeAll(crawl);
    if (crawl.filter.wantsSave) {
      crawl.filter.save(crawl.lastCommit).then((changes) => {
        this.#options.commits.submit(changes);
      });
    }
    this.settle(crawl);
  }

  /** The task that a report is about, taken out of whatever state it was in; undefined: stale. */
  #claim(holder: LeaseHolder, leaseId: number, id: Uint8Array): Task | undefined {
    const lease = this.#leases.held(leaseId, holder);
    if (lease !== undefined && keyOf(lease.task).equals(id)) {
      this.#leases.end(lease);
      lease.task.queue.commit(lease.task);
      this.#leaseEnded(lease);
      return lease.task;
    }
    // A lease of before a restart, or one that ran out: the report counts if the task is open.
    const task = this.#findTask(id);
    if (task === undefined || task.state === 'committing') return undefined;
    const other = task.state === 'leased' ? this.#leases.of(task) : undefined;
    if (other !== undefined) {
      this.#leases.end(other);
      other.holder.cancel([other]);
    }
    task.queue.commit(task);
    if (other !== undefined) this.#leaseEnded(other);
    return task;
  }

  #findTask(id: Uint8Array): Task | undefined {
    const parts = parseTaskKey(Buffer.from(id));
    const crawl = parts && this.#byId.get(parts.crawl);
    if (parts === undefined || crawl === undefined || crawl.state === 'cancelled') return undefined;
    for (const { host, queue } of crawl.queues.values()) {
      if (host.hash.equals(parts.host)) return queue.find(parts);
    }
    return undefined;
  }

  #leaseEnded({ host, task }: Lease): void {
    const crawl = this.#byId.get(task.queue.crawl);
    if (crawl !== undefined) crawl.leased--;
    this.politeness.ended(host, clockMs());
    this.dispatchSoon();
  }

  /** A lease ended without a word. The task waits again; a page that keeps losing its slaves waits
   *  longer and longer, and is given up at last. */
  #lost(lease: Lease): void {
    const { task } = lease;
    task.losses++;
    const crawl = this.#byId.get(task.queue.crawl);
    if (task.losses >= lossesMax && crawl !== undefined) {
      task.queue.commit(task);
      const error: FetchErrorBody = { kind: 'lost', message: 'every slave that had it was lost' };
      const last = { ...task, attempts: crawl.spec.attemptsMax };
      const entry = { kind: 'failure', crawl, task: Object.assign(task, last), error } as const;
      this.#put({ ...entry, retryAt: 0, slave: lease.holder.name, done: () => {} }, 0);
    } else {
      const again = Math.max(0, task.losses - lossesFree);
      const notBefore = again === 0 ? 0 : clockMs() + retryFirstMs * 2 ** again;
      task.queue.release(task, { ...task, notBefore });
    }
    this.#leaseEnded(lease);
  }

  #tick(): void {
    const now = clockMs();
    for (const lease of this.#leases.expire(now)) {
      lease.holder.cancel([lease]);
      this.#lost(lease);
    }
    this.politeness.sweep(now);
    this.dispatchSoon();
  }

  #makeRoom(): void {
    if (this.#inboxBytes > inboxBytesMax / 2) return;
    const waiting = this.#waitingForRoom;
    this.#waitingForRoom = [];
    for (const resolve of waiting) resolve();
  }

  #queueOf(crawl: Crawl, host: Host, url: URL, empty: boolean): TaskQueue {
    const known = crawl.queues.get(host.key);
    if (known !== undefined) return known.queue;
    const queue = new TaskQueue({ crawl: crawl.id, host: host.hash, store: this.#store, empty });
    crawl.queues.set(host.key, { host, queue });
    const manners = crawl.manners(url);
    this.politeness.join(host, crawl.id, { queue, manners, active: () => crawl.active });
    return queue;
  }

  /** A host without tasks costs no memory. */
  #leaveIfEmpty(crawl: Crawl, queue: TaskQueue): void {
    if (!queue.isEmpty) return;
    for (const [key, entry] of crawl.queues) {
      if (entry.queue !== queue) continue;
      crawl.queues.delete(key);
      this.politeness.leave(entry.host, crawl.id, clockMs());
      return;
    }
  }

  #wakeAll(crawl: Crawl): void {
    const now = clockMs();
    for (const { host } of crawl.queues.values()) this.politeness.wake(host, now);
    this.dispatchSoon();
  }

  #save(crawl: Crawl): Promise<void> {
    return new Promise((done) => {
      const value = encodeCrawl(crawl.record());
      this.#options.commits.submit([{ table: 'crawls', key: crawlKey(crawl.id), value }], done);
    });
  }

  /** Removes what a cancelled crawl has in the store, a batch at a time. */
  async #erase(crawl: Crawl): Promise<void> {
    const range = { from: crawlKey(crawl.id), to: crawlKey(crawl.id + 1), limit: 2_000 };
    for (const table of ['tasks', 'seen', 'recent', 'buried'] as const) {
      while (true) {
        const rows = this.#store.range(table, range);
        if (rows.length === 0) break;
        const changes: Change[] = rows.map(({ key }) => ({ table, key, value: undefined }));
        await new Promise<void>((done) => this.#options.commits.submit(changes, done));
      }
    }
    crawl.counters.waiting = 0;
    await this.#save(crawl);
  }

  #load(): void {
    const rows = this.#store.range('crawls', {
      from: crawlKey(0),
      to: afterPrefix(crawlKey(2 ** 32 - 1)),
    });
    for (const { value } of rows) {
      const crawl = this.#register(decodeCrawl(value));
      if (crawl.state !== 'cancelled') this.#loadQueues(crawl);
    }
  }

  /** Finds the hosts that have tasks: one read each. */
  #loadQueues(crawl: Crawl): void {
    const to = crawlKey(crawl.id + 1);
    let from: Buffer = crawlKey(crawl.id);
    while (true) {
      const [row] = this.#store.range('tasks', { from, to, limit: 1 });
      const parts = row && parseTaskKey(row.key);
      if (row === undefined || parts === undefined) break;
      const url = new URL(decodeTask(row.value).url);
      this.#queueOf(crawl, this.politeness.host(hostKeyOf(url)), url, false);
      from = afterPrefix(Buffer.concat([crawlKey(crawl.id), parts.host]));
    }
    this.#wakeAll(crawl);
  }

  #register(record: CrawlRecord): Crawl {
    const { folder } = this.#options;
    const filter = new Filter({
      crawl: record.id,
      store: this.#store,
      recent: this.#recent,
      urlsExpected: record.spec.urlsExpected,
      path: folder === undefined ? undefined : join(folder, `bloom-${record.id}`),
      seenCount: record.counters.seen,
    });
    const crawl = new Crawl(record, filter);
    this.#crawls.set(crawl.name, crawl);
    this.#byId.set(crawl.id, crawl);
    return crawl;
  }

  #hashHost(key: string): Buffer {
    const words = this.#fingerprinter.one(this.#hostSecret, key);
    return Buffer.from(words.buffer, 0, 8);
  }
}

function takeSeeds(gathering: Gathering, urls: readonly string[], priority: number): SeedVerdict {
  const verdict: SeedVerdict = { admitted: 0, known: 0, refused: [] };
  for (const text of urls) {
    const url = canonicalUrl(text);
    if (url === undefined) {
      verdict.refused.push({ url: text, why: 'not an http or https URL' });
      continue;
    }
    gathering.crawl.scope.addSeed(url);
    const why = gathering.crawl.scope.refuses(url);
    if (why !== undefined) verdict.refused.push({ url: text, why: `left out by --${why}` });
    else if (gathering.seed(url, priority)) verdict.admitted++;
    else verdict.known++;
  }
  return verdict;
}

function sizeOf(report: Report): number {
  return report.links.length + report.images.length * 128 + 512;
}

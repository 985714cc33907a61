/**
 * A frontier without sockets: over a store that lags and can crash, on a clock that the test
 * moves, with a result queue that only counts. `settle` lets everything happen that can happen
 * now; nothing sleeps.
 */
import test, { mock } from 'node:test';
import type { Answer, SeedVerdict } from '../../master/frontier/commit/entry.ts';
import type { ResultsPort } from '../../master/frontier/commit/results.ts';
import type { Lease } from '../../master/frontier/dispatch/leases.ts';
import { Fingerprinter } from '../../master/frontier/filter/fingerprint.ts';
import { Frontier } from '../../master/frontier/frontier.ts';
import { EventStream, type FrontierListener } from '../../master/frontier/frontier-events.ts';
import type { SeedNames } from '../../master/frontier/frontier-options.ts';
import { Breaker } from '../../master/frontier/politeness/breaker.ts';
import { Pace } from '../../master/frontier/politeness/pace.ts';
import { FrontierRooms } from '../../master/frontier/rooms.ts';
import { TaskNames } from '../../master/frontier/tasks/task-names.ts';
import type { UnsortedLimits } from '../../master/frontier/tasks/task-rows.ts';
import { lineOf } from '../../master/sinks/result-lines.ts';
import { GroupCommit } from '../../master/store/group-commit.ts';
import { crawlKey, decodeTask } from '../../master/store/records.ts';
import { imageUrlsOf, type Section, sectionsOf } from '../../master/store/result-rows.ts';
import type { Table } from '../../master/store/store.ts';
import {
  type CrawlSpec,
  type CrawlSpecInput,
  crawlSpecSchema,
  type RobotsDirective,
} from '../../shared/crawl.ts';
import { FakeSlave } from './fake-slave.ts';
import { LaggingStore } from './lagging-store.ts';
import { seenKeysOf } from './seen-keys.ts';

export const leaseMs = 60_000;
export const leaseMarginMs = 60_000;
const hostSecret = Buffer.alloc(16, 7);
const names = new TaskNames(hostSecret, new Fingerprinter());

/** A line of pages.jsonl, as far as tests look at it. */
type Line = {
  readonly url: string;
  readonly finalUrl?: string;
  readonly depth: number;
  readonly images?: readonly unknown[];
  readonly redirectedTo?: string;
  readonly excluded?: string;
  readonly error?: { readonly kind: string; readonly attempts: number };
};

/** Limits of the frontier's memory. */
export type Bounds = {
  readonly queuesMax: number;
  readonly tasksMax: number;
  /** Default: as usual, which is more than there are here. */
  readonly dueMin?: number;
  /** Default: they count as such that answer. */
  readonly hosts?: 'unproved';
  /** Default: each host alone. */
  readonly grouping?: 'domain';
  /** Default: as usual, which needs more hosts than there are here. */
  readonly unsorted?: UnsortedLimits;
};
const boundsDefault: Bounds = { queuesMax: 1_000, tasksMax: 1_000_000 };

export class World {
  store = new LaggingStore();
  rooms: FrontierRooms;
  frontier: Frontier;
  commits: GroupCommit;
  /** Of this start. */
  events = new EventStream();
  /** Crawls whose end was told since the last start. */
  finished: string[] = [];
  /** How often somebody was missed who takes robots.txt. */
  filesWanted = 0;
  readonly folder: string | undefined;
  /** Of all starts; a test may give it further methods. */
  readonly results: ResultsPort = { offer: () => {}, isFull: false };
  readonly #bounds: Bounds;
  #nowMs = 1_000_000;
  /** The master stood still for so long; it notices that once. */
  standstillMs = 0;

  /** Where seeds' hosts are: by default all at one public address. */
  lookUp: SeedNames['find'] = async (names) =>
    new Map([...names].map((name) => [name, ['8.8.8.8']]));

  readonly #listener: FrontierListener = {
    crawlEnded: ({ name, state }) => {
      if (state === 'finished') this.finished.push(name);
    },
    robotsWanted: () => {
      this.filesWanted++;
    },
  };

  constructor(folder?: string, bounds: Bounds = boundsDefault) {
    this.folder = folder;
    this.#bounds = bounds;
    mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    mock.method(performance, 'now', () => this.#nowMs);
    // Hosts trust at once: how they come to do so is a test of its own.
    mock.getter(Pace.prototype, 'atOnceMax', () => 1_000);
    if (bounds.hosts !== 'unproved') mock.getter(Breaker.prototype, 'isProved', () => true);
    [this.commits, this.rooms, this.frontier] = this.#open();
  }

  /** A crash and a start; of the commits under way, `applied` reach the disk. The clock is put back
   *  meanwhile by `backMs`. */
  crash(applied = 0, backMs = 0): void {
    this.#nowMs -= backMs;
    this.rooms.dispatcher.close();
    this.store.crash(applied);
    this.store = new LaggingStore(this.store.disk);
    this.finished = [];
    [this.commits, this.rooms, this.frontier] = this.#open();
  }

  async reopen(): Promise<void> {
    await this.settle();
    const closed = this.rooms.close();
    await this.settle();
    await closed;
    this.crash();
  }

  /** Lets everything happen that is due, until nothing more does. */
  async settle(turns = 12): Promise<void> {
    for (let i = 0; i < turns; i++) {
      this.#nowMs += 1;
      mock.timers.tick(1);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The store answers slowly from now on: each look at its rows takes so long. */
  slowDown(lookMs: number): void {
    const { store } = this;
    const range = store.range.bind(store);
    mock.method(store, 'range', (...args: Parameters<typeof range>) => {
      this.#nowMs += lookMs;
      return range(...args);
    });
  }

  async advance(ms: number): Promise<void> {
    await this.settle(1);
    this.#nowMs += ms;
    mock.timers.tick(Math.min(ms, 3_000));
    await this.settle();
  }

  slave(name = 'slave', credit = 4, slots = credit): FakeSlave {
    const slave = new FakeSlave(name, credit, slots);
    this.frontier.give(slave);
    return slave;
  }

  /** Waits for a promise that needs timers to move. */
  async done<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    promise.then(
      () => (isSettled = true),
      () => (isSettled = true),
    );
    for (let i = 0; i < 400 && !isSettled; i++) await this.settle(1);
    if (!isSettled) throw new Error('it never ends');
    await this.settle();
    return await promise;
  }

  async seed(urls: string | readonly string[], spec: CrawlSpecInput = {}, name = 'default') {
    const list = typeof urls === 'string' ? [urls] : urls;
    return await this.done(this.offerSeeds(list, specOf(spec), { name }));
  }

  /** As an operator does; `spec` counts only for a new crawl. */
  offerSeeds(
    seeds: readonly string[],
    spec: CrawlSpec,
    { name = 'default', priority = 0 } = {},
  ): Promise<SeedVerdict> {
    const isNew = !this.frontier.crawls.has(name);
    return this.frontier.seed({ crawl: name, seeds: [...seeds], priority, ...(isNew && { spec }) });
  }

  /** Reports a page with these links for a lease. */
  report(slave: FakeSlave, lease: Lease | undefined, found: Partial<Found> = {}) {
    if (lease === undefined) throw new Error('no lease');
    return this.frontier.report({ ...lease, holder: slave }, reportOf(lease.task.url, found));
  }

  async page(slave: FakeSlave, url: string, found: Partial<Found> = {}) {
    return await this.done(this.report(slave, leaseOf(slave, url), found));
  }

  /** The same, and the slave takes no task before the links are on the disk. */
  async pageAndWait(slave: FakeSlave, url: string, found: Partial<Found> = {}) {
    const { credit } = slave;
    slave.credit = 0;
    await this.page(slave, url, found);
    slave.credit = credit;
    this.rooms.dispatcher.dispatchSoon();
    await this.settle();
  }

  async fail(slave: FakeSlave, url: string, retryAfterMs = 0) {
    const lease = leaseOf(slave, url);
    if (lease === undefined) throw new Error(`no lease of ${url}`);
    const error = { kind: 'connect', message: 'refused' } as const;
    return await this.done(this.frontier.release(lease, { error, retryAfterMs }));
  }

  crawl(name = 'default') {
    return this.rooms.crawls.named(name);
  }

  /** The records that the sinks would have written, in the order of the commits. */
  lines(id = 1): Line[] {
    const isPages = ({ kind }: Section) => kind !== 'image-url' && kind !== 'skipped';
    return this.records(id)
      .filter(isPages)
      .map((section) => JSON.parse(lineOf(section)) as Line);
  }

  images(id = 1): string[] {
    return this.records(id)
      .filter(({ kind }) => kind === 'image-url')
      .flatMap(imageUrlsOf);
  }

  /** Rows of a crawl in a table. */
  rows(table: Table, id = 1) {
    return this.store.range(table, { from: crawlKey(id), to: crawlKey(id + 1) });
  }

  /** Names that a crawl has admitted. */
  seenKeys(id = 1): string[] {
    return seenKeysOf(this.store, id);
  }

  waitingUrls(id = 1): string[] {
    return this.rows('tasks', id).map(({ value }) => decodeTask(value).url);
  }

  close(): void {
    this.rooms.dispatcher.close();
    mock.timers.reset();
    mock.restoreAll();
  }

  /** The records of the result queue for the sinks. */
  records(id = 1): Section[] {
    return this.rows('results', id).flatMap(({ value }) => sectionsOf(value));
  }

  #open(): [GroupCommit, FrontierRooms, Frontier] {
    const onError = (error: unknown) => {
      throw error;
    };
    const commits = new GroupCommit({ store: this.store, everyMs: 0, onError });
    this.events = new EventStream();
    this.events.subscribe(this.#listener);
    const rooms = new FrontierRooms({
      store: this.store,
      commits,
      results: this.results,
      folder: this.folder,
      hostSecret,
      spec: specOf({}),
      grouping: 'host',
      leaseMs,
      leaseMarginMs,
      standstillMs: () => {
        const ms = this.standstillMs;
        this.standstillMs = 0;
        return ms;
      },
      recentEntries: 64,
      bloomBytesMax: 1 << 26,
      waitingKeys: 16,
      patternBytesMax: 1 << 22,
      robotsBytesMax: 1 << 20,
      ...this.#bounds,
      memory: { isTight: false },
      seedNames: { find: (names) => this.lookUp(names) },
      env: {},
      events: this.events,
    });
    void rooms.restore();
    rooms.settle();
    return [commits, rooms, new Frontier(rooms)];
  }
}

/** A test of the frontier in a world of its own. */
export function worldTest(
  name: string,
  run: (world: World) => Promise<void>,
  bounds: Partial<Bounds> = {},
): void {
  test(`frontier: ${name}`, async () => {
    const world = new World(undefined, { ...boundsDefault, ...bounds });
    try {
      await run(world);
    } finally {
      world.close();
    }
  });
}

type PageAnswer = Extract<Answer, { verb: 'task.report' }>;

export type Found = {
  readonly finalUrl: string;
  readonly links: readonly string[];
  readonly images: readonly string[];
  readonly status: number;
  readonly ms: number;
  readonly redirectedTo: string;
  readonly type: string;
  readonly directives: readonly RobotsDirective[];
  readonly canonical: string;
};

export function specOf(spec: CrawlSpecInput): CrawlSpec {
  return crawlSpecSchema.parse({ delayMs: 0, perHost: 100, ignoreRobots: true, ...spec });
}

/** Its place in the store. */
export function hostHash(key: string): Buffer {
  return Buffer.from(new Fingerprinter().one(hostSecret, key).buffer, 0, 8);
}

export function taskId(lease: Lease): Buffer {
  return names.of(lease.task);
}

export function leaseOf(slave: FakeSlave, url: string): Lease | undefined {
  return [...slave.leases].find(({ task }) => task.url === url);
}

export function reportOf(url: string, found: Partial<Found> = {}): PageAnswer {
  const { finalUrl = url, links = [], images = [], status = 200, redirectedTo } = found;
  const { type = 'text/html', ms = 1, directives, canonical } = found;
  return {
    verb: 'task.report',
    result: {
      finalUrl,
      status,
      type,
      bytes: 10,
      ms,
      ...(redirectedTo === undefined ? {} : { redirectedTo }),
      ...(directives === undefined ? {} : { directives: [...directives] }),
      ...(canonical === undefined ? {} : { canonical }),
      ...(status === 200 ? {} : { error: { kind: 'status', message: `${status}` } }),
    },
    images: images.map((src) => ({ src, via: 'img' })),
    links: Buffer.from(links.join('\n')),
  };
}

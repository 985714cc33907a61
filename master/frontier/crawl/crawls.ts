/**
 * The crawls of a master, by name and by number; how they are read from the store at the start.
 * A store may have thousands of crawls that are over: each keeps little in memory, and reads
 * nothing at the start but its record.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CrawlSpec } from '../../../shared/crawl.ts';
import { CommandError } from '../../../shared/errors.ts';
import {
  afterPrefix,
  type CrawlRecord,
  crawlKey,
  decodeCrawl,
  decodeLastCrawl,
  lastCrawlKey,
} from '../../store/records.ts';
import { batches, type Store } from '../../store/store.ts';
import { parseTaskKey } from '../../store/task-keys.ts';
import { bloomBytesFor } from '../filter/bloom.ts';
import { Filter } from '../filter/filter.ts';
import type { RecentTable } from '../filter/recent.ts';
import { WaitingRoom } from '../filter/waiting-room.ts';
import { TaskQueues, type TaskQueuesOptions } from '../tasks/task-queues.ts';
import type { Task } from '../tasks/tasks.ts';
import { Books } from './books.ts';
import { Crawl } from './crawl.ts';
import { keptOf } from './kept.ts';
import { needsOf } from './needs.ts';
import { PatternBudget, refusePatterns } from './patterns.ts';
import { SharedSpecs } from './shared-specs.ts';

/** Crawls that are open at once: each has open files, and queues of its own. */
const openMax = 1_000;
/** Crawls of one store, the ended ones included: some KiB of memory each. */
const crawlsMax = 100_000;
/** Records read at once at the start. */
const recordsRead = 256;

export class Crawls {
  readonly queues: TaskQueues;
  readonly waitingRoom: WaitingRoom;
  /** Those with items, and those with an archive or a login. */
  readonly ruled = new Set<Crawl>();
  readonly demanding = new Set<Crawl>();
  /** The abilities of the slaves, see `needs`; the dispatcher says so. */
  readonly server: { abilities: readonly number[] } = { abilities: [] };
  readonly #store: Store;
  readonly #recent: RecentTable;
  readonly #folder: string | undefined;
  readonly #bloomBytesMax: number;
  readonly #patternBudget: PatternBudget;
  readonly #byName = new Map<string, Crawl>();
  readonly #byId = new Map<number, Crawl>();
  readonly #specs = new SharedSpecs();
  /** Removed, with rows left that are to be erased. */
  readonly #removed = new Map<number, string>();
  #nextId: number;

  /** Reads what the store knows. `folder` is for saved Bloom filters; undefined: none.
   *  `bloomBytesMax`, `patternBytesMax`: what the Bloom filters of all crawls may take, and the
   *  programs of their patterns. `waitingKeys`: seen keys of a crawl that wait in memory. */
  constructor(
    options: {
      store: Store;
      recent: RecentTable;
      folder: string | undefined;
      bloomBytesMax: number;
      patternBytesMax: number;
      waitingKeys: number;
    } & TaskQueuesOptions,
  ) {
    this.queues = new TaskQueues(options);
    this.waitingRoom = new WaitingRoom(options.waitingKeys);
    this.#store = options.store;
    this.#recent = options.recent;
    this.#folder = options.folder;
    this.#bloomBytesMax = options.bloomBytesMax;
    this.#patternBudget = new PatternBudget(options.patternBytesMax);
    const all = { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) };
    for (const rows of batches(this.#store, 'crawls', all, recordsRead)) {
      for (const { value } of rows) this.#restore(decodeCrawl(value));
    }
    const last = this.#store.get('meta', lastCrawlKey);
    const ids = [...this.#byId.keys(), ...this.#removed.keys()];
    this.#nextId = ids.reduce((a, b) => Math.max(a, b), last ? decodeLastCrawl(last) : 0) + 1;
  }

  [Symbol.iterator](): IterableIterator<Crawl> {
    return this.#byId.values();
  }

  get size(): number {
    return this.#byId.size;
  }

  /** The highest number that a crawl had. */
  get lastId(): number {
    return this.#nextId - 1;
  }

  /** Names of crawls that were removed, whose rows are being erased. */
  get removedNames(): IterableIterator<string> {
    return this.#removed.values();
  }

  /** Numbers of these crawls. */
  get removedIds(): number[] {
    return [...this.#removed.keys()];
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  /** @throws CommandError E_NO_CRAWL */
  named(name: string): Crawl {
    const crawl = this.#byName.get(name);
    if (crawl === undefined) throw new CommandError('E_NO_CRAWL', `there is no crawl "${name}"`);
    return crawl;
  }

  byId(id: number): Crawl | undefined {
    return this.#byId.get(id);
  }

  /** The crawl that a task belongs to. */
  of(task: Task): Crawl | undefined {
    return this.#byId.get(task.queue.crawl);
  }

  /** Returns the crawl of that name, which it creates if needed; on disk with its first commit.
   *  @throws CommandError E_LIMIT, E_BAD_REQUEST: see `refuseOneMore` */
  open(name: string, spec: CrawlSpec): Crawl {
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    this.refuseOneMore(spec);
    return this.#register({
      id: this.#nextId++,
      uid: randomBytes(16),
      name,
      state: 'running',
      spec,
      specVersion: 1,
      secret: randomBytes(16),
      nextSeq: 1,
      nextCommit: 1,
      nextRecord: 1,
      counters: new Books().counters,
      seenSum: [0, 0, 0, 0],
      startedAt: Date.now(),
    });
  }

  /** Gives a crawl other options. */
  respec(crawl: Crawl, spec: CrawlSpec, how: Parameters<Crawl['respec']>[1] = {}): void {
    crawl.respec(this.#specs.share(spec), how);
    this.#sort(crawl);
  }

  /** @throws CommandError E_LIMIT there are too many, or no memory for the filter of one more ·
   *  E_BAD_REQUEST a pattern that would not run in linear time */
  refuseOneMore(spec: CrawlSpec): void {
    refusePatterns(spec);
    if (this.#byId.size >= crawlsMax) {
      throw new CommandError(
        'E_LIMIT',
        `there are ${crawlsMax} crawls already; remove some that are over`,
      );
    }
    this.#refuseOpen(spec.urlsExpected, bloomBytesFor(spec.urlsExpected));
  }

  /** A crawl that is over is about to get URLs, so that it may run again.
   *  @throws CommandError E_LIMIT as `refuseOneMore` */
  refuseAgain({ isOpen, filter, spec }: Crawl): void {
    if (!isOpen && !filter.isAwake) this.#refuseOpen(spec.urlsExpected, filter.bloomBytesAwake);
  }

  #refuseOpen(urlsExpected: number, wanted: number): void {
    let taken = 0;
    let open = 0;
    for (const { filter, isOpen } of this.#byId.values()) {
      taken += filter.bloomBytesExpected;
      if (isOpen) open++;
    }
    if (open >= openMax) {
      throw new CommandError(
        'E_LIMIT',
        `${openMax} crawls are open already; wait until one of them ends, or cancel one`,
      );
    }
    if (taken + wanted <= this.#bloomBytesMax) return;
    const mib = (bytes: number) => `${Math.ceil(bytes / 2 ** 20)} MiB`;
    throw new CommandError(
      'E_LIMIT',
      `${urlsExpected} expected URLs take ${mib(wanted)} of Bloom filter, and ` +
        `${mib(Math.max(0, this.#bloomBytesMax - taken))} are free: lower --urls-expected (more ` +
        'URLs are no harm), cancel a crawl, or raise the --memory-limit of the master',
    );
  }

  /** The task of that key; undefined when it is done or never was. */
  find(key: Buffer): Task | undefined {
    const parts = parseTaskKey(key);
    const crawl = parts && this.#byId.get(parts.crawl);
    if (parts === undefined || crawl === undefined || crawl.state === 'cancelled') return undefined;
    return this.queues.find(crawl, key, parts);
  }

  /** Takes one more name for a crawl, which it is getting. */
  reserve(crawl: Crawl, name: string): void {
    this.#byName.set(name, crawl);
  }

  /** A name of a crawl is free again. */
  free(name: string): void {
    this.#byName.delete(name);
  }

  /** From now on its name is free; its rows are to be erased. */
  forget(crawl: Crawl): void {
    this.#byName.delete(crawl.name);
    this.#byId.delete(crawl.id);
    this.ruled.delete(crawl);
    this.demanding.delete(crawl);
    this.#removed.set(crawl.id, crawl.name);
  }

  /** The rows of a crawl with this number are gone. */
  erased(crawl: number): void {
    this.#removed.delete(crawl);
    if (this.#folder === undefined) return;
    const path = bloomPath(this.#folder, crawl);
    for (const file of [path, `${path}.new`]) rmSync(file, { force: true });
  }

  /** Notes what it needs of slaves. */
  #sort(crawl: Crawl): void {
    if (crawl.hasRules) this.ruled.add(crawl);
    else this.ruled.delete(crawl);
    if (needsOf(crawl.spec.fetch) !== 0) this.demanding.add(crawl);
    else this.demanding.delete(crawl);
  }

  #restore(record: CrawlRecord): void {
    if (record.removal === 'erasing') {
      this.#removed.set(record.id, record.name);
      return;
    }
    const crawl = this.#register(record);
    // Its hosts are read in when they are wanted.
    this.queues.restored(crawl);
  }

  #register(stored: CrawlRecord): Crawl {
    const record = { ...stored, spec: this.#specs.share(stored.spec) };
    const { id } = record;
    const filter = new Filter({
      crawl: id,
      store: this.#store,
      recent: this.#recent,
      room: this.waitingRoom,
      urlsExpected: record.spec.urlsExpected,
      path: this.#folder && bloomPath(this.#folder, id),
      seenCount: () => crawl.counters.seen,
      bloomBytesLeft: () => {
        const taken = [...this].reduce((sum, { filter }) => sum + filter.bloomBytes, 0);
        return Math.max(0, this.#bloomBytesMax - taken);
      },
    });
    const kept = () => keptOf(this.#store, id);
    const crawl = new Crawl(record, filter, kept, this.#patternBudget, this.server);
    if (crawl.state === 'cancelled') void filter.forget();
    else if (crawl.isOpen) filter.wake();
    this.#byName.set(crawl.name, crawl);
    this.#byId.set(id, crawl);
    this.#sort(crawl);
    return crawl;
  }
}

function bloomPath(folder: string, crawl: number): string {
  return join(folder, `bloom-${crawl}`);
}

/** A master has worked on this store before. */
export function hasCrawls(store: Store): boolean {
  const all = { from: crawlKey(0), to: crawlKey(2 ** 32 - 1), limit: 1 };
  return store.range('crawls', all).length > 0;
}

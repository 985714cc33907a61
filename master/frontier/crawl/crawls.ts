/**
 * The crawls of a master, by name and by id; how they are read from the store at the start, and
 * erased from it when they are cancelled.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { CrawlSpec } from '../../../shared/crawl.ts';
import { CommandError } from '../../../shared/errors.ts';
import type { GroupCommit } from '../../store/group-commit.ts';
import {
  afterPrefix,
  type CrawlRecord,
  crawlKey,
  decodeBlocks,
  decodeCrawl,
  decodeLastCrawl,
  decodeSeedHosts,
  decodeTrapCounts,
  type KeptHosts,
  lastCrawlKey,
  parseTaskKey,
  seedHostOf,
  trapsKey,
} from '../../store/records.ts';
import type { Change, Row, Store } from '../../store/store.ts';
import { bloomBytesFor } from '../filter/bloom.ts';
import { Filter } from '../filter/filter.ts';
import type { RecentTable } from '../filter/recent.ts';
import { TaskQueues, type TaskQueuesOptions } from '../tasks/task-queues.ts';
import type { Task } from '../tasks/tasks.ts';
import { Books } from './books.ts';
import { Crawl, type KeptSeeds } from './crawl.ts';
import { PatternBudget, refusePatterns } from './patterns.ts';

/** Crawls of one store, the ended ones included. */
const crawlsMax = 1_000;
/** Tables with rows of a crawl that go with it. */
const erased = ['tasks', 'sources', 'earlier', 'seen', 'recent', 'buried', 'seeds'] as const;
/** Rows erased in one commit. */
const eraseBatch = 2_000;

export class Crawls {
  readonly queues: TaskQueues;
  readonly #store: Store;
  readonly #recent: RecentTable;
  readonly #folder: string | undefined;
  readonly #bloomBytesMax: number;
  readonly #patternBudget: PatternBudget;
  readonly #byName = new Map<string, Crawl>();
  readonly #byId = new Map<number, Crawl>();
  #nextId: number;

  /** Reads what the store knows. `folder` is for saved Bloom filters; undefined: none.
   *  `bloomBytesMax`, `patternBytesMax`: what the Bloom filters of all crawls may take, and the
   *  programs of their patterns. */
  constructor(
    options: {
      store: Store;
      recent: RecentTable;
      folder: string | undefined;
      bloomBytesMax: number;
      patternBytesMax: number;
    } & TaskQueuesOptions,
  ) {
    this.queues = new TaskQueues(options);
    this.#store = options.store;
    this.#recent = options.recent;
    this.#folder = options.folder;
    this.#bloomBytesMax = options.bloomBytesMax;
    this.#patternBudget = new PatternBudget(options.patternBytesMax);
    for (const { value } of this.#rows('crawls', crawlKey(0), afterPrefix(crawlKey(2 ** 32 - 1)))) {
      const crawl = this.#register(decodeCrawl(value));
      // Its hosts are read in when they are wanted.
      if (crawl.state !== 'cancelled') this.queues.parked(crawl);
    }
    const last = this.#store.get('meta', lastCrawlKey);
    this.#nextId = Math.max(last ? decodeLastCrawl(last) : 0, ...this.#byId.keys()) + 1;
  }

  [Symbol.iterator](): IterableIterator<Crawl> {
    return this.#byName.values();
  }

  get size(): number {
    return this.#byName.size;
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

  /** @throws CommandError E_LIMIT there are too many, or no memory for the filter of one more ·
   *  E_BAD_REQUEST a pattern that would not run in linear time */
  refuseOneMore(spec: CrawlSpec): void {
    const { urlsExpected } = spec;
    refusePatterns(spec);
    if (this.#byId.size >= crawlsMax) {
      throw new CommandError(
        'E_LIMIT',
        `there are ${crawlsMax} crawls already; use another --data`,
      );
    }
    const taken = [...this].reduce((sum, { filter }) => sum + filter.bloomBytesExpected, 0);
    const wanted = bloomBytesFor(urlsExpected);
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

  /** Removes what a cancelled crawl has in the store, a batch at a time. */
  async erase(crawl: Crawl, commits: GroupCommit): Promise<void> {
    for (const table of erased) {
      while (true) {
        const rows = this.#rows(table, crawlKey(crawl.id), crawlKey(crawl.id + 1), eraseBatch);
        if (rows.length === 0) break;
        await commits.written(rows.map(({ key }) => ({ table, key, value: undefined })));
      }
    }
    await commits.written([{ table: 'meta', key: trapsKey(crawl.id), value: undefined }]);
    if (this.#folder !== undefined) rmSync(bloomPath(this.#folder, crawl.id), { force: true });
    crawl.filter.forget();
    crawl.books.erased();
  }

  #register(record: CrawlRecord): Crawl {
    const isOver = record.state === 'cancelled';
    const filter = new Filter({
      crawl: record.id,
      store: this.#store,
      recent: this.#recent,
      urlsExpected: record.spec.urlsExpected,
      path: isOver ? undefined : this.#folder && bloomPath(this.#folder, record.id),
      seenCount: isOver ? 0 : record.counters.seen,
      bloomBytesLeft: () => {
        const taken = [...this].reduce((sum, { filter }) => sum + filter.bloomBytes, 0);
        return Math.max(0, this.#bloomBytesMax - taken);
      },
    });
    const counts = this.#store.get('meta', trapsKey(record.id));
    const kept = {
      ...this.#seedsOf(record.id),
      ...(counts && { trapCounts: decodeTrapCounts(counts) }),
    };
    const crawl = new Crawl(record, filter, kept, this.#patternBudget);
    this.#byName.set(crawl.name, crawl);
    this.#byId.set(crawl.id, crawl);
    return crawl;
  }

  #seedsOf(crawl: number): KeptSeeds {
    let hosts: KeptHosts = { named: [], followed: [] };
    const seedBlocks: [string, string[]][] = [];
    for (const { key, value } of this.#rows('seeds', crawlKey(crawl), crawlKey(crawl + 1))) {
      const host = seedHostOf(key);
      if (host === undefined) hosts = decodeSeedHosts(value);
      else seedBlocks.push([host, decodeBlocks(value)]);
    }
    return { hosts, seedBlocks };
  }

  #rows(table: Change['table'], from: Uint8Array, to: Uint8Array, limit?: number): Row[] {
    return this.#store.range(table, { from, to, ...(limit === undefined ? {} : { limit }) });
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

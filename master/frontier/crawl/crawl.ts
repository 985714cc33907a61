/**
 * One crawl: its spec, scope, filter, counters and queues. It decides what is admitted; the
 * frontier decides when anything happens.
 */
import {
  type CrawlState,
  crawlDelayMaxMsDefault,
  productToken,
  trapLimitsSchema,
} from '../../../shared/crawl.ts';
import type { CrawlStatus, FetchErrorKind } from '../../../shared/protocol.ts';
import { isLoopback } from '../../../shared/url.ts';
import {
  type CrawlCounters,
  type CrawlRecord,
  encodeTrapCounts,
  type TrapCounts,
  trapsKey,
} from '../../store/records.ts';
import type { Change } from '../../store/store.ts';
import type { Filter } from '../filter/filter.ts';
import type { Host, Manners } from '../politeness/host.ts';
import type { TaskQueue } from '../tasks/tasks.ts';
import type { PatternRoom } from './patterns.ts';
import { Scope } from './scope.ts';
import { SeedHosts } from './seed-hosts.ts';
import { Traps } from './traps.ts';

const politeManners = { delayMs: 250, perHost: 2 };
/** A host of this machine disturbs nobody. */
const loopbackManners = { delayMs: 0, perHost: 32 };

export const noCounters: CrawlCounters = {
  waiting: 0,
  pages: 0,
  images: 0,
  others: 0,
  failed: 0,
  buried: 0,
  unchanged: 0,
  earlier: 0,
  excluded: 0,
  skipped: {},
  errors: {},
  known: 0,
  bytes: 0,
  seen: 0,
  sitemaps: 0,
};

/** The hosts of its seeds, with their ports, and the blocks of those that were resolved. */
export type KeptSeeds = {
  readonly seedHosts: readonly string[];
  readonly seedBlocks: readonly (readonly [host: string, blocks: readonly string[]])[];
};

/** A host where a crawl has tasks in memory. */
export type Place = { readonly crawl: Crawl; readonly host: Host; readonly queue: TaskQueue };

export class Crawl {
  readonly id: number;
  readonly name: string;
  readonly spec: CrawlRecord['spec'];
  readonly secret: Uint8Array;
  readonly startedAt: number;
  readonly filter: Filter;
  readonly scope: Scope;
  readonly seedHosts: SeedHosts;
  readonly traps: Traps;
  readonly counters: CrawlCounters;
  /** Those in memory, by the bytes of the host's hash: how a task on the wire names its host. */
  readonly queues = new Map<string, Place>();
  state: Exclude<CrawlState, 'held'>;
  /** Why nothing of it is written, or fetched, until the operator acts: its files are not what it
   *  left. Not on record: each start looks for itself. */
  held: string | undefined;
  /** Hosts of its seeds are being looked up: what a private one answers must not be given up. */
  isResolving = false;
  /** Tasks at slaves. */
  leased = 0;
  /** Offers and reports that are not on the disk yet. */
  inbox = 0;
  /** Result rows that a sink has not written. */
  unwritten = 0;
  /** Of its keys in `seen`. */
  readonly seenSum: Uint32Array;
  #nextSeq: number;
  #nextCommit: number;
  readonly #openMsBefore: number;
  readonly #openSince = performance.now();

  constructor(
    record: CrawlRecord,
    filter: Filter,
    kept: Partial<KeptSeeds> & { readonly trapCounts?: TrapCounts } = {},
    patternRoom?: PatternRoom,
  ) {
    this.id = record.id;
    this.name = record.name;
    this.spec = record.spec;
    this.secret = record.secret;
    this.startedAt = record.startedAt;
    this.#openMsBefore = record.openMs ?? 0;
    this.state = record.state;
    const counters = { ...noCounters, ...record.counters };
    const { skipped, errors } = counters;
    this.counters = { ...counters, skipped: { ...skipped }, errors: { ...errors } };
    this.filter = filter;
    this.scope = new Scope(record.spec, kept.seedHosts ?? [], patternRoom);
    this.seedHosts = new SeedHosts(record.spec, kept.seedBlocks);
    // Those that no look-up is needed for are not on record.
    for (const url of this.scope.seedUrls) this.seedHosts.settle(url, new Map());
    this.traps = new Traps(trapLimitsSchema.parse(record.spec.traps ?? {}), kept.trapCounts ?? []);
    this.seenSum = new Uint32Array(record.seenSum);
    this.#nextSeq = record.nextSeq;
    this.#nextCommit = record.nextCommit;
  }

  record(): CrawlRecord {
    return {
      id: this.id,
      name: this.name,
      state: this.state,
      spec: this.spec,
      secret: this.secret,
      nextSeq: this.#nextSeq,
      nextCommit: this.#nextCommit,
      counters: this.counters,
      seenSum: [...this.seenSum],
      startedAt: this.startedAt,
      openMs: this.openMs,
    };
  }

  /** For how long masters had it, as far as that is on record. The wall clock may jump. */
  get openMs(): number {
    return this.#openMsBefore + Math.round(performance.now() - this.#openSince);
  }

  /** What puts the counts of its trap rules on record, if that is due. */
  trapChanges(atEnd = false): Change[] {
    const counts = this.traps.unsaved(atEnd);
    if (counts === undefined) return [];
    return [{ table: 'meta', key: trapsKey(this.id), value: encodeTrapCounts(counts) }];
  }

  /** Counts a URL among the failed ones, or (`by` -1) no longer. */
  countFailed(kind: FetchErrorKind, by: 1 | -1): void {
    const { counters } = this;
    counters.failed += by;
    const count = (counters.errors[kind] ?? 0) + by;
    if (count > 0) counters.errors[kind] = count;
    else delete counters.errors[kind];
  }

  takeSeq(): number {
    return this.#nextSeq++;
  }

  takeCommit(): number {
    return this.#nextCommit++;
  }

  /** Number of the last commit that was gathered. */
  get lastCommit(): number {
    return this.#nextCommit - 1;
  }

  /** Where a URL stands in its host's queue; lower comes first. */
  rank(depth: number, priority: number): number {
    switch (this.spec.order) {
      case 'bfs':
        return depth;
      case 'dfs':
        return 0xffffffff - depth;
      case 'priority':
        return (0x7fff - priority) * 0x10000 + depth;
      default:
        return this.spec.order satisfies never;
    }
  }

  manners(host: URL): Manners {
    const base = isLoopback(host.hostname) ? loopbackManners : politeManners;
    const { ignoreRobots, crawlDelayMaxMs = crawlDelayMaxMsDefault, attemptsMax } = this.spec;
    return {
      robots: ignoreRobots ? undefined : productToken(this.spec.fetch.userAgent),
      crawlDelayMaxMs,
      follows: this.spec.delayMs === undefined && base.delayMs > 0,
      attemptsMax,
      isRelayed: this.spec.fetch.proxies.length > 0,
      delayMs: this.spec.delayMs ?? base.delayMs,
      perHost: this.spec.perHost ?? base.perHost,
    };
  }

  /** May its tasks be leased? With a page limit, no more than could still become pages. */
  get active(): boolean {
    const { maxPages } = this.spec;
    if (!this.isRunning || this.isResolving) return false;
    return maxPages === undefined || this.counters.pages + this.leased + this.inbox < maxPages;
  }

  get isRunning(): boolean {
    return this.state === 'running' && this.held === undefined;
  }

  /** Neither finished nor cancelled. */
  get isOpen(): boolean {
    return this.state === 'running' || this.state === 'paused';
  }

  /** Nothing offered, waiting, leased or unwritten; or the page limit is reached. */
  get isDone(): boolean {
    if (!this.isRunning || this.inbox > 0 || this.leased > 0 || this.unwritten > 0) return false;
    return this.counters.waiting === 0 || this.isFull;
  }

  get isFull(): boolean {
    return this.spec.maxPages !== undefined && this.counters.pages >= this.spec.maxPages;
  }

  status(): CrawlStatus {
    const { seen: _, sitemaps: __, earlier: ___, ...counters } = this.counters;
    return {
      name: this.name,
      state: this.held === undefined ? this.state : 'held',
      ...(this.held !== undefined && { held: this.held }),
      leased: this.leased,
      unwritten: this.unwritten,
      ...counters,
    };
  }
}

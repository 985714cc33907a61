/** The bounds of a frontier, and the parts of the master that it uses. */
import type { CrawlSpec } from '../../shared/crawl.ts';
import type { Environment } from '../../shared/login.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ArchivesPort } from './commit/archives.ts';
import type { ImagesPort } from './commit/images-port.ts';
import type { ResultsPort } from './commit/results.ts';
import type { FoundAddresses } from './crawl/seed-hosts.ts';
import type { FrontierEvents } from './frontier-events.ts';
import type { GroupingKind } from './politeness/grouping.ts';
import type { UnsortedLimits } from './tasks/task-rows.ts';
import type { FrontierTrace } from './trace.ts';

/** Finds the hosts of seeds: `SeedLookup`. */
export interface SeedNames {
  /** Addresses of these names; never rejects, and ends in bounded time. */
  find(hostnames: Iterable<string>): Promise<FoundAddresses>;
}

export type FrontierOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  readonly results: ResultsPort;
  /** Default: nothing is archived. */
  readonly archives?: ArchivesPort | undefined;
  /** Default: no bytes of images are kept. */
  readonly images?: ImagesPort | undefined;
  readonly seedNames: SeedNames;
  /** Variables that the secrets of logins are read from. */
  readonly env: Environment;
  readonly events: FrontierEvents;
  /** While memory is tight, little may wait for the disk. */
  readonly memory: { readonly isTight: boolean };
  /** Hears of each URL; undefined: nobody does. */
  readonly trace?: FrontierTrace | undefined;
  /** Folder for the saved Bloom filters; undefined: they are not saved. */
  readonly folder: string | undefined;
  /** Keys the hosts' places in the store: 16 bytes, the same at every start. */
  readonly hostSecret: Buffer;
  /** The spec of a new crawl, for fields that a request lacks. */
  readonly spec: CrawlSpec;
  /** Which hosts share a delay and a concurrency. */
  readonly grouping: GroupingKind;
  readonly leaseMs: number;
  /** Time that a lease lasts beyond the time-out of two fetches, extended or not. */
  readonly leaseMarginMs: number;
  /** As that of the dispatcher. */
  readonly standstillMs?: () => number;
  /** Entries of the table of recent fingerprints, 16 bytes each. */
  readonly recentEntries: number;
  /** Memory limit of the Bloom filters of all crawls. */
  readonly bloomBytesMax: number;
  /** Seen keys of a crawl that wait in memory before they are sorted, at most 70 bytes each. */
  readonly waitingKeys: number;
  /** Memory limit of the pattern programs of all crawls. */
  readonly patternBytesMax: number;
  /** Memory limit of parsed robots.txt files. */
  readonly robotsBytesMax: number;
  /** Queues of hosts in memory, of all crawls. */
  readonly queuesMax: number;
  /** See `TaskQueuesOptions`. */
  readonly dueMin?: number | undefined;
  /** Tasks in memory; above it each queue keeps few. */
  readonly tasksMax: number;
  /** When new tasks of many hosts wait to be sorted; undefined: as usual. */
  readonly unsorted?: UnsortedLimits | undefined;
};

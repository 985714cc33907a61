/** The parts and options of a frontier. */
import type { GroupCommit } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ResultsPort } from './commit/results.ts';
import type { Crawl } from './crawl/crawl.ts';
import type { FoundAddresses, SeedsFound } from './crawl/seed-hosts.ts';
import type { DispatcherOptions } from './dispatch/dispatcher.ts';
import type { Grouping } from './politeness/grouping.ts';
import type { TaskQueuesOptions } from './tasks/task-queues.ts';

export type FrontierOptions = Pick<
  DispatcherOptions,
  'leaseMs' | 'leaseMarginMs' | 'onFilesWanted'
> &
  Pick<TaskQueuesOptions, 'queuesMax' | 'tasksMax'> & {
    readonly store: Store;
    readonly commits: GroupCommit;
    readonly results: ResultsPort;
    /** Folder for the saved Bloom filters; undefined: they are not saved. */
    readonly folder: string | undefined;
    /** Keys the hosts' places in the store: 16 bytes, the same at every start. */
    readonly hostSecret: Buffer;
    /** The hosts that share a delay and a concurrency. */
    readonly grouping: Grouping;
    /** Entries of the table of recent fingerprints, 16 bytes each. */
    readonly recentEntries: number;
    /** Memory limit of the Bloom filters of all crawls. */
    readonly bloomBytesMax: number;
    /** Memory limit of the pattern programs of all crawls. */
    readonly patternBytesMax: number;
    /** Memory limit of parsed robots.txt files. */
    readonly robotsBytesMax: number;
    /** Returns true while memory is short: then little may wait for the disk. */
    readonly isTight: () => boolean;
    /** A crawl was created, with these first seeds. */
    readonly onMade: (crawl: Crawl, seeds: readonly string[]) => void;
    /** Addresses of the hosts of seeds; never rejects, and ends in bounded time. */
    readonly lookUp: (hostnames: Iterable<string>) => Promise<FoundAddresses>;
    /** The result of that look-up, if it is new. */
    readonly onSeedsFound: (crawl: Crawl, found: SeedsFound) => void;
    /** A crawl is finished or cancelled, and that is on the disk. */
    readonly onEnded: (crawl: Crawl) => void;
  };

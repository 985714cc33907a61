/** What a frontier is made of and with. */
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
    /** Which hosts share a delay and a concurrency. */
    readonly grouping: Grouping;
    /** Entries of the table of recent fingerprints, 16 bytes each. */
    readonly recentEntries: number;
    /** What the Bloom filters of all crawls may take. */
    readonly bloomBytesMax: number;
    /** What the programs of the patterns of all crawls may take. */
    readonly patternBytesMax: number;
    /** What parsed robots.txt may take. */
    readonly robotsBytesMax: number;
    /** True while memory is short: little may wait for the disk then. */
    readonly isTight: () => boolean;
    /** It is new, with these for its first seeds. */
    readonly onMade: (crawl: Crawl, seeds: readonly string[]) => void;
    /** Addresses of the hosts of seeds; never rejects, and ends in bounded time. */
    readonly lookUp: (hostnames: Iterable<string>) => Promise<FoundAddresses>;
    /** What that was good for, if it is news. */
    readonly onSeedsFound: (crawl: Crawl, found: SeedsFound) => void;
    /** It is finished or cancelled, and that is on the disk. */
    readonly onEnded: (crawl: Crawl) => void;
  };

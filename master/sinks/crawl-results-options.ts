/** The options of `CrawlResults`. */
import type { NamedOutput } from '../../shared/outputs.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import type { ResultEvents } from './result-events.ts';
import type { SinkCrawl, SinkKind } from './sink.ts';
import type { WriteRoom } from './write-room.ts';

/** A crawl, as far as its results go. */
export type ResultCrawl = SinkCrawl & {
  readonly id: number;
  /** Number of its last commit that was gathered. */
  readonly lastCommit?: number;
  readonly state: string;
  /** Neither finished nor cancelled. */
  readonly isOpen: boolean;
  /** Nothing is left to fetch: the sinks write waiting rows at once. */
  readonly isFetched: boolean;
  /** Counts the rows that wait. */
  readonly open: { record(rows: number): void; written(rows: number): void };
};

export type CrawlResultsOptions<C extends ResultCrawl> = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** Every crawl has one of each. */
  readonly sinks: readonly SinkKind[];
  /** Makes the sink of an output; absent: crawls have none. */
  readonly outputs?: (output: NamedOutput) => SinkKind;
  /** Bytes that may wait for one sink. */
  readonly backlogBytesMax?: number;
  readonly events: ResultEvents<C>;
  readonly onError: (error: unknown) => void;
  /** Default: there always is. */
  readonly room?: WriteRoom;
};

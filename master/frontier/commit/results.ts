/** What the frontier needs of the result queue: the seam to the sinks, which are above it. */
import type { SealedRow } from '../../store/result-rows.ts';
import type { Crawl } from '../crawl/crawl.ts';

/** Where findings go when they are on the disk. */
export type ResultsPort = {
  /** Takes over a row of the result queue. */
  offer(crawl: Crawl, commit: number, row: SealedRow): void;
  /** True while sinks lag so far behind that no more should be fetched. */
  readonly isFull: boolean;
  /** Looks whether what was written is still there, before its crawl is said to be done; if it is
   *  not, the crawl is held when this resolves. Absent: nobody could take it away. */
  confirm?(crawl: Crawl): Promise<void>;
  /** The crawl is cancelled: drops what its sinks cannot write any more. Absent: they always
   *  can. */
  giveUp?(crawl: Crawl): Promise<void>;
};

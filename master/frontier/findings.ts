/** What the frontier needs of the result queue: the seam to the sinks, which are above it. */
import type { Crawl } from './crawl.ts';

/** Where findings go when they are on the disk. */
export type Findings = {
  /** Takes over a row of the result queue. */
  offer(crawl: Crawl, commit: number, row: Buffer): void;
  /** True while sinks lag so far behind that no more should be fetched. */
  readonly isFull: boolean;
};

/** The parts of the master that the Python dialect uses. */
import type { Frontier } from '../frontier/frontier.ts';
import type { UserQueues } from '../queues/queues.ts';
import type { CrawlWorker } from './crawl-worker.ts';

export type ManagedPorts = {
  readonly frontier: Frontier;
  readonly queues: UserQueues;
  readonly isDraining: () => boolean;
  /** A program's lease ends this many ms after its last request. [Y-8] */
  readonly leaseMs: number;
  /** A Python connection got its first page, or ended and released `returned` pages. */
  readonly onWorker: (worker: CrawlWorker, returned?: number) => void;
};

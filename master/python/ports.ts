/** What the Python dialect needs of the rest of the master, and no more. */
import type { Admission } from '../frontier/crawl/admission.ts';
import type { Frontier } from '../frontier/frontier.ts';
import type { UserQueues } from '../queues/queues.ts';
import type { CrawlWorker } from './crawl-worker.ts';

export type ManagedPorts = {
  readonly frontier: Frontier;
  readonly queues: UserQueues;
  readonly admission: Admission;
  readonly isDraining: () => boolean;
  /** A program's lease ends so many ms after it was heard last. [Y-8] */
  readonly leaseMs: number;
  /** A Python connection got its first page, or has ended and `returned` so many. */
  readonly onWorker: (worker: CrawlWorker, returned?: number) => void;
};

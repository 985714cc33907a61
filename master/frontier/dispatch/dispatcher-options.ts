/** The options of a dispatcher, and its listeners. Types alone. */
import type { ResultsPort } from '../commit/results.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { FrontierEvents } from '../frontier-events.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { HostRecords } from '../politeness/records.ts';
import type { TaskNames } from '../tasks/task-names.ts';
import type { Task } from '../tasks/tasks.ts';
import type { FrontierTrace } from '../trace.ts';

export type DispatcherOptions = {
  readonly crawls: Crawls;
  readonly politeness: Politeness;
  readonly names: TaskNames;
  readonly leaseMs: number;
  /** Time that a lease lasts beyond the time-out of two fetches, extended or not. */
  readonly leaseMarginMs: number;
  /** For how long the master stood still since the last call; default: as timers show. */
  readonly standstillMs?: () => number;
  /** While it is full, because sinks lag behind, nothing is fetched. */
  readonly results: Pick<ResultsPort, 'isFull'>;
  /** Swept about once a second. */
  readonly records: Pick<HostRecords, 'sweep'>;
  readonly events: Pick<FrontierEvents, 'counted' | 'robotsWanted'>;
  readonly trace?: FrontierTrace | undefined;
};

/** The listener of a dispatcher: `Reports`. */
export interface LossEvents {
  /** A task has lost its slaves repeatedly; it is claimed already. `slave`: the last of them. */
  hopeless(task: Task, slave: string): void;
}

/** The parts of the master that the Python dialect uses. */
import type { Frontier } from '../frontier/frontier.ts';
import type { UserQueues } from '../queues/queues.ts';

export type ManagedPorts = {
  readonly frontier: Frontier;
  readonly queues: UserQueues;
  readonly master: { readonly isDraining: boolean };
  readonly events: PythonEvents;
  /** A program's lease ends this many ms after its last request. [Y-8] */
  readonly leaseMs: number;
};

/** The listener of the Python dialect: `Notices`. */
interface PythonEvents {
  /** A connection got its first page. */
  workerJoined(worker: string): void;
  /** It ended, and released so many pages. */
  workerLeft(worker: string, released: number): void;
}

/** Does the answer to a put wait for its commit? Asked for each put. */
export class PutPolicy {
  readonly #isAlwaysDurable: boolean;
  readonly #disk: { readonly isShort: boolean };

  constructor(isAlwaysDurable: boolean, disk: { readonly isShort: boolean }) {
    this.#isAlwaysDurable = isAlwaysDurable;
    this.#disk = disk;
  }

  /** No commit may ever come while the disk is full. */
  get isDurable(): boolean {
    return this.#isAlwaysDurable || this.#disk.isShort;
  }
}

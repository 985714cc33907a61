/** The jobs and their file, made and joined, for the master. */
import type { Logger } from '../../shared/log.ts';
import type { GroupCommit, Room } from '../store/group-commit.ts';
import type { Store } from '../store/store.ts';
import { JobFile } from './job-file.ts';
import { Jobs } from './jobs.ts';

type JobRoomOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  /** Folder of the results. */
  readonly outFolder: string;
  readonly room: Room & { refused(): void };
  readonly leaseMs: number;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
  /** No job waits or runs any more. */
  readonly onIdle: () => void;
};

/** A slave whose process lives is back sooner: its longest wait between two tries is 7.5 s. */
const lostMsMax = 30_000;

export class JobRoom {
  readonly jobs: Jobs;
  readonly #file: JobFile;

  constructor({ outFolder, log, leaseMs, onIdle, ...parts }: JobRoomOptions) {
    this.#file = new JobFile({
      ...parts,
      folder: outFolder,
      warn: (line) => log.warn(line),
      onWritten: (seq) => this.jobs.written(seq),
      onHeld: () => this.jobs.tellEnds(),
    });
    const lostMs = Math.min(leaseMs, lostMsMax);
    this.jobs = new Jobs({ ...parts, file: this.#file, lostMs, onIdle });
  }

  /** Nothing begins any more; what has ended is written. */
  async close(): Promise<void> {
    this.jobs.drain();
    await this.#file.close();
  }
}

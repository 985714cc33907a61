/**
 * The jobs that slaves have: each is on record with its lease before its slave gets it. A session
 * that ends takes no job with it: the process of the slave may come back, and says what it holds.
 *
 *     on record --> sent --> reported
 *         |           |
 *         |           +-- its slave is away --> back, or lost after a while
 *         +-- its slave left before --> waiting again
 */
import { randomBytes } from 'node:crypto';
import { AwakeTimer } from '../../shared/awake.ts';
import { type JobEnd, jobLimits } from '../../shared/jobs.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import type { Executor, Executors, JobPeer } from './executors.ts';
import { changeOf, type JobRecord, noRun, notBegun } from './job-record.ts';
import type { JobWatchers } from './job-watchers.ts';

type RunningOptions = {
  readonly commits: GroupCommit;
  readonly executors: Executors;
  readonly watchers: JobWatchers;
  /** A slave that is gone for this long has lost its jobs, in ms. */
  readonly lostMs: number;
  /** The record has changed. */
  readonly put: (record: JobRecord) => void;
  /** It has not run, or is tried again. Resolves when that is on the disk. */
  readonly waitAgain: (record: JobRecord) => Promise<void>;
  /** Resolves when its end is on the disk. */
  readonly end: (record: JobRecord, end: JobEnd) => Promise<void>;
};

type RunningJob = {
  record: JobRecord;
  /** The session that has it; undefined: its slave is away. */
  executor: Executor | undefined;
  /** Its slave may have got it. */
  isSent: boolean;
  timer: AwakeTimer | undefined;
};

export class RunningJobs {
  readonly #options: RunningOptions;
  /** By lease, in hexadecimal. */
  readonly #running = new Map<string, RunningJob>();
  #state: 'serving' | 'draining' = 'serving';

  constructor(options: RunningOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#running.size;
  }

  /** An earlier master has handed it out. */
  restore(record: JobRecord): void {
    this.#away(this.#runs(record, true));
  }

  /** Hands a job to a slave that has room. */
  start(waiting: JobRecord, executor: Executor): void {
    const record = this.#put({
      ...waiting,
      attempts: waiting.attempts + 1,
      running: { lease: hex(randomBytes(jobLimits.leaseBytes)), instance: executor.instance },
      slave: executor.peer.name,
      startedAt: Date.now(),
    });
    const held = this.#runs(record, false);
    held.executor = executor;
    executor.jobs.add(record.job);
    this.#options.commits.submit([changeOf(record)], () => this.#send(held));
  }

  /** It is on record as running: now its slave gets it. */
  #send(held: RunningJob): void {
    const { record, executor } = held;
    const lease = record.running?.lease ?? '';
    if (this.#running.get(lease) !== held) return;
    // Its slave has left since, without it.
    const isThere = executor && this.#options.executors.of(executor.peer) === executor;
    if (!isThere || record.isCancelling) {
      void this.#neverSent(held);
      return;
    }
    held.isSent = true;
    const { job, program, script, args, timeoutMs, attempts } = record;
    executor.peer.send({
      verb: 'exec.start',
      job,
      lease: Buffer.from(lease, 'hex'),
      args,
      ...(program !== undefined && { program }),
      ...(script !== undefined && { script }),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
    this.#options.watchers.started(job, executor.peer.name, attempts);
  }

  /** It was not handed out, so it waits again, and that attempt does not count. */
  async #neverSent(held: RunningJob): Promise<void> {
    this.#stops(held);
    const { running: _, startedAt: __, ...rest } = held.record;
    if (rest.isCancelling) await this.#options.end(rest, noRun('cancelled', notBegun));
    else await this.#options.waitAgain({ ...rest, attempts: rest.attempts - 1 });
  }

  /** The jobs that a slave holds after it has joined again. One that it had and no longer holds
   *  never reached it. Returns those that are not its own any more. */
  returned(executor: Executor, leases: readonly Uint8Array[]): Uint8Array[] {
    const holds = new Set(leases.map(hex));
    for (const held of [...this.#running.values()]) {
      const { running } = held.record;
      if (running?.instance !== executor.instance || held.executor === executor) continue;
      if (!holds.has(running.lease)) {
        void this.#neverSent(held);
        continue;
      }
      held.timer?.clear();
      // Its old session may not be over yet.
      held.executor?.jobs.delete(held.record.job);
      held.executor = executor;
      held.isSent = true;
      executor.jobs.add(held.record.job);
      if (held.record.isCancelling) this.#sendCancel(held);
    }
    return leases.filter((lease) => this.#running.get(hex(lease))?.executor !== executor);
  }

  #sendCancel({ record, executor }: RunningJob): void {
    const lease = Buffer.from(record.running?.lease ?? '', 'hex');
    executor?.peer.send({ verb: 'exec.cancel', lease });
  }

  #runs(record: JobRecord, isSent: boolean): RunningJob {
    const held: RunningJob = { record, executor: undefined, isSent, timer: undefined };
    this.#running.set(record.running?.lease ?? '', held);
    return held;
  }

  #stops(held: RunningJob): void {
    held.timer?.clear();
    held.executor?.jobs.delete(held.record.job);
    this.#running.delete(held.record.running?.lease ?? '');
  }

  /** Its slave is away. */
  #away(held: RunningJob): void {
    held.executor = undefined;
    if (this.#state === 'draining') return;
    const { lostMs } = this.#options;
    // A slave that is back waits at the door of a master that stood still.
    held.timer = new AwakeTimer(() => {
      this.#stops(held);
      void this.#lost(held.record, `its slave was gone for ${lostMs / 1000} s`);
    }, lostMs);
  }

  async #lost(record: JobRecord, reason: string): Promise<void> {
    const { attempts, retries, isCancelling, bound } = record;
    // A job of `every` is its process's, which does not come back.
    if (attempts > retries || isCancelling || bound !== undefined) {
      await this.#options.end(record, noRun('lost', reason));
      return;
    }
    const { running: _, startedAt: __, ...rest } = record;
    await this.#options.waitAgain(rest);
  }

  /** The job of a lease that this session has. */
  jobOf(peer: JobPeer, lease: Uint8Array): number | undefined {
    const held = this.#running.get(hex(lease));
    return held?.executor?.peer === peer ? held.record.job : undefined;
  }

  /** Has it ended. Resolves when its slave knows, or will when it is back. */
  async cancel(lease: string): Promise<void> {
    const held = this.#running.get(lease);
    if (held === undefined) return;
    held.record = this.#put({ ...held.record, isCancelling: true });
    await this.#options.commits.written([changeOf(held.record)]);
    if (held.isSent) this.#sendCancel(held);
  }

  /** False: the job is no longer this slave's. Resolves when its end is on the disk: its slave
   *  forgets it then, and what a slave does not hold runs again after a crash before that. */
  async report(lease: Uint8Array, end: JobEnd): Promise<boolean> {
    const held = this.#running.get(hex(lease));
    if (held === undefined) {
      // An earlier report of it may be on its way to the disk.
      await this.#options.commits.written([]);
      return false;
    }
    // The job and the slave's leave were on their way at the same time. [T-122]
    if (end.outcome === 'refused' && held.executor?.slots === 0) {
      await this.#neverSent(held);
      return true;
    }
    this.#stops(held);
    if (end.outcome === 'lost') await this.#lost(held.record, end.reason ?? 'its slave left');
    else await this.#options.end(held.record, end);
    return true;
  }

  /** A session has ended. */
  left(executor: Executor): void {
    for (const held of this.#running.values()) if (held.executor === executor) this.#away(held);
  }

  /** The master stops: nothing is lost any more. */
  drain(): void {
    this.#state = 'draining';
    for (const { timer } of this.#running.values()) timer?.clear();
  }

  #put(record: JobRecord): JobRecord {
    this.#options.put(record);
    return record;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

/**
 * The jobs of `exec` and `run`: from the request to the line in jobs.jsonl.
 *
 *     waiting --on record--> running --report--> ended --line--> kept for a while --> forgotten
 *        ^                      |                  ^
 *        +--never left, retry---+--lost, refused---+
 *
 * A job is on record as running before its slave gets it, so after any crash none is handed out
 * twice: it runs at most once, unless retries were asked for. When its slave is gone it waits for
 * that process to come back, since a job outlives its connection; then it is lost.
 * Source: PROTOCOL.md [C-140]..[C-146], [T-120]..[T-127].
 */
import { AwakeTimer } from '../../shared/awake.ts';
import { CommandError } from '../../shared/errors.ts';
import type { JobEnd, JobRow, JobState, JobsStatus } from '../../shared/jobs.ts';
import type { Replies } from '../../shared/replies.ts';
import type { Requests } from '../../shared/requests.ts';
import type { GroupCommit } from '../store/group-commit.ts';
import { batches, type Change, type Store } from '../store/store.ts';
import { type Executor, Executors, type JobPeer, type Wish, waitText } from './executors.ts';
import type { JobFile } from './job-file.ts';
import {
  allJobs,
  changeOf,
  decodeJob,
  decodeLastJob,
  encodeLastJob,
  type JobRecord,
  jobKey,
  lastJobKey,
  noRun,
  notBegun,
  rowOf,
  stateOf,
} from './job-record.ts';
import { JobWatchers } from './job-watchers.ts';
import { KeptJobs } from './kept-jobs.ts';
import { RunningJobs } from './running-jobs.ts';
import { WaitingJobs } from './waiting-jobs.ts';

type JobsOptions = {
  readonly store: Store;
  readonly commits: GroupCommit;
  readonly file: Pick<JobFile, 'add' | 'upTo' | 'held' | 'waiting'>;
  /** A slave that is gone for this long has lost its jobs, in ms. */
  readonly lostMs: number;
  /** None waits or runs any more. */
  readonly onIdle: () => void;
};

const waitingMax = 100_000;
const waitingBytesMax = 64 << 20;
/** Programs, scripts and slaves for which jobs wait. */
const groupsMax = 10_000;
/** Lines that wait for their file; above it none begins. */
const unwrittenMax = 1_000;
/** Characters of the arguments of one list: a frame has a limit. [F-5] */
const listCharsMax = 4 << 20;
const nothing = { kept: Buffer.alloc(0), bytes: 0 };

export class Jobs {
  readonly #options: JobsOptions;
  readonly #executors = new Executors();
  readonly #watchers = new JobWatchers();
  readonly #waiting = new WaitingJobs();
  readonly #running: RunningJobs;
  readonly #kept: KeptJobs;
  /** All that are in the store, without their output. */
  readonly #all = new Map<number, JobRecord>();
  readonly #timers = new Set<AwakeTimer>();
  #lastJob = 0;
  #lastEnded = 0;
  /** Jobs that have ended, whose watchers have not heard of it. */
  #untold: { readonly job: number; readonly seq: number }[] = [];
  #state: 'starting' | 'serving' | 'draining' = 'starting';

  constructor(options: JobsOptions) {
    this.#options = options;
    this.#kept = new KeptJobs((jobs) => this.#forget(jobs));
    const { commits, lostMs } = options;
    this.#running = new RunningJobs({
      commits,
      lostMs,
      executors: this.#executors,
      watchers: this.#watchers,
      put: (record) => void this.#all.set(record.job, record),
      waitAgain: (record) => this.#wait(record),
      end: (record, end) => this.#end(record, end),
    });
  }

  /** Takes up what an earlier master left. */
  restore(): void {
    const { store, file } = this.#options;
    const last = store.get('meta', lastJobKey);
    this.#lastJob = last === undefined ? 0 : decodeLastJob(last);
    const bound = new Set<string>();
    const unwritten: { job: number; seq: number }[] = [];
    for (const rows of batches(store, 'meta', allJobs, 64)) {
      for (const { value } of rows) {
        const record = decodeJob(value);
        this.#all.set(record.job, withoutOutput(record));
        const { ended, running } = record;
        if (ended !== undefined) {
          this.#lastEnded = Math.max(this.#lastEnded, ended.seq);
          this.#kept.add({ job: record.job, seq: ended.seq, bytes: value.length });
          if (ended.seq > file.upTo) unwritten.push({ job: record.job, seq: ended.seq });
        } else if (running === undefined) {
          this.#waiting.add(record);
          if (record.bound !== undefined) bound.add(record.bound);
        } else this.#running.restore(record);
      }
    }
    for (const instance of bound) this.#endBoundLater(instance);
    this.#lastEnded = Math.max(this.#lastEnded, file.upTo);
    for (const ended of unwritten.sort((a, b) => a.seq - b.seq)) file.add(ended);
    this.#kept.written(file.upTo);
    this.#state = 'serving';
  }

  /** For `status`; undefined: all have ended. */
  get status(): JobsStatus | undefined {
    const { held } = this.#options.file;
    const { size, first } = this.#waiting;
    if (size + this.#running.size === 0 && held === undefined) return undefined;
    const waits = first && this.#waitsFor(first);
    return {
      waiting: size,
      running: this.#running.size,
      ...(waits !== undefined && { waits: `job ${first?.job}: ${waits}` }),
      ...(held !== undefined && { held }),
    };
  }

  /** Some wait, run, or are not written. */
  get isOpen(): boolean {
    return this.#waiting.size + this.#running.size + this.#options.file.waiting > 0;
  }

  /** Programs and scripts that a slave runs; undefined: it takes no commands. */
  executorOf(peer: JobPeer): Executor | undefined {
    return this.#executors.of(peer);
  }

  /** [C-140]..[C-142] @throws CommandError nothing was added */
  async add(peer: JobPeer, said: Requests['job.add']): Promise<Replies['job.add']> {
    if (this.#state !== 'serving') {
      throw new CommandError('E_DRAINING', 'the master is stopping; try again later');
    }
    const { program, script, args, on, retries, timeoutMs, waits = false, watch = false } = said;
    const wish: Wish = { program, script, args, on };
    const isEvery = on === 'every';
    if (waits && isEvery) {
      throw new CommandError(
        'E_BAD_REQUEST',
        'every means the slaves connected now: nothing waits',
      );
    }
    const refusal = waits ? undefined : this.#executors.refusal(wish);
    if (refusal !== undefined) throw new CommandError('E_BAD_REQUEST', refusal);
    const bounds = isEvery ? this.#executors.working : [undefined];
    const { size, bytes, groups } = this.#waiting;
    const isFull = size + bounds.length > waitingMax || bytes > waitingBytesMax;
    if (isFull || groups > groupsMax) {
      throw new CommandError('E_QUEUE_FULL', 'too many jobs wait; add more when some have ended');
    }
    const records = bounds.map((executor) => ({
      job: ++this.#lastJob,
      program,
      script,
      args,
      on,
      retries,
      timeoutMs,
      addedAt: Date.now(),
      attempts: 0,
      ...(executor && { bound: executor.instance, slave: executor.peer.name }),
    }));
    if (watch) for (const { job } of records) this.#watchers.add(peer, job);
    for (const record of records) this.#all.set(record.job, record);
    const last = { table: 'meta', key: lastJobKey, value: encodeLastJob(this.#lastJob) } as const;
    await this.#options.commits.written([last, ...records.map(changeOf)]);
    for (const record of records) {
      if (this.#all.get(record.job)?.ended === undefined) this.#waiting.add(record);
    }
    this.#match();
    return {
      jobs: records.map(({ job, slave }) => ({ job, ...(slave !== undefined && { slave }) })),
    };
  }

  /** [C-143] */
  watch(peer: JobPeer, jobs: readonly number[]): Replies['job.watch'] {
    const isOver = (job: number) => this.#all.get(job)?.ended !== undefined || !this.#all.has(job);
    for (const job of jobs) if (!isOver(job)) this.#watchers.add(peer, job);
    return { ended: jobs.filter(isOver) };
  }

  /** [C-144] */
  list(states: readonly JobState[] | undefined, after: number, limit: number): Replies['job.list'] {
    const rows: JobRow[] = [];
    let chars = 0;
    // A Map keeps the order in which they were added, which is that of their numbers.
    for (const record of this.#all.values()) {
      if (record.job <= after) continue;
      if (states !== undefined && !states.includes(stateOf(record))) continue;
      if (rows.length === limit || chars > listCharsMax) {
        return { jobs: rows, next: rows.at(-1)?.job ?? 0 };
      }
      chars += record.args.reduce((sum, arg) => sum + arg.length, 0);
      rows.push(this.#rowOf(record));
    }
    return { jobs: rows };
  }

  /** [C-145] @throws CommandError it is not known */
  async get(job: number): Promise<Replies['job.get']> {
    const record = this.#known(job);
    if (record.ended === undefined) return this.#rowOf(record);
    const end = await this.#writtenEnd(job);
    return { ...this.#rowOf(record), ...(end && { stdout: end.stdout, stderr: end.stderr }) };
  }

  /** [C-146] @throws CommandError it is not known */
  async cancel(job: number): Promise<Replies['job.cancel']> {
    const record = this.#known(job);
    if (record.ended !== undefined) {
      await this.#writtenEnd(job);
      return { state: 'ended' };
    }
    if (this.#waiting.delete(record)) {
      await this.#end(record, noRun('cancelled', notBegun));
      return { state: 'ended' };
    }
    if (record.running === undefined) {
      // It is being added, which takes as long as the disk is full.
      await this.#options.commits.written([]);
      return await this.cancel(job);
    }
    await this.#running.cancel(record.running.lease);
    return { state: 'cancelling' };
  }

  /** A slave says what it runs. [T-120] */
  can(peer: JobPeer, said: Requests['exec.can']): Replies['exec.can'] {
    const instance = hex(said.instance);
    const [programs, scripts] = [new Set(said.programs), new Set(said.scripts)];
    const known = this.#executors.of(peer);
    const executor = known ?? { peer, instance, slots: 0, programs, scripts, jobs: new Set() };
    Object.assign(executor, { slots: said.slots, programs, scripts });
    if (known === undefined) this.#executors.set(executor);
    const lost = said.held === undefined ? [] : this.#running.returned(executor, said.held);
    this.#match();
    return { lost };
  }

  /** [T-123] */
  output(peer: JobPeer, { lease, stream, at, data }: Requests['exec.output']): void {
    const job = this.#running.jobOf(peer, lease);
    if (job !== undefined) this.#watchers.output(job, stream, at, data);
  }

  /** [T-124] */
  async report(lease: Uint8Array, end: JobEnd): Promise<Replies['exec.report']> {
    const isDone = await this.#running.report(lease, end);
    this.#match();
    return { state: isDone ? 'done' : 'stale' };
  }

  /** A session has ended: its slave may come back with its jobs. */
  left(peer: JobPeer): void {
    this.#watchers.leave(peer);
    const executor = this.#executors.of(peer);
    if (executor === undefined) return;
    this.#executors.delete(peer);
    this.#running.left(executor);
    if (this.#state === 'serving') this.#endBoundLater(executor.instance);
    this.#match();
  }

  /** No job begins any more; those that run go on at their slaves. */
  drain(): void {
    this.#state = 'draining';
    this.#running.drain();
    for (const timer of this.#timers) timer.clear();
  }

  /** Up to this one, the lines of all that have ended are in the file. */
  written(seq: number): void {
    this.#kept.written(seq);
    this.tellEnds(seq);
    this.#match();
  }

  /** Those who watch jobs hear of their ends when the lines are written, or cannot be. */
  tellEnds(upTo = Number.POSITIVE_INFINITY): void {
    const told = this.#untold.filter(({ seq }) => seq <= upTo);
    this.#untold = this.#untold.filter(({ seq }) => seq > upTo);
    for (const { job } of told) this.#watchers.ended(job);
  }

  /** Of a job that has ended: resolves when that is on the disk. */
  async #writtenEnd(job: number): Promise<JobEnd | undefined> {
    const end = this.#endOf(job);
    if (end !== undefined) return end;
    await this.#options.commits.written([]);
    return this.#endOf(job);
  }

  /** With its output. */
  #endOf(job: number): JobEnd | undefined {
    const stored = this.#options.store.get('meta', jobKey(job));
    return stored === undefined ? undefined : decodeJob(stored).ended?.end;
  }

  #known(job: number): JobRecord {
    const record = this.#all.get(job);
    if (record !== undefined) return record;
    throw new CommandError(
      'E_BAD_REQUEST',
      job <= this.#lastJob
        ? `job ${job} has ended, and is no longer kept: its record is in jobs.jsonl`
        : `there is no job ${job}`,
    );
  }

  #rowOf(record: JobRecord): JobRow {
    const isWaiting = stateOf(record) === 'waiting';
    return rowOf(record, isWaiting ? this.#waitsFor(record) : undefined);
  }

  #waitsFor(record: JobRecord): string | undefined {
    if (this.#options.file.held !== undefined) return 'its record could not be written';
    return waitText(record, this.#executors.refusal({ ...record, on: onOf(record) }));
  }

  /** Hands out what can be handed out, the oldest first. */
  #match(): void {
    while (this.#state === 'serving' && this.#options.file.waiting < unwrittenMax) {
      if (this.#options.file.held !== undefined) return;
      let found: { record: JobRecord; executor: Executor } | undefined;
      for (const record of this.#waiting.firsts()) {
        const executor = this.#executors.free(record);
        if (executor === undefined) continue;
        found = { record, executor };
        break;
      }
      if (found === undefined) return;
      this.#waiting.delete(found.record);
      this.#running.start(found.record, found.executor);
    }
  }

  /** Resolves when that is on the disk. */
  async #wait(record: JobRecord): Promise<void> {
    this.#all.set(record.job, record);
    const written = this.#options.commits.written([changeOf(record)]);
    this.#waiting.add(record);
    this.#match();
    await written;
  }

  /** Jobs of `every` that wait for a process of a slave that is gone end with it. */
  #endBoundLater(instance: string): void {
    const { lostMs } = this.#options;
    const timer = new AwakeTimer(() => {
      this.#timers.delete(timer);
      if (this.#executors.working.some((executor) => executor.instance === instance)) return;
      for (const record of this.#waiting.bound(instance)) {
        this.#waiting.delete(record);
        void this.#end(record, noRun('lost', `its slave was gone for ${lostMs / 1000} s`));
      }
    }, lostMs);
    this.#timers.add(timer);
  }

  /** Puts its end on record. Resolves when that is on the disk. */
  async #end(record: JobRecord, end: JobEnd): Promise<void> {
    const { running: _, ...rest } = record;
    const seq = ++this.#lastEnded;
    const whole: JobRecord = { ...rest, ended: { seq, at: Date.now(), end } };
    this.#all.set(record.job, withoutOutput(whole));
    const change = changeOf(whole);
    await this.#options.commits.written([change]);
    this.#kept.add({ job: record.job, seq, bytes: change.value.length });
    this.#options.file.add({ job: record.job, seq });
    this.#untold.push({ job: record.job, seq });
    if (this.#options.file.held !== undefined) this.tellEnds();
    if (this.#waiting.size + this.#running.size === 0) this.#options.onIdle();
  }

  #forget(jobs: readonly number[]): void {
    for (const job of jobs) this.#all.delete(job);
    this.#options.commits.submit(
      jobs.map((job): Change => ({ table: 'meta', key: jobKey(job), value: undefined })),
    );
  }
}

/** A bound job waits for its process alone, which `every` does not say of others. */
function onOf({ on, bound, slave = '' }: JobRecord): string {
  return bound === undefined ? on : slave;
}

function withoutOutput(record: JobRecord): JobRecord {
  const { ended } = record;
  if (ended === undefined) return record;
  return {
    ...record,
    ended: { ...ended, end: { ...ended.end, stdout: nothing, stderr: nothing } },
  };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

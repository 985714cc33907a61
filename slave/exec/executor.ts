/**
 * The commands of a slave: takes jobs from the master, runs them, reports how they ended.
 *
 *     exec.start --allowed--> running --ended--> reported --answered--> forgotten
 *         |                                         ^   |
 *         +--refused--------------------------------+   +-- again after a lost connection
 *
 * A job goes on while there is no master: at most once means that nobody else may have begun it
 * again. When the slave has joined again it says which jobs it holds, and ends those that the
 * master has given up. Source: PROTOCOL.md [T-120]..[T-127].
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rmdirSync } from 'node:fs';
import { AwakeTimer } from '../../shared/awake.ts';
import type { MasterClient } from '../../shared/client.ts';
import { CommandError, messageOf } from '../../shared/errors.ts';
import { callText, type JobEnd, type JobStream, jobLimits } from '../../shared/jobs.ts';
import type { Logger } from '../../shared/log.ts';
import type { Push } from '../../shared/protocol.ts';
import type { Allowed } from './allowed.ts';
import { markOfJob, startGuard, tellGuard } from './guard.ts';
import { type ExecUser, makeBase } from './job-folder.ts';
import { JobProcess } from './job-process.ts';
import type { JobBounds, Tools } from './limits.ts';
import { ProcessTable } from './processes.ts';

type Start = Extract<Push, { verb: 'exec.start' }>;

type ExecutorOptions = {
  readonly allowed: Allowed;
  readonly bounds: JobBounds;
  readonly tools: Tools;
  readonly user: ExecUser | undefined;
  /** Jobs at once. */
  readonly slots: number;
  /** Path of slave.js. */
  readonly program: string;
  readonly log: Logger;
};

type Held = {
  readonly start: Start;
  process?: JobProcess;
  /** It has ended: to be reported until the master has answered. */
  end?: JobEnd;
  /** The master has refused the report with its output. */
  isBare?: boolean;
};

const lookEveryMs = 1_000;
/** How often the scripts of the folder are looked at. */
const scriptsEveryMs = 5_000;
/** How long a slave that leaves waits for its jobs, and then for the answers to their reports. */
const drainMs = 35_000;
const reportMs = 10_000;
const nothing = { kept: Buffer.alloc(0), bytes: 0 };

export class Executor {
  readonly #options: ExecutorOptions;
  readonly #instance = randomBytes(jobLimits.instanceBytes);
  readonly #held = new Map<string, Held>();
  #master: MasterClient | undefined;
  #base: string | undefined;
  #guard: ChildProcess | undefined;
  #lookTimer: NodeJS.Timeout | undefined;
  #scriptsTimer: NodeJS.Timeout | undefined;
  /** The last declaration, to make another one when it has changed. */
  #said = '';
  #state: 'working' | 'draining' = 'working';
  #onChange: () => void = () => {};

  constructor(options: ExecutorOptions) {
    this.#options = options;
  }

  /** The slave has joined a master, for the first time or again. */
  joined(master: MasterClient): void {
    this.#master = master;
    const held = [...this.#held.values()].map(({ start }) => start.lease);
    this.#say(master, held);
    for (const one of this.#held.values()) if (one.end !== undefined) this.#report(one);
    clearInterval(this.#scriptsTimer);
    this.#scriptsTimer = setInterval(() => this.#sayIfChanged(), scriptsEveryMs);
    this.#scriptsTimer.unref();
  }

  /** The connection is gone. */
  lost(): void {
    this.#master = undefined;
    clearInterval(this.#scriptsTimer);
  }

  /** Returns false for a push that is none of its own. */
  heard(push: Push): boolean {
    if (push.verb === 'exec.start') void this.#run(push);
    else if (push.verb === 'exec.cancel') {
      const reason = 'while it ran';
      this.#held.get(keyOf(push.lease))?.process?.end({ outcome: 'cancelled', reason });
    } else return false;
    return true;
  }

  /** Takes no more jobs, and resolves when those that run are over and reported. After a while they
   *  are ended. */
  async drain(): Promise<void> {
    if (this.#state === 'draining') return;
    this.#state = 'draining';
    this.#sayIfChanged();
    const running = [...this.#held.values()].filter(({ end }) => end === undefined).length;
    if (running > 0) this.#options.log.info({ jobs: running }, 'leaving when the jobs have ended');
    await this.#until(
      () => [...this.#held.values()].every(({ end }) => end !== undefined),
      drainMs,
    );
    const reason = 'its slave left';
    for (const { process } of this.#held.values()) process?.end({ outcome: 'lost', reason });
    await this.#until(() => this.#held.size === 0, reportMs);
    this.close();
  }

  /** The guard ends what is left. */
  close(): void {
    clearInterval(this.#scriptsTimer);
    clearInterval(this.#lookTimer);
    const base = this.#base;
    if (base !== undefined && this.#held.size === 0) {
      try {
        rmdirSync(base);
      } catch {
        // The guard removes it.
      }
    }
    this.#guard?.stdin?.end();
  }

  async #run(start: Start): Promise<void> {
    const key = keyOf(start.lease);
    if (this.#held.has(key)) return;
    const held: Held = { start };
    this.#held.set(key, held);
    held.end = await this.#endOf(held);
    const { job } = start;
    const { outcome, code, reason, ms } = held.end;
    this.#options.log.info({ job, outcome, code, ms }, `job ended${reason ? `: ${reason}` : ''}`);
    this.#report(held);
    this.#onChange();
  }

  async #endOf(held: Held): Promise<JobEnd> {
    const { start } = held;
    const { allowed, bounds, tools, user, log, slots } = this.#options;
    const found = allowed.look(start);
    const busy = [...this.#held.values()].filter(({ process }) => process !== undefined).length;
    const refused =
      'refused' in found
        ? found.refused
        : this.#state !== 'working' || slots === 0
          ? 'this slave takes no more commands'
          : busy >= slots * 2
            ? 'this slave has too many jobs'
            : undefined;
    const refusal = (reason: string | undefined): JobEnd => {
      log.warn({ job: start.job }, `refused to run ${callText(start)}: ${reason}`);
      return { outcome: 'refused', reason, ms: 0, stdout: nothing, stderr: nothing };
    };
    if (refused !== undefined || 'refused' in found) return refusal(refused);
    let base: string;
    try {
      base = this.#baseFolder();
    } catch (error) {
      return refusal(`cannot make a folder for it: ${messageOf(error)}`.slice(0, 500));
    }
    log.info({ job: start.job }, `job started: ${callText(start)}`);
    const attempt = keyOf(start.lease).slice(0, 8);
    const process = new JobProcess({
      tools,
      bounds,
      user,
      path: found.path,
      args: start.args,
      base,
      mark: markOfJob(start.job, attempt, this.#instance.toString('hex')),
      timeoutMs: Math.min(start.timeoutMs ?? bounds.timeoutMs, bounds.timeoutMs),
      onOutput: (stream, at, data) => this.#output(start, stream, at, data),
      onMembers: () => this.#tellGuard(),
      warn: (line) => log.warn(line),
    });
    held.process = process;
    this.#lookTimer ??= setInterval(() => this.#look(), lookEveryMs).unref();
    const end = await process.run();
    delete held.process;
    this.#tellGuard();
    return end;
  }

  /** The guard is there before the first job is. */
  #baseFolder(): string {
    const { program, user } = this.#options;
    this.#base ??= makeBase();
    if (!this.#guard?.stdin?.writable) {
      const instance = this.#instance.toString('hex');
      this.#guard = startGuard(program, { instance, base: this.#base, user });
    }
    return this.#base;
  }

  #look(): void {
    const running = [...this.#held.values()].flatMap(({ process }) => process ?? []);
    if (running.length === 0) {
      clearInterval(this.#lookTimer);
      this.#lookTimer = undefined;
      return;
    }
    const all = new ProcessTable();
    for (const process of running) void process.look(all);
    this.#tellGuard();
  }

  /** It knows of what it would not find by itself. */
  #tellGuard(): void {
    const members = [...this.#held.values()].flatMap(({ process }) => process?.members ?? []);
    if (this.#guard !== undefined) tellGuard(this.#guard, members);
  }

  #output({ lease }: Start, stream: JobStream, at: number, data: Buffer): void {
    this.#master?.notify('exec.output', { lease, stream, at, data });
  }

  #report(held: Held): void {
    const { start, end } = held;
    const master = this.#master;
    if (end === undefined || master === undefined) return;
    const key = keyOf(start.lease);
    master.request('exec.report', { lease: start.lease, end }).then(
      () => this.#forget(key),
      (error: unknown) => {
        // Without an answer it is sent again when the master is back.
        if (!(error instanceof CommandError)) return;
        this.#options.log.warn({ job: start.job }, `the master refused a report: ${error.message}`);
        // To the master, a job that the slave no longer holds has never run: it would run again.
        if (held.isBare) return;
        held.isBare = true;
        const reason = `the master refused its report: ${error.message}`.slice(0, 500);
        held.end = { outcome: end.outcome, reason, ms: end.ms, stdout: nothing, stderr: nothing };
        this.#report(held);
      },
    );
  }

  #forget(key: string): void {
    this.#held.delete(key);
    this.#onChange();
  }

  #sayIfChanged(): void {
    const master = this.#master;
    if (master !== undefined && JSON.stringify(this.#can()) !== this.#said) this.#say(master);
  }

  /** A master that does not know the verb has no jobs. [S-6] */
  #say(master: MasterClient, held?: readonly Uint8Array[]): void {
    const can = this.#can();
    this.#said = JSON.stringify(can);
    const first = held === undefined ? {} : { held: [...held] };
    master.request('exec.can', { instance: this.#instance, ...can, ...first }).then(
      ({ lost }) => {
        const reason = 'the master has given it up';
        for (const lease of lost) {
          const one = this.#held.get(keyOf(lease));
          one?.process?.end({ outcome: 'cancelled', reason });
        }
      },
      () => {},
    );
  }

  #can(): { slots: number; programs: string[]; scripts: string[] } {
    const { allowed, slots } = this.#options;
    const programs = [...allowed.programs];
    return { slots: this.#state === 'working' ? slots : 0, programs, scripts: allowed.scripts() };
  }

  /** Resolves when `isTrue`, or after `ms`. */
  #until(isTrue: () => boolean, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = new AwakeTimer(resolve, ms);
      this.#onChange = () => {
        if (!isTrue()) return;
        timer.clear();
        resolve();
      };
      this.#onChange();
    });
  }
}

function keyOf(lease: Uint8Array): string {
  return Buffer.from(lease).toString('hex');
}

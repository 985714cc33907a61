/**
 * One job on this machine: a program in a session, a group and a folder of its own, within limits.
 *
 *     running --its program ends--> ending --its other processes are killed--> over
 *        |                            ^
 *        +--cancel, a limit--> stopping: SIGTERM to the group; SIGKILL to all 5 s later
 *
 * A job is over when its program has ended: what that leaves behind is killed. After SIGTERM the
 * other processes have the rest of the 5 s. The first bytes of both streams are kept, and the rest
 * is read and counted, so that a job does not stop at a full pipe.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { basename } from 'node:path';
import { AwakeTimer, awakeMs, awakeSleep } from '../../shared/awake.ts';
import { messageOf } from '../../shared/errors.ts';
import type { JobEnd, JobStream } from '../../shared/jobs.ts';
import { type ExecUser, folderBytes, makeJobFolder, removeJobFolder } from './job-folder.ts';
import { boundedCommand, type JobBounds, type Tools } from './limits.ts';
import {
  infoOf,
  JobMembers,
  killAll,
  type Members,
  type ProcessTable,
  signal,
} from './processes.ts';

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** Between SIGTERM and SIGKILL. */
const graceMs = 5_000;
const graceLookMs = 100;
/** A pipe may be held open by a process that was missed. */
const pipesMs = 1_000;

type JobProcessOptions = {
  /** The value of its ORB_JOB, which no other job has. */
  readonly mark: string;
  readonly path: string;
  readonly args: readonly string[];
  readonly tools: Tools;
  readonly bounds: JobBounds;
  /** It may run for this long, in ms, without time in which the slave stands still. */
  readonly timeoutMs: number;
  readonly user: ExecUser | undefined;
  /** The folder of the slave's jobs. */
  readonly base: string;
  /** `at`: bytes of the stream before it. */
  readonly onOutput: (stream: JobStream, at: number, data: Buffer) => void;
  /** It has processes: `members` says which. */
  readonly onMembers: () => void;
  readonly warn: (line: string) => void;
};

type Stop = Pick<JobEnd, 'outcome' | 'reason'>;

export class JobProcess {
  readonly #options: JobProcessOptions;
  readonly #outputs = { stdout: new Kept(), stderr: new Kept() };
  readonly #startedAt = performance.now();
  #child: ChildProcess | undefined;
  #members: JobMembers | undefined;
  #folder: string | undefined;
  #timer: AwakeTimer | undefined;
  /** Why it is being ended. */
  #stop: Stop | undefined;
  #killAt = 0;
  #isLooking = false;
  #hasEnded = false;

  constructor(options: JobProcessOptions) {
    this.#options = options;
  }

  /** Runs it. Never rejects. */
  async run(): Promise<JobEnd> {
    const { bounds, tools, base, mark, user, args, path: program, timeoutMs } = this.#options;
    let end: Stop & Pick<JobEnd, 'code' | 'signal'>;
    let leftovers = 0;
    try {
      const folder = makeJobFolder(base, mark, user);
      this.#folder = folder;
      const command = boundedCommand(tools, bounds, user !== undefined, program, args);
      end = await this.#runIn(folder, command, timeoutMs);
      leftovers = await this.#killLeftovers();
    } catch (error) {
      end = { outcome: 'refused', reason: `cannot start it: ${messageOf(error)}`.slice(0, 500) };
    }
    this.#hasEnded = true;
    this.#timer?.clear();
    const ms = Math.round(performance.now() - this.#startedAt);
    await this.#closePipes();
    if (this.#folder !== undefined && !(await removeJobFolder(this.#folder, user))) {
      this.#options.warn(`cannot remove the folder ${this.#folder} of a job that has ended`);
    }
    const { stdout, stderr } = this.#outputs;
    const outputs = { stdout: stdout.output, stderr: stderr.output };
    return { ...end, ...(this.#stop ?? {}), ms, ...(leftovers > 0 && { leftovers }), ...outputs };
  }

  /** Ends it. A second call changes nothing. */
  end(why: Stop): void {
    const child = this.#child;
    if (this.#stop !== undefined || this.#hasEnded || child?.pid === undefined) return;
    this.#stop = why;
    this.#timer?.clear();
    this.#killAt = awakeMs() + graceMs;
    signal(-child.pid, 'SIGTERM');
    // Its first process stays a child of ours until we have heard of its end.
    this.#timer = new AwakeTimer(() => void killAll(() => this.#alive(true)), graceMs);
  }

  /** Its processes as far as they are known; undefined: it has none. */
  get members(): Members | undefined {
    return this.#hasEnded ? undefined : this.#members?.known;
  }

  /** Looks, once a second, who belongs to it, and how large its folder is. */
  async look(all: ProcessTable): Promise<void> {
    this.#members?.look(all);
    const { bounds } = this.#options;
    if (this.#isLooking || this.#folder === undefined || this.#hasEnded) return;
    this.#isLooking = true;
    const bytes = await folderBytes(this.#folder, bounds.folderBytes);
    this.#isLooking = false;
    if (bytes <= bounds.folderBytes) return;
    const most = `${Math.round(bounds.folderBytes / 2 ** 20)} MiB of --exec-disk`;
    const what = bytes === Number.POSITIVE_INFINITY ? 'has too many files' : `exceeds ${most}`;
    this.end({ outcome: 'limit', reason: `its folder ${what}` });
  }

  #runIn(
    folder: string,
    [program, args]: [string, string[]],
    timeoutMs: number,
  ): Promise<Stop & Pick<JobEnd, 'code' | 'signal'>> {
    const { mark, user, bounds } = this.#options;
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, {
        cwd: folder,
        env: { PATH: path, ORB_JOB: mark },
        ...(user && { uid: user.uid, gid: user.gid }),
        stdio: ['ignore', 'pipe', 'pipe'],
        // A session of its own.
        detached: true,
        shell: false,
      });
      this.#child = child;
      child.once('error', reject);
      if (child.pid === undefined) return;
      const root = infoOf(child.pid);
      if (root !== undefined) {
        this.#members = new JobMembers({ mark, root, seen: [] });
        this.#options.onMembers();
      }
      for (const stream of ['stdout', 'stderr'] as const) {
        child[stream]?.on('data', (data: Buffer) => {
          const kept = this.#outputs[stream].add(data, bounds.outputBytes);
          if (kept !== undefined) this.#options.onOutput(stream, kept.at, kept.data);
        });
        child[stream]?.on('error', () => {});
      }
      const reason = `it ran for ${timeoutMs / 1000} s, which is its limit`;
      this.#timer = new AwakeTimer(() => this.end({ outcome: 'limit', reason }), timeoutMs);
      child.once('exit', (code, name) => {
        resolve(
          name === null
            ? { outcome: 'exited', code: code ?? 0 }
            : { outcome: 'signal', signal: name },
        );
      });
    });
  }

  /** Returns the number of processes that had to be killed. */
  async #killLeftovers(): Promise<number> {
    // After SIGTERM they have their time, too.
    while (this.#stop !== undefined && awakeMs() < this.#killAt) {
      if (this.#alive(false).length === 0) return 0;
      await awakeSleep(graceLookMs);
    }
    const { killed, left } = await killAll(() => this.#alive(false));
    if (left > 0) {
      this.#options.warn(
        `${left} processes of the job ${basename(this.#options.mark)} cannot be killed`,
      );
    }
    return killed;
  }

  /** Its processes; `root`: with its first one. */
  #alive(root: boolean): { readonly pid: number }[] {
    const others = this.#members?.look() ?? [];
    const child = this.#child;
    const isUp = child !== undefined && child.exitCode === null && child.signalCode === null;
    return root && isUp && child.pid !== undefined ? [{ pid: child.pid }, ...others] : others;
  }

  async #closePipes(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
    const closed = streams.map(
      (stream) =>
        stream.closed || new Promise((resolve) => stream.once('close', () => resolve(true))),
    );
    let timer: AwakeTimer | undefined;
    const late = new Promise((resolve) => {
      timer = new AwakeTimer(() => resolve(false), pipesMs);
    });
    await Promise.race([Promise.all(closed), late]);
    timer?.clear();
    for (const stream of streams) stream.destroy();
  }
}

/** The first bytes of a stream, and the count of all. */
class Kept {
  #parts: Buffer[] = [];
  #keptBytes = 0;
  #bytes = 0;

  /** Returns the part that is kept; undefined: none of it is. */
  add(data: Buffer, bytesMax: number): { at: number; data: Buffer } | undefined {
    this.#bytes += data.length;
    const part = data.subarray(0, bytesMax - this.#keptBytes);
    if (part.length === 0) return undefined;
    const at = this.#keptBytes;
    this.#keptBytes += part.length;
    this.#parts.push(Buffer.from(part));
    return { at, data: part };
  }

  get output(): { kept: Buffer; bytes: number } {
    return { kept: Buffer.concat(this.#parts), bytes: this.#bytes };
  }
}

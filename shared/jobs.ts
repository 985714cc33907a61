/**
 * A job: a program that runs once on a worker machine, for `exec` and `run`. Here are the types
 * that master, slave and client share. Source: PROTOCOL.md [C-140]..[C-146], [T-120]..[T-127].
 */

export const jobLimits = {
  /** Arguments of a program, and the bytes of all of them. */
  argsMax: 1_000,
  argsBytesMax: 64 << 10,
  programChars: 1_024,
  /** Programs of which a slave says that it runs them, and scripts. */
  programsMax: 200,
  scriptsMax: 1_000,
  /** Jobs at once on one slave. */
  slotsMax: 256,
  /** Bytes of one of its two streams that a slave keeps. */
  outputBytesMax: 8 << 20,
  retriesMax: 100,
  /** The longest that a job may ask to run, in ms. */
  timeoutMsMax: 7 * 86_400_000,
  reasonChars: 512,
  /** Jobs that are asked for in one request. */
  watchedMax: 10_000,
  instanceBytes: 16,
  leaseBytes: 16,
} as const;

/** A script of `--exec-folder`: no path, and nothing hidden. */
export const scriptNamePattern = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;

/** The call to run: a program by its absolute path, or a script by its name. */
export type JobCall = {
  readonly program?: string | undefined;
  readonly script?: string | undefined;
  readonly args: readonly string[];
};

/**
 * How a job ended.
 *
 * - `exited`: by itself, with `code`. · `signal`: by a signal that this slave did not send, such as
 *   SIGXCPU of its limit of CPU time.
 * - `limit`: the slave ended it, for its time or its folder. · `cancelled`: on request.
 * - `refused`: the slave did not start it. · `lost`: the worker is gone, and with it what became of
 *   the job, which may have run, in part or to its end.
 */
export const jobOutcomes = ['exited', 'signal', 'limit', 'cancelled', 'refused', 'lost'] as const;
type JobOutcome = (typeof jobOutcomes)[number];
export const jobStates = ['waiting', 'running', 'ended'] as const;
export type JobState = (typeof jobStates)[number];
export const jobStreams = ['stdout', 'stderr'] as const;
export type JobStream = (typeof jobStreams)[number];

/** One of the two streams: its first bytes, and how many there were. */
export type JobOutput = { readonly kept: Uint8Array; readonly bytes: number };

/** A slave's report of a job. */
export type JobEnd = {
  readonly outcome: JobOutcome;
  readonly code?: number | undefined;
  readonly signal?: string | undefined;
  readonly reason?: string | undefined;
  /** From its start to its end. */
  readonly ms: number;
  /** Processes that it had left behind, and that were killed. */
  readonly leftovers?: number | undefined;
  readonly stdout: JobOutput;
  readonly stderr: JobOutput;
};

/** A job as `job.list` shows it; times are Unix times in ms. */
export type JobRow = {
  readonly job: number;
  readonly state: JobState;
  readonly program?: string;
  readonly script?: string;
  readonly args: readonly string[];
  /** `any`, `every`, or the name of a slave, as it was asked for. */
  readonly on: string;
  /** The slave that runs it, or ran it last. */
  readonly slave?: string;
  /** Times that it was handed to a slave. */
  readonly attempts: number;
  readonly retries: number;
  readonly addedAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** Of one that waits: for what. Of one that ended: why. */
  readonly reason?: string;
  readonly outcome?: JobOutcome;
  readonly code?: number;
  readonly signal?: string;
  readonly ms?: number;
  readonly leftovers?: number;
};

/** Of `status`. `waits`: why the first that waits does. `held`: why no record can be written. */
export type JobsStatus = {
  readonly waiting: number;
  readonly running: number;
  readonly waits?: string;
  readonly held?: string;
};

/** In words, as a shell shows it; for messages alone. */
export function callText({ program, script, args }: JobCall): string {
  const quoted = args.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : JSON.stringify(arg)));
  return [program ?? `run ${script}`, ...quoted].join(' ');
}

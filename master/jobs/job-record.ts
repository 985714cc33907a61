/**
 * Jobs in the store, in `meta`:
 *
 *     job/ | job u48   -> JobRecord, with the output of one that has ended
 *     last-job         -> the highest number that a job ever had
 *     jobs-file        -> how far jobs.jsonl is
 *
 * A version without jobs leaves these rows alone.
 */
import { decodeValue, encodeValue } from '../../shared/frame.ts';
import type { JobEnd, JobOutput, JobRow, JobState } from '../../shared/jobs.ts';
import type { FileMark } from '../sinks/out-file.ts';
import { afterPrefix } from '../store/records.ts';

export type JobRecord = {
  readonly job: number;
  readonly program?: string | undefined;
  readonly script?: string | undefined;
  readonly args: readonly string[];
  /** As it was asked for. */
  readonly on: string;
  /** Of `every`: only this process of a slave may run it, in hexadecimal. */
  readonly bound?: string | undefined;
  readonly retries: number;
  readonly timeoutMs?: number | undefined;
  /** Unix time in ms. */
  readonly addedAt: number;
  /** Times that it was handed out. */
  readonly attempts: number;
  /** It was, and has not ended; the lease is on record before the slave gets it. */
  readonly running?: Running | undefined;
  /** The slave that has it, or had it last. */
  readonly slave?: string | undefined;
  readonly startedAt?: number | undefined;
  readonly isCancelling?: true | undefined;
  readonly ended?: Ended | undefined;
};

type Running = {
  /** In hexadecimal, as the process of the slave. */
  readonly lease: string;
  readonly instance: string;
};

type Ended = {
  /** Jobs are numbered in the order in which they end, which is that of their lines. */
  readonly seq: number;
  readonly at: number;
  readonly end: JobEnd;
};

/** `upTo`: number of the last job whose line is in the file. */
export type JobFileRecord = { readonly upTo: number; readonly mark: FileMark };

const nothing = Buffer.alloc(0);
const noOutput: JobOutput = { kept: nothing, bytes: 0 };
const prefix = Buffer.from('job/');
export const lastJobKey = Buffer.from('last-job');
export const jobFileKey = Buffer.from('jobs-file');
export const allJobs = { from: prefix, to: afterPrefix(prefix) };

export function jobKey(job: number): Buffer {
  const key = Buffer.alloc(prefix.length + 6);
  prefix.copy(key);
  key.writeUIntBE(job, prefix.length, 6);
  return key;
}

const encodeJob = (record: JobRecord): Buffer => encodeValue(record);
export const decodeJob = (value: Uint8Array): JobRecord => decodeValue(value) as JobRecord;
export const encodeLastJob = (job: number): Buffer => encodeValue(job);
export const decodeLastJob = (value: Uint8Array): number => decodeValue(value) as number;
export const encodeJobFile = (record: JobFileRecord): Buffer => encodeValue(record);
export const decodeJobFile = (value: Uint8Array) => decodeValue(value) as JobFileRecord;

/** Its row in the store. */
export function changeOf(record: JobRecord) {
  return { table: 'meta', key: jobKey(record.job), value: encodeJob(record) } as const;
}

/** Why a cancelled job has no output. */
export const notBegun = 'before it began';

/** The end of a job that did not run to its end. */
export function noRun(outcome: 'cancelled' | 'lost', reason: string): JobEnd {
  return { outcome, reason, ms: 0, stdout: noOutput, stderr: noOutput };
}

export function stateOf({ ended, running }: JobRecord): JobState {
  return ended ? 'ended' : running ? 'running' : 'waiting';
}

/** As `job.list` shows it; `waits`: what it waits for. */
export function rowOf(record: JobRecord, waits?: string): JobRow {
  const { job, program, script, args, on, slave, attempts, retries, addedAt, startedAt } = record;
  const { ended } = record;
  const row = {
    job,
    state: stateOf(record),
    ...(program !== undefined && { program }),
    ...(script !== undefined && { script }),
    args,
    on,
    attempts,
    retries,
    addedAt,
    ...(slave !== undefined && { slave }),
    ...(startedAt !== undefined && { startedAt }),
  };
  if (ended === undefined) return waits === undefined ? row : { ...row, reason: waits };
  const { outcome, code, signal, reason, ms, leftovers } = ended.end;
  return {
    ...row,
    endedAt: ended.at,
    outcome,
    ms,
    ...(code !== undefined && { code }),
    ...(signal !== undefined && { signal }),
    ...(reason !== undefined && { reason }),
    ...(leftovers !== undefined && { leftovers }),
  };
}

/** Its line in jobs.jsonl, with the line feed. */
export function lineOf(record: JobRecord): string {
  const { addedAt, startedAt, endedAt, ...row } = rowOf(record);
  const time = (ms: number | undefined) => (ms === undefined ? ms : new Date(ms).toISOString());
  const line = {
    ...row,
    state: undefined,
    addedAt: time(addedAt),
    startedAt: time(startedAt),
    endedAt: time(endedAt),
    ...outputOf('stdout', record.ended?.end.stdout),
    ...outputOf('stderr', record.ended?.end.stderr),
  };
  return `${JSON.stringify(line)}\n`;
}

/** Text where it is text; what is cut off is counted. */
function outputOf(name: string, { kept, bytes }: JobOutput = { kept: nothing, bytes: 0 }) {
  const isCut = bytes > kept.length;
  const whole = Buffer.from(kept.buffer, kept.byteOffset, kept.byteLength);
  const text = textOf(isCut ? withoutPart(whole) : whole);
  const said =
    text === undefined ? { [`${name}Base64`]: whole.toString('base64') } : { [name]: text };
  return isCut ? { ...said, [`${name}Bytes`]: bytes } : said;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Without a character that is not whole at the end. */
function withoutPart(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

/** The requests about jobs, and of slaves that run them, as schemas; see `requests.ts`. */
import * as z from 'zod';
import { jobLimits, jobOutcomes, jobStates, jobStreams, scriptNamePattern } from './jobs.ts';

const id = z.int().min(0);
const job = z.int().min(1);
const bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array, {
  error: 'is not bytes',
});
const sized = (length: number) =>
  bytes.refine((value) => value.length === length, { error: `must have ${length} bytes` });
const lease = sized(jobLimits.leaseBytes);
/** Absolute, in its shortest form, and printable. */
const program = z
  .string()
  .max(jobLimits.programChars)
  .regex(/^(?:\/(?!\.{0,2}(?:\/|$))[^/\p{C}\p{Zl}\p{Zp}]+)+$/u, {
    error: 'must be an absolute path without . and ..',
  });
const script = z.string().regex(scriptNamePattern, {
  error: 'must be the name of a script: letters, digits, dots, hyphens and underscores',
});
const args = z
  .array(z.string().regex(/^[^\0]*$/, { error: 'must not contain the character NUL' }))
  .max(jobLimits.argsMax)
  .refine((all) => all.reduce((sum, arg) => sum + Buffer.byteLength(arg) + 1, 0) <= bytesMax, {
    error: `must have at most ${jobLimits.argsBytesMax} bytes in all`,
  });
const bytesMax = jobLimits.argsBytesMax;
const timeoutMs = z.int().min(1).max(jobLimits.timeoutMsMax);
const reason = z.string().max(jobLimits.reasonChars);
const output = z.strictObject({
  kept: bytes.refine((kept) => kept.length <= jobLimits.outputBytesMax, { error: 'is too long' }),
  bytes: z.int().min(0),
});
/** `any`, `every`, or the name of a slave. */
const on = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u, { error: 'must be any, every, or the name of a slave' });

export const jobRequests = {
  /** Runs a program, or a script by its name. [C-140] */
  'job.add': () =>
    z
      .strictObject({
        verb: z.literal('job.add'),
        id,
        program: program.optional(),
        script: script.optional(),
        args,
        on: on.default('any'),
        /** Further attempts if the worker is lost. Default: none: it runs once at most. [C-142] */
        retries: z.int().min(0).max(jobLimits.retriesMax).default(0),
        /** It may run for this long; the limit of the slave counts, too. */
        timeoutMs: timeoutMs.optional(),
        /** It may wait for a slave that allows it. [C-141] */
        waits: z.boolean().optional(),
        /** Its output and its end are pushed to this session. [C-143] */
        watch: z.boolean().optional(),
      })
      .refine((said) => (said.program === undefined) !== (said.script === undefined), {
        error: 'needs either a program or a script',
      }),
  /** As `watch` of `job.add`, for jobs that are there. [C-143] */
  'job.watch': () =>
    z.strictObject({
      verb: z.literal('job.watch'),
      id,
      jobs: z.array(job).min(1).max(jobLimits.watchedMax),
    }),
  /** Jobs by their numbers, up to `limit` at a time, from the one after `after`. [C-144] */
  'job.list': () =>
    z.strictObject({
      verb: z.literal('job.list'),
      id,
      states: z.array(z.enum(jobStates)).max(jobStates.length).optional(),
      after: z.int().min(0).optional(),
      limit: z.int().min(1).max(1000).default(100),
    }),
  /** One job with its output. [C-145] */
  'job.get': () => z.strictObject({ verb: z.literal('job.get'), id, job }),
  /** Ends a job. [C-146] */
  'job.cancel': () => z.strictObject({ verb: z.literal('job.cancel'), id, job }),
  /** The calls that this slave runs: sent when it has joined, and when they change. [T-120] */
  'exec.can': () =>
    z.strictObject({
      verb: z.literal('exec.can'),
      id,
      /** Of this process of the slave; its sessions have the same. */
      instance: sized(jobLimits.instanceBytes),
      slots: z.int().min(0).max(jobLimits.slotsMax),
      programs: z.array(program).max(jobLimits.programsMax),
      scripts: z.array(script).max(jobLimits.scriptsMax),
      /** First in a session: the jobs that it runs, and those whose reports were not answered. */
      held: z.array(lease).max(10_000).optional(),
    }),
  /** A piece of what a job says, as it comes. [T-123] */
  'exec.output': () =>
    z.strictObject({
      verb: z.literal('exec.output'),
      id: id.optional(),
      lease,
      stream: z.enum(jobStreams),
      /** Bytes of the stream before it. */
      at: z.int().min(0),
      data: bytes,
    }),
  /** How a job ended. [T-124] */
  'exec.report': () =>
    z.strictObject({
      verb: z.literal('exec.report'),
      id,
      lease,
      end: z.strictObject({
        outcome: z.enum(jobOutcomes),
        code: z.int().min(0).max(255).optional(),
        signal: z
          .string()
          .regex(/^SIG[A-Z0-9]{1,12}$/)
          .optional(),
        reason: reason.optional(),
        ms: z.int().min(0),
        leftovers: z.int().min(0).optional(),
        stdout: output,
        stderr: output,
      }),
    }),
} as const;

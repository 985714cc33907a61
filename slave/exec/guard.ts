/**
 * The *guard* of a slave ends its jobs if the slave dies: a process of slave.js that waits for the
 * end of its standard input, a pipe of the slave. Then it kills all processes with
 * the slave's mark in `ORB_JOB`, and those that the slave knew of, and removes the folder of its
 * jobs. The slave starts it before its first job, and tells it once a second which processes its
 * jobs have. It is in a session of its own, so that Ctrl-C does not end it.
 */
import type { ChildProcess } from 'node:child_process';
import { readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ConfigError } from '../../shared/errors.ts';
import { startProcess } from '../../shared/start-process.ts';
import { type ExecUser, removeJobFolder } from './job-folder.ts';
import { JobMembers, killAll, type Members, ProcessTable } from './processes.ts';

/** The first argument of slave.js that makes it a guard. */
export const guardArgument = 'guard-jobs';

/** The mark of a job: its number and attempt, and what all jobs of this slave have. */
export function markOfJob(job: number, attempt: string, instance: string): string {
  return `${job}.${attempt}.${instance}`;
}

type Guarded = {
  readonly instance: string;
  readonly base: string;
  readonly user: ExecUser | undefined;
};

/** Starts one. `program`: the path of slave.js. */
export function startGuard(program: string, guarded: Guarded): ChildProcess {
  const child = startProcess(process.execPath, [program, guardArgument, JSON.stringify(guarded)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    cwd: '/',
    env: {},
  });
  child.on('error', () => {});
  // One that was killed is followed by another.
  child.stdin?.on('error', () => {});
  child.unref();
  (child.stdin as Partial<NodeJS.RefCounted> | null)?.unref?.();
  return child;
}

/** The processes of the jobs now: a guard that still starts reads it also when the slave is
 *  gone. */
export function tellGuard(child: ChildProcess, members: readonly Members[]): void {
  // One that is stopped hears of it when it goes on, a second later.
  if (child.stdin?.writableNeedDrain !== false) return;
  child.stdin.write(`${JSON.stringify(members)}\n`);
}

/** Waits for the end of the slave, and cleans up. `argument`: as `startGuard` gives it. */
export async function guard(argument: string | undefined): Promise<void> {
  if (argument === undefined) {
    throw new ConfigError('a slave with --allow-exec starts this by itself');
  }
  const guarded = JSON.parse(argument) as Guarded;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {});
  let members: readonly Members[] = [];
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      members = JSON.parse(line) as readonly Members[];
    } catch {
      // The slave was killed while it wrote the last one.
    }
  }
  await endJobsOf(guarded, members);
}

async function endJobsOf(
  { instance, base, user }: Guarded,
  members: readonly Members[],
): Promise<void> {
  const jobs = members.map((known) => new JobMembers(known));
  await killAll(() => {
    const all = new ProcessTable();
    const known = new Set(jobs.flatMap((job) => job.look(all)));
    const roots = new Map(members.map(({ root }) => [root.pid, root.start]));
    return [...all].filter((info) => {
      const { pid, start, isDead } = info;
      if (isDead || pid === process.pid) return false;
      const isKnown = known.has(info) || roots.get(pid) === start;
      return isKnown || all.markOf(pid)?.endsWith(`.${instance}`) === true;
    });
  });
  try {
    for (const name of readdirSync(base)) await removeJobFolder(join(base, name), user);
    rmdirSync(base);
  } catch {
    // The slave has removed it.
  }
}

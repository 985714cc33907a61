/**
 * What is left of the jobs of a slave that died is ended by its *guard*: a process of slave.js that
 * waits for the end of its channel to the slave, kills all processes with the slave's mark in
 * `ORB_JOB`, and removes the folder of its jobs. The slave starts it before its first job. It is in a
 * session of its own, so that Ctrl-C does not end it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../shared/errors.ts';
import { type ExecUser, removeJobFolder } from './job-folder.ts';
import { killAll, ProcessTable } from './processes.ts';

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
  const child = spawn(process.execPath, [program, guardArgument, JSON.stringify(guarded)], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    detached: true,
    cwd: '/',
    env: {},
  });
  child.on('error', () => {});
  child.unref();
  child.channel?.unref();
  return child;
}

/** Waits for the end of the slave, and cleans up. `argument`: as `startGuard` gives it. */
export async function guard(argument: string | undefined): Promise<void> {
  if (process.send === undefined || argument === undefined) {
    throw new ConfigError('a slave with --allow-exec starts this by itself');
  }
  const guarded = JSON.parse(argument) as Guarded;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => {});
  if (process.connected) {
    await new Promise<void>((resolve) => process.once('disconnect', () => resolve()));
  }
  await endJobsOf(guarded);
}

async function endJobsOf({ instance, base, user }: Guarded): Promise<void> {
  await killAll(() => {
    const all = new ProcessTable();
    return [...all].filter(({ pid, isDead }) => {
      return !isDead && pid !== process.pid && all.markOf(pid)?.endsWith(`.${instance}`) === true;
    });
  });
  try {
    for (const name of readdirSync(base)) await removeJobFolder(join(base, name), user);
    rmdirSync(base);
  } catch {
    // The slave has removed it.
  }
}

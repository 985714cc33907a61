/** Slaves that take commands, for tests: as root their jobs run as nobody, else as this user. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Push } from '../../shared/protocol.ts';
import type { Said } from '../../shared/requests.ts';
import type { Cluster, Program } from './cluster.ts';

export const isRoot = process.getuid?.() === 0;
export const asOther = isRoot ? ['--exec-user', 'nobody'] : [];

/** A line of jobs.jsonl. */
export type JobLine = {
  readonly job: number;
  readonly outcome: string;
  readonly [field: string]: unknown;
};

/** The lines of jobs.jsonl; [] while there is none. */
export function jobLines(cluster: Cluster): JobLine[] {
  const path = join(cluster.out, 'jobs.jsonl');
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as JobLine);
}

/** Resolves when that many jobs have a line. */
export async function recorded(cluster: Cluster, count: number): Promise<void> {
  while (jobLines(cluster).length < count) await sleep(20);
}

/** Makes a script in a folder that the user of jobs may read. Returns the folder. */
export function scripts(cluster: Cluster, texts: Readonly<Record<string, string>>): string {
  chmodSync(cluster.folder, 0o755);
  const folder = join(cluster.folder, 'scripts');
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, 0o755);
  for (const [name, text] of Object.entries(texts)) {
    writeFileSync(join(folder, name), text, { mode: 0o755 });
    chmodSync(join(folder, name), 0o755);
  }
  return folder;
}

/** Starts a slave that takes commands, and waits until the master knows of it. */
export async function execSlave(cluster: Cluster, ...args: readonly string[]): Promise<Program> {
  const known = await slaveCount(cluster);
  const slave = cluster.slave([...asOther, ...args]);
  await slave.said(/joined/);
  while ((await slaveCount(cluster)) <= known);
  return slave;
}

async function slaveCount(cluster: Cluster): Promise<number> {
  const master = await cluster.connect();
  try {
    const { slaves } = await master.request('slave.list', {});
    return slaves.filter(({ exec }) => exec !== undefined).length;
  } finally {
    await master.close();
  }
}

/** Runs a subcommand; resolves with its exit code and output. */
export async function told(cluster: Cluster, ...args: readonly string[]) {
  const program = cluster.command(...args);
  const { code } = await program.exited;
  return { code, stdout: program.stdout, stderr: program.stderr };
}

type Asked = Omit<Said['job.add'], 'verb' | 'id' | 'watch' | 'args'> & { args?: string[] };

/** Runs jobs by a connection of this process; resolves with the line of the first one. */
export async function runJob(cluster: Cluster, asked: Asked): Promise<JobLine> {
  let isEnded: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    isEnded = resolve;
  });
  const onPush = ({ verb }: Push) => verb === 'job.ended' && isEnded();
  const master = await cluster.connect({ onPush });
  try {
    const { jobs } = await master.request('job.add', { args: [], ...asked, watch: true });
    await ended;
    const line = jobLines(cluster).find(({ job }) => job === jobs[0]?.job);
    if (line === undefined) throw new Error(`job ${jobs[0]?.job} has no line`);
    return line;
  } finally {
    await master.close();
  }
}

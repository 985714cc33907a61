/**
 * The processes of a browser, which are one group. Linux alone says which these are, and what
 * memory they have; elsewhere there is no such limit.
 */
import { readdirSync, readFileSync } from 'node:fs';

const pageBytes = 4_096;

type Memory = {
  /** Of all processes of the group; what they share counts once. */
  readonly bytes: number;
  /** The process that has the most for itself. */
  readonly largest: { readonly pid: number; readonly bytes: number };
};

/** The memory that a group has. */
export function memoryOf(group: number): Memory {
  let own = 0;
  let shared = 0;
  let largest = { pid: group, bytes: 0 };
  for (const pid of pids()) {
    if (groupOf(pid) !== group) continue;
    const [, resident = 0, common = 0] = (read(`/proc/${pid}/statm`) ?? '').split(' ').map(Number);
    const bytes = (resident - common) * pageBytes;
    if (bytes > largest.bytes) largest = { pid: Number(pid), bytes };
    own += bytes;
    shared = Math.max(shared, common * pageBytes);
  }
  return { bytes: own + shared, largest };
}

/** Ends one process at once. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Ends all processes of the group at once. */
export function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Does a process have this text in its command line? */
export function isInCommand(text: string): boolean {
  return pids().some((pid) => read(`/proc/${pid}/cmdline`)?.includes(text));
}

function pids(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** Source: proc(5), `/proc/pid/stat`: the fifth field; the second one may have blanks. */
function groupOf(pid: string): number | undefined {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]);
}

/** Undefined: the process has ended, or is another user's. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}

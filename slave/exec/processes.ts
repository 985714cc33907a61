/**
 * The processes of this machine, from `/proc`, and those of them that belong to a job: they have
 * its mark in `ORB_JOB`, or they are in its group or its session, or were seen as children of such
 * a process. So a process is found that has left the session, and one that was seen in time
 * although it has dropped its environment. Linux only. Source: proc(5).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { awakeMs, awakeSleep } from '../../shared/awake.ts';

type ProcessInfo = {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** In clock ticks since the start of the system: a process id that is used again has another. */
  readonly start: number;
  /** It has ended, and its parent has not asked for its exit code. */
  readonly isDead: boolean;
};

/** All processes that can be seen, at one moment. */
export class ProcessTable {
  readonly #all = new Map<number, ProcessInfo>();
  readonly #marks = new Map<number, string | undefined>();

  constructor() {
    for (const name of readdirSync('/proc')) {
      if (!/^\d+$/.test(name)) continue;
      const info = infoOf(Number(name));
      if (info !== undefined) this.#all.set(info.pid, info);
    }
  }

  get(pid: number): ProcessInfo | undefined {
    return this.#all.get(pid);
  }

  [Symbol.iterator](): Iterator<ProcessInfo> {
    return this.#all.values();
  }

  /** The value of ORB_JOB that the process was started with. */
  markOf(pid: number): string | undefined {
    if (!this.#marks.has(pid)) {
      const environment = textOf(`/proc/${pid}/environ`) ?? '';
      this.#marks.set(pid, /(?:^|\0)ORB_JOB=([^\0]*)/.exec(environment)?.[1]);
    }
    return this.#marks.get(pid);
  }
}

/** Undefined: there is no such process. */
export function infoOf(pid: number): ProcessInfo | undefined {
  const text = textOf(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The name of the program, in parentheses, may contain anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const number = (index: number) => Number(fields[index]);
  return {
    pid,
    parent: number(1),
    group: number(2),
    session: number(3),
    start: number(19),
    isDead: fields[0] === 'Z' || fields[0] === 'X',
  };
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // It has ended, or it belongs to somebody else.
    return undefined;
  }
}

/** The known processes of one job. */
export type Members = {
  readonly mark: string;
  /** Its first process, which leads a session of its own. */
  readonly root: Pick<ProcessInfo, 'pid' | 'start'>;
  /** Those that were seen, with their starts. */
  readonly seen: readonly (readonly [pid: number, start: number])[];
};

/** The processes of one job. */
export class JobMembers {
  readonly #mark: string;
  readonly #root: Members['root'];
  readonly #seen: Map<number, number>;

  constructor({ mark, root, seen }: Members) {
    this.#mark = mark;
    this.#root = root;
    this.#seen = new Map([[root.pid, root.start], ...seen]);
  }

  get known(): Members {
    const { pid, start } = this.#root;
    return { mark: this.#mark, root: { pid, start }, seen: [...this.#seen] };
  }

  /** Notes who belongs to it now. Returns those that live, without its first process. */
  look(all = new ProcessTable()): ProcessInfo[] {
    for (const [pid, start] of this.#seen) {
      if (all.get(pid)?.start !== start && pid !== this.#root.pid) this.#seen.delete(pid);
    }
    for (const info of all) if (this.#isMarked(info, all)) this.#seen.set(info.pid, info.start);
    for (let grew = true; grew; ) {
      grew = false;
      for (const { pid, parent, start } of all) {
        if (this.#seen.has(pid) || !this.#isAlive(parent, all)) continue;
        this.#seen.set(pid, start);
        grew = true;
      }
    }
    return [...this.#seen.keys()].flatMap((pid) => {
      const info = all.get(pid);
      return info && !info.isDead && pid !== this.#root.pid ? [info] : [];
    });
  }

  #isAlive(pid: number, all: ProcessTable): boolean {
    const start = this.#seen.get(pid);
    return start !== undefined && all.get(pid)?.start === start;
  }

  #isMarked({ pid, group, session, start }: ProcessInfo, all: ProcessTable): boolean {
    if (this.#seen.get(pid) === start || start < this.#root.start) return false;
    const root = this.#root.pid;
    return group === root || session === root || all.markOf(pid) === this.#mark;
  }
}

/** Sends a signal. False: there is no such process, or it is not ours. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** Kills processes until none is found, for `msMax` at most; `find` is asked again each time, since
 *  they may fork meanwhile. Returns how many were killed, and how many are left. */
export async function killAll(
  find: () => readonly { readonly pid: number }[],
  msMax = 10_000,
): Promise<{ killed: number; left: number }> {
  const killed = new Set<number>();
  const deadline = awakeMs() + msMax;
  for (let found = find(); ; found = find()) {
    if (found.length === 0 || awakeMs() > deadline) {
      return { killed: killed.size, left: found.length };
    }
    // Stopped processes do not fork while the others are killed.
    for (const { pid } of found) signal(pid, 'SIGSTOP');
    for (const { pid } of found) if (signal(pid, 'SIGKILL')) killed.add(pid);
    await awakeSleep(20);
  }
}

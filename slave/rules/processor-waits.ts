/**
 * How long a process waits for a processor, which is no fault of what it computes: on a busy
 * machine a page of 200 ms may take seconds. Linux only; elsewhere, and where the kernel does not
 * say, 0. Source: Linux, Documentation/scheduler/sched-stats.rst; proc(5).
 */
import { readdirSync, readFileSync } from 'node:fs';

type Reading = {
  readonly at: number;
  /** Of all threads, in ms. */
  readonly ranMs: number;
  readonly waitedMs: number;
  /** Some thread runs, or would. */
  readonly isRunnable: boolean;
};

export class ProcessorWaits {
  readonly #pid: number | undefined;
  #last: Reading | undefined;

  constructor(pid: number | undefined) {
    this.#pid = pid;
  }

  /** The first call counts. */
  begin(): void {
    this.#last ??= readingOf(this.#pid);
  }

  /** Returns the ms since the last call, or the beginning, in which it waited. */
  next(): number {
    const last = this.#last;
    this.#last = readingOf(this.#pid);
    if (last === undefined || this.#last === undefined) return 0;
    const { at, ranMs, waitedMs, isRunnable } = this.#last;
    const waited = waitedMs - last.waitedMs;
    // A wait is counted when it ends: one that goes on is the rest of the time.
    const rest = isRunnable ? at - last.at - (ranMs - last.ranMs) : 0;
    return Math.max(waited, rest);
  }
}

function readingOf(pid: number | undefined): Reading | undefined {
  const threads = `/proc/${pid}/task`;
  const sum = { ranMs: 0, waitedMs: 0, isRunnable: false };
  try {
    for (const thread of readdirSync(threads)) {
      const [ran = 0, waited = 0] = textOf(`${threads}/${thread}/schedstat`).split(' ');
      const stat = textOf(`${threads}/${thread}/stat`);
      sum.ranMs += Number(ran) / 1e6;
      sum.waitedMs += Number(waited) / 1e6;
      sum.isRunnable ||= stat.startsWith('R', stat.lastIndexOf(')') + 2);
    }
  } catch {
    return undefined;
  }
  return { at: performance.now(), ...sum };
}

/** `''`: there is none; a thread may end meanwhile. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

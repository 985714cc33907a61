/**
 * Slaves as child processes of this one: started, watched, and restarted when they die.
 *
 *     start --> running --exit 0, 2, 3--> over        0: done; 2, 3: the operator must act
 *                 ^  |
 *                 |  +--any other end--> waiting --restartMs--> running   (at most `restartsMax`)
 *                 +-----------------------------------------------+
 *
 * The children do not belong to the terminal's process group, which gets Ctrl-C: a second signal
 * means "at once", so each child must get only the one from here. Each has a channel to this
 * process, by which it says that it has started; one that does not is killed. When the channel
 * closes, also because this process was killed, the slave drains and leaves. Used by the master for
 * `--slaves`, and by the slave for `--processes`.
 */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { AwakeTimer } from './awake.ts';
import { exitCodes } from './errors.ts';
import { startProcess } from './start-process.ts';

export type SlaveEnd = {
  readonly name: string;
  /** An exit code, or the signal that ended it. */
  readonly why: string;
  readonly code: number | undefined;
  readonly isRestarted: boolean;
  /** The last lines that it printed, if its output is kept. */
  readonly lines: readonly string[];
};

type SlaveProcessesOptions = {
  /** Path of slave.js. */
  readonly program: string;
  /** The command line of the slave of that name. */
  readonly argsOf: (name: string) => readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** `inherit`: they print to this process's output. `keep`: `onEnd` gets their last lines. */
  readonly output: 'inherit' | 'keep';
  /** Gets each line of an output that is kept. One that it takes is not kept. */
  readonly onLine?: (name: string, line: string) => boolean;
  readonly restartMs: number;
  /** Restarts of all slaves together, since one died that had run for a while: a slave that keeps
   *  dying needs the operator. */
  readonly restartsMax: number;
  /** That while, for tests; default: a minute. */
  readonly steadyMs?: number;
  /** How long one may take until it says that it has started; default: a minute. */
  readonly startMs?: number;
  readonly onEnd: (end: SlaveEnd) => void;
};

/** V8 would collect the whole heap of a slave at 17 MB, after some hundred pages, and the young
 *  part at each MB of a polite crawl. It takes these only when a process starts. They stand in
 *  `scripts/build.mjs`, too: the cache that a program starts from is of its flags. */
const heapFlags = ['--initial-old-space-size=48', '--min-semi-space-size=4'];
const keptLines = 20;
const steadyMsDefault = 60_000;
/** Where no further process may be started, Node can wait for a thread of its own for ever. */
const startMsDefault = 60_000;
const lastCodes: readonly unknown[] = [exitCodes.done, exitCodes.operator, exitCodes.auth];

export class SlaveProcesses {
  readonly #options: SlaveProcessesOptions;
  readonly #children = new Set<ChildProcess>();
  readonly #waiting = new Set<NodeJS.Timeout>();
  #restarts = 0;
  #state: 'open' | 'closed' = 'open';

  constructor(options: SlaveProcessesOptions) {
    this.#options = options;
  }

  /** Number of slaves that run or are about to be restarted. */
  get count(): number {
    return this.#children.size + this.#waiting.size;
  }

  /** Process ids of those that run. */
  get pids(): readonly number[] {
    return [...this.#children].flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  start(name: string): void {
    const { program, argsOf, env, output, onLine, startMs = startMsDefault } = this.#options;
    const out = output === 'inherit' ? 'inherit' : 'pipe';
    const flags = [...heapFlags, ...process.execArgv];
    const child = startProcess(process.execPath, [...flags, program, ...argsOf(name)], {
      stdio: ['ignore', out, out, 'ipc'],
      detached: true,
      ...(env === undefined ? {} : { env }),
    });
    const startedAt = performance.now();
    this.#children.add(child);
    let error: Error | undefined;
    let isUp = false;
    const timer = new AwakeTimer(() => {
      error = new Error(
        `it did not start within ${startMs / 1000} s; is the number of processes limited?`,
      );
      child.kill('SIGKILL');
    }, startMs).unref();
    const isStarted = () => {
      isUp = true;
      timer.clear();
    };
    child.once('message', isStarted);
    const lines = lastLines(child, (line) => {
      isStarted();
      return onLine?.(name, line) === true;
    });
    child.on('error', (cause) => {
      error = cause;
      timer.clear();
      // A process that never started has no `close` event.
      if (child.pid === undefined) this.#ended(child, name, { why: cause.message, lines });
    });
    const ended = (code: number | null, signal: NodeJS.Signals | null) => {
      timer.clear();
      const why = error?.message ?? signal ?? `exit code ${code}`;
      const { steadyMs = steadyMsDefault } = this.#options;
      if (isUp && performance.now() - startedAt >= steadyMs) this.#restarts = 0;
      this.#ended(child, name, { why, code: code ?? undefined, lines });
    };
    child.on('close', ended);
    // Node has no `close` for a child whose channel was closed from this side; nobody waits for the
    // last lines of such a child.
    child.on('exit', (code, signal) => {
      if (this.#state === 'closed') ended(code, signal);
    });
  }

  /** Stops all slaves, or lets them go on. */
  signal(signal: 'SIGTSTP' | 'SIGCONT'): void {
    for (const child of this.#children) child.kill(signal);
  }

  /** Ends all slaves, and restarts none. */
  kill(signal: NodeJS.Signals): void {
    this.#close();
    for (const child of this.#children) child.kill(signal);
  }

  /** Lets all slaves drain and leave; none is restarted. */
  release(): void {
    this.#close();
    for (const child of this.#children) if (child.connected) child.disconnect();
  }

  /** Lets this process end before the slaves do. */
  unref(): void {
    for (const child of this.#children) {
      child.unref();
      child.channel?.unref();
    }
  }

  #close(): void {
    this.#state = 'closed';
    for (const timer of this.#waiting) clearTimeout(timer);
    this.#waiting.clear();
  }

  #ended(
    child: ChildProcess,
    name: string,
    end: { why: string; code?: number | undefined; lines: readonly string[] },
  ): void {
    if (!this.#children.delete(child)) return;
    const { restartMs, restartsMax, onEnd } = this.#options;
    const isCurable = this.#state === 'open' && !lastCodes.includes(end.code);
    const isRestarted = isCurable && this.#restarts < restartsMax;
    if (isRestarted) {
      this.#restarts++;
      const timer = setTimeout(() => {
        this.#waiting.delete(timer);
        this.start(name);
      }, restartMs);
      this.#waiting.add(timer);
    }
    onEnd({ ...end, code: end.code, name, isRestarted });
  }
}

function lastLines(child: ChildProcess, takes: (line: string) => boolean): readonly string[] {
  const lines: string[] = [];
  // Undefined: no file descriptor was left for it, which its error says.
  const streams: (Readable | null | undefined)[] = [child.stdout, child.stderr];
  for (const stream of streams) {
    if (!stream) continue;
    createInterface({ input: stream }).on('line', (line) => {
      if (takes(line)) return;
      lines.push(line);
      if (lines.length > keptLines) lines.shift();
    });
  }
  return lines;
}

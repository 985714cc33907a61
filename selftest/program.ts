/** A program that runs as a child of this process: its output, its end, signals. */
import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';

export type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

export type RunOptions = {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly detached?: boolean;
  /** Default: no input. */
  readonly stdin?: 'pipe';
  /** Default: this Node. */
  readonly program?: string;
};

/** Of a longer output only the end is kept. */
const outputCharsMax = 8 << 20;

/** A program that was started: its output so far, and how it ended. */
export class Program {
  readonly child: ChildProcess;
  readonly exited: Promise<Exit>;
  /** Both streams, in order of arrival. */
  output = '';
  stdout = '';
  stderr = '';
  readonly #events = new EventEmitter().setMaxListeners(0);

  constructor(args: readonly string[], options: RunOptions = {}) {
    this.child = spawn(options.program ?? process.execPath, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      // A process group of its own.
      detached: options.detached ?? false,
      stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
    });
    for (const name of ['stdout', 'stderr'] as const) {
      this.child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this.output = lastOf(this.output + text);
        this[name] = lastOf(this[name] + text);
        this.#events.emit('output');
      });
    }
    running.add(this.child);
    this.exited = once(this.child, 'close').then(([code, signal]) => {
      running.delete(this.child);
      return { code, signal } as Exit;
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Sends the signal and waits for the end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Exit> {
    this.signal(signal);
    return await this.exited;
  }

  /** Sends the signal. */
  signal(signal: NodeJS.Signals): void {
    if (this.isAlive) this.child.kill(signal);
  }

  /** Resolves when there is more output. Rejects when the program ends before. */
  async grown(): Promise<void> {
    const more = once(this.#events, 'output').then(() => false);
    if (await Promise.race([more, this.exited.then(() => true)])) {
      throw new Error(`the program ended:\n${this.output}`);
    }
  }

  /** Resolves when the output matches. Rejects when the program ends without it. */
  async said(pattern: RegExp): Promise<RegExpExecArray> {
    while (true) {
      const match = pattern.exec(this.output);
      if (match) return match;
      const more = once(this.#events, 'output').then(() => false);
      const ended = await Promise.race([more, this.exited.then(() => true)]);
      if (ended && !pattern.test(this.output)) {
        throw new Error(`the program ended without saying ${pattern}:\n${this.output}`);
      }
    }
  }
}

/** Children of this process, so that none outlives it, however a test file ends. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Cut only from time to time, because a cut copies. */
function lastOf(text: string): string {
  return text.length > 2 * outputCharsMax ? text.slice(-outputCharsMax) : text;
}

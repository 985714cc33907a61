/** A program on a terminal that can be resized, and gets keys. Needs python3. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { Program, root } from './cluster.ts';

/** The reason why there is no terminal to be had; undefined: there is. */
export const noTerminal = ((): string | undefined => {
  try {
    execFileSync('python3', ['-c', 'import pty, os; os.waitstatus_to_exitcode'], {
      stdio: 'ignore',
    });
    return undefined;
  } catch {
    return 'no python3 to make a terminal with';
  }
})();

export class Terminal {
  readonly program: Program;

  /** `args` of Node. */
  constructor(args: readonly string[], options: { cwd: string; rows: number; columns: number }) {
    const { cwd, rows, columns } = options;
    const command = [process.execPath, ...args];
    const script = join(root, 'test/support/terminal.py');
    const all = ['-u', script, String(rows), String(columns), ...command];
    this.program = new Program(all, { program: 'python3', cwd, stdin: 'pipe' });
  }

  /** The first process on the terminal. */
  async pid(): Promise<number> {
    return Number((await this.program.said(/^pid (\d+)/))[1]);
  }

  resize(rows: number, columns: number): void {
    this.#order(`size ${rows} ${columns}`);
  }

  /** Ctrl-Z. */
  suspend(): void {
    this.#order('key 1a');
  }

  /** As a shell's `fg`. */
  continue(): void {
    this.#order('continue');
  }

  #order(line: string): void {
    this.program.child.stdin?.write(`${line}\n`);
  }
}

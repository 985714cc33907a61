/** The wall clock of a program, which a test sets while it runs. Its monotonic clock goes on. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class WallClock {
  /** For a program that is started. */
  readonly env: NodeJS.ProcessEnv;
  readonly #path: string;

  constructor(folder: string) {
    this.#path = join(folder, 'clock-is-off-by');
    this.set(0);
    const code = `import { readFileSync } from 'node:fs';
      const now = Date.now;
      Date.now = () => now() + Number(readFileSync(${JSON.stringify(this.#path)}, 'utf8'));`;
    const options = `--import data:text/javascript,${encodeURIComponent(code)}`;
    this.env = { ...process.env, NODE_OPTIONS: options };
  }

  /** From now on it is off by that. */
  set(ms: number): void {
    writeFileSync(this.#path, String(ms));
  }
}

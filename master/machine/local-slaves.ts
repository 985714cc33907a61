/**
 * A slave of the master's own, for robots.txt alone. Python workers fetch pages but know nothing of
 * robots.txt; while they wait for one and no slave is connected that could fetch it, the master
 * starts `slave.js --robots-only` beside itself. It ends with the master, even when that is killed,
 * and when another slave joins.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from '../../shared/log.ts';

export type RobotsSlaveOptions = {
  readonly authkeys: () => readonly Buffer[];
  readonly log: Logger;
  /** Where the master listens, for a program on this machine: `host:port`. */
  readonly address: () => string;
};

/** Of the built programs: beside master.js. */
const program = fileURLToPath(new URL('slave.js', import.meta.url));
const restartMs = 5_000;

export class RobotsSlave {
  readonly name = `robots-of-${process.pid}`;
  readonly #options: RobotsSlaveOptions;
  #child: ChildProcess | undefined;
  #startedAt = Number.NEGATIVE_INFINITY;
  #hasWarned = false;
  #state: 'open' | 'closed' = 'open';

  constructor(options: RobotsSlaveOptions) {
    this.#options = options;
  }

  /** Somebody waits for a robots.txt. Starts it unless it runs or has just been tried. */
  want(): void {
    if (this.#child !== undefined || this.#state === 'closed') return;
    if (performance.now() - this.#startedAt < restartMs) return;
    const { log } = this.#options;
    if (!existsSync(program)) {
      if (!this.#hasWarned) {
        log.warn(
          'Python workers wait for robots.txt, which slaves fetch, and none is connected: ' +
            'start one with `node slave.js --robots-only`, or crawl with --ignore-robots',
        );
      }
      this.#hasWarned = true;
      return;
    }
    this.#start();
    log.info(`no slave is connected: started ${basename(program)} --robots-only for robots.txt`);
  }

  /** Ends it when its work is done: another slave has joined. */
  retire(): void {
    // It drains when the channel is gone.
    if (this.#child?.connected === true) this.#child.disconnect();
    this.#child = undefined;
  }

  close(): void {
    this.#state = 'closed';
    this.retire();
  }

  #start(): void {
    this.#startedAt = performance.now();
    const { address, authkeys, log } = this.#options;
    const flags = ['--robots-only', '--master', address(), '--name', this.name];
    const child = spawn(
      process.execPath,
      [program, ...flags, '--slots', '8', '--processes', '1', '--log-level', 'warn'],
      {
        stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
        env: { ...process.env, ORB_AUTHKEY: String(authkeys()[0]) },
        // Ctrl-C in a terminal is for the master, which says when it is time.
        detached: true,
      },
    );
    this.#child = child;
    const ended = (why: string) => {
      if (this.#child !== child) return;
      this.#child = undefined;
      log.warn(`the slave for robots.txt ended (${why}); it is started again when it is needed`);
    };
    child.on('error', (error) => ended(error.message));
    child.on('exit', (code, signal) => ended(signal ?? `exit code ${code}`));
    child.unref();
    child.channel?.unref();
  }
}

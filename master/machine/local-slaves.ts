/**
 * Slaves of the master's own, on its machine. They end with the master, even when that is killed.
 *
 * - `--slaves n`: whole slaves for a crawl on one machine. One that dies is started again; the
 *   master is told when none is left.
 * - For robots.txt alone: Python workers fetch pages but know nothing of robots.txt. While they
 *   wait for one and no slave is connected that could fetch it, the master starts
 *   `slave.js --robots-only` on its own machine, until another slave joins.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../shared/errors.ts';
import type { Logger } from '../../shared/log.ts';
import { type SlaveEnd, SlaveProcesses } from '../../shared/slave-processes.ts';

export type LocalSlavesOptions = {
  readonly authkeys: () => readonly Buffer[];
  readonly log: Logger;
  /** Where the master listens, for a program on this machine: `host:port`. */
  readonly address: () => string;
  /** Peers that do not encrypt are refused. */
  readonly isEncrypted: boolean;
  /** Every slave of `--slaves` has ended, and none is started again. */
  readonly onNone: () => void;
};

/** Of the built programs: beside master.js. */
const program = fileURLToPath(new URL('slave.js', import.meta.url));
const restartMs = 500;
const restartsMax = 10;
const robotsRestartMs = 5_000;

export class LocalSlaves {
  /** The name of the slave for robots.txt. */
  readonly robotsName = `robots-of-${process.pid}`;
  readonly #options: LocalSlavesOptions;
  #slaves: SlaveProcesses | undefined;
  #robots: SlaveProcesses | undefined;
  #robotsAt = Number.NEGATIVE_INFINITY;
  #hasWarned = false;
  #state: 'open' | 'closed' = 'open';

  constructor(options: LocalSlavesOptions) {
    this.#options = options;
  }

  /** Starts so many slaves; to be called once the master listens.
   *  @throws ConfigError slave.js is not there. */
  start(count: number): void {
    if (count === 0) return;
    if (!existsSync(program)) {
      throw new ConfigError(
        `--slaves needs ${program}, which is not there: put slave.js beside master.js`,
      );
    }
    const slaves = this.#make([], {
      restartMs,
      restartsMax,
      onEnd: (end) => {
        this.#tell(end);
        if (slaves.count === 0 && end.code !== 0 && this.#state === 'open') this.#options.onNone();
      },
    });
    this.#slaves = slaves;
    for (let number = 1; number <= count; number++) slaves.start(`slave-${number}`);
    // A second signal ends the master at once, and what they fetch has nobody to go to.
    process.once('exit', () => slaves.kill('SIGKILL'));
  }

  /** Python workers wait for a robots.txt. Starts a slave for it, unless one runs or has just been
   *  tried. */
  wantRobots(): void {
    if (this.#robots !== undefined || this.#state === 'closed') return;
    if (performance.now() - this.#robotsAt < robotsRestartMs) return;
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
    this.#robotsAt = performance.now();
    const flags = ['--robots-only', '--slots', '8', '--log-level', 'warn'];
    const robots = this.#make(flags, {
      restartMs,
      restartsMax: 0,
      onEnd: ({ why }) => {
        if (this.#robots !== robots) return;
        this.#robots = undefined;
        log.warn(`the slave for robots.txt ended (${why}); it is started again when it is needed`);
      },
    });
    this.#robots = robots;
    robots.start(this.robotsName);
    robots.unref();
    log.info(`no slave is connected: started ${basename(program)} --robots-only for robots.txt`);
  }

  /** Another slave has joined: the one for robots.txt drains and leaves. */
  retireRobots(): void {
    const robots = this.#robots;
    this.#robots = undefined;
    robots?.release();
  }

  /** They drain and leave. */
  close(): void {
    this.#state = 'closed';
    this.retireRobots();
    this.#slaves?.release();
  }

  #make(
    flags: readonly string[],
    how: Pick<
      ConstructorParameters<typeof SlaveProcesses>[0],
      'restartMs' | 'restartsMax' | 'onEnd'
    >,
  ): SlaveProcesses {
    const { address, authkeys, isEncrypted } = this.#options;
    const tls = isEncrypted ? ['--tls'] : [];
    // What is set for slaves holds for these, but for the key.
    const { ORB_AUTHKEY_FILE: _, ...others } = process.env;
    return new SlaveProcesses({
      program,
      argsOf: (name) => [
        ...flags,
        ...tls,
        '--master',
        address(),
        '--processes',
        '1',
        '--name',
        name,
      ],
      env: { ...others, ORB_AUTHKEY: String(authkeys()[0]) },
      output: 'keep',
      ...how,
    });
  }

  #tell({ name, why, code, isRestarted, lines }: SlaveEnd): void {
    // 0: the master has told it to go.
    if (code === 0 || this.#state === 'closed') return;
    const { log } = this.#options;
    for (const line of lines) log.warn({ slave: name }, line);
    log.warn({ slave: name }, `the slave died (${why})${isRestarted ? '; starting another' : ''}`);
  }
}

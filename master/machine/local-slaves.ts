/**
 * The slaves that the master starts on its own machine. They end with the master, even when it is
 * killed.
 *
 * - `--slaves n`: full slaves for a crawl on one machine. One that dies is restarted; the
 *   master learns when none is left. Their warnings are lines of the master's log.
 * - For robots.txt only: Python workers fetch pages but know nothing of robots.txt. While they
 *   wait for a robots.txt and no connected slave could fetch it, the master runs
 *   `slave.js --robots-only` until another slave joins.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { amount } from '../../shared/amount.ts';
import { slaveCall } from '../../shared/calls.ts';
import { ConfigError } from '../../shared/errors.ts';
import { type Logger, logEntryIn } from '../../shared/log.ts';
import { type SlaveEnd, SlaveProcesses } from '../../shared/slave-processes.ts';
import { megabytes } from './disk-room.ts';
import { roomHere, slavesFor } from './slave-count.ts';

/** The master of local slaves: `Master`. */
export interface SlavesMaster {
  /** Where a program on this machine finds it: `host:port`. */
  readonly localAddress: string;
  /** Every slave of `--slaves` has ended, and none is restarted. */
  noSlaveLeft(): void;
}

type LocalSlavesOptions = {
  readonly authkeys: () => readonly Buffer[];
  readonly log: Logger;
  readonly master: SlavesMaster;
  /** Unencrypted peers are refused. */
  readonly isEncrypted: boolean;
};

/** The built slave, in the folder of master.js. */
const program = fileURLToPath(new URL('slave.js', import.meta.url));
const restartMs = 500;
const restartsMax = 10;
const robotsRestartMs = 5_000;
const endMsMax = 4_000;

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

  /** Starts `wanted` slaves. The master must be listening.
   *  @throws ConfigError slave.js is missing. */
  start(wanted: number | 'auto'): void {
    const count = wanted === 'auto' ? this.#countHere() : wanted;
    if (count === 0) return;
    if (!existsSync(program)) {
      throw new ConfigError(
        `--slaves needs ${program}, which is missing: copy slave.js to the folder of master.js`,
      );
    }
    const slaves = this.#make([], {
      restartMs,
      restartsMax,
      onEnd: (end) => {
        this.#report(end);
        if (slaves.count === 0 && end.code !== 0 && this.#state === 'open')
          this.#options.master.noSlaveLeft();
      },
    });
    this.#slaves = slaves;
    for (let number = 1; number <= count; number++) slaves.start(`slave-${number}`);
    // A second signal ends the master at once, so its slaves can report to nobody.
    process.once('exit', () => slaves.kill('SIGKILL'));
  }

  /** Python workers wait for a robots.txt. Starts a slave for it, unless one runs or was started a
   *  moment ago. */
  robotsWanted(): void {
    if (this.#robots !== undefined || this.#state === 'closed') return;
    if (performance.now() - this.#robotsAt < robotsRestartMs) return;
    const { log } = this.#options;
    if (!existsSync(program)) {
      if (!this.#hasWarned) {
        log.warn(
          'Python workers wait for robots.txt, but no slave is connected to fetch it: start one ' +
            `with \`${slaveCall} --robots-only\`, or crawl with --ignore-robots`,
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
        log.warn(`the slave for robots.txt ended (${why}); it is restarted when it is needed`);
      },
    });
    this.#robots = robots;
    robots.start(this.robotsName);
    robots.unref();
    log.info(`no slave is connected: started ${basename(program)} --robots-only for robots.txt`);
  }

  /** Called when another slave has joined. The one for robots.txt drains and leaves. */
  retireRobots(): void {
    const robots = this.#robots;
    this.#robots = undefined;
    robots?.release();
  }

  get pids(): readonly number[] {
    return [...(this.#slaves?.pids ?? []), ...(this.#robots?.pids ?? [])];
  }

  /** Stops the slaves, or lets them go on. */
  signal(signal: 'SIGTSTP' | 'SIGCONT'): void {
    this.#slaves?.signal(signal);
    this.#robots?.signal(signal);
  }

  /** The slaves drain and leave. */
  close(): void {
    this.#state = 'closed';
    this.retireRobots();
    this.#slaves?.release();
  }

  /** Resolves when those that were let go have ended, or after a while: a slave that is killed
   *  leaves folders of its browser. */
  async ended(): Promise<void> {
    const until = performance.now() + endMsMax;
    while ((this.#slaves?.pids.length ?? 0) > 0 && performance.now() < until) await sleep(10);
  }

  #countHere(): number {
    const room = roomHere();
    const count = slavesFor(room);
    const [cores, mb] = [
      amount(room.cores, 'core'),
      amount(megabytes(room.memoryBytes), 'MB', 'MB'),
    ];
    this.#options.log.info(
      `--slaves auto: ${amount(count, 'slave')} for ${cores} and ${mb} of memory`,
    );
    return count;
  }

  #make(
    flags: readonly string[],
    how: Pick<
      ConstructorParameters<typeof SlaveProcesses>[0],
      'restartMs' | 'restartsMax' | 'onEnd'
    >,
  ): SlaveProcesses {
    const { master, authkeys, isEncrypted } = this.#options;
    const tls = isEncrypted ? ['--tls'] : [];
    // These slaves take over the environment of the master, except for the key's file.
    const { ORB_AUTHKEY_FILE: _, ...others } = process.env;
    return new SlaveProcesses({
      program,
      argsOf: (name) => [
        ...flags,
        ...tls,
        '--json-logs',
        '--master',
        master.localAddress,
        '--processes',
        '1',
        '--name',
        name,
      ],
      env: { ...others, ORB_AUTHKEY: String(authkeys()[0]) },
      output: 'keep',
      onLine: (name, line) => this.#relay(name, line),
      ...how,
    });
  }

  /** Logs what a slave warns of: nobody else reads its log. Takes all lines of that; others, such
   *  as the last words of a crash, are reported when it has died. */
  #relay(slave: string, line: string): boolean {
    const entry = logEntryIn(line);
    if (entry === undefined) return false;
    const { level, msg, time: _, ...fields } = entry;
    // One that is let go has lost its master, and says so.
    if (this.#state === 'closed' || (level !== 'warn' && level !== 'error')) return true;
    this.#options.log[level]({ slave, ...fields }, msg);
    return true;
  }

  #report({ name, why, code, isRestarted, lines }: SlaveEnd): void {
    // 0: it left in order, after a drain.
    if (code === 0 || this.#state === 'closed') return;
    const { log } = this.#options;
    for (const line of lines) log.warn({ slave: name }, line);
    log.warn({ slave: name }, `the slave died (${why})${isRestarted ? '; starting another' : ''}`);
  }
}

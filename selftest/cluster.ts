/**
 * A master and slaves that are kept running: a program that has ended is restarted. They are the
 * real programs, each a process; slaves reach the master through the proxy.
 */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type MasterClient, parseAddress } from '../shared/client.ts';
import { ConnectionError } from '../shared/errors.ts';
import type { Replies } from '../shared/replies.ts';
import type { Said, Verb } from '../shared/requests.ts';
import { type Exit, Program } from './program.ts';

/** Time limits of master and slaves, in ms: short, so that a fault is noticed within the run. */
export const patience = { leaseMs: 5_000, heartbeatMs: 1_000, silenceMs: 3_000 };
/** Time limit of an orderly end. */
const leaveMs = 60_000;
const startMs = 60_000;
const againMs = 100;

type ClusterOptions = {
  /** Where `master.js` and `slave.js` are. */
  readonly programs: string;
  /** Folder of state, results and output of the programs. */
  readonly data: string;
  readonly out: string;
  readonly logs: string;
  readonly slaves: number;
  /** More options of each slave. */
  readonly slaveOptions?: readonly string[];
  /** The address for slaves and users of queues. */
  readonly address: () => string;
  /** A program ended by itself. */
  readonly onDied: (what: string) => void;
};

export class Cluster {
  readonly #options: ClusterOptions;
  readonly #slaves: Program[] = [];
  /** Programs killed on purpose, whose end is not a fault. */
  readonly #ended = new Set<Program>();
  /** Programs that were asked to end in order. */
  readonly #leaving = new Set<Program>();
  #master: Program | undefined;
  #port: number | undefined;
  #slaveNumber = 0;
  #state: 'running' | 'ending' = 'running';
  /** Masters that began to listen. */
  starts = 0;
  /** Clock shift of the next master, in ms. */
  shiftMs = 0;
  /** Until this time of `performance.now()` the master may die of a fault of its disk. */
  mayDieUntilMs = 0;

  constructor(options: ClusterOptions) {
    this.#options = options;
    mkdirSync(options.logs, { recursive: true });
  }

  /** Port of the master that listens; undefined while there is none. */
  get port(): number | undefined {
    return this.#port;
  }

  get authkey(): Buffer {
    return Buffer.from(readFileSync(join(this.#options.data, 'authkey'), 'utf8').trim());
  }

  /** Starts all of them. @throws Error when the first master does not come up. */
  async start(): Promise<void> {
    const master = this.#startMaster();
    await Promise.race([master.said(/listens on/), late('the master does not start')]);
    for (let i = 0; i < this.#options.slaves; i++) this.#startSlave(i);
  }

  /** Kills the master; another one replaces it. Returns false if none listens. */
  killMaster(): boolean {
    if (this.#master === undefined || this.#port === undefined) return false;
    this.#end(this.#master);
    return true;
  }

  /** The same with a slave, `pick` (0 to 1) of all. */
  killSlave(pick: number): boolean {
    const slave = this.#slaves[Math.floor(pick * this.#slaves.length)];
    if (!slave?.isAlive) return false;
    this.#end(slave);
    return true;
  }

  killAll(): boolean {
    if (!this.killMaster()) return false;
    for (const slave of this.#slaves) this.#end(slave);
    return true;
  }

  /** Ends the master in order (SIGTERM); another one replaces it. Returns false if none could
   *  end. */
  restartMaster(): boolean {
    return this.#port !== undefined && this.#leave(this.#master);
  }

  restartSlave(pick: number): boolean {
    return this.#leave(this.#slaves[Math.floor(pick * this.#slaves.length)]);
  }

  /** Stops the master (SIGSTOP) for `ms`. */
  stopMaster(ms: number): boolean {
    return this.#port !== undefined && this.#stop(this.#master, ms);
  }

  stopSlave(pick: number, ms: number): boolean {
    return this.#stop(this.#slaves[Math.floor(pick * this.#slaves.length)], ms);
  }

  /** Sends a request to the master directly, repeatedly until it answers or `deadlineMs` (of
   *  `performance.now()`) is over. @throws ConnectionError it is over · CommandError refused. */
  async ask<V extends Verb>(
    verb: V,
    body: Omit<Said[V], 'verb' | 'id'>,
    deadlineMs: number,
  ): Promise<Replies[V]> {
    while (true) {
      let client: MasterClient | undefined;
      try {
        client = await connect({
          host: '127.0.0.1',
          port: this.#port ?? 1,
          authkey: this.authkey,
          name: 'selftest',
          timeoutMs: 5_000,
        });
        return await client.request(verb, body);
      } catch (error) {
        if (!(error instanceof ConnectionError) || performance.now() > deadlineMs) throw error;
      } finally {
        await client?.close();
      }
      await sleep(againMs);
    }
  }

  /** Ends all in order. Returns the errors. */
  async stop(): Promise<string[]> {
    this.#state = 'ending';
    const wrong: string[] = [];
    for (const program of [...this.#slaves, this.#master]) {
      if (program === undefined) continue;
      // A second signal would end it at once.
      if (!this.#leaving.has(program)) program.signal('SIGTERM');
      const exit = await Promise.race([program.exited, sleep(leaveMs, undefined, { ref: false })]);
      if (exit === undefined) wrong.push(`process ${program.pid} does not end on SIGTERM`);
      else if (!isOrderly(exit)) {
        wrong.push(`process ${program.pid} ended with ${exit.code ?? exit.signal}, not with 0`);
      }
    }
    await this.close();
    return wrong;
  }

  /** Ends all at once. */
  async close(): Promise<void> {
    this.#state = 'ending';
    for (const program of [...this.#slaves, this.#master]) await program?.kill('SIGKILL');
  }

  #startMaster(): Program {
    const { programs, data, out } = this.#options;
    const seconds = (ms: number) => String(ms / 1000);
    const { leaseMs, heartbeatMs, silenceMs } = patience;
    const program = this.#run('master', [
      ...clockShift(this.shiftMs),
      join(programs, 'master.js'),
      '--listen',
      '127.0.0.1:0',
      '--data',
      data,
      '--out',
      out,
      '--lease',
      seconds(leaseMs),
      '--heartbeat',
      seconds(heartbeatMs),
      '--silence',
      seconds(silenceMs),
    ]);
    this.shiftMs = 0;
    this.#master = program;
    program.said(/listens on (\S+)/).then(
      ([, address = '']) => {
        if (!program.isAlive) return;
        this.#port = parseAddress(address).port;
        this.starts++;
      },
      () => {}, // it ended before
    );
    void this.#replace(program, () => {
      this.#port = undefined;
      return () => this.#startMaster();
    });
    return program;
  }

  #startSlave(place: number): Program {
    const number = ++this.#slaveNumber;
    const { programs, data, address, slaveOptions = [] } = this.#options;
    const program = this.#run(`slave-${number}`, [
      join(programs, 'slave.js'),
      '--master',
      address(),
      '--authkey-file',
      join(data, 'authkey'),
      '--name',
      `slave-${number}`,
      '--join-timeout',
      '86400',
      // Every second one encrypts.
      ...(number % 2 === 0 ? ['--tls'] : []),
      ...slaveOptions,
    ]);
    this.#slaves[place] = program;
    void this.#replace(program, () => () => this.#startSlave(place));
    return program;
  }

  /** Starts another one when it has ended. */
  async #replace(program: Program, gone: () => () => Program): Promise<void> {
    const { code, signal } = await program.exited;
    const start = gone();
    const hasLeft = this.#leaving.delete(program) && isOrderly({ code, signal });
    if (this.#state === 'ending') return;
    const mayDie = program === this.#master && performance.now() < this.mayDieUntilMs;
    if (!this.#ended.delete(program) && !mayDie && !hasLeft) {
      const last = program.output.trimEnd().split('\n').slice(-5).join('\n    ');
      this.#options.onDied(
        `process ${program.pid} ended by itself (${code ?? signal}):\n    ${last}`,
      );
      await sleep(1_000);
    }
    if (mayDie) await sleep(againMs);
    start();
  }

  #run(name: string, args: readonly string[]): Program {
    const program = new Program(args, { cwd: this.#options.logs });
    const log = join(this.#options.logs, `${name}.log`);
    void program.exited.then(({ code, signal }) => {
      appendFileSync(log, `${program.output}--- process ${program.pid}: ${code ?? signal}\n`);
    });
    return program;
  }

  #end(program: Program): void {
    if (!program.isAlive) return;
    this.#ended.add(program);
    if (program === this.#master) this.#port = undefined;
    program.signal('SIGKILL');
  }

  #leave(program: Program | undefined): boolean {
    if (!program?.isAlive || this.#leaving.has(program)) return false;
    this.#leaving.add(program);
    program.signal('SIGTERM');
    const late = setTimeout(() => {
      this.#options.onDied(`process ${program.pid} does not end on SIGTERM`);
      this.#end(program);
    }, leaveMs);
    void program.exited.then(() => clearTimeout(late));
    return true;
  }

  #stop(program: Program | undefined, ms: number): boolean {
    if (!program?.isAlive) return false;
    program.signal('SIGSTOP');
    setTimeout(() => program.signal('SIGCONT'), ms);
    return true;
  }
}

/** Did it end in order? A program that has just started does not handle the signal yet. */
function isOrderly({ code, signal }: Exit): boolean {
  return code === 0 || signal === 'SIGTERM';
}

/** Arguments of Node that shift its wall clock, like a wrong clock that is corrected between the
 *  starts of two programs. */
function clockShift(shiftMs: number): string[] {
  if (shiftMs === 0) return [];
  const code = `const now=Date.now;Date.now=()=>now()+${shiftMs};Object.defineProperty(
    performance,'timeOrigin',{value:performance.timeOrigin+${shiftMs}});`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
}

function late(message: string): Promise<never> {
  return sleep(startMs, undefined, { ref: false }).then(() => {
    throw new Error(message);
  });
}

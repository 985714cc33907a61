/**
 * `exec` and `run`: runs a program, or a script by its name, on slaves that allow it, and prints
 * what it says as it comes. The command ends with the exit code of its job. A lost connection is
 * made again, and what was missed is printed at the end of the job.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { whole } from '../../../shared/cli.ts';
import type { MasterClient } from '../../../shared/client.ts';
import { ConfigError, ConnectionError, exitCodes, messageOf } from '../../../shared/errors.ts';
import { type JobCall, type JobStream, jobLimits } from '../../../shared/jobs.ts';
import type { Push } from '../../../shared/protocol.ts';
import type { Replies } from '../../../shared/replies.ts';
import { visible, visibleJson } from '../../../shared/visible.ts';
import { sayingWhyItWaits } from '../waiting.ts';
import type { AskMaker, Command, Values } from './asking.ts';

export type ExecAsk = {
  readonly verb: 'exec';
  readonly call: JobCall;
  readonly on: string;
  readonly retries: number;
  readonly timeoutMs: number | undefined;
  readonly waits: boolean;
  readonly detach: boolean;
};

/** Connects anew. `onClose`: the connection is gone. */
type JoinWatching = (onPush: (push: Push) => void, onClose: () => void) => Promise<MasterClient>;

/** How long it looks for a master that is gone. */
const rejoinMs = 60_000;
const rejoinEveryMs = 1_000;
const lineFeed = 10;

export function execCommands(
  maker: AskMaker,
  take: (values: Values, ask: ExecAsk) => void,
): Command[] {
  const exec = options(
    maker.make('exec', 'run a program on a slave that allows it; put -- before its path'),
  )
    .argument('<command...>', 'absolute path of the program, and its arguments')
    .action((command: string[], values: Values) => {
      const [program = '', ...args] = command;
      if (!program.startsWith('/')) {
        throw new ConfigError(`"${program}" is not an absolute path: exec -- /usr/bin/${program}`);
      }
      take(values, asked({ program, args }, values));
    });
  const run = options(
    maker.make('run', 'run a script of the --exec-folder of a slave; put -- before options of it'),
  )
    .argument('<name>', 'name of the script')
    .argument('[args...]', 'its arguments')
    .action((script: string, args: string[], values: Values) =>
      take(values, asked({ script, args }, values)),
    );
  return [exec, run];
}

function options(command: Command): Command {
  return command
    .option('--on <slave>', 'slave to run it on: its name, any, or every', 'any')
    .option(
      '--retry <n>',
      'further attempts if the slave is lost; 0: it runs at most once',
      whole(0, jobLimits.retriesMax),
      0,
    )
    .option(
      '--timeout <s>',
      'seconds that it may run; default: the limit of the slave',
      whole(1, jobLimits.timeoutMsMax / 1000),
    )
    .option('--wait', 'wait for a slave that allows it, if none is connected', false)
    .option('--detach', 'print the number of the job, and do not wait for its end', false);
}

function asked(call: JobCall, values: Values): ExecAsk {
  const timeoutS = values['timeout'] as number | undefined;
  return {
    verb: 'exec',
    call,
    on: String(values['on']),
    retries: Number(values['retry']),
    timeoutMs: timeoutS === undefined ? undefined : timeoutS * 1000,
    waits: values['wait'] === true,
    detach: values['detach'] === true,
  };
}

/** Returns the exit code. @throws ConfigError · CommandError the master refused it: nothing ran */
export async function askExec(ask: ExecAsk, isJson: boolean, join: JoinWatching): Promise<number> {
  const { call, on, retries, timeoutMs, waits, detach } = ask;
  const watch = new Watch(join, { isJson, isNamed: on === 'every' });
  const master = await watch.join();
  try {
    const added = master.request('job.add', {
      ...call,
      args: [...call.args],
      on,
      retries,
      watch: !detach,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(waits && { waits }),
    });
    const { jobs } = await sayingWhyItWaits(master, added);
    if (!detach) return await watch.ends(jobs);
    const numbers = jobs.map(({ job }) => job);
    console.log(isJson ? JSON.stringify(jobs) : `job ${numbers.join(', ')}`);
    return exitCodes.done;
  } finally {
    await watch.close();
  }
}

type Watched = {
  readonly job: number;
  slave: string;
  readonly printed: Record<JobStream, number>;
  /** Of `every`: the beginning of a line that is not whole yet. */
  readonly unended: Record<JobStream, Uint8Array[]>;
  reply?: Replies['job.get'];
};

class Watch {
  readonly #join: JoinWatching;
  readonly #isJson: boolean;
  readonly #isNamed: boolean;
  readonly #jobs = new Map<number, Watched>();
  #master: MasterClient | undefined;
  #ended: number[] = [];
  #interrupts = 0;
  #wake: () => void = () => {};

  /** `isNamed`: each line begins with the name of its slave, even if there is only one. */
  constructor(join: JoinWatching, how: { readonly isJson: boolean; readonly isNamed: boolean }) {
    this.#join = join;
    this.#isJson = how.isJson;
    this.#isNamed = how.isNamed;
  }

  async join(): Promise<MasterClient> {
    const master = await this.#join(
      (push) => this.#heard(push),
      () => {
        this.#master = undefined;
        this.#wake();
      },
    );
    this.#master = master;
    return master;
  }

  async close(): Promise<void> {
    await this.#master?.close();
  }

  /** Resolves with the exit code when all have ended. */
  async ends(jobs: Replies['job.add']['jobs']): Promise<number> {
    for (const { job, slave = '' } of jobs) {
      if (this.#jobs.has(job)) continue;
      const unended = { stdout: [], stderr: [] };
      this.#jobs.set(job, { job, slave, printed: { stdout: 0, stderr: 0 }, unended });
    }
    const interrupt = () => this.#interrupt();
    process.on('SIGINT', interrupt);
    try {
      while (this.#open.length > 0) {
        await this.#collect();
        if (this.#open.length === 0) break;
        if (this.#master === undefined) await this.#rejoin();
        else if (this.#ended.length === 0) await this.#woken();
      }
    } finally {
      process.off('SIGINT', interrupt);
    }
    return this.#exitCode();
  }

  get #open(): Watched[] {
    return [...this.#jobs.values()].filter(({ reply }) => reply === undefined);
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #heard(push: Push): void {
    if (push.verb === 'job.ended') this.#ended.push(push.job);
    if (push.verb === 'job.started') {
      const job = this.#jobs.get(push.job);
      if (job !== undefined) {
        job.slave = push.slave;
        // The output of another attempt was printed, and stays.
        if (push.attempt > 1) Object.assign(job.printed, { stdout: 0, stderr: 0 });
      }
    }
    if (push.verb === 'job.output') this.#print(push.job, push.stream, push.at, push.data);
    this.#wake();
  }

  #print(number: number, stream: JobStream, at: number, data: Uint8Array): void {
    const job = this.#jobs.get(number);
    // A piece behind a gap waits for the end, when all of it comes.
    if (job === undefined || this.#isJson || at > job.printed[stream]) return;
    const rest = data.subarray(job.printed[stream] - at);
    if (rest.length === 0) return;
    job.printed[stream] += rest.length;
    if (this.#isNamed) printNamed(job, stream, rest);
    else process[stream].write(rest);
  }

  /** Asks for those that have ended. */
  async #collect(): Promise<void> {
    for (let job = this.#ended.shift(); job !== undefined; job = this.#ended.shift()) {
      const watched = this.#jobs.get(job);
      const master = this.#master;
      if (watched === undefined || watched.reply !== undefined) continue;
      if (master === undefined) {
        this.#ended.unshift(job);
        return;
      }
      try {
        const reply = await master.request('job.get', { job });
        for (const stream of ['stdout', 'stderr'] as const) {
          const said = reply[stream];
          if (said === undefined) continue;
          this.#print(job, stream, 0, said.kept);
          // Another job's line would go on where its last one stopped.
          if (watched.unended[stream].length > 0) printNamed(watched, stream, Buffer.from('\n'));
        }
        watched.reply = reply;
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        this.#ended.unshift(job);
        this.#master = undefined;
        return;
      }
    }
  }

  async #rejoin(): Promise<void> {
    console.error('master: the connection is lost; the job goes on; connecting again');
    const deadline = performance.now() + rejoinMs;
    while (true) {
      try {
        const master = await this.join();
        const jobs = this.#open.map(({ job }) => job);
        const { ended } = await master.request('job.watch', { jobs });
        this.#ended.push(...ended);
        return;
      } catch (error) {
        if (performance.now() < deadline) await sleep(rejoinEveryMs);
        else {
          const numbers = this.#open.map(({ job }) => job).join(', ');
          throw new ConfigError(
            `${messageOf(error)}; the job goes on: see jobs, job ${numbers}`,
            error,
          );
        }
      }
    }
  }

  /** Ctrl-C cancels the jobs, and waits for their ends; a second one leaves at once. */
  #interrupt(): void {
    if (++this.#interrupts > 1) process.kill(process.pid, 'SIGKILL');
    console.error('master: cancelling; press Ctrl-C again to leave at once');
    for (const { job } of this.#open) {
      this.#master?.request('job.cancel', { job }).then(
        () => {},
        () => {},
      );
    }
  }

  /** Of one job its own; else 0 if all have ended with 0. Prints a line for each job that needs
   *  one. */
  #exitCode(): number {
    const codes = [...this.#jobs.values()].map(({ job, slave, reply }) => {
      if (reply === undefined) return exitCodes.failed;
      const { outcome, code, reason, signal, stdout, stderr } = reply;
      if (this.#isJson) console.log(visibleJson(JSON.stringify(jsonOf(reply))));
      const where = this.#jobs.size === 1 ? `job ${job}` : `job ${job} on ${slave}`;
      const say = (text: string) => console.error(visible(`master: ${where} ${text}`));
      for (const [name, said] of Object.entries({ stdout, stderr })) {
        if (said === undefined || said.bytes <= said.kept.length) continue;
        say(`wrote ${said.bytes} bytes to ${name}; the first ${said.kept.length} are kept`);
      }
      if (outcome === 'exited') {
        if (code !== 0 && this.#jobs.size > 1) say(`exited with code ${code}`);
        return code ?? exitCodes.failed;
      }
      say(
        outcome === 'signal' ? `was ended by ${signal}` : `${words[outcome ?? 'lost']}: ${reason}`,
      );
      return outcome === 'refused' ? exitCodes.operator : exitCodes.failed;
    });
    const [first = exitCodes.failed] = codes;
    if (codes.length === 1) return first;
    return codes.every((code) => code === 0) ? exitCodes.done : exitCodes.failed;
  }
}

/** Prints the lines that are whole now, each with the name of its slave: those of other jobs come
 *  between them. It holds at most as much of a stream as the slave keeps. */
function printNamed({ slave, unended }: Watched, stream: JobStream, data: Uint8Array): void {
  const end = data.lastIndexOf(lineFeed) + 1;
  unended[stream].push(data.subarray(0, end === 0 ? undefined : end));
  if (end === 0) return;
  const whole = Buffer.concat(unended[stream]);
  unended[stream] = end === data.length ? [] : [data.subarray(end)];
  const name = Buffer.from(`${slave}: `);
  const parts: Buffer[] = [];
  for (let at = 0, next = 0; at < whole.length; at = next) {
    next = whole.indexOf(lineFeed, at) + 1;
    parts.push(name, whole.subarray(at, next));
  }
  process[stream].write(Buffer.concat(parts));
}

const words = {
  exited: 'exited',
  signal: 'was ended',
  limit: 'was ended for a limit',
  cancelled: 'was cancelled',
  refused: 'was refused',
  lost: 'is lost',
} as const;

/** With its output as text. */
function jsonOf({ stdout, stderr, ...row }: Replies['job.get']): object {
  const text = (said: typeof stdout) => said && Buffer.from(said.kept).toString();
  return { ...row, stdout: text(stdout), stderr: text(stderr) };
}

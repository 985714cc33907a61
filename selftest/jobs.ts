/**
 * Has slaves run a script again and again while they and the master are killed, and compares
 * jobs.jsonl with what has run: one record for each job, and one run at most of those that are not
 * to be tried again. Each run leaves a mark in a folder outside the disk that gets full.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError, ConnectionError } from '../shared/errors.ts';
import type { Cluster } from './cluster.ts';
import type { Violation } from './exact.ts';

const everyMs = 400;
const pollMs = 200;
/** One job in so many may be tried again. */
const retriedEvery = 4;
const prlimits = ['/usr/bin/prlimit', '/bin/prlimit'];

type Line = {
  readonly args: readonly string[];
  readonly outcome: string;
  readonly code?: number;
  readonly stdout?: string;
};

export class Jobs {
  readonly #marks: string;
  readonly #scripts: string;
  readonly #file: string;
  /** Those whose request was answered. */
  readonly #added = new Set<number>();
  #last = 0;

  /** `folder`: for scripts and marks. `out`: of the results. */
  private constructor(folder: string, out: string) {
    this.#marks = join(folder, 'marks');
    this.#scripts = join(folder, 'scripts');
    this.#file = join(out, 'jobs.jsonl');
    // As root the jobs run as another user.
    chmodSync(folder, 0o711);
    mkdirSync(this.#marks);
    chmodSync(this.#marks, 0o777);
    mkdirSync(this.#scripts);
    chmodSync(this.#scripts, 0o755);
    const script = join(this.#scripts, 'mark');
    const text = `#!/bin/sh\necho x >> ${this.#marks}/$1\nsleep 0.$(($1 % 4))\necho $1\n`;
    writeFileSync(script, text);
    chmodSync(script, 0o755);
  }

  /** Undefined: slaves take no commands on this system. */
  static prepare(folder: string, out: string): Jobs | undefined {
    const canRun = process.platform === 'linux' && prlimits.some((path) => existsSync(path));
    return canRun ? new Jobs(folder, out) : undefined;
  }

  /** Options of the slaves. */
  get options(): string[] {
    const user = process.getuid?.() === 0 ? ['--exec-user', 'nobody'] : [];
    return ['--exec-folder', this.#scripts, ...user];
  }

  /** Jobs whose request was answered. */
  get count(): number {
    return this.#added.size;
  }

  /** Adds jobs until `signal`. */
  async add(cluster: Cluster, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // A number is used once, so that the run of an unanswered request is recognised.
      const number = ++this.#last;
      const retries = number % retriedEvery === 0 ? 5 : 0;
      const call = { script: 'mark', args: [String(number)], retries, waits: true };
      try {
        await cluster.ask('job.add', call, 0);
        this.#added.add(number);
      } catch (error) {
        if (!(error instanceof ConnectionError || error instanceof CommandError)) throw error;
      }
      await sleep(everyMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Resolves when all have a record, or at `deadlineMs` of `performance.now()`. */
  async finish(deadlineMs: number): Promise<void> {
    while (performance.now() < deadlineMs) {
      const there = new Set(this.#lines().map(numberOf));
      if ([...this.#added].every((number) => there.has(number))) return;
      await sleep(pollMs);
    }
  }

  /** To be asked when master and slaves have ended. */
  verify(): Violation[] {
    const violations: Violation[] = [];
    const found = (kind: Violation['kind'], what: string) => violations.push({ kind, what });
    const ended = new Set<number>();
    for (const line of this.#lines()) {
      const number = numberOf(line);
      const runs = this.#runsOf(number);
      if (ended.has(number)) found('duplicated', `record of job ${number}`);
      ended.add(number);
      const isWhole = line.code === 0 && line.stdout === `${number}\n` && runs > 0;
      if (line.outcome === 'exited' ? !isWhole : line.outcome !== 'lost') {
        found(
          'wrong',
          `job ${number} ran ${runs} times, and its record is ${JSON.stringify(line)}`,
        );
      }
    }
    for (const number of this.#added) if (!ended.has(number)) found('lost', `job ${number}`);
    for (const number of readdirSync(this.#marks).map(Number)) {
      const runs = this.#runsOf(number);
      if (runs > 1 && number % retriedEvery !== 0) {
        found('duplicated', `job ${number} ran ${runs} times`);
      }
    }
    return violations;
  }

  #lines(): Line[] {
    if (!existsSync(this.#file)) return [];
    const lines = readFileSync(this.#file, 'utf8').split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as Line);
  }

  #runsOf(number: number): number {
    const path = join(this.#marks, String(number));
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
  }
}

function numberOf({ args }: Line): number {
  return Number(args[0]);
}

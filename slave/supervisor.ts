/**
 * `--processes n`: n workers as processes of their own, each with its own connection. One that
 * dies is started again; one that says that the operator must act ends them all.
 *
 * The workers are out of reach of the terminal, which sends Ctrl-C to everybody: a second signal
 * means "at once", so each of them must hear one only, from here. Over the channel they notice
 * when this process is gone, and drain.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { exitCodes } from '../shared/errors.ts';
import type { SlaveOptions } from './options.ts';

const restartMs = 1_000;

/** Resolves with the exit code of the whole. `program` is the path of slave.js. */
export function supervise(program: string, options: SlaveOptions): Promise<number> {
  const children = new Set<ChildProcess>();
  const restarts = new Set<NodeJS.Timeout>();
  let stopping = false;
  let worst: number = exitCodes.done;
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals) => {
      stopping = true;
      for (const timer of restarts) clearTimeout(timer);
      restarts.clear();
      for (const child of children) child.kill(signal);
      if (children.size === 0) resolve(worst);
    };
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal));
    const restart = (index: number) => {
      const timer = setTimeout(() => {
        restarts.delete(timer);
        start(index);
      }, restartMs);
      restarts.add(timer);
    };
    const start = (index: number) => {
      const args = [...process.execArgv, program, ...process.argv.slice(2)];
      args.push('--processes', '1', '--name', `${options.name}.${index}`.slice(-64));
      const child = spawn(process.execPath, args, {
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        detached: true,
      });
      children.add(child);
      child.on('exit', (code) => {
        children.delete(child);
        const ends =
          code === exitCodes.done || code === exitCodes.operator || code === exitCodes.auth;
        if (!ends && !stopping) {
          restart(index);
          return;
        }
        worst = Math.max(worst, code ?? exitCodes.failed);
        if (code !== exitCodes.done && !stopping) stop('SIGTERM');
        else if (children.size === 0 && restarts.size === 0) resolve(worst);
      });
    };
    for (let index = 1; index <= options.processes; index++) start(index);
  });
}

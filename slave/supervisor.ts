/**
 * `--processes n`: n workers as processes of their own, each with its own connection. One that
 * dies is started again; one that says that the operator must act ends them all.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { exitCodes } from '../shared/errors.ts';
import type { SlaveOptions } from './options.ts';

const restartMs = 1_000;

/** Resolves with the exit code of the whole. `program` is the path of slave.js. */
export function supervise(program: string, options: SlaveOptions): Promise<number> {
  const children = new Set<ChildProcess>();
  let stopping = false;
  return new Promise((resolve) => {
    let worst: number = exitCodes.done;
    const stop = (signal: NodeJS.Signals) => {
      stopping = true;
      for (const child of children) child.kill(signal);
    };
    process.on('SIGTERM', () => stop('SIGTERM'));
    process.on('SIGINT', () => stop('SIGINT'));
    const start = (index: number) => {
      const args = [...process.execArgv, program, ...process.argv.slice(2)];
      args.push('--processes', '1', '--name', `${options.name}.${index}`.slice(-64));
      const child = spawn(process.execPath, args, { stdio: 'inherit' });
      children.add(child);
      child.on('exit', (code) => {
        children.delete(child);
        const ends =
          code === exitCodes.done || code === exitCodes.operator || code === exitCodes.auth;
        if (!ends && !stopping) {
          setTimeout(() => start(index), restartMs);
          return;
        }
        worst = Math.max(worst, code ?? exitCodes.failed);
        if (code !== exitCodes.done && !stopping) stop('SIGTERM');
        if (children.size === 0) resolve(worst);
      });
    };
    for (let index = 1; index <= options.processes; index++) start(index);
  });
}

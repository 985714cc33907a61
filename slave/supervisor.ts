/** `--processes n`: n workers in separate processes, each with its own connection. One that dies is
 *  restarted; one that exits because the operator must act ends them all. */
import { exitCodes } from '../shared/errors.ts';
import { onHangUp } from '../shared/hang-up.ts';
import { SlaveProcesses } from '../shared/slave-processes.ts';
import { onSuspend } from '../shared/suspension.ts';
import type { SlaveOptions } from './options.ts';

const restartMs = 1_000;

/** Resolves with the exit code of all together. `program` is the path of slave.js. */
export function supervise(program: string, options: SlaveOptions): Promise<number> {
  let stopping = false;
  let worst: number = exitCodes.done;
  const takesCommands = options.allowExec.length > 0 || options.execFolder !== undefined;
  const nameOf = (index: number) => `${options.name}.${index}`.slice(-64);
  return new Promise((resolve) => {
    const slaves = new SlaveProcesses({
      program,
      // Commands are of a machine: the first process takes them all.
      argsOf: (name) => [
        ...process.argv.slice(2),
        '--processes',
        '1',
        '--name',
        name,
        ...(takesCommands && name !== nameOf(1) ? ['--exec-slots', '0'] : []),
      ],
      output: 'inherit',
      restartMs,
      restartsMax: Number.POSITIVE_INFINITY,
      onEnd: ({ code, isRestarted }) => {
        if (isRestarted) return;
        worst = Math.max(worst, code ?? exitCodes.failed);
        if (code !== exitCodes.done && !stopping) stop('SIGTERM');
        else if (slaves.count === 0) resolve(worst);
      },
    });
    const stop = (signal: NodeJS.Signals) => {
      stopping = true;
      slaves.kill(signal);
      if (slaves.count === 0) resolve(worst);
    };
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop(signal));
    onHangUp(() => stop('SIGTERM'));
    onSuspend({
      before: () => slaves.signal('SIGTSTP'),
      after: () => slaves.signal('SIGCONT'),
      stopped: () => slaves.pids,
    });
    for (let index = 1; index <= options.processes; index++) {
      slaves.start(nameOf(index));
    }
  });
}

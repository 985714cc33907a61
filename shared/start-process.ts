/**
 * `spawn`, of which each error is an event. Node throws some, ENOMEM among them, though the next
 * try may succeed: thrown by a timer, it would end the whole program.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';

/** Starts a process. One without `pid` has no streams, and `error` says why it was not started. */
export function startProcess(
  program: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  try {
    return spawn(program, args, options);
  } catch (error) {
    const child = new EventEmitter() as ChildProcess;
    child.kill = () => false;
    child.unref = () => {};
    process.nextTick(() => child.emit('error', error));
    return child;
  }
}

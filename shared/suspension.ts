/**
 * Ctrl-Z, in a program that has processes of its own outside of the terminal's group, or limits of
 * time: it prepares, stops itself, and learns for how long when it goes on (`fg`, `bg`).
 *
 * A stopped program that is killed can wake nobody. So a shell waits at a pipe for as long as it is
 * stopped: when the pipe closes, it lets the processes go on. They then see that the program is
 * gone, and end.
 */
import { startProcess } from './start-process.ts';

/** So long after it was sent, the signal has stopped this thread. */
const stopWithinMs = 50;

type Suspension = {
  /** Runs ahead of the stop. */
  readonly before: () => void;
  /** Runs before any timer that expired in the meantime. */
  readonly after: (stoppedMs: number) => void;
  /** Process ids of those that `before` stops. */
  readonly stopped?: () => readonly number[];
};

export function onSuspend({ before, after, stopped = () => [] }: Suspension): void {
  // Windows has no such signal.
  if (process.platform === 'win32') return;
  process.on('SIGTSTP', () => {
    const release = guard(stopped());
    before();
    const stoppedAt = performance.now();
    process.kill(process.pid, 'SIGSTOP');
    // The signal may reach the threads of this process a moment later.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopWithinMs);
    release();
    after(performance.now() - stoppedAt);
  });
}

/** Lets these processes go on if this one is killed. Returns what ends that. */
function guard(pids: readonly number[]): () => void {
  if (pids.length === 0) return () => {};
  // Out of the group that the terminal stops.
  const shell = startProcess(
    '/bin/sh',
    ['-c', 'read -r end; kill -CONT "$@"', 'guard', ...pids.map(String)],
    {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    },
  );
  // Without a shell they stay stopped.
  shell.on('error', () => {});
  shell.unref();
  return () => shell.kill('SIGKILL');
}

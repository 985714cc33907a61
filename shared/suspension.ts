/**
 * Ctrl-Z, in a program that has processes of its own outside of the terminal's group, or limits of
 * time: it prepares, stops itself, and learns for how long when it goes on (`fg`, `bg`).
 */

/** So long after it was sent, the signal has stopped this thread. */
const stopWithinMs = 50;

/** `before` runs ahead of the stop. `after` runs before any timer that expired in the meantime. */
export function onSuspend(before: () => void, after: (stoppedMs: number) => void): void {
  // Windows has no such signal.
  if (process.platform === 'win32') return;
  process.on('SIGTSTP', () => {
    before();
    const stoppedAt = performance.now();
    process.kill(process.pid, 'SIGSTOP');
    // The signal may reach the threads of this process a moment later.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stopWithinMs);
    after(performance.now() - stoppedAt);
  });
}

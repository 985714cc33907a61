/** Stops this process as SIGSTOP does: whatever comes is not read, and all its timers run out. */
export function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

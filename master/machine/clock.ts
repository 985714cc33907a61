/** Returns Unix time in ms that never jumps or goes back, even if the wall clock is set. */
export function clockMs(): number {
  return performance.timeOrigin + performance.now();
}

/** Unix time in ms that never goes back or jumps, whatever is done to the wall clock meanwhile. */
export function clockMs(): number {
  return performance.timeOrigin + performance.now();
}

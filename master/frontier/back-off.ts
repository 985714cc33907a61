/** How long what failed waits: about 1, 4, 16, 64, 256, 300 s. Source: PROTOCOL.md [T-6]. */

const firstMs = 1_000;
const maxMs = 300_000;

/** In ms, after so many failures before. `random` from 0 to 1 spreads it, so that a host that was
 *  down is not asked for everything at once; what the server said itself may be longer. */
export function backOffMs(failures: number, random: number, retryAfterMs = 0): number {
  return Math.max(retryAfterMs, Math.min(maxMs, firstMs * 4 ** failures) * (0.75 + random / 2));
}

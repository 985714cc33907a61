/** How long what failed waits: about 1, 4, 16, 64, 256, 300 s. Source: PROTOCOL.md [T-6]. */
import type { FetchErrorKind } from '../../../shared/protocol.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';

const firstMs = 1_000;
const maxMs = 300_000;

/** In ms, after so many failures before. `random` from 0 to 1 spreads it, so that a host that was
 *  down is not asked for everything at once; what the server said itself may be longer. */
export function backOffMs(failures: number, random: number, retryAfterMs = 0): number {
  return Math.max(retryAfterMs, Math.min(maxMs, firstMs * 4 ** failures) * (0.75 + random / 2));
}

/** What no second try mends: a certificate, a header beyond all bounds. */
const lastingKinds: ReadonlySet<FetchErrorKind> = new Set(['tls', 'too-large']);

export function isLasting({ kind }: FetchErrorBody): boolean {
  return lastingKinds.has(kind);
}

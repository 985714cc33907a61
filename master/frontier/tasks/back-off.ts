/** The wait after a failure: about 1, 4, 16, 64, 256, 300 s. Source: PROTOCOL.md [T-6]. */
import type { FetchErrorKind } from '../../../shared/protocol.ts';
import type { FetchErrorBody } from '../../../shared/requests.ts';

const firstMs = 1_000;
const maxMs = 300_000;

/** Returns the wait in ms after `failures` earlier ones. `random` from 0 to 1 spreads it, so that a
 *  host that was down does not get all requests at once; the server's own Retry-After may be
 *  longer. */
export function backOffMs(failures: number, random: number, retryAfterMs = 0): number {
  return Math.max(retryAfterMs, Math.min(maxMs, firstMs * 4 ** failures) * (0.75 + random / 2));
}

/** Failures that no second try can fix: a certificate, an excessive header. */
const lastingKinds: ReadonlySet<FetchErrorKind> = new Set(['tls', 'too-large']);

export function isLasting({ kind }: FetchErrorBody): boolean {
  return lastingKinds.has(kind);
}

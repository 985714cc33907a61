/**
 * The steps of the frontier for each URL, logged as they happen, for `--log-level debug`. Undefined
 * where nobody listens, so that a call site with `?.` then builds nothing: unlike `FrontierEvents`,
 * these are told for each page.
 */
import type { FetchErrorBody } from '../../shared/requests.ts';
import type { Lease } from './dispatch/leases.ts';

export interface FrontierTrace {
  /** A task went to a slave. */
  leased(lease: Lease): void;
  /** A task came back unfetched, because its lease was lost. `notBefore`: 0: at once. */
  lost(lease: Lease, notBefore: number): void;
  /** A fetch failed; it is tried again at `retryAt`, or given up. Unix times in ms. */
  failed(url: string, error: FetchErrorBody, attempts: number, retryAt: number | undefined): void;
  /** A politeness group holds: it answered 429 or 503. */
  held(group: string, status: number, until: number): void;
}

/** Connections that packages make to hosts with several addresses. */
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

/** How long the next address waits for one that does not answer. */
const attemptMs = 2500;

/** Node gives up each address but the last after 250 ms: a database that is farther away, and whose
 *  name has addresses of both families, would never be reached. Drivers have no option for it. */
export function waitForFarAddresses(): void {
  setDefaultAutoSelectFamilyAttemptTimeout(attemptMs);
}

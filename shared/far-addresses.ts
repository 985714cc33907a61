/**
 * Hosts with several addresses. Node gives up each of them but the last after 250 ms: it would
 * never reach a distant host that has an IPv6 address from a machine without IPv6.
 */
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

/** Of a driver that has no option for it. */
const timeoutMsDefault = 10_000;

/** How long each address but the last is tried, of a limit for all: a quarter. */
export function addressMsOf(timeoutMs: number): number {
  return Math.max(250, Math.round(timeoutMs / 4));
}

/** For connections that packages make. */
export function waitForFarAddresses(): void {
  setDefaultAutoSelectFamilyAttemptTimeout(addressMsOf(timeoutMsDefault));
}

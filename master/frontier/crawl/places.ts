/** The tasks that wait at the hosts where a crawl has tasks in memory. */
import type { Group, Host } from '../politeness/host.ts';

type Places = Iterable<{ readonly host: Host; readonly queue: { readonly waiting: number } }>;

/** The time that the longest of the delays takes: that of a group of hosts for the URLs that wait
 *  there. */
export function longestWaitMs(places: Places): number {
  const waiting = new Map<Group, number>();
  for (const { host, queue } of places) {
    if (host.group.delayMs === 0) continue;
    waiting.set(host.group, (waiting.get(host.group) ?? 0) + queue.waiting);
  }
  let longest = 0;
  for (const [{ delayMs }, count] of waiting) longest = Math.max(longest, delayMs * count);
  return longest;
}

/** Hosts from which the operator lets nothing be fetched, and what waits there. */
export function blockedOf(places: Places): { hosts: number; waiting: number } {
  const blocked = { hosts: 0, waiting: 0 };
  for (const { host, queue } of places) {
    if (!host.setting?.blocked) continue;
    blocked.hosts++;
    blocked.waiting += queue.waiting;
  }
  return blocked;
}

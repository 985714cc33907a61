/**
 * Finds the next task of one host, and its time, without regard to its politeness group. The host's
 * robots.txt comes first, then the URLs that it allows; the crawls of a host take turns. Called by
 * the politeness. Pure: time is an argument.
 */

import type { Access } from '../robots/gate.ts';
import type { Task } from '../tasks/tasks.ts';
import type { Host, HostClient } from './host.ts';

/** `scope`: its crawl's options have changed since it was admitted. */
export type Refusal = Exclude<Access, 'fetch'> | 'scope';

/** The listener of a politeness: `Reports`. */
export interface WorkEvents {
  /** A task that must not be fetched. It is out of its queue, and `refused` of its host counts it
   *  until it is on the disk. */
  refused(host: Host, task: Task, why: Refusal): void;
  /** A crawl is about to ask a host for the first time, or for the first time since its robots.txt
   *  changed. */
  met(host: Host, crawl: number): void;
}

/** Refused tasks of a host that may wait for the disk. */
const refusedMax = 256;

/** Returns when `nextTask` may return a task; undefined: not before a wake. It errs towards
 *  early. */
export function workDueAt(host: Host, now: number): number | undefined {
  const { breaker } = host;
  if (host.isUnplaced || host.refused >= refusedMax) return undefined;
  if (host.setting?.blocked) return undefined;
  if (breaker.isProbing && host.inFlight > 0) return undefined;
  const robotsAt = host.robots.waitsUntil(now);
  let earliest: number | undefined;
  for (const client of host.clients.values()) {
    if (!client.active()) continue;
    let at = client.queue.dueAt(now);
    // Held tasks wait for a wake, but an image that is tried again comes by itself.
    if (at !== undefined && isHeld(client, now)) at = client.queue.delayedUntil;
    if (at === undefined) continue;
    if (client.manners.robots !== undefined) at = Math.max(at, robotsAt);
    if (at < (earliest ?? Number.POSITIVE_INFINITY)) earliest = at;
  }
  return earliest === undefined ? undefined : Math.max(earliest, breaker.sleepsUntil);
}

/** True: what comes next is not taken. Images come before pages. */
function isHeld({ queue, holds }: HostClient, now: number): boolean {
  if (holds === undefined) return false;
  const next = queue.peek(now);
  return next !== undefined && holds(next);
}

/** Returns the next task that may be fetched; it stays in its queue. */
export function nextTask(host: Host, now: number, events: WorkEvents): Task | undefined {
  const clients = [...host.clients.values()];
  for (let i = 0; i < clients.length; i++) {
    const client = clients[(host.turn + i) % clients.length];
    const task = client?.active() ? taskOf(host, client, now, events) : undefined;
    if (task === undefined) continue;
    host.turn = (host.turn + i + 1) % clients.length;
    return task;
  }
  return undefined;
}

function taskOf(host: Host, client: HostClient, now: number, events: WorkEvents): Task | undefined {
  const { queue, manners } = client;
  const dead = host.breaker.dead(now);
  const { robots } = manners;
  // Before its robots.txt: that of a host which is out of scope by now is not asked for either.
  let task = firstInScope(host, client, now, events);
  if (task !== undefined && dead === undefined && robots !== undefined) {
    if (!host.robots.isOpen(now)) return host.robots.task(queue.crawl, now);
  }
  if (task !== undefined && client.told !== host.robots.edition) {
    client.told = host.robots.edition;
    events.met(host, queue.crawl);
  }
  for (; task !== undefined; task = firstInScope(host, client, now, events)) {
    const access: Access = dead
      ? { error: dead, attempts: task.attempts }
      : robots === undefined
        ? 'fetch'
        : host.robots.access(robots, task.url);
    if (access === 'fetch') return task;
    refuse(host, client, task, access, events);
  }
  return undefined;
}

/** Returns the next task that still belongs to its crawl; undefined also while too many that were
 *  refused wait for the disk. */
function firstInScope(
  host: Host,
  client: HostClient,
  now: number,
  events: WorkEvents,
): Task | undefined {
  while (host.refused < refusedMax) {
    const task = client.queue.peek(now);
    if (task === undefined || client.holds?.(task)) return undefined;
    if (!client.leavesOut?.(task)) return task;
    refuse(host, client, task, 'scope', events);
  }
  return undefined;
}

function refuse(
  host: Host,
  { queue }: HostClient,
  task: Task,
  why: Refusal,
  events: WorkEvents,
): void {
  queue.commit(task);
  host.refused++;
  events.refused(host, task, why);
}

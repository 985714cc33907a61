/** Verbs about jobs, and of slaves that run them. Source: PROTOCOL.md [C-140]..[C-146],
 *  [T-120]..[T-127]. */
import type { Replies } from '../../../shared/replies.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import type { CommandPorts } from '../services.ts';

export function add(
  { jobs }: CommandPorts,
  peer: Peer,
  request: Requests['job.add'],
): Promise<Replies['job.add']> {
  return jobs.add(peer, request);
}

export function watch(
  { jobs }: CommandPorts,
  peer: Peer,
  request: Requests['job.watch'],
): Replies['job.watch'] {
  return jobs.watch(peer, request.jobs);
}

export function list(
  { jobs }: CommandPorts,
  _peer: Peer,
  { states, after = 0, limit }: Requests['job.list'],
): Replies['job.list'] {
  return jobs.list(states, after, limit);
}

export function get(
  { jobs }: CommandPorts,
  _peer: Peer,
  { job }: Requests['job.get'],
): Promise<Replies['job.get']> {
  return jobs.get(job);
}

export function cancel(
  { jobs }: CommandPorts,
  _peer: Peer,
  { job }: Requests['job.cancel'],
): Promise<Replies['job.cancel']> {
  return jobs.cancel(job);
}

export function can(
  { jobs }: CommandPorts,
  peer: Peer,
  request: Requests['exec.can'],
): Replies['exec.can'] {
  return jobs.can(peer, request);
}

export function output(
  { jobs }: CommandPorts,
  peer: Peer,
  request: Requests['exec.output'],
): Replies['exec.output'] {
  jobs.output(peer, request);
  return {};
}

export function report(
  { jobs }: CommandPorts,
  _peer: Peer,
  { lease, end }: Requests['exec.report'],
): Promise<Replies['exec.report']> {
  return jobs.report(lease, end);
}

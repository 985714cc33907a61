/** Verbs of slaves. Source: PROTOCOL.md, chapter 7. */
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import { unpack } from '../request.ts';
import type { Services } from '../services.ts';

export function credit(
  _services: Services,
  peer: Peer,
  request: Requests['task.credit'],
): Replies['task.credit'] {
  const { count, slots = count, trials = 0, takes = 'all' } = request;
  peer.setCredit({ count, slots, trials, takes });
  return {};
}

export function started(
  { frontier }: Services,
  peer: Peer,
  { lease }: Requests['task.started'],
): Replies['task.started'] {
  frontier.dispatcher.started(peer, lease);
  return {};
}

export async function hop(
  { frontier }: Services,
  peer: Peer,
  { lease, url }: Requests['task.hop'],
): Promise<Replies['task.hop']> {
  const { state, isTimed } = await frontier.hop(peer, lease, url);
  return isTimed ? { state, timed: true } : { state };
}

export async function report(
  { frontier }: Services,
  peer: Peer,
  { task, lease, result, images, links }: Requests['task.report'],
): Promise<Replies['task.report']> {
  const said = {
    result: unpack('task.report', 'result', result),
    images: unpack('task.report', 'images', images),
    links,
    packed: { result, images },
  };
  return { state: await frontier.reports.report(peer, lease, task, said) };
}

export async function robots(
  { frontier }: Services,
  peer: Peer,
  { task, lease, status, body, cacheControl, retryAfterMs }: Requests['task.robots'],
): Promise<Replies['task.robots']> {
  const answer = { status, cacheControl, retryAfterMs };
  return { state: await frontier.reports.robots(peer, lease, task, answer, body) };
}

export async function sitemap(
  { frontier }: Services,
  peer: Peer,
  { task, lease, kind, urls, images, end }: Requests['task.sitemap'],
): Promise<Replies['task.sitemap']> {
  const whole = end && { ...end, result: unpack('task.sitemap', 'result', end.result) };
  const part = { kind, urls, images, end: whole };
  return { state: await frontier.sitemaps.take(peer, lease, task, part) };
}

export async function release(
  { frontier }: Services,
  peer: Peer,
  { task, lease, error, retryAfterMs, final }: Requests['task.release'],
): Promise<Replies['task.release']> {
  if (error === undefined) {
    return { state: frontier.dispatcher.release(peer, lease) ? 'done' : 'stale' };
  }
  const { reports } = frontier;
  return { state: await reports.fail(peer, lease, task, error, retryAfterMs, final) };
}

export function extend(
  { frontier }: Services,
  peer: Peer,
  { leases }: Requests['task.extend'],
): Replies['task.extend'] {
  return { lost: frontier.dispatcher.extend(peer, leases) };
}

export function proxies(
  _services: Services,
  peer: Peer,
  { proxies: troubles }: Requests['proxy.state'],
): Replies['proxy.state'] {
  peer.setProxies(troubles);
  return {};
}

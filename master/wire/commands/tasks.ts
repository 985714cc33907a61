/** Verbs of slaves. Source: PROTOCOL.md, chapter 7. */
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Peer } from '../peer.ts';
import { unpack } from '../request.ts';
import type { CommandPorts } from '../services.ts';

export function credit(
  _services: CommandPorts,
  peer: Peer,
  request: Requests['task.credit'],
): Replies['task.credit'] {
  const { count, slots = count, trials = 0, takes = 'all' } = request;
  peer.setCredit({ count, slots, trials, takes });
  return {};
}

export function started(
  { frontier }: CommandPorts,
  peer: Peer,
  { lease }: Requests['task.started'],
): Replies['task.started'] {
  frontier.started({ holder: peer, id: lease });
  return {};
}

export async function hop(
  { frontier }: CommandPorts,
  peer: Peer,
  { lease, url }: Requests['task.hop'],
): Promise<Replies['task.hop']> {
  const { state, isTimed } = await frontier.hop({ holder: peer, id: lease }, url);
  return isTimed ? { state, timed: true } : { state };
}

export async function report(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, result, images, links, items }: Requests['task.report'],
): Promise<Replies['task.report']> {
  const verb = 'task.report';
  const claim = { holder: peer, id: lease, name: task };
  const said = {
    verb,
    result: unpack(verb, 'result', result),
    images: unpack(verb, 'images', images),
    links,
    packed: { result, images },
    items: items && unpack(verb, 'items', items),
  } as const;
  peer.record.fetched(said.result.error !== undefined);
  return { state: await frontier.report(claim, said) };
}

export async function robots(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, status, body, cacheControl, retryAfterMs }: Requests['task.robots'],
): Promise<Replies['task.robots']> {
  const claim = { holder: peer, id: lease, name: task };
  const answer = { status, cacheControl, retryAfterMs };
  const said = { verb: 'task.robots', answer, file: body } as const;
  return { state: await frontier.report(claim, said) };
}

export async function sitemap(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, kind, urls, images, end }: Requests['task.sitemap'],
): Promise<Replies['task.sitemap']> {
  const verb = 'task.sitemap';
  const claim = { holder: peer, id: lease, name: task };
  const whole = end && { ...end, result: unpack(verb, 'result', end.result) };
  const part = { verb, kind, urls, images, end: whole } as const;
  return { state: await frontier.report(claim, part) };
}

export async function release(
  { frontier }: CommandPorts,
  peer: Peer,
  { task, lease, error, retryAfterMs, final }: Requests['task.release'],
): Promise<Replies['task.release']> {
  const claim = { holder: peer, id: lease, name: task };
  if (error !== undefined) peer.record.fetched(true);
  const failed = error && { error, retryAfterMs, isFinal: final };
  return { state: await frontier.release(claim, failed) };
}

export function extend(
  { frontier }: CommandPorts,
  peer: Peer,
  { leases }: Requests['task.extend'],
): Replies['task.extend'] {
  return { lost: frontier.extend(peer, leases) };
}

export function proxies(
  _services: CommandPorts,
  peer: Peer,
  { proxies: troubles }: Requests['proxy.state'],
): Replies['proxy.state'] {
  peer.setProxies(troubles);
  return {};
}

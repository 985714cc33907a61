/** Verbs of slaves. Source: PROTOCOL.md, chapter 7. */
import type { Replies } from '../../../shared/protocol.ts';
import type { Requests } from '../../../shared/requests.ts';
import type { Services } from '../services.ts';
import type { Session } from '../session.ts';

export function credit(
  _services: Services,
  session: Session,
  request: Requests['task.credit'],
): Replies['task.credit'] {
  const { count, slots = count, trials = 0, takes = 'all' } = request;
  session.setCredit({ count, slots, trials, takes });
  return {};
}

export function started(
  { frontier }: Services,
  session: Session,
  { lease }: Requests['task.started'],
): Replies['task.started'] {
  frontier.dispatcher.started(session, lease);
  return {};
}

export async function hop(
  { frontier }: Services,
  session: Session,
  { lease, url }: Requests['task.hop'],
): Promise<Replies['task.hop']> {
  const { state, isTimed } = await frontier.hop(session, lease, url);
  return isTimed ? { state, timed: true } : { state };
}

export async function report(
  { frontier }: Services,
  session: Session,
  { task, lease, result, images, links }: Requests['task.report'],
): Promise<Replies['task.report']> {
  return { state: await frontier.answers.report(session, lease, task, { result, images, links }) };
}

export async function robots(
  { frontier }: Services,
  session: Session,
  { task, lease, status, body, cacheControl, retryAfterMs }: Requests['task.robots'],
): Promise<Replies['task.robots']> {
  const answer = { status, cacheControl, retryAfterMs };
  return { state: await frontier.answers.robots(session, lease, task, answer, body) };
}

export async function sitemap(
  { frontier }: Services,
  session: Session,
  { task, lease, kind, urls, images, end }: Requests['task.sitemap'],
): Promise<Replies['task.sitemap']> {
  return { state: await frontier.sitemaps.take(session, lease, task, { kind, urls, images, end }) };
}

export async function release(
  { frontier }: Services,
  session: Session,
  { task, lease, error, retryAfterMs, final }: Requests['task.release'],
): Promise<Replies['task.release']> {
  if (error === undefined) {
    return { state: frontier.dispatcher.release(session, lease) ? 'done' : 'stale' };
  }
  const { answers } = frontier;
  return { state: await answers.fail(session, lease, task, error, retryAfterMs, final) };
}

export function extend(
  { frontier }: Services,
  session: Session,
  { leases }: Requests['task.extend'],
): Replies['task.extend'] {
  return { lost: frontier.dispatcher.extend(session, leases) };
}

export function proxies(
  _services: Services,
  session: Session,
  { proxies: troubles }: Requests['proxy.state'],
): Replies['proxy.state'] {
  session.setProxies(troubles);
  return {};
}

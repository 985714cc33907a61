/**
 * The hops of redirects: what a slave is answered before it follows one. A hop is checked as a link
 * would be (scope, robots.txt) and then waits in the dispatcher for its turn, since it is one more
 * request to its host. Called by the frontier. Source: PROTOCOL.md [T-22] [T-23].
 */
import { CommandError } from '../../../shared/errors.ts';
import { hostKeyOf, parseCanonical } from '../../../shared/url.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { Turn } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { Lease, LeaseHolder } from './leases.ts';

/** `isTimed`: the host has a delay, so the start of the request has to be told. */
export type HopVerdict = { readonly state: Turn | 'robots' | 'scope'; readonly isTimed?: boolean };

type Parts = { readonly crawls: Crawls; readonly dispatcher: Dispatcher };

/** Hops of one session that may wait for their turns. */
const hopsMax = 512;

/** May the fetch of this lease go on at `text`? Resolves when it may, or with why it may not.
 *  @throws CommandError E_BAD_REQUEST */
export async function askHop(
  { crawls, dispatcher }: Parts,
  politeness: Politeness,
  holder: LeaseHolder,
  leaseId: number,
  text: string,
): Promise<HopVerdict> {
  const lease = dispatcher.held(holder, leaseId);
  const crawl = lease && crawls.of(lease.task);
  if (lease === undefined || crawl === undefined) return { state: 'lost' };
  const { task, host } = lease;
  const url = parseCanonical(text);
  // A robots.txt may be redirected to any host.
  if (url === undefined || (task.kind !== 'robots' && hostKeyOf(url) !== host.key)) {
    throw new CommandError('E_BAD_REQUEST', 'the hop is no canonical URL of the same host');
  }
  if (lease.hop !== undefined) {
    throw new CommandError('E_BAD_REQUEST', 'a hop of this lease waits already');
  }
  const refusal = task.kind === 'robots' ? undefined : refusalOf(crawl, lease, url);
  if (refusal !== undefined) return { state: refusal };
  const waiting = [...holder.leases].filter(({ hop }) => hop !== undefined);
  if (waiting.length >= hopsMax) return { state: 'later' };
  const key = hostKeyOf(url);
  const target = key === host.key ? host : politeness.host(key);
  const state = await dispatcher.hop(lease, target, crawl.manners(url).delayMs);
  return { state, isTimed: state === 'go' && lease.timing === 'awaited' };
}

function refusalOf(crawl: Crawl, { host, task }: Lease, url: URL): HopVerdict['state'] | undefined {
  if (task.kind === 'page' && crawl.scope.refuses(url) !== undefined) return 'scope';
  const { robots } = crawl.manners(url);
  if (robots !== undefined && host.robots.access(robots, url.href) !== 'fetch') return 'robots';
  return crawl.isRunning ? undefined : 'later';
}

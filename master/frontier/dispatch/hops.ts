/**
 * The hops of redirects: the answer to a slave before it follows one. A hop is checked like a link
 * (scope, robots.txt) and then waits in the dispatcher for its turn, since it is one more request
 * to its host. Called by the frontier. Source: PROTOCOL.md [T-22] [T-23].
 */
import { CommandError } from '../../../shared/errors.ts';
import { hostKeyOf, parseCanonical } from '../../../shared/url.ts';
import { clockMs } from '../../machine/clock.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Crawls } from '../crawl/crawls.ts';
import type { Traits } from '../kinds/kind.ts';
import { kindOf } from '../kinds/kinds.ts';
import type { Host, Turn } from '../politeness/host.ts';
import type { Politeness } from '../politeness/politeness.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { HeldLease } from './leases.ts';

/** `isTimed`: the host has a delay, so the slave must report the start of the request. */
export type HopVerdict = { readonly state: Turn | 'robots' | 'scope'; readonly isTimed?: boolean };

type Parts = {
  readonly crawls: Crawls;
  readonly dispatcher: Dispatcher;
  readonly politeness: Politeness;
};

/** Maximum number of waiting hops of one session. */
const hopsMax = 512;
/** A robots.txt whose redirect cannot be followed now is asked for again so much later. */
const robotsAgainMs = 10_000;

/** May the fetch of this lease continue at `text`? Resolves when it may, or with the reason why
 *  not.
 *  @throws CommandError E_BAD_REQUEST */
export async function askHop(
  { crawls, dispatcher, politeness }: Parts,
  held: HeldLease,
  text: string,
  isFrame: boolean,
): Promise<HopVerdict> {
  const lease = dispatcher.held(held);
  const crawl = lease && crawls.of(lease.task);
  if (lease === undefined || crawl === undefined) return { state: 'lost' };
  const { task, host } = lease;
  const url = parseCanonical(text);
  const hopsTo = isFrame ? 'frame' : kindOf(task).hopsTo;
  if (isFrame && crawl.spec.fetch.render === undefined) {
    throw new CommandError('E_BAD_REQUEST', 'the pages of the crawl are not rendered');
  }
  const isElsewhere = hopsTo === 'anywhere' || hopsTo === 'frame';
  if (url === undefined || (!isElsewhere && hostKeyOf(url) !== host.key)) {
    throw new CommandError('E_BAD_REQUEST', 'the hop is no canonical URL of the same host');
  }
  if (lease.hop !== undefined) {
    throw new CommandError('E_BAD_REQUEST', 'a hop of this lease waits already');
  }
  const known = politeness.known(hostKeyOf(url));
  const verdict = (state: HopVerdict['state']): HopVerdict => {
    if (state === 'later' && kindOf(task).owner === 'host') {
      host.robots.putOff(Math.max(clockMs() + robotsAgainMs, known?.group.pace.holdUntil ?? 0));
    }
    return { state, isTimed: state === 'go' && lease.timing === 'awaited' };
  };
  const refusal = hopsTo === 'anywhere' ? undefined : refusalOf(crawl, known, url, hopsTo);
  if (refusal !== undefined) return { state: refusal };
  const waiting = [...lease.holder.leases].filter(({ hop }) => hop !== undefined);
  if (waiting.length >= hopsMax) return verdict('later');
  const key = hostKeyOf(url);
  const target = key === host.key ? host : politeness.host(key);
  if (target.setting?.blocked) return verdict('later');
  const delayMs = target.setting?.delayMs ?? crawl.manners(url).delayMs;
  if (isFrame) return { state: await dispatcher.frame(lease, target, delayMs) };
  return verdict(await dispatcher.hop(lease, target, delayMs));
}

/** A frame may be anywhere. The robots.txt of its host counts if it is known: nobody waits for it,
 *  since no other page may be wanted there. */
function refusalOf(
  crawl: Crawl,
  host: Host | undefined,
  url: URL,
  hopsTo: Traits['hopsTo'] | 'frame',
): HopVerdict['state'] | undefined {
  if (hopsTo === 'scope' && crawl.scope.refuses(url) !== undefined) return 'scope';
  const { robots } = crawl.manners(url);
  const access = robots === undefined ? 'fetch' : host?.robots.access(robots, url.href);
  if (access !== undefined && access !== 'fetch') return 'robots';
  return crawl.isRunning ? undefined : 'later';
}

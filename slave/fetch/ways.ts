/**
 * The ways to ask for one URL: as ever; by a client that puts the head of the answer right, where
 * undici refused it; without cookies, where the host may have refused these; on a connection of
 * its own, where HTTP/2 took one that leads to another host; by HTTP/2 there, too, where the host
 * speaks nothing else. Each further request waits for its turn, as a redirect does. The fetcher
 * calls it.
 */
import type { Hop } from './exchange.ts';
import type { Turn } from './outcome.ts';

/** `cookie`: value of the Cookie header. */
export type Way = {
  readonly isLenient: boolean;
  /** By HTTP/1.1, which has no sessions that end. */
  readonly isApart: boolean;
  /** Apart, and yet by HTTP/2. */
  readonly isHttp2Only?: true;
  readonly cookie: string;
};

type WayEvents<Body> = {
  ask(way: Way): Promise<Hop<Body>>;
  /** When the host may be asked once more. */
  turn(): Promise<Turn>;
  /** HTTP/2 may be used: one connection for several hosts. */
  readonly sharesConnections: boolean;
  /** The answer was refused by undici. */
  onUnreadable(): void;
  /** Without cookies the host answered otherwise. */
  onCookiesRefused(): void;
};

/** Statuses of a head that is too long for the host. Source: RFC 6585, 5; nginx and Apache say 400,
 *  some proxies 413. */
const tooLongStatuses: ReadonlySet<number> = new Set([400, 413, 431]);
/** Misdirected Request. Source: RFC 9110, 15.5.20. */
const misdirected = 421;
/** Fewer cookies than this are no host's trouble. */
const cookieCharsMin = 4_096;

/** Asks by `way`, and by better ones as long as the answer says that there is one: each at most
 *  once. `later`: the host must not be asked again for a while. */
export async function askByWays<Body>(
  way: Way,
  events: WayEvents<Body>,
): Promise<{ hop: Hop<Body>; cookie: string } | 'later'> {
  let taken = way;
  let hop = await events.ask(taken);
  for (;;) {
    const next = betterWay(taken, hop, events);
    if (next === undefined) break;
    if (next.isLenient !== taken.isLenient) events.onUnreadable();
    const turn = await events.turn();
    if (turn === 'later') return 'later';
    if (turn !== 'go') break;
    const answer = await events.ask(next);
    if (next.cookie !== taken.cookie && answer.kind !== 'failed') {
      // It was something else that the host did not like.
      if ('status' in hop && answer.status === hop.status) break;
      events.onCookiesRefused();
    }
    taken = next;
    hop = answer;
  }
  return { hop, cookie: taken.cookie };
}

function betterWay<Body>(
  way: Way,
  hop: Hop<Body>,
  { sharesConnections }: WayEvents<Body>,
): Way | undefined {
  if (hop.kind === 'failed') {
    // As clients have to expect of kept connections. Source: RFC 9112, 9.3.1.
    if (hop.isStale && !way.isApart) return { ...way, isApart: true };
    const mayBeHttp2 = sharesConnections && way.isApart && !way.isLenient && !way.isHttp2Only;
    if (hop.isOtherProtocol && mayBeHttp2) return { ...way, isHttp2Only: true };
    return hop.isUnreadable && !way.isLenient ? { ...way, isLenient: true } : undefined;
  }
  if (hop.kind === 'answer' && hop.status === misdirected) {
    const isShared = sharesConnections && !way.isLenient && !way.isApart;
    return isShared ? { ...way, isApart: true } : undefined;
  }
  if (hop.kind !== 'answer' || !tooLongStatuses.has(hop.status)) return undefined;
  return way.cookie.length > cookieCharsMin ? { ...way, cookie: '' } : undefined;
}

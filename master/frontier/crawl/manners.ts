/** How a crawl treats a host: its delay and concurrency, and whose robots.txt it follows. Pure. */
import { type CrawlSpec, crawlDelayMaxMsDefault, productToken } from '../../../shared/crawl.ts';
import { isLoopback } from '../../../shared/url.ts';
import type { Manners } from '../politeness/host.ts';

const politeManners = { delayMs: 250, perHost: 2 };
/** Requests to this machine disturb no other. */
const loopbackManners = { delayMs: 0, perHost: 32 };

export function mannersOf(spec: CrawlSpec, host: URL): Manners {
  const base = isLoopback(host.hostname) ? loopbackManners : politeManners;
  const { ignoreRobots, crawlDelayMaxMs = crawlDelayMaxMsDefault, attemptsMax, fetch } = spec;
  return {
    robots: ignoreRobots ? undefined : productToken(fetch.userAgent),
    crawlDelayMaxMs,
    follows: spec.delayMs === undefined && base.delayMs > 0,
    attemptsMax,
    isRelayed: fetch.proxies.length > 0,
    delayMs: spec.delayMs ?? base.delayMs,
    perHost: spec.perHost ?? base.perHost,
  };
}

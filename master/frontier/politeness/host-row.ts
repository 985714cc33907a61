/**
 * A host as operators see it: what waits there, which delay is in force and where it comes from,
 * what holds it back, and its last answer. Pure: time is an argument, Unix time in ms.
 */
import type { HostRow } from '../../../shared/protocol.ts';
import type { BreakerRecord, PaceRecord, RobotsRecord } from '../../store/records.ts';
import type { Host, HostSetting } from './host.ts';

type Waiting = { readonly count: number; readonly isMore: boolean };

/** The row of a host that is not in memory. */
type Kept = {
  readonly robots?: RobotsRecord | undefined;
  readonly breaker?: BreakerRecord | undefined;
  readonly pace?: PaceRecord | undefined;
  readonly setting?: HostSetting | undefined;
};

/** Tasks of a host, of one crawl or of all. */
export function waitingOf(host: Host, crawl: number | undefined): Waiting {
  let count = 0;
  let isMore = false;
  for (const [id, { queue }] of host.clients) {
    if (crawl !== undefined && id !== crawl) continue;
    count += queue.waiting;
    isMore ||= !queue.isCounted;
  }
  return { count, isMore };
}

export function hostRowOf(
  host: Host,
  crawl: number | undefined,
  nameOf: (crawl: number) => string,
  now: number,
): HostRow {
  const { group, breaker, robots, last, failed, setting, inFlight, ahead } = host;
  const { record } = group.pace;
  const obeys = [...host.clients.values()].some(({ manners }) => manners.robots !== undefined);
  return {
    host: host.key,
    ...(group.key !== host.key && { group: group.key }),
    crawls: [...host.clients.keys()].map(nameOf),
    ...waitingFields(waitingOf(host, crawl)),
    underWay: inFlight - ahead,
    delayMs: group.delayMs,
    delayFrom: delayFromOf(host),
    ...heldFields(record, now),
    ...breakerFields(breaker.record, now),
    ...(obeys && { robots: robots.standing(now) }),
    ...(last !== undefined && { last }),
    failed,
    ...(setting?.blocked && { blocked: true as const }),
  };
}

export function parkedRowOf(
  parked: {
    readonly key: string;
    readonly crawl: string;
    readonly waiting: Waiting;
    readonly kept: Kept;
  },
  now: number,
): HostRow {
  const { robots, breaker, pace, setting } = parked.kept;
  const isKnown = robots !== undefined && now < robots.askAt;
  return {
    host: parked.key,
    crawls: [parked.crawl],
    ...waitingFields(parked.waiting),
    underWay: 0,
    ...(setting?.delayMs !== undefined && { delayMs: setting.delayMs, delayFrom: 'host' as const }),
    ...(pace !== undefined && heldFields(pace, now)),
    ...(breaker !== undefined && breakerFields(breaker, now)),
    ...(isKnown && {
      robots: {
        state: robots.isTrying ? 'trying' : robots.access,
        until: Math.round(robots.askAt),
      },
    }),
    parked: true,
    ...(setting?.blocked && { blocked: true as const }),
  };
}

function waitingFields({ count, isMore }: Waiting): Pick<HostRow, 'waiting' | 'atLeast'> {
  return { waiting: count, ...(isMore && { atLeast: true as const }) };
}

function heldFields({ holdUntil, refusals }: PaceRecord, now: number): Partial<HostRow> {
  return {
    ...(holdUntil > now && { heldUntil: Math.round(holdUntil) }),
    ...(refusals > 0 && { refusals }),
  };
}

function breakerFields({ sleeps, until, error }: BreakerRecord, now: number): Partial<HostRow> {
  if (sleeps === 0) return {};
  const isOver = until <= now;
  const state = isOver ? 'probing' : error === undefined ? 'sleeping' : 'dead';
  return {
    breaker: {
      state,
      ...(!isOver && { until: Math.round(until) }),
      ...(error !== undefined && { reason: `${error.kind}: ${error.message}` }),
    },
  };
}

/** Where the delay comes from that is in force: the longest of several. */
function delayFromOf({ group, robots, clients, setting }: Host): NonNullable<HostRow['delayFrom']> {
  const { delayMs, baseMs, pace } = group;
  if (pace.record.learnedMs === delayMs && delayMs > 0 && baseMs < delayMs) return 'learned';
  if (baseMs < delayMs) return 'answers';
  for (const { manners } of clients.values()) {
    const crawlDelayMs = manners.robots === undefined ? 0 : robots.crawlDelayMs(manners.robots);
    const wantedMs = setting?.delayMs ?? manners.delayMs;
    if (crawlDelayMs > wantedMs && baseMs > wantedMs) return 'crawl-delay';
  }
  return setting?.delayMs === undefined ? 'crawl' : 'host';
}

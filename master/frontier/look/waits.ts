/**
 * The conditions that an open URL waits for, in the order in which they have to end: its crawl, the
 * master, its host, its own back-off, its host's pace, and the URLs before it. Pure: time is an
 * argument.
 */
import { amount, grouped } from '../../../shared/amount.ts';
import type { HostRow } from '../../../shared/protocol.ts';
import type { UrlWait } from '../../../shared/url-fate.ts';
import { duration } from '../../machine/progress.ts';
import type { Crawl } from '../crawl/crawl.ts';
import type { Host } from '../politeness/host.ts';

/** An open URL, with what is known around it. */
type OpenUrl = {
  readonly crawl: Crawl;
  readonly hostname: string;
  /** Unix time in ms before which it is not tried again; 0: at once. */
  readonly notBefore: number;
  /** URLs of its host that come first. */
  readonly before: number;
  readonly row: HostRow;
  /** It is in memory. */
  readonly host?: Host | undefined;
  /** Of a running master. */
  readonly master?: { readonly hasSlaves: boolean; readonly isFull: boolean } | undefined;
};

export function waitsOf(open: OpenUrl, now: number): UrlWait[] {
  return [
    ...crawlWaits(open),
    ...masterWaits(open),
    ...hostWaits(open, now),
    ...paceWaits(open, now),
  ];
}

function crawlWaits({ crawl }: OpenUrl): UrlWait[] {
  const { name, state, held, isAside, isFull, spec } = crawl;
  const wait = (text: string): UrlWait[] => [{ what: 'crawl', text }];
  const limit = `--max-pages ${spec.maxPages}`;
  if (held !== undefined) return wait(`the crawl is held (${held}); then run resume ${name}`);
  if (state === 'paused') return wait(`the crawl is paused; run resume ${name}`);
  if (isAside) return wait(`the crawl was left alone by --only; run resume ${name}`);
  if (state === 'cancelled') return wait('the crawl was cancelled: it is never fetched');
  if (isFull) {
    const text = `the crawl stopped at ${limit}: it is fetched only with a higher limit`;
    return [{ what: 'max-pages', text }];
  }
  if (state === 'running' && !crawl.active) {
    if (spec.maxPages === undefined) return wait('the names of its seeds are being looked up');
    const text = `${limit} may be reached by the pages that are being fetched`;
    return [{ what: 'max-pages', text }];
  }
  return [];
}

function masterWaits({ master }: OpenUrl): UrlWait[] {
  if (master === undefined) return [{ what: 'master', text: 'no master runs; start it again' }];
  if (!master.hasSlaves) return [{ what: 'slaves', text: 'no slave is connected; start one' }];
  if (!master.isFull) return [];
  return [{ what: 'results', text: 'the results that wait to be written take all their room' }];
}

function hostWaits({ row, hostname, notBefore }: OpenUrl, now: number): UrlWait[] {
  const waits: UrlWait[] = [];
  const { breaker, robots } = row;
  if (row.blocked) {
    const text = `${hostname} is blocked; run host ${hostname} --unblock`;
    waits.push({ what: 'blocked', text });
  }
  if (breaker?.state === 'dead') {
    const text = `${hostname} does not answer (${breaker.reason ?? 'unknown'}): it is given up`;
    waits.push({ what: 'breaker', text });
  } else if (breaker !== undefined) {
    const { state, until } = breaker;
    const time = until === undefined ? '' : ` for ${duration(until - now)}`;
    const how =
      state === 'probing' ? 'one fetch at a time finds out whether' : `sleeps${time} until`;
    const text = `${hostname} did not answer: ${how} it answers again`;
    waits.push({ what: 'breaker', ...(until !== undefined && { until }), text });
  }
  const isOpen = robots === undefined || robots.state === 'rules' || robots.state === 'none';
  if (!isOpen) {
    const { state, until, reason } = robots;
    const why = reason === undefined ? '' : ` (${reason})`;
    const time = until === undefined ? '' : `, again in ${duration(until - now)}`;
    const text = `robots.txt of ${hostname} comes first: ${robotsText[state]}${why}${time}`;
    waits.push({ what: 'robots', ...(until !== undefined && { until }), text });
  }
  if (notBefore > now) {
    const text = `it failed, and is tried again in ${duration(notBefore - now)}`;
    waits.push({ what: 'retry', until: notBefore, text });
  }
  return waits;
}

const robotsText: Record<NonNullable<HostRow['robots']>['state'], string> = {
  rules: 'it is known',
  none: 'there is none',
  unreachable: 'it is out of reach',
  trying: 'it failed',
  asking: 'it is being fetched',
  unknown: 'it is not known yet',
};

function paceWaits({ row, host, before, hostname }: OpenUrl, now: number): UrlWait[] {
  const waits: UrlWait[] = [];
  const { heldUntil, refusals = 0, delayMs = 0 } = row;
  const nextAt = host?.group.nextAt ?? 0;
  if (heldUntil !== undefined && heldUntil > now) {
    const why = refusals > 0 ? `, which refused ${amount(refusals, 'request')}` : '';
    const text = `${hostname}${why}, is asked again in ${duration(heldUntil - now)}`;
    waits.push({ what: 'pace', until: heldUntil, text });
  } else if (host !== undefined && host.group.ahead > 0) {
    const pages = amount(host.group.ahead, 'page');
    waits.push({ what: 'pace', text: `a slave has the next ${pages} of ${hostname}` });
  } else if (host !== undefined && !host.group.hasSlot) {
    const count = amount(host.group.inFlight, 'fetch', 'fetches');
    waits.push({ what: 'pace', text: `${hostname} has ${count} under way, as many as it may` });
  } else if (nextAt > now) {
    const text = `${hostname} has a delay of ${grouped(delayMs)} ms`;
    waits.push({ what: 'pace', until: Math.round(nextAt), text });
  }
  if (before === 0) return waits;
  const isOne = before === 1;
  const takes = delayMs > 0 ? `, ${isOne ? 'which takes' : 'which take'} ` : '';
  const time = delayMs > 0 ? `${duration(before * delayMs)} at its delay` : '';
  const urls = `${amount(before, 'URL')} of ${hostname} ${isOne ? 'comes' : 'come'} first`;
  waits.push({ what: 'queue', text: `${urls}${takes}${time}` });
  return waits;
}

/**
 * Interprets the answer to a request for robots.txt: parse the body, allow or disallow everything,
 * or keep the present copy; and when to fetch it again. The slave follows the redirects (up to
 * `robotsRedirectsMax`, over hosts too) and reports the last status or the kind of its failure.
 * Pure; the frontier stores the verdict and its times.
 * Source: RFC 9309, sections 2.3.1 and 2.4.
 */
import type { FetchErrorKind } from '../../../shared/protocol.ts';

/** Redirects that the slave follows to a robots.txt. Source: RFC 9309, section 2.3.1.2. */
export const robotsRedirectsMax = 5;
/** A copy serves this long. Source: RFC 9309, section 2.4. */
export const robotsLifeMsMax = 24 * 3_600_000;
/** `max-age=0` is common on files that never change; no file is fetched more often than this. */
export const robotsLifeMsMin = 3_600_000;
/** After this time without an answer the file counts as absent. Source: RFC 9309, section
 *  2.3.1.4. */
const robotsGiveUpMs = 30 * robotsLifeMsMax;
const againMsMin = 60_000;
const againMsMax = 3_600_000;

/** The end of a fetch of robots.txt: the status of the last answer, or the kind of the failure. */
type RobotsAnswer = number | FetchErrorKind;

type RobotsHistory = {
  /** Fetches of this file that failed in a row before this one. */
  readonly failureCount?: number;
  /** Time since the first of them, in ms. */
  readonly unreachableMs?: number;
  /** A copy from before is at hand. */
  readonly hasCopy?: boolean;
  /** Cache-Control of the answer. */
  readonly cacheControl?: string | undefined;
  /** Retry-After of the answer, in ms. */
  readonly retryAfterMs?: number | undefined;
};

/**
 * `parse` the body; `allow` or `disallow` everything; `keep` the copy at hand. In `askAgainMs` the
 * file is due again: after its lifetime in the cache for a definite answer, after a back-off for a
 * missing one.
 */
type RobotsVerdict = {
  readonly access: 'parse' | 'allow' | 'disallow' | 'keep';
  readonly askAgainMs: number;
};

/**
 * Returns the verdict on `answer`. 2xx: parse. 304: keep. 4xx, or a redirect still after the last
 * hop: there is no file, all is allowed. 5xx, 429 and failures: all is disallowed, unless a copy is
 * at hand or the file has been out of reach for 30 days.
 * Source: RFC 9309, sections 2.3.1.1 to 2.3.1.4.
 */
export function robotsVerdict(answer: RobotsAnswer, history: RobotsHistory = {}): RobotsVerdict {
  const askAgainMs = robotsLifeMs(history.cacheControl);
  switch (answerClass(answer)) {
    case 'found':
      return { access: 'parse', askAgainMs };
    case 'unchanged':
      return history.hasCopy ? { access: 'keep', askAgainMs } : unreachable(history);
    case 'unavailable':
      return { access: 'allow', askAgainMs };
    case 'unreachable':
      return unreachable(history);
  }
}

type AnswerClass = 'found' | 'unchanged' | 'unavailable' | 'unreachable';

function answerClass(answer: RobotsAnswer): AnswerClass {
  // Too many redirects: "crawlers MAY assume that the robots.txt file is unavailable". Blocked: no
  // address of the host may be asked, and its pages fail with that error themselves.
  if (answer === 'redirects' || answer === 'blocked') return 'unavailable';
  if (typeof answer === 'string') return 'unreachable';
  if (answer >= 200 && answer < 300) return 'found';
  if (answer === 304) return 'unchanged';
  // 429 says nothing about the file. The RFC only permits access (MAY), and a host that asks
  // crawlers to slow down should not be crawled without its rules.
  if (answer === 429) return 'unreachable';
  return answer >= 300 && answer < 500 ? 'unavailable' : 'unreachable';
}

function unreachable(history: RobotsHistory): RobotsVerdict {
  const { failureCount = 0, unreachableMs = 0, hasCopy = false, retryAfterMs = 0 } = history;
  const backOffMs = Math.min(againMsMin * 2 ** Math.min(failureCount, 16), againMsMax);
  const askAgainMs = Math.min(Math.max(backOffMs, retryAfterMs), robotsLifeMsMax);
  if (hasCopy) return { access: 'keep', askAgainMs };
  return { access: unreachableMs >= robotsGiveUpMs ? 'allow' : 'disallow', askAgainMs };
}

/** Returns the lifetime of an answer in ms, an hour to a day: `max-age` if present, else a day.
 *  Source: RFC 9309, section 2.4; RFC 9111, section 5.2.2. */
export function robotsLifeMs(cacheControl: string | undefined): number {
  let lifeMs = robotsLifeMsMax;
  for (const directive of (cacheControl ?? '').slice(0, 1024).toLowerCase().split(',')) {
    const [name = '', value = ''] = directive.split('=', 2);
    if (name.trim() === 'no-cache' || name.trim() === 'no-store') return robotsLifeMsMin;
    const seconds = value.trim().replace(/^"(.*)"$/, '$1');
    if (name.trim() === 'max-age' && /^\d+$/.test(seconds))
      lifeMs = Math.min(lifeMs, Number(seconds) * 1000);
  }
  return Math.max(lifeMs, robotsLifeMsMin);
}

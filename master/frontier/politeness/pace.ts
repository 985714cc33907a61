/**
 * The pace at which one politeness group may be asked, learned from its answers. Pure: time is an
 * argument.
 *
 *     answers      the smoothed response time, which a default delay follows; and they open the
 *                  window of fetches at once, so that a host whose limit nobody knows is not met
 *                  by all slots of all slaves (slow start, as in RFC 5681)
 *     429, 503     the group holds: as long as Retry-After says, else longer and longer; the window
 *                  closes; after a 429 the delay stays longer than the one that was too short, and
 *                  shrinks by a quarter now and then, the more rarely the oftener it was too short
 *
 * Errs to the slow side. Owned by a Group; `record` is kept across restarts.
 */
import type { PaceRecord } from '../../store/records.ts';

/** A default delay is at least this much of the response time, up to a limit. */
const delayFactor = 1;
const adaptedMsMax = 10_000;
const smoothing = 1 / 8;
/** No answer counts for more: what a slave says of one must not last. */
const answerMsMax = 3 * adaptedMsMax;
/** A host whose answers take longer must not keep others waiting for slots. */
const slowMsMin = 2_000;
const windowFirst = 2;
/** Answers that open the window by one. With fewer, more concurrent fetches would hit a limit. */
const answersPerStep = 4;
const windowMax = 10_000;
/** Retry-After beyond this does not hold the whole group; the URL itself waits that long. */
const holdMsMax = 3_600_000;
const backOffFirstMs = 1_000;
const backOffMsMax = 300_000;
/** A 429 doubles the delay, from here to there. */
const learnedMsMin = 125;
const learnedMsMax = 30_000;
const forgivenPart = 3 / 4;
/** A shorter delay counts as none. */
const forgottenMs = learnedMsMin / 4;
const forgivenAfterMs = 600_000;
const forgivenAfterMsMax = 86_400_000;

export class Pace {
  #record: PaceRecord = { holdUntil: 0, refusals: 0, learnedMs: 0, learnedAt: 0, lessons: 0 };
  #smoothedMs = 0;
  #window = windowFirst;
  /** A single 503 may concern only one page. */
  #unavailable = 0;

  get record(): PaceRecord {
    return this.#record;
  }

  restore(record: PaceRecord): void {
    this.#record = record;
  }

  /** No fetch of the group may start before this time. */
  get holdUntil(): number {
    return this.#record.holdUntil;
  }

  /** The smoothed response time, in ms. */
  get answerMs(): number {
    return this.#smoothedMs;
  }

  get isSlow(): boolean {
    return this.#smoothedMs > slowMsMin;
  }

  /** Maximum number of concurrent fetches, without regard to the crawls. */
  get atOnceMax(): number {
    return Math.floor(this.#window);
  }

  /** Returns the delay between two starts, if the crawls agreed on `baseMs`; `follows`: it is a
   *  default and follows the response times. */
  delayMs(baseMs: number, follows: boolean): number {
    const followedMs = follows ? Math.min(this.#smoothedMs * delayFactor, adaptedMsMax) : 0;
    return Math.max(baseMs, Math.round(followedMs), this.#record.learnedMs);
  }

  /** The operator ends the hold. Returns true if the record changes. */
  goOn(): boolean {
    if (this.#record.holdUntil === 0) return false;
    this.#record = { ...this.#record, holdUntil: 0 };
    return true;
  }

  /** An answer, for example a page or a 404; it took `ms`, if that describes the host. Returns true
   *  if the record changes. */
  answered(ms: number | undefined, now: number): boolean {
    if (ms !== undefined) {
      const more = Math.min(ms, answerMsMax) - this.#smoothedMs;
      this.#smoothedMs += more * (this.#smoothedMs === 0 ? 1 : smoothing);
    }
    this.#unavailable = 0;
    this.#window = Math.min(windowMax, this.#window + 1 / answersPerStep);
    const record = this.#record;
    const forgives = record.learnedMs > 0 && now - record.learnedAt > forgivenAfter(record);
    if (record.refusals === 0 && !forgives) return false;
    const lessMs = Math.round(record.learnedMs * forgivenPart);
    const learnedMs = lessMs < forgottenMs ? 0 : lessMs;
    this.#record = { ...record, refusals: 0, ...(forgives ? { learnedMs, learnedAt: now } : {}) };
    return true;
  }

  /** The host asked for a pause: 429 or 503. `delayMs`: the delay that was in force; `random` from
   *  0 to 1 spreads the holds. Returns true if the record changes. */
  refused(
    refusal: { status: 429 | 503; retryAfterMs: number; delayMs: number },
    now: number,
    random: number,
  ): boolean {
    const { status, retryAfterMs, delayMs } = refusal;
    const record = this.#record;
    // Requests under way at the same time count as one refusal.
    if (now < record.holdUntil && retryAfterMs === 0) return false;
    if (status === 503 && retryAfterMs === 0 && ++this.#unavailable < 2) return false;
    const backOffMs = Math.min(backOffMsMax, backOffFirstMs * 2 ** record.refusals);
    const holdMs =
      retryAfterMs > 0 ? Math.min(retryAfterMs, holdMsMax) : backOffMs * (1 + random / 4);
    const isNew = now >= record.holdUntil;
    const learns = status === 429 && isNew;
    const learnedMs = Math.min(learnedMsMax, Math.max(learnedMsMin, delayMs * 2));
    this.#window = 1;
    this.#record = {
      ...record,
      holdUntil: Math.max(record.holdUntil, now + holdMs),
      refusals: record.refusals + (isNew ? 1 : 0),
      ...(learns ? { learnedMs, learnedAt: now, lessons: record.lessons + 1 } : {}),
    };
    return true;
  }
}

/** Returns how long a learned delay stays unchanged. */
export function forgivenAfter({ lessons }: PaceRecord): number {
  return Math.min(forgivenAfterMsMax, forgivenAfterMs * 2 ** Math.max(0, lessons - 1));
}

/**
 * How fast one host may be asked, learned from what it answers. Pure: time is an argument.
 *
 *     answers      the smoothed response time, which a default delay follows
 *     429, 503     the whole host holds: as long as Retry-After says, else longer and longer;
 *                  after a 429 its delay stays longer than the one that was too short
 *     dns, connect in a row: the host sleeps longer and longer and is then tried by one fetch at a
 *                  time; after `sleepsMax` sleeps it is dead, and its tasks are given up
 *
 * Errs to the slow side. Owned by a Host; `record` is what a restart has to know.
 */
import type { FetchErrorBody } from '../../shared/protocol.ts';
import type { PaceRecord } from '../store/records.ts';

/** A default delay is at least this much of the response time, up to a limit. */
const delayFactor = 1;
const adaptedMsMax = 10_000;
const smoothing = 1 / 8;
/** Retry-After beyond this does not hold the whole host; the URL itself waits that long. */
const holdMsMax = 3_600_000;
const backOffFirstMs = 1_000;
const backOffMsMax = 300_000;
/** A 429 doubles the delay, from here to there; half of it is forgiven after a while. */
const learnedMsMin = 125;
const learnedMsMax = 30_000;
const forgivenAfterMs = 600_000;
/** Failures to connect in a row that say nothing of the host yet. */
const failuresFree = 4;
const sleepMsMax = 60_000;
const sleepsMax = 8;
const deadMs = 600_000;

const newRecord: PaceRecord = { holdUntil: 0, refusals: 0, learnedMs: 0, learnedAt: 0, sleeps: 0 };

export class Pace {
  #record = newRecord;
  #smoothedMs = 0;
  #failures = 0;
  /** A 503 alone may be one page's own. */
  #unavailable = 0;

  get record(): PaceRecord {
    return this.#record;
  }

  /** Nothing that a host without a past would not have. */
  get isPlain(): boolean {
    return this.#record === newRecord;
  }

  restore(record: PaceRecord): void {
    this.#record = record;
  }

  /** No fetch of the host may start before this time. */
  get holdUntil(): number {
    return this.#record.holdUntil;
  }

  /** The host did not let anybody in: one fetch at a time finds out whether it does again. */
  get isProbing(): boolean {
    return this.#record.sleeps > 0;
  }

  /** The delay between two starts, where the crawls agreed on `baseMs`; `follows`: it is a default
   *  and follows the response times. */
  delayMs(baseMs: number, follows: boolean): number {
    const followedMs = follows ? Math.min(this.#smoothedMs * delayFactor, adaptedMsMax) : 0;
    return Math.max(baseMs, Math.round(followedMs), this.#record.learnedMs);
  }

  /** Why tasks are given up at once; undefined while there is hope. */
  dead(now: number): FetchErrorBody | undefined {
    const { error, holdUntil } = this.#record;
    return error !== undefined && now < holdUntil ? error : undefined;
  }

  /** An answer of the host, be it a page or a 404, that took `ms`. True when it changes the record. */
  answered(ms: number, now: number): boolean {
    this.#smoothedMs += (ms - this.#smoothedMs) * (this.#smoothedMs === 0 ? 1 : smoothing);
    this.#failures = 0;
    this.#unavailable = 0;
    const { refusals, sleeps, learnedMs, learnedAt } = this.#record;
    const isForgiven = learnedMs > 0 && now - learnedAt > forgivenAfterMs;
    if (refusals === 0 && sleeps === 0 && !isForgiven) return false;
    const lessMs = learnedMs / 2 < learnedMsMin ? 0 : learnedMs / 2;
    const kept = isForgiven ? { learnedMs: lessMs, learnedAt: now } : { learnedMs, learnedAt };
    const { holdUntil } = this.#record;
    this.#record = { ...newRecord, holdUntil: sleeps > 0 ? 0 : holdUntil, ...kept };
    return true;
  }

  /** The host asked to be left alone: 429 or 503. `delayMs`: the delay that was in force; `random`
   *  from 0 to 1 spreads the holds. True when it changes the record. */
  refused(
    refusal: { status: 429 | 503; retryAfterMs: number; delayMs: number },
    now: number,
    random: number,
  ): boolean {
    const { status, retryAfterMs, delayMs } = refusal;
    const record = this.#record;
    // What was under way together is one refusal.
    if (now < record.holdUntil && retryAfterMs === 0) return false;
    if (status === 503 && retryAfterMs === 0 && ++this.#unavailable < 2) return false;
    const backOffMs = Math.min(backOffMsMax, backOffFirstMs * 2 ** record.refusals);
    const holdMs =
      retryAfterMs > 0 ? Math.min(retryAfterMs, holdMsMax) : backOffMs * (1 + random / 4);
    const isNew = now >= record.holdUntil;
    const learns = status === 429 && isNew;
    const learnedMs = Math.min(learnedMsMax, Math.max(learnedMsMin, delayMs * 2));
    this.#record = {
      ...record,
      holdUntil: Math.max(record.holdUntil, now + holdMs),
      refusals: record.refusals + (isNew ? 1 : 0),
      ...(learns ? { learnedMs, learnedAt: now } : {}),
    };
    return true;
  }

  /** Nobody answers there: dns or connect. True when it changes the record. */
  failed(error: FetchErrorBody, now: number): boolean {
    const record = this.#record;
    if (now < record.holdUntil) return false;
    if (record.sleeps === 0 && ++this.#failures <= failuresFree) return false;
    const sleeps = record.sleeps + 1;
    if (sleeps > sleepsMax) {
      this.#record = { ...record, sleeps, error, holdUntil: now + deadMs };
    } else {
      const sleepMs = Math.min(sleepMsMax, backOffFirstMs * 4 ** (sleeps - 1));
      this.#record = { ...record, sleeps, holdUntil: now + sleepMs };
    }
    return true;
  }

  /** The operator asks for URLs of this host: what seemed dead is tried again at once. */
  retry(): void {
    if (this.#record.sleeps > 0) this.#record = newRecord;
    this.#failures = 0;
  }
}

/** What a failed fetch says of its host; `random` from 0 to 1. */
export function afterFailure(
  delayMs: number,
  error: FetchErrorBody,
  retryAfterMs: number,
  random: number,
) {
  return (pace: Pace, now: number): boolean => {
    if (error.kind === 'dns' || error.kind === 'connect' || error.kind === 'timeout') {
      return pace.failed(error, now);
    }
    const status = error.kind === 'status' ? Number.parseInt(error.message, 10) : 0;
    if (status !== 429 && status !== 503) return false;
    return pace.refused({ status, retryAfterMs, delayMs }, now, random);
  };
}

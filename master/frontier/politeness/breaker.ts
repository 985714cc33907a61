/**
 * The circuit breaker of one host: what follows from nobody answering there (dns, connect,
 * time-out). Pure: time is an argument.
 *
 *     closed --fails in a row--> sleeping --over--> probing, one fetch at a time --answer--> closed
 *                                   ^                  |
 *                                   +--fails: longer---+--too often--> dead: tasks are given up
 *
 * Owned by a Host; `record` is what a restart has to know.
 */
import type { FetchErrorBody } from '../../../shared/requests.ts';
import type { BreakerRecord } from '../../store/records.ts';

/** Failures in a row that say nothing of the host yet. */
const failuresFree = 4;
const sleepFirstMs = 1_000;
const sleepMsMax = 60_000;
const sleepsMax = 8;
const deadMs = 600_000;

const closed: BreakerRecord = { sleeps: 0, until: 0 };

export class Breaker {
  #record = closed;
  #failures = 0;
  #isProved = false;

  get record(): BreakerRecord {
    return this.#record;
  }

  restore(record: BreakerRecord): void {
    this.#record = record;
  }

  /** It answered its last request: none is known to be in vain. Not on record, so that after a
   *  restart every host has to prove itself. */
  get isProved(): boolean {
    return this.#isProved;
  }

  /** Nobody answered its last request. */
  get isFailing(): boolean {
    return this.#failures > 0 || this.isProbing;
  }

  /** One fetch at a time finds out whether the host answers again. */
  get isProbing(): boolean {
    return this.#record.sleeps > 0;
  }

  /** No fetch may start before this time; a dead host's tasks need not wait for it. */
  get sleepsUntil(): number {
    return this.#record.error === undefined ? this.#record.until : 0;
  }

  /** Why tasks are given up at once; undefined while there is hope. */
  dead(now: number): FetchErrorBody | undefined {
    const { error, until } = this.#record;
    return error !== undefined && now < until ? error : undefined;
  }

  /** Somebody is there, whatever was said. True when it is news. */
  spoke(): boolean {
    const isNew = !this.#isProved;
    this.#isProved = true;
    return isNew;
  }

  /** Somebody answered. True when it changes the record. */
  answered(): boolean {
    this.#isProved = true;
    this.#failures = 0;
    const isNew = this.isProbing;
    this.#record = closed;
    return isNew;
  }

  /** Nobody did. True when it changes the record. */
  failed(error: FetchErrorBody, now: number): boolean {
    const { sleeps: before, until } = this.#record;
    this.#isProved = false;
    // What was under way together is one failure.
    if (now < until) return false;
    if (before === 0 && ++this.#failures <= failuresFree) return false;
    const sleeps = before + 1;
    const sleepMs = Math.min(sleepMsMax, sleepFirstMs * 4 ** before);
    this.#record =
      sleeps > sleepsMax
        ? { sleeps, until: now + deadMs, error }
        : { sleeps, until: now + sleepMs };
    return true;
  }

  /** The operator asks for URLs of this host: what seemed dead is tried again at once. */
  retry(): void {
    this.#record = closed;
    this.#failures = 0;
  }
}

/**
 * The circuit breaker of one host: its reaction to a host that does not answer (dns, connect,
 * time-out). Pure: time is an argument.
 *
 *     closed --fails in a row--> sleeping --over--> probing, one fetch at a time --answer--> closed
 *                                   ^                  |
 *                                   +--fails: longer---+--too often--> dead: tasks are given up
 *
 * Owned by a Host; `record` is kept across restarts.
 */
import type { FetchErrorBody } from '../../../shared/requests.ts';
import type { BreakerRecord } from '../../store/records.ts';

/** Failures in a row that do not yet count against the host. */
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

  /** True: it answered its last request. Not stored, so that after a restart every host has to
   *  prove itself. */
  get isProved(): boolean {
    return this.#isProved;
  }

  /** True: its last request got no answer. */
  get isFailing(): boolean {
    return this.#failures > 0 || this.isProbing;
  }

  /** True: one fetch at a time finds out whether the host answers again. */
  get isProbing(): boolean {
    return this.#record.sleeps > 0;
  }

  /** No fetch may start before this time; a dead host's tasks need not wait for it. */
  get sleepsUntil(): number {
    return this.#record.error === undefined ? this.#record.until : 0;
  }

  /** Returns why tasks are given up at once; undefined while the host may answer. */
  dead(now: number): FetchErrorBody | undefined {
    const { error, until } = this.#record;
    return error !== undefined && now < until ? error : undefined;
  }

  /** The host sent anything at all. Returns true if that is new. */
  spoke(): boolean {
    const isNew = !this.#isProved;
    this.#isProved = true;
    return isNew;
  }

  /** The host answered. Returns true if the record changes. */
  answered(): boolean {
    this.#isProved = true;
    this.#failures = 0;
    const isNew = this.isProbing;
    this.#record = closed;
    return isNew;
  }

  /** The host did not answer. Returns true if the record changes. */
  failed(error: FetchErrorBody, now: number): boolean {
    const { sleeps: before, until } = this.#record;
    this.#isProved = false;
    // Requests under way at the same time count as one failure.
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

  /** The operator wants URLs of this host, so it is tried again at once even if it seemed dead. */
  retry(): void {
    this.#record = closed;
    this.#failures = 0;
  }
}

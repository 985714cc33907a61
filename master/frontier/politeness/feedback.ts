/**
 * Learns from the end of a fetch: how fast the host's group may be asked, and whether the host
 * answers. It stores this, and politeness re-evaluates the host. Called by the frontier.
 */

import type { FetchErrorBody, Result } from '../../../shared/requests.ts';
import { clockMs } from '../../machine/clock.ts';
import type { FrontierEvents } from '../frontier-events.ts';
import type { RobotsAnswer } from '../robots/gate.ts';
import type { FrontierTrace } from '../trace.ts';
import type { Host } from './host.ts';
import type { Politeness } from './politeness.ts';
import type { HostRecords } from './records.ts';

type SleepEvents = Pick<FrontierEvents, 'hostSlept' | 'hostWoke'>;

export class Feedback {
  readonly #politeness: Politeness;
  readonly #records: HostRecords;
  readonly #events: SleepEvents;
  readonly #trace: FrontierTrace | undefined;

  constructor(
    politeness: Politeness,
    records: HostRecords,
    events: SleepEvents,
    trace?: FrontierTrace,
  ) {
    this.#trace = trace;
    this.#politeness = politeness;
    this.#records = records;
    this.#events = events;
  }

  /** A definite answer. Status 0: no request was made. */
  reported(host: Host, result: Pick<Result, 'status' | 'ms' | 'error' | 'requests'>): void {
    const { status, ms, error, requests } = result;
    if (error !== undefined) host.failed++;
    if (status === 0) return;
    host.last = { at: Date.now(), status };
    this.#served(host, ms);
    if (requests !== undefined) this.#politeness.burdened(host.group, requests, clockMs());
  }

  robots(host: Host, answer: RobotsAnswer): void {
    if (!('status' in answer)) return;
    host.last = { at: Date.now(), status: answer.status };
    this.answered(host, answer.status, answer.retryAfterMs);
  }

  /** Stores the result of a robots.txt; then its host continues. */
  async learn(
    hostKey: string,
    answer: RobotsAnswer,
    file: Uint8Array | undefined,
    attemptsMax: number,
  ): Promise<void> {
    const host = () => this.#politeness.host(hostKey);
    await this.#records.learnRobots(host, answer, file, attemptsMax);
    this.#politeness.learned(host(), clockMs());
  }

  /** An answer of which only the status counts; 429 and 503 ask for a pause. */
  answered(host: Host, status: number, retryAfterMs = 0): void {
    if (host.breaker.spoke()) this.#politeness.paced(host.group, clockMs());
    if (status < 500 && status !== 429) this.#served(host, undefined);
    if (status !== 429 && status !== 503) return;
    const { group } = host;
    const now = clockMs();
    const refusal = { status, retryAfterMs, delayMs: group.delayMs } as const;
    if (group.pace.refused(refusal, now, Math.random())) {
      this.#records.savePace(group);
      this.#trace?.held(group.key, status, group.pace.holdUntil);
    }
    this.#politeness.paced(group, now);
  }

  failed(host: Host, error: FetchErrorBody, retryAfterMs: number): void {
    const { kind, message } = error;
    host.failed++;
    const status = kind === 'status' ? Number.parseInt(message, 10) : Number.NaN;
    const at = Date.now();
    host.last = Number.isNaN(status) ? { at, error: `${kind}: ${message}` } : { at, status };
    if (kind === 'status') this.answered(host, Number.parseInt(message, 10), retryAfterMs);
    if (kind !== 'dns' && kind !== 'connect' && kind !== 'timeout') return;
    const now = clockMs();
    if (host.breaker.failed(error, now)) {
      this.#records.saveBreaker(host);
      this.#events.hostSlept(host.key, host.breaker.record.until - now);
    }
    this.#politeness.wake(host, now);
  }

  #served(host: Host, ms: number | undefined): void {
    const { group, breaker } = host;
    const now = clockMs();
    breaker.spoke();
    if (group.pace.answered(ms, now)) this.#records.savePace(group);
    this.#politeness.paced(group, now);
    if (!breaker.answered()) return;
    this.#records.saveBreaker(host);
    this.#events.hostWoke(host.key);
    this.#politeness.wake(host, now);
  }
}

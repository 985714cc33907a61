/**
 * What is on record of hosts, so that a restart neither asks again nor forgets: their robots.txt,
 * what it meant, and their pace. Read when a host comes into being, written when there is something
 * new. Called by the frontier; the only part of it that knows the hosts' tables.
 */
import { clockMs } from '../../shared/clock.ts';
import { decodePace, decodeRobots, encodePace, encodeRobots } from '../store/records.ts';
import type { Change, Store } from '../store/store.ts';
import type { Host } from './politeness.ts';
import type { RobotsAnswer } from './robots-gate.ts';

export class HostRecords {
  readonly #store: Store;
  readonly #commit: (changes: Change[]) => Promise<void>;

  constructor(store: Store, commit: (changes: Change[]) => Promise<void>) {
    this.#store = store;
    this.#commit = commit;
  }

  /** The robots.txt of a host. */
  robotsFile(hash: Buffer): Uint8Array | undefined {
    const value = this.#store.get('robots', hash);
    return value && decodeRobots(value, clockMs()).file;
  }

  /** Gives a host that came into being what is on record of it. */
  restore({ hash, robots, pace }: Host): void {
    const value = this.#store.get('robots', hash);
    if (value !== undefined) robots.learn(decodeRobots(value, clockMs()).record);
    const paceValue = this.#store.get('hosts', hash);
    if (paceValue !== undefined) pace.restore(decodePace(paceValue, clockMs()));
  }

  /** The host has taught us something about its pace. */
  savePace({ hash, pace }: Host): void {
    const value = pace.isPlain ? undefined : encodePace(pace.record, clockMs());
    void this.#commit([{ table: 'hosts', key: hash, value }]);
  }

  /** What came of a fetch of robots.txt goes on record; then `host()` learns it. The host is looked
   *  up at the end: it may have been forgotten since, and made anew. */
  async learnRobots(
    host: () => Host,
    answer: RobotsAnswer,
    file: Uint8Array | undefined,
    attemptsMax: number,
  ): Promise<void> {
    const { hash, robots } = host();
    const now = clockMs();
    const record = robots.judge(answer, attemptsMax, now, Math.random());
    const isNew = 'status' in answer && answer.status < 300;
    const kept = record.access === 'rules' ? (isNew ? file : this.robotsFile(hash)) : undefined;
    const value = encodeRobots(record, kept ?? nothing, now);
    await this.#commit([{ table: 'robots', key: hash, value }]);
    host().robots.learn(record);
  }
}

const nothing = new Uint8Array(0);

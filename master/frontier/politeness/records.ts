/**
 * The stored state of hosts, kept across restarts: their robots.txt, its meaning, and their pace.
 * Read when a host is created, written when it changes. Called by the frontier; the only part of it
 * that knows the hosts' tables.
 */
import { clockMs } from '../../machine/clock.ts';
import type { GroupCommit } from '../../store/group-commit.ts';
import {
  type BreakerRecord,
  decodeBreaker,
  decodePace,
  decodeRobots,
  encodeBreaker,
  encodePace,
  encodeRobots,
  hostBytes,
  type PaceRecord,
  type RobotsRecord,
} from '../../store/records.ts';
import type { Change, Store } from '../../store/store.ts';
import type { RobotsAnswer } from '../robots/gate.ts';
import type { Group, Host } from './host.ts';
import { forgivenAfter } from './pace.ts';

const nothing = new Uint8Array(0);
const beforeHashes = Buffer.alloc(1);
const afterHashes = Buffer.alloc(hostBytes + 1, 0xff);
/** Rows looked at in one `sweep`. */
const sweptRows = 16;
/** Between two rounds of all tables: a read of the store costs an idle master more than the rest of
 *  its second. */
const roundEveryMs = 60_000;
/** Grace period after a record expires: an old robots.txt may replace an unreachable one. */
const keptMs = 7 * 86_400_000;

/** Expiry times of the rows of these tables, as Unix times in ms. */
const needed = {
  robots: (value: Buffer, now: number) => decodeRobots(value, now).record.askAt,
  breakers: (value: Buffer, now: number) => decodeBreaker(value, now).until,
  paces: (value: Buffer, now: number) => {
    const pace = decodePace(value, now);
    return Math.max(pace.holdUntil, pace.learnedAt + forgivenAfter(pace));
  },
} as const;
const sweptTables = Object.keys(needed) as (keyof typeof needed)[];

type KeptOfHost = {
  readonly robots?: RobotsRecord | undefined;
  readonly breaker?: BreakerRecord | undefined;
  readonly pace?: PaceRecord | undefined;
};

/** The record of a host, and of a group that is this host alone. */
export function keptOfHost(store: Pick<Store, 'get'>, hash: Buffer, now: number): KeptOfHost {
  const [robots, breaker, pace] = (['robots', 'breakers', 'paces'] as const).map((table) =>
    store.get(table, hash),
  );
  return {
    robots: robots && decodeRobots(robots, now).record,
    breaker: breaker && decodeBreaker(breaker, now),
    pace: pace && decodePace(pace, now),
  };
}

export class HostRecords {
  readonly #store: Store;
  /** The last row that `sweep` has checked, and its table. */
  #swept: { table: keyof typeof needed; key: Uint8Array } = {
    table: 'robots',
    key: beforeHashes,
  };
  #roundAt = Number.NEGATIVE_INFINITY;
  readonly #commits: GroupCommit;

  constructor(store: Store, commits: GroupCommit) {
    this.#store = store;
    this.#commits = commits;
  }

  /** Returns the robots.txt of a host. */
  robotsFile(hash: Buffer): Uint8Array | undefined {
    const value = this.#store.get('robots', hash);
    return value && decodeRobots(value, clockMs()).file;
  }

  /** Loads the stored state of a new host. */
  restore({ hash, robots, breaker }: Host): void {
    const value = this.#store.get('robots', hash);
    if (value !== undefined) robots.learn(decodeRobots(value, clockMs()).record);
    const breakerValue = this.#store.get('breakers', hash);
    if (breakerValue !== undefined) breaker.restore(decodeBreaker(breakerValue, clockMs()));
  }

  /** Loads the stored state of a new group. */
  restoreGroup({ hash, pace }: Group): void {
    const value = this.#store.get('paces', hash);
    if (value !== undefined) pace.restore(decodePace(value, clockMs()));
  }

  savePace({ hash, pace }: Group): void {
    const value = encodePace(pace.record, clockMs());
    void this.#commits.written([{ table: 'paces', key: hash, value }]);
  }

  saveBreaker({ hash, breaker }: Host): void {
    // A host that answers has no record.
    const value = breaker.isProbing ? encodeBreaker(breaker.record, clockMs()) : undefined;
    void this.#commits.written([{ table: 'breakers', key: hash, value }]);
  }

  /** Returns the changes that let an unreachable host, which is not in memory, be tried at once. */
  forgiving(hash: Buffer): Change[] {
    const robots = this.#store.get('robots', hash);
    const isLost = robots && decodeRobots(robots, clockMs()).record.access === 'unreachable';
    const tables = [...(isLost ? (['robots'] as const) : []), 'breakers'] as const;
    return tables
      .filter((table) => this.#store.has(table, hash))
      .map((table) => ({ table, key: hash, value: undefined }));
  }

  /** The record of a host, and of a group that is this host alone. */
  look(hash: Buffer): KeptOfHost {
    return keptOfHost(this.#store, hash, clockMs());
  }

  /** Lets a host that is not in memory be asked at once. Resolves when it is on the disk. */
  async wake(hash: Buffer): Promise<void> {
    const { pace } = this.look(hash);
    const value = pace && encodePace({ ...pace, holdUntil: 0 }, clockMs());
    const held: Change[] = value ? [{ table: 'paces', key: hash, value }] : [];
    await this.#commits.written([...this.forgiving(hash), ...held]);
  }

  /** Deletes expired records, some rows at each call, in rounds. */
  sweep(now: number): void {
    if (now < this.#roundAt) return;
    const { table, key } = this.#swept;
    const rows = this.#store.range(table, {
      from: key,
      after: true,
      to: afterHashes,
      limit: sweptRows,
    });
    const old = rows.filter(({ value }) => needed[table](value, now) + keptMs < now);
    if (old.length > 0) {
      void this.#commits.written(old.map((row) => ({ table, key: row.key, value: undefined })));
    }
    const last = rows.at(-1);
    if (last !== undefined) {
      this.#swept = { table, key: last.key };
      return;
    }
    const next = (sweptTables.indexOf(table) + 1) % sweptTables.length;
    this.#swept = { table: sweptTables[next] ?? table, key: beforeHashes };
    if (next === 0) this.#roundAt = now + roundEveryMs;
  }

  /** Stores the result of a fetch of robots.txt; then `host()` learns it. The host is looked up at
   *  the end: it may have been dropped and created again. */
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
    await this.#commits.written([{ table: 'robots', key: hash, value }]);
    host().robots.learn(record);
  }
}

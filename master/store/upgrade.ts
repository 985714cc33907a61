/**
 * The format of the store on disk, and how an older one becomes this one. Each step reads what one
 * version wrote and returns the changes that make it the next. A step is one transaction, with the
 * new version in it, so that a crash leaves one version or the other.
 *
 * To change the format: raise `formatVersion`, add the step from the version before, and a test
 * with a store of that version.
 */
import { randomBytes } from 'node:crypto';
import { ConfigError } from '../../shared/errors.ts';
import { decodeValue } from '../../shared/frame.ts';
import { makeSpares } from './crawl-rows.ts';
import { rowOfLines } from './line-rows.ts';
import {
  afterPrefix,
  type CrawlRecord,
  crawlKey,
  cursorKey,
  decodeCrawl,
  encodeCrawl,
  encodeCursor,
  encodeItemRow,
  encodeLastCrawl,
  encodeSeedHosts,
  formatKey,
  formatVersion,
  lastCrawlKey,
} from './records.ts';
import { batches, type Change, type Row, type Store } from './store.ts';
import { beginRuns, endRuns } from './upgrade-runs.ts';

/** From the version it is the key of to the next. */
export type Steps = ReadonlyMap<number, (store: Store) => Change[]>;

const steps: Steps = new Map([
  [1, (store) => [...shareItemRows(store), ...partSeedHosts(store)]],
  [2, (store) => [...makeRecords(store), ...nameSinks(store)]],
  [3, beginRuns],
  // Version 5 may have tasks in `unsorted`, where version 4 would not look for them.
  [4, () => []],
]);

/** Brings a store to this version. Returns the version it had; undefined for a new one.
 *  @throws ConfigError it is of a newer version, or of one that no step begins with */
export async function upgrade(
  store: Store,
  target = formatVersion,
  known: Steps = steps,
): Promise<number | undefined> {
  const found = store.get('meta', formatKey)?.[0];
  if (found === undefined) {
    await store.commit([formatChange(target)]);
    return undefined;
  }
  for (let version = found; version !== target; version++) {
    const step = known.get(version);
    if (version > target || step === undefined) {
      throw otherFormat(found, target);
    }
    await store.commit([...step(store), formatChange(version + 1)]);
  }
  await endRuns(store);
  await makeSpares(store);
  return found;
}

/** Version 1 had a row for each item of a user queue, and nothing but the item in it. */
function shareItemRows(store: Store): Change[] {
  const changes: Change[] = [];
  const all = { from: Buffer.from([0]), to: Buffer.alloc(80, 0xff) };
  for (const rows of batches(store, 'items', all, 1024)) {
    for (const { key, value } of rows) {
      changes.push({ table: 'items', key, value: encodeItemRow([value]) });
    }
  }
  return changes;
}

/** Version 1 had the hosts of the seeds in the crawl's record, which each commit rewrites. */
function partSeedHosts(store: Store): Change[] {
  return crawlsOf(store).flatMap(({ key, value }): Change[] => {
    const { seedHosts, ...record } = decodeCrawl(value) as CrawlRecord & { seedHosts: string[] };
    return [
      { table: 'crawls', key, value: encodeCrawl(record) },
      { table: 'seeds', key, value: encodeSeedHosts({ named: seedHosts, followed: [] }) },
    ];
  });
}

/** Version 2 had lines of text in the result queue, and crawls without a random id. Its tasks stay
 *  as they are: a mark in the head of a task says whether it has what version 3 added. */
function makeRecords(store: Store): Change[] {
  const changes: Change[] = [];
  let last = 0;
  for (const { key, value } of crawlsOf(store)) {
    const record = decodeCrawl(value);
    last = Math.max(last, record.id);
    const rows = { from: crawlKey(record.id), to: crawlKey(record.id + 1) };
    let nextRecord = 1;
    for (const row of store.range('results', rows)) {
      const made = rowOfLines(row.value);
      changes.push({ table: 'results', key: row.key, value: made.seal(nextRecord).bytes });
      nextRecord += made.count;
    }
    const crawl: CrawlRecord = { ...record, uid: randomBytes(16), specVersion: 1, nextRecord };
    changes.push({ table: 'crawls', key, value: encodeCrawl(crawl) });
  }
  changes.push({ table: 'meta', key: lastCrawlKey, value: encodeLastCrawl(last) });
  return changes;
}

/** Version 2 had one sink, and its mark alone. */
function nameSinks(store: Store): Change[] {
  const from = Buffer.from('sink/');
  const rows = store.range('meta', { from, to: afterPrefix(from) });
  return rows.flatMap(({ key, value }): Change[] => {
    const [, crawl] = /^sink\/(\d+)$/.exec(key.toString()) ?? [];
    if (crawl === undefined) return [];
    const cursor = encodeCursor({ commit: 0, mark: decodeValue(value) });
    return [
      { table: 'meta', key, value: undefined },
      { table: 'meta', key: cursorKey(Number(crawl), 'files'), value: cursor },
    ];
  });
}

function crawlsOf(store: Store): Row[] {
  return store.range('crawls', { from: crawlKey(0), to: afterPrefix(crawlKey(2 ** 32 - 1)) });
}

/** The error of a store that this version does not read. */
export function otherFormat(found: number, target: number): ConfigError {
  return new ConfigError(
    `the store was written in format ${found}, this is ${target}; ` +
      `use ${found > target ? 'a newer' : 'an older'} version of Orbweaver`,
  );
}

function formatChange(version: number): Change {
  return { table: 'meta', key: formatKey, value: Buffer.from([version]) };
}

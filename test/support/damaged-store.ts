/**
 * A store of one crawl with a page that is lost, and what its sinks wrote: for tests of repair.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { Books } from '../../master/frontier/crawl/books.ts';
import { Fingerprinter } from '../../master/frontier/filter/fingerprint.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import {
  commitKey,
  crawlKey,
  encodeCrawl,
  encodeSeedHosts,
  fingerprintKey,
  formatKey,
  formatVersion,
  itemKeys,
  secretKey,
} from '../../master/store/records.ts';
import type { Change } from '../../master/store/store.ts';
import { addToSum } from '../../master/store/sums.ts';
import type { CrawlSpecInput } from '../../shared/crawl.ts';
import { specOf } from './world.ts';

const pageBytes = 4096;
const headBytes = 24;
const secret = Buffer.alloc(16, 7);
const fingerprinter = new Fingerprinter();

/** The fingerprint of a name, in crawl 1. */
export function seenKey(name: string): Buffer {
  return fingerprintKey(1, fingerprinter.one(secret, name), 0).subarray(4);
}

function sumOf(names: readonly string[]): number[] {
  const sum = new Uint32Array(4);
  for (const name of names) addToSum(sum, fingerprinter.one(secret, name), 0);
  return [...sum];
}

/** `harmed`: bytes in the pages that are lost. */
export async function damagedStore(
  t: TestContext,
  {
    names,
    changes,
    written = {},
    spec = {},
    harmed,
  }: {
    readonly names: readonly string[];
    readonly changes: readonly Change[];
    readonly written?: Readonly<Record<string, string | Buffer>>;
    readonly spec?: CrawlSpecInput;
    readonly harmed: Buffer;
  },
): Promise<{ dataFolder: string; outFolder: string; storeFolder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [dataFolder, outFolder] = [join(folder, 'data'), join(folder, 'out')];
  mkdirSync(join(outFolder, 'default'), { recursive: true });
  for (const [name, text] of Object.entries(written)) {
    const path = join(outFolder, 'default', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  const storeFolder = join(dataFolder, 'store');
  const crawl = {
    id: 1,
    name: 'default',
    state: 'running',
    spec: specOf(spec),
    secret,
    nextSeq: 9,
    nextCommit: 9,
    uid: Buffer.alloc(16, 1),
    specVersion: 1,
    nextRecord: 1,
    counters: { ...new Books().counters, seen: names.length },
    seenSum: sumOf(names),
    startedAt: 0,
  } as const;
  const store = await openLmdbStore(storeFolder);
  await store.commit([
    { table: 'meta', key: formatKey, value: Buffer.from([formatVersion]) },
    { table: 'meta', key: secretKey, value: secret },
    { table: 'crawls', key: crawlKey(1), value: encodeCrawl(crawl) },
    {
      table: 'seeds',
      key: crawlKey(1),
      value: encodeSeedHosts({ named: ['a.example'], followed: [] }),
    },
    { table: 'recent', key: commitKey(1, 1), value: Buffer.concat(names.map(seenKey)) },
    ...changes,
  ]);
  // Both sets of roots have to have it.
  for (const id of [0, 1]) {
    const key = itemKeys('jobs')(id);
    await store.commit([{ table: 'items', key, value: Buffer.alloc(0) }]);
  }
  await store.close();
  harm(storeFile(storeFolder), harmed);
  return { dataFolder, outFolder, storeFolder };
}

/** Overwrites the pages that hold this. */
export function harm(path: string, part: Buffer): void {
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf(part); at >= 0; at = bytes.indexOf(part, at + 1)) {
    const offset = at % pageBytes;
    const page = bytes.subarray(at - offset, at - offset + pageBytes);
    if (offset >= headBytes + freeUntil(page)) page.fill(0);
  }
  writeFileSync(path, bytes);
}

/** Where the rows of a leaf begin. The free room before them may hold what was once in memory
 *  there, rows of other pages for example. */
function freeUntil(page: Buffer): number {
  const isLeaf = (page.readUInt16LE(18) & 2) !== 0;
  return isLeaf ? page.readUInt16LE(22) : 0;
}

/** Repair of `seen` when its rows are lost: no known URL is fetched again. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Books } from '../../master/frontier/crawl/books.ts';
import { Fingerprinter } from '../../master/frontier/filter/fingerprint.ts';
import { kinds } from '../../master/frontier/kinds/kinds.ts';
import { checkStore } from '../../master/repair/check.ts';
import { repair } from '../../master/repair/repair.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { encodePart, partKey } from '../../master/store/parts.ts';
import {
  commitKey,
  crawlKey,
  encodeCrawl,
  encodeSeedHosts,
  encodeTask,
  fingerprintKey,
  formatKey,
  formatVersion,
  itemKeys,
  secretKey,
  taskKey,
} from '../../master/store/records.ts';
import { ResultRow } from '../../master/store/result-rows.ts';
import type { Change } from '../../master/store/store.ts';
import { addToSum } from '../../master/store/sums.ts';
import type { TaskKind } from '../../shared/protocol.ts';
import { seenKeysOf } from '../support/seen-keys.ts';
import { specOf } from '../support/world.ts';

const pageBytes = 4096;
const secret = Buffer.alloc(16, 7);
const host = Buffer.alloc(8, 1);
const site = 'http://a.example';
const fingerprinter = new Fingerprinter();

function seenKey(name: string): Buffer {
  return fingerprintKey(1, fingerprinter.one(secret, name), 0).subarray(4);
}

function sumOf(names: readonly string[]): number[] {
  const sum = new Uint32Array(4);
  for (const name of names) addToSum(sum, fingerprinter.one(secret, name), 0);
  return [...sum];
}

function taskChange(name: TaskKind, url: string, seq: number): Change {
  const kind = kinds[name].number;
  const record = { kind, level: 0, url, depth: 0, priority: 0, attempts: 0, notBefore: 0 };
  return { table: 'tasks', key: taskKey(1, host, 0, seq), value: encodeTask(record) };
}

/** Repairs a store of one crawl that has lost `seen`, and says which of the names it has then. */
async function namesAfter(
  t: TestContext,
  names: readonly string[],
  changes: readonly Change[],
  written: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [dataFolder, outFolder] = [join(folder, 'data'), join(folder, 'out')];
  mkdirSync(join(outFolder, 'default'), { recursive: true });
  for (const [name, text] of Object.entries(written)) {
    writeFileSync(join(outFolder, 'default', name), text);
  }
  const storeFolder = join(dataFolder, 'store');
  const crawl = {
    id: 1,
    name: 'default',
    state: 'running',
    spec: specOf({ canonical: true }),
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
  harm(storeFile(storeFolder), seenKey(names[0] ?? ''));
  const lines = await repair({ dataFolder, outFolder });
  assert.match(lines.join('\n'), /seen/);
  const repaired = await openLmdbStore(storeFolder);
  const found = seenKeysOf(repaired);
  await repaired.close();
  assert.equal(checkStore(storeFile(storeFolder)), undefined);
  return found;
}

/** Overwrites the pages that hold this fingerprint. */
function harm(path: string, key: Buffer): void {
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf(key); at >= 0; at = bytes.indexOf(key, at)) {
    const page = at - (at % pageBytes);
    bytes.fill(0, page, page + pageBytes);
  }
  writeFileSync(path, bytes);
}

function keysOf(...names: readonly string[]): string[] {
  return names.map((name) => seenKey(name).toString('hex')).sort();
}

test('repair: a sitemap that waits is known as a sitemap, not as a page', async (t) => {
  const url = `${site}/sitemap.xml`;
  const found = await namesAfter(t, [`^${url}`], [taskChange('sitemap', url, 1)]);
  assert.deepEqual(found, keysOf(`^${url}`));
});

test('repair: a sitemap that was read is known as a sitemap', async (t) => {
  const url = `${site}/sitemap.xml`;
  const line = JSON.stringify({ url, finalUrl: url, sitemap: { kind: 'urlset' } });
  const found = await namesAfter(t, [`^${url}`], [], { 'pages.jsonl': `${line}\n` });
  assert.deepEqual(found, keysOf(`^${url}`));
});

test('repair: what is not yet in the files is known, too', async (t) => {
  const url = `${site}/page`;
  const src = `${site}/x.png`;
  const row = new ResultRow();
  const result = { finalUrl: url, status: 200, bytes: 1, ms: 1 };
  row.add('page', { url, depth: 0, at: 0 }, { result, images: [] });
  row.addImage(src);
  const value = row.seal(1).bytes;
  const change: Change = { table: 'results', key: commitKey(1, 1), value };
  const found = await namesAfter(t, [url], [change]);
  assert.deepEqual(found, keysOf(url, `=${url}`, `!${src}`));
});

test('repair: URLs of rotated files are known, and it refuses when these are not there', async (t) => {
  const url = `${site}/page`;
  const line = `${JSON.stringify({ url, finalUrl: url, images: [] })}\n`;
  const date = '20261122T215501Z';
  const lengths = { pages: line.length, images: 0, skipped: 0 };
  const part: Change = {
    table: 'meta',
    key: partKey(1, 'files', date),
    value: encodePart(lengths),
  };
  const name = `pages-${date}.jsonl`;
  assert.deepEqual(await namesAfter(t, [url], [part], { [name]: line }), keysOf(url, `=${url}`));
  for (const files of [{}, { [`${name}.gz`]: 'packed' }, { [name]: line.slice(1) }]) {
    await assert.rejects(
      namesAfter(t, [url], [part], files),
      /no results are at .*pages-20261122T215501Z\.jsonl.* give --without-results/,
    );
  }
});

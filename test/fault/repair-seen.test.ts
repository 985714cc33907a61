/** Repair of `seen` when its rows are lost: no known URL is fetched again. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { kinds } from '../../master/frontier/kinds/kinds.ts';
import { checkStore } from '../../master/repair/check.ts';
import { repair } from '../../master/repair/repair.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { encodePart, partKey } from '../../master/store/parts.ts';
import { commitKey, encodeTask } from '../../master/store/records.ts';
import { ResultRow } from '../../master/store/result-rows.ts';
import type { Change } from '../../master/store/store.ts';
import { taskKey } from '../../master/store/task-keys.ts';
import type { TaskKind } from '../../shared/protocol.ts';
import { damagedStore, seenKey } from '../support/damaged-store.ts';
import { seenKeysOf } from '../support/seen-keys.ts';

const host = Buffer.alloc(8, 1);
const site = 'http://a.example';

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
  const harmed = seenKey(names[0] ?? '');
  const spec = { canonical: true };
  const folders = await damagedStore(t, { names, changes, written, spec, harmed });
  const lines = await repair(folders);
  assert.match(lines.join('\n'), /seen/);
  const repaired = await openLmdbStore(folders.storeFolder);
  const found = seenKeysOf(repaired);
  await repaired.close();
  assert.equal(checkStore(storeFile(folders.storeFolder)), undefined);
  return found;
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

test('repair: images that were downloaded are known, in the files or not yet', async (t) => {
  const [waits, done] = [`${site}/waits.png`, `${site}/done.png`];
  const row = new ResultRow();
  row.add('image', { url: waits, depth: 0, at: 0 }, {});
  const change: Change = { table: 'results', key: commitKey(1, 1), value: row.seal(1).bytes };
  const lines = `${JSON.stringify({ url: done, finalUrl: done })}\n`;
  const found = await namesAfter(t, [`%${done}`], [change], { 'images.jsonl': lines });
  assert.deepEqual(found, keysOf(`%${done}`, `%${waits}`));
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

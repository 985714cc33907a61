/** Rows that a Parquet output gathers: they stay in the store until a file has them. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { outputKind } from '../../master/sinks/sinks.ts';
import { namedOutputs, outputOf } from '../../shared/outputs.ts';
import { parquetFiles, rowsOfParquet } from '../support/parquet.ts';
import { ArrayKind, SinkRig } from '../support/sink-rig.ts';

function gathering(t: TestContext, options: { readonly backlogBytesMax?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'orb-parquet-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [output] = namedOutputs([outputOf('parquet:a.parquet#records=all')]);
  assert.ok(output);
  const kind = outputKind(output, { folder, env: {} });
  const other = new ArrayKind();
  const rig = new SinkRig(t, [kind, other], { isReal: true, ...options });
  rig.crawl.isFetched = false;
  const own = join(folder, 'default');
  const urls = async () => (await rowsOfParquet(parquetFiles(own))).map(({ url }) => String(url));
  return { rig, kind, other, own, urls };
}

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `http://a.example/${from + i}`);
const temporary = (folder: string) =>
  (existsSync(folder) ? readdirSync(folder) : []).find((name) => name.endsWith('.tmp'));

test('parquet: rows stay in the store until nothing more is to fetch', async (t) => {
  const { rig, other, own, urls } = gathering(t);
  for (let i = 0; i < 10; i += 2) await rig.offer(...numbered(i, i + 2));
  await rig.until(() => other.target?.length === 10 && temporary(own) !== undefined);
  assert.deepEqual([rig.rows, parquetFiles(own)], [5, []]);
  await rig.restart();
  rig.crawl.isFetched = false;
  await rig.offer(...numbered(10, 11));
  await rig.until(() => other.target?.length === 11);
  rig.crawl.isFetched = true;
  await rig.until(() => {
    rig.queue.end(rig.crawl);
    return rig.crawl.unwritten === 0;
  });
  await rig.close();
  assert.deepEqual([await urls(), rig.rows], [numbered(0, 11), 0]);
  assert.equal(temporary(own), undefined);
});

test('parquet: a small backlog closes files early, and holds nothing', async (t) => {
  const { rig, own, urls } = gathering(t, { backlogBytesMax: 2_000 });
  for (let i = 0; i < 100; i++) {
    await rig.offer(...numbered(i, i + 1));
    await rig.until(() => rig.rows < 30);
  }
  rig.crawl.isFetched = true;
  await rig.until(() => {
    rig.queue.end(rig.crawl);
    return rig.crawl.unwritten === 0;
  });
  await rig.close();
  assert.deepEqual([await urls(), rig.held], [numbered(0, 100), []]);
  assert.ok(parquetFiles(own).length > 2);
});

test('parquet: what others do to its files holds the crawl, and loses nothing', async (t) => {
  const { rig, own, urls } = gathering(t);
  await rig.offer(...numbered(0, 3));
  await rig.until(() => temporary(own) !== undefined);
  rmSync(join(own, temporary(own) ?? ''));
  rig.crawl.isFetched = true;
  await rig.offer(...numbered(3, 4));
  await rig.until(() => rig.held.length > 0);
  assert.match(rig.held[0] ?? '', /parquet: .*\.tmp is gone, and will be written again/);
  await rig.resume();
  await rig.until(() => rig.crawl.unwritten === 0);
  assert.deepEqual(await urls(), numbered(0, 4));
  // A file that is whole may be taken away.
  const [first = ''] = parquetFiles(own);
  renameSync(first, `${first}.away`);
  // A name that is taken is not written over.
  const next = join(own, 'a-000000005-000000006.parquet');
  writeFileSync(next, 'x');
  await rig.offer(...numbered(4, 6));
  await rig.until(() => rig.held.length > 1);
  assert.match(rig.held[1] ?? '', /a-000000005-000000006\.parquet is there already/);
  rmSync(next);
  await rig.resume();
  await rig.until(() => rig.crawl.unwritten === 0);
  await rig.close();
  assert.deepEqual(await urls(), numbered(4, 6));
});

test('parquet: a crawl that is removed leaves no file of its own', async (t) => {
  const { rig, own, kind } = gathering(t);
  await rig.offer(...numbered(0, 3));
  await rig.until(() => temporary(own) !== undefined);
  rig.crawl.isOpen = false;
  await rig.until(() => {
    rig.queue.end(rig.crawl);
    return rig.crawl.unwritten === 0;
  });
  writeFileSync(join(own, 'a-1-2.parquet'), 'not ours');
  const { deleted } = await rig.queue.remove(rig.crawl, true);
  assert.ok(deleted.includes('a-000000001-000000003.parquet'));
  assert.deepEqual(
    parquetFiles(own).map((path) => basename(path)),
    ['a-1-2.parquet'],
  );
  await assert.rejects(kind.prepare('default'), /a-1-2\.parquet is there already/);
});

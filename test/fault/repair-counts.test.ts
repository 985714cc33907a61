/** Repair of a store whose crawls can only be read from the roots before those of other tables. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { current, pageBytes, StoreFile } from '../../master/repair/pages.ts';
import { repair } from '../../master/repair/repair.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import type { Table } from '../../master/store/store.ts';
import { killedCrawl } from '../support/crash-points.ts';
import { ModelSite, runStoredCrawl, wrongWithEnd } from '../support/stored-crawl.ts';

const timeout = 60_000;

/** The roots of all tables: of the last transaction, and of the one before. */
function rootsIn(path: string) {
  const file = new StoreFile(path);
  try {
    const [a, b] = file.metas();
    assert.ok(a !== undefined && b !== undefined);
    const newest = current(a, b);
    const [now, before] = [newest, newest === a ? b : a].map((meta) =>
      file.tables({ meta, used: new Uint8Array(meta.end), onDamage: assert.fail }),
    );
    assert.ok(now !== undefined && before !== undefined);
    return { now, before };
  } finally {
    file.close();
  }
}

function zero(path: string, page: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(pageBytes), 0, pageBytes, page * pageBytes);
  closeSync(file);
}

/** The newest roots lose the crawls, those before another table, which the newest have. Returns
 *  false if they share the crawls, or all others. */
function isHarmed(path: string): boolean {
  const { now, before } = rootsIn(path);
  const names: readonly Table[] = ['results', 'tasks', 'unsorted', 'meta', 'recent', 'sources'];
  const [other] = names.filter((name) => {
    const { root, entries = 0 } = before.get(name) ?? {};
    return entries > 0 && root !== now.get(name)?.root;
  });
  const areShared = now.get('crawls')?.root === before.get('crawls')?.root;
  if (other === undefined || areShared) return false;
  for (const tree of [now.get('crawls'), before.get(other)]) {
    assert.ok(tree?.root !== undefined);
    zero(path, tree.root);
  }
  return true;
}

test('repair: a crawl of the roots before gets the numbers of its lines', {
  timeout,
}, async (t) => {
  for (const part of [0.4, 0.3, 0.5, 0.2, 0.35, 0.45, 0.25, 0.55]) {
    const folder = mkdtempSync(join(tmpdir(), 'orbweaver-counts-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const seed = randomInt(1 << 30);
    const site = new ModelSite(seed, 60, 0);
    await killedCrawl(folder, seed, part);
    const path = storeFile(join(folder, 'data/store'));
    if (!isHarmed(path)) continue;
    const folders = { dataFolder: join(folder, 'data'), outFolder: join(folder, 'out') };
    const said = (await repair(folders)).join('\n');
    assert.equal(checkStore(path), undefined);
    assert.match(said, /^crawl default: its counts are made of its lines$/m);
    assert.doesNotMatch(said, /that waited/);
    await runStoredCrawl({ folder, site });
    assert.deepEqual(await wrongWithEnd(folder, site), [], `seed ${seed}\n${said}`);
    return;
  }
  assert.fail('its last two commits never differed in the crawls and another table');
});

test('repair: a crawl whose record is lost in both sets of roots goes on from the spare one', {
  timeout,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orbweaver-spare-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const seed = randomInt(1 << 30);
  const site = new ModelSite(seed, 60, 0);
  await killedCrawl(folder, seed, 0.5);
  const path = storeFile(join(folder, 'data/store'));
  // It was one page where the last commit was of something else: the whole crawl was lost.
  const { now, before } = rootsIn(path);
  for (const { root } of [now, before].flatMap((tables) => tables.get('crawls') ?? [])) {
    assert.ok(root !== undefined);
    zero(path, root);
  }
  const folders = { dataFolder: join(folder, 'data'), outFolder: join(folder, 'out') };
  const said = (await repair(folders)).join('\n');
  assert.equal(checkStore(path), undefined);
  assert.match(said, /^ {2}crawls +1 +0$/m);
  assert.match(said, /^crawl default: its counts are made of its lines$/m);
  assert.doesNotMatch(said, /that waited/);
  await runStoredCrawl({ folder, site });
  assert.deepEqual(await wrongWithEnd(folder, site), [], `seed ${seed}\n${said}`);
});

/** `compact` on real stores: what it gives back, and a process that is killed in the middle. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { openLmdbStore, storeFile } from '../../master/store/lmdb.ts';
import { type Change, tables } from '../../master/store/store.ts';
import { generateSite } from '../../selftest/site.ts';
import { Cluster, type Program } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertStops, started } from '../support/held.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 120_000;
const everything = { from: Buffer.alloc(1), to: Buffer.alloc(100, 0xff) };

function bytesOf(data: string): number {
  return statSync(storeFile(join(data, 'store'))).blocks * 512;
}

/** Every row of a store, as one text. */
async function contentOf(data: string): Promise<string> {
  const store = await openLmdbStore(join(data, 'store'));
  const rows = tables.flatMap((table) =>
    store.range(table, everything).map(({ key, value }) => {
      return `${table} ${key.toString('hex')} ${value.toString('hex')}`;
    }),
  );
  await store.close();
  return rows.join('\n');
}

/** Rows that go again, so that their pages are free; the first `kept` stay. */
async function bloat(data: string, rows: number, kept = 0): Promise<void> {
  const store = await openLmdbStore(join(data, 'store'));
  const changes = (value: Buffer | undefined) =>
    Array.from({ length: rows }, (_, i): Change => {
      const key = Buffer.alloc(20);
      key.writeUInt32BE(0xfffffff0, 0);
      key.writeUInt32BE(Math.imul(i, 2654435761) >>> 0, 4);
      return { table: 'buried', key, value };
    });
  await store.commit(changes(Buffer.alloc(400, 7)));
  await store.commit(changes(undefined).slice(kept));
  await store.close();
}

function compact(cluster: Cluster): Program {
  return cluster.run(['master.js', 'compact', '--data', cluster.data, '--out', cluster.out]);
}

test('compact: the file shrinks, every row stays, and the crawl goes on', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  await client.close();
  await assertStops(slave, master);
  await bloat(cluster.data, 50_000);
  const [before, content] = [bytesOf(cluster.data), await contentOf(cluster.data)];
  const program = compact(cluster);
  assert.equal((await program.exited).code, 0, program.output);
  assert.match(program.stdout, /^compacted the store: \d+\.\d MB before, \d\.\d MB after\n$/);
  assert.ok(bytesOf(cluster.data) * 5 < before, `${before} to ${bytesOf(cluster.data)}`);
  assert.equal(await contentOf(cluster.data), content);
  assert.deepEqual(readdirSync(join(cluster.data, 'store')).sort(), [
    'store.mdb',
    'store.mdb-lock',
  ]);
  const again = await cluster.master(['--exit-when-done']);
  await assertLeaves(again, cluster.slave());
  assertExact(cluster, site.truth());
});

test('compact: kill -9 at any point leaves the old store or the new one', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(94, 30));
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--exit-when-done', '--max-pages', '10']);
  await assertLeaves(master, cluster.slave());
  await bloat(cluster.data, 60_000, 48_000);
  const content = await contentOf(cluster.data);
  const unfinished = join(cluster.data, 'store/new');
  let cut = 0;
  for (let waitMs = 200; waitMs < 10_000; waitMs = Math.ceil(waitMs * 1.35)) {
    const program = compact(cluster);
    const timer = setTimeout(() => program.signal('SIGKILL'), waitMs);
    const { code } = await program.exited;
    clearTimeout(timer);
    if (existsSync(unfinished)) cut++;
    assert.equal(checkStore(storeFile(join(cluster.data, 'store'))), undefined);
    assert.equal(await contentOf(cluster.data), content);
    if (code === 0) break;
  }
  assert.ok(cut > 0, 'it was killed while it copied');
  mkdirSync(unfinished, { recursive: true });
  writeFileSync(join(unfinished, 'store.mdb'), 'a part');
  const next = await cluster.master([]);
  assert.ok(!existsSync(unfinished), 'a start tidies up');
  await assertStops(next);
});

test('compact: a small store needs little room on a full disk', { timeout }, async (t) => {
  const disk = SmallDisk.mount(t, 16);
  if (disk === undefined) return;
  const cluster = new Cluster(t, disk.path);
  await assertStops(await cluster.master(['http://127.0.0.1:9/', '--disk-reserve', '1']));
  const program = compact(cluster);
  assert.equal((await program.exited).code, 0, program.output);
});

test('compact: --compact does it before a start; a running master is left alone', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  await assertStops(await cluster.master(['http://127.0.0.1:9/']));
  await bloat(cluster.data, 20_000);
  const before = bytesOf(cluster.data);
  const master = await cluster.master(['--compact', '--json-logs']);
  await master.said(/compacted the store: /);
  assert.ok(bytesOf(cluster.data) * 5 < before);
  const program = compact(cluster);
  assert.equal((await program.exited).code, 2);
  assert.match(program.output, /is in use by the master with process id/);
  assert.equal((await cluster.status()).waiting, 1);
  await assertStops(master);
  const nowhere = cluster.run(['master.js', 'compact', '--data', join(cluster.folder, 'none')]);
  assert.equal((await nowhere.exited).code, 2);
  assert.match(nowhere.output, /there is no store in/);
  assert.ok(!existsSync(join(cluster.folder, 'none')), 'nothing is made');
  // A first start has nothing to compact.
  const fresh = new Cluster(t);
  await assertStops(await fresh.master(['--compact']));
});

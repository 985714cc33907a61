/** `remove` on real processes: what goes, what stays, and a master that is killed in the middle. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { checkStore } from '../../master/repair/check.ts';
import { Salvage } from '../../master/repair/salvage.ts';
import { storeFile } from '../../master/store/lmdb.ts';
import { decodeCrawl } from '../../master/store/records.ts';
import { crawlTables } from '../../master/store/store.ts';
import { generateSite } from '../../selftest/site.ts';
import type { MasterClient } from '../../shared/client.ts';
import { limits } from '../../shared/protocol.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertStops, fileIn, keptOf, started, statusOf } from '../support/held.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';

const timeout = 240_000;

/** Rows of each crawl in the store of a stopped master. */
function rowsByCrawl(data: string): Record<number, number> {
  const path = storeFile(join(data, 'store'));
  assert.equal(checkStore(path), undefined);
  const salvage = new Salvage(path);
  const rows: Record<number, number> = {};
  const count = (key: Buffer) => {
    const crawl = key.readUInt32BE(0);
    rows[crawl] = (rows[crawl] ?? 0) + 1;
  };
  for (const table of [...crawlTables, 'crawls'] as const) salvage.table(table, count);
  salvage.close();
  return rows;
}

/** Names in the store of a stopped master, with what is recorded of their removal. */
function removals(data: string): [string, string | undefined][] {
  const salvage = new Salvage(storeFile(join(data, 'store')));
  const found: [string, string | undefined][] = [];
  salvage.table('crawls', (_key, value) => {
    const { name, removal } = decodeCrawl(Buffer.from(value));
    found.push([name, removal]);
  });
  salvage.close();
  return found;
}

async function addMany(client: MasterClient, crawl: string, count: number): Promise<void> {
  for (let first = 0; first < count; first += limits.seedsMax) {
    const seeds = Array.from({ length: Math.min(limits.seedsMax, count - first) }, (_, i) => {
      return `http://127.0.0.1:9/${first + i}`;
    });
    await client.request('crawl.add', { crawl, seeds, priority: 0 });
  }
}

/** Resolves when no removed crawl has rows any more. */
async function erased(client: MasterClient): Promise<void> {
  while ((await client.request('crawl.list', {})).removing !== undefined) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a running crawl is removed with its files, and crawled again under its name', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  const folder = join(cluster.out, 'default');
  writeFileSync(join(folder, 'notes.txt'), 'mine');
  const said = await cluster.ask('remove', 'default', '--files');
  assert.equal(
    said,
    'crawl default is removed, and its name is free\n' +
      'deleted pages.jsonl, img_src.txt, skipped.jsonl\n',
  );
  assert.deepEqual(readdirSync(folder), ['notes.txt']);
  await assert.rejects(cluster.ask('remove', 'default'), /exit code 2: .*no crawl "default"/);
  await client.request('crawl.add', { crawl: 'default', seeds: [site.url], priority: 0 });
  await master.said(/crawl default is done/);
  await erased(client);
  await client.close();
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
  assert.deepEqual(Object.keys(rowsByCrawl(cluster.data)), ['2']);
});

test('without --files the files stay whole, and are in the way of a new crawl', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  await cluster.ask('remove', 'default');
  const lines = cluster.fetched();
  assert.ok(lines.length > 0);
  const add = { crawl: 'default', seeds: [site.url], priority: 0 };
  await assert.rejects(client.request('crawl.add', add), /holds the results of a crawl/);
  renameSync(join(cluster.out, 'default'), join(cluster.out, 'before'));
  await client.request('crawl.add', add);
  await master.said(/crawl default is done/);
  await client.close();
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
});

test('files that are not as the master left them stay', { timeout }, async (t) => {
  const { cluster, master, slave, client } = await started(t);
  await client.request('crawl.pause', { crawl: 'default' });
  let status = await statusOf(client, 'default');
  while (status.leased + status.unwritten > 0) status = await statusOf(client, 'default');
  const folder = join(cluster.out, 'default');
  appendFileSync(fileIn(folder), '{"mine":true}\n');
  renameSync(fileIn(folder, 'img_src.txt'), keptOf(folder, 'img_src.txt'));
  symlinkSync(keptOf(folder, 'img_src.txt'), fileIn(folder, 'img_src.txt'));
  const pages = readFileSync(fileIn(folder));
  const said = await cluster.ask('remove', 'default', '--files');
  assert.match(said, /^deleted skipped\.jsonl$/m);
  assert.match(said, /left them: pages\.jsonl, img_src\.txt$/m);
  assert.deepEqual(readFileSync(fileIn(folder)), pages);
  assert.ok(existsSync(keptOf(folder, 'img_src.txt')));
  await client.close();
  await assertStops(slave, master);
});

test('a paused, a held, a finished and a cancelled crawl can be removed', {
  timeout,
}, async (t) => {
  const site = await siteFor(t, generateSite(93, 20));
  const cluster = new Cluster(t);
  let master = await cluster.master([]);
  const slave = cluster.slave();
  const names = ['held', 'finished', 'cancelled', 'paused'];
  const client = await cluster.connect();
  for (const crawl of names) {
    await client.request('crawl.add', { crawl, seeds: [site.url], priority: 0 });
    if (crawl === 'finished') await master.said(/crawl finished is done/);
    if (crawl === 'cancelled') await client.request('crawl.cancel', { crawl });
    if (crawl === 'paused') await client.request('crawl.pause', { crawl });
  }
  await master.said(/crawl held is done/);
  await client.request('crawl.add', { crawl: 'held', seeds: [`${site.url}?more`], priority: 0 });
  await client.close();
  await assertStops(slave, master);
  // A crawl that is open, whose file is gone at the start.
  const salvaged = removals(cluster.data).map(([name]) => name);
  assert.deepEqual(salvaged.sort(), [...names].sort());
  master = await cluster.master([]);
  for (const crawl of names) {
    const said = await cluster.ask('remove', crawl, '--files');
    assert.match(said, new RegExp(`^crawl ${crawl} is removed`));
  }
  assert.deepEqual(readdirSync(cluster.out), []);
  assert.match(await cluster.ask('status'), /no crawls/);
  await assertStops(master);
});

test('kill -9 while rows are erased: the next start goes on, also from a backup', {
  timeout,
}, async (t) => {
  const cluster = new Cluster(t);
  let master = await cluster.master([]);
  let client = await cluster.connect();
  await addMany(client, 'big', 30_000);
  await addMany(client, 'small', 10);
  const { kept = [] } = await client.request('crawl.remove', { crawl: 'big', files: true });
  assert.deepEqual(kept, []);
  await addMany(client, 'big', 5);
  await client.request('backup', { name: 'half' });
  await client.close();
  await master.kill('SIGKILL');
  const rows = rowsByCrawl(cluster.data);
  assert.ok((rows[1] ?? 0) > 2_000, 'it is in the middle');
  assert.deepEqual(
    removals(cluster.data).filter(([, removal]) => removal !== undefined),
    [['big', 'erasing']],
  );
  for (const data of [cluster.data, join(cluster.data, 'backups/half/data')]) {
    if (data !== cluster.data) {
      mkdirSync(join(cluster.folder, 'was'));
      renameSync(join(cluster.data, 'backups/half/data/store'), join(cluster.folder, 'was/store'));
      renameSync(join(cluster.data, 'store'), join(cluster.folder, 'was/old'));
      renameSync(join(cluster.folder, 'was/store'), join(cluster.data, 'store'));
    }
    master = await cluster.master([]);
    client = await cluster.connect();
    await erased(client);
    assert.equal((await statusOf(client, 'big')).waiting, 5);
    assert.equal((await statusOf(client, 'small')).waiting, 10);
    await client.close();
    await assertStops(master);
    assert.deepEqual(Object.keys(rowsByCrawl(cluster.data)), ['2', '3']);
  }
});

test('a master that leaves when all is done leaves when its last crawl is removed', {
  timeout,
}, async (t: TestContext) => {
  const cluster = new Cluster(t);
  const master = await cluster.master(['http://127.0.0.1:9/', '--exit-when-done']);
  await cluster.ask('remove', 'default', '--files');
  await assertLeaves(master);
  assert.deepEqual(rowsByCrawl(cluster.data), {});
});

/** `rotate` on real processes: nothing is lost or written twice, whatever happens meanwhile. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { openLmdbStore } from '../../master/store/lmdb.ts';
import { partsOf, rotatingCrawls, rotatingKey } from '../../master/store/parts.ts';
import { generateSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertStops, fileIn, pace, started, statusOf, written } from '../support/held.ts';
import { wrongWithLedgers } from '../support/ledger.ts';
import { siteFor } from '../support/parts.ts';
import { SmallDisk } from '../support/small-disk.ts';

const timeout = 240_000;
const names = ['pages.jsonl', 'img_src.txt', 'skipped.jsonl'] as const;
const date = '20261122T215501Z';
const datedOf = (name: string, at = date) => name.replace('.', `-${at}.`);

/** The parts of a file, oldest first. */
function partsIn(folder: string, name: string): string[] {
  const [stem = '', end = ''] = name.split('.');
  const pattern = new RegExp(`^${stem}-\\d{8}T\\d{6}Z\\.${end}$`);
  return readdirSync(folder)
    .filter((one) => pattern.test(one))
    .sort();
}

/** Puts the parts in front of what was written since, as `cat` would. */
function gather(folder: string): void {
  for (const name of names) {
    const parts = [...partsIn(folder, name), name].map((one) => join(folder, one));
    const whole = Buffer.concat(parts.map((path) => readFileSync(path)));
    for (const path of parts) rmSync(path);
    writeFileSync(join(folder, name), whole);
  }
}

function isWritable(folder: string): boolean {
  const probe = join(folder, 'probe');
  try {
    writeFileSync(probe, '');
    rmSync(probe);
    return true;
  } catch {
    return false;
  }
}

/** A finished crawl, and its master, which goes on. */
async function finished(t: TestContext) {
  const site = await siteFor(t, generateSite(92, 40));
  const cluster = new Cluster(t);
  const master = await cluster.master([site.url, '--per-host', '8', '--slaves', '1']);
  await master.said(/crawl default is done/);
  return { site, cluster, master, folder: join(cluster.out, 'default') };
}

/** The files of a master that is killed when the intent was on the disk. */
async function intend(cluster: Cluster, at: string): Promise<void> {
  const store = await openLmdbStore(join(cluster.data, 'store'));
  await store.commit([{ table: 'meta', key: rotatingKey(1, 'files'), value: Buffer.from(at) }]);
  await store.close();
}

async function recorded(cluster: Cluster) {
  const store = await openLmdbStore(join(cluster.data, 'store'));
  const found = { parts: partsOf(store, 1, 'files'), rotating: rotatingCrawls(store).size };
  await store.close();
  return found;
}

test('rotate: a running crawl is rotated again and again, and its files are exact', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, undefined, ['--per-host', '1']);
  const folder = join(cluster.out, 'default');
  const closed: string[] = [];
  while ((await statusOf(client, 'default')).state === 'running') {
    // Several at once: what the first closes, the others do not.
    const replies = await Promise.all(
      [1, 2, 3].map(() => client.request('crawl.rotate', { crawl: 'default' })),
    );
    for (const { files } of replies) {
      for (const { file, as, bytes, lines } of files) {
        const text = readFileSync(join(folder, as), 'utf8');
        assert.deepEqual([text.length, text.split('\n').length - 1], [bytes, lines]);
        if (file === 'pages.jsonl') closed.push(as);
      }
    }
  }
  assert.ok(closed.length > 3, `${closed.length} rotations`);
  assert.deepEqual(closed, [...closed].sort());
  assert.deepEqual(partsIn(folder, 'pages.jsonl'), closed);
  assert.doesNotMatch(master.output, /held/);
  await client.close();
  await assertStops(slave, master);
  gather(folder);
  assertExact(cluster, site.truth());
});

test('rotate: kill -9 at any time, and the next start ends what was begun', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, undefined, ['--per-host', '8']);
  const { address } = cluster;
  const folder = join(cluster.out, 'default');
  await client.close();
  let running = master;
  // It must not be over before the last kill.
  site.delayMs = 2 * pace.slow;
  for (let i = 0; i < 4; i++) {
    const asker = await cluster.connect();
    const asked = asker.request('crawl.rotate', { crawl: 'default' });
    // At another moment each time: between the request and a little after the reply.
    for (let turns = 0; turns < i * 3; turns++) {
      await setImmediate();
    }
    if (i % 3 === 2) await asked;
    asked.catch(() => {});
    await running.kill('SIGKILL');
    running = await cluster.master(['--per-host', '8'], { listen: address });
  }
  site.delayMs = pace.fast;
  await running.said(/crawl default is done/);
  await assertStops(slave, running);
  assert.equal((await recorded(cluster)).rotating, 0);
  gather(folder);
  assertExact(cluster, site.truth());
});

for (const moved of [0, 2]) {
  test(`rotate: kill -9 when ${moved} files have their new names, of a crawl that is over`, {
    timeout,
  }, async (t) => {
    const { site, cluster, master, folder } = await finished(t);
    await master.kill('SIGKILL');
    const filled = names.filter((name) => statSync(join(folder, name)).size > 0);
    await intend(cluster, date);
    for (const name of filled.slice(0, moved)) {
      renameSync(join(folder, name), join(folder, datedOf(name)));
    }
    assert.deepEqual(await wrongWithLedgers(cluster.folder), []);
    await assertStops(await cluster.master([]));
    const { parts, rotating } = await recorded(cluster);
    assert.deepEqual([parts.map((part) => part.date), rotating], [[date], 0]);
    for (const name of filled) {
      assert.ok(statSync(join(folder, datedOf(name))).size > 0, name);
      assert.equal(statSync(join(folder, name)).size, 0, name);
    }
    gather(folder);
    assertExact(cluster, site.truth());
  });
}

test('rotate: what was closed may be moved, packed or removed', { timeout }, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  const folder = join(cluster.out, 'default');
  const { files } = await client.request('crawl.rotate', { crawl: 'default' });
  const kept = files.map(({ as }) => [as, readFileSync(join(folder, as))] as const);
  for (const [as, content] of kept) {
    rmSync(join(folder, as));
    writeFileSync(join(folder, `${as}.gz`), gzipSync(content));
  }
  await client.close();
  await master.kill('SIGKILL');
  const next = await cluster.master([], { listen: cluster.address });
  await next.said(/crawl default is done/);
  assert.doesNotMatch(next.output, /held/);
  await assertStops(slave, next);
  for (const [as, content] of kept) {
    rmSync(join(folder, `${as}.gz`));
    writeFileSync(join(folder, as), content);
  }
  gather(folder);
  assertExact(cluster, site.truth());
});

test('rotate: a crawl that is over, with backup, failed, recrawl, rename and remove', {
  timeout,
}, async (t) => {
  const { site, cluster, master, folder } = await finished(t);
  const said = await cluster.ask('rotate', 'default');
  assert.match(
    said,
    /^pages\.jsonl is now pages-\d{8}T\d{6}Z\.jsonl \(\d+ lines, [\d,]+ bytes\)$/m,
  );
  assert.equal(
    await cluster.ask('rotate', 'default'),
    'nothing to rotate: the result files of crawl default are empty\n',
  );
  const [part = ''] = partsIn(folder, 'pages.jsonl');
  assert.equal(readFileSync(fileIn(folder), 'utf8'), '');
  const failed = await cluster.ask('failed', 'default', '--json');
  assert.equal((JSON.parse(failed) as unknown[]).length, site.truth().broken.length);
  await cluster.ask('backup', 'one');
  const copied = join(cluster.data, 'backups/one/out/default');
  assert.deepEqual(readFileSync(join(copied, part)), readFileSync(join(folder, part)));
  await cluster.ask('rename', 'default', 'monday');
  const renamed = join(cluster.out, 'monday');
  // Where the command runs, by the folder of the crawl.
  mkdirSync(join(cluster.folder, 'crawl-data'));
  renameSync(renamed, join(cluster.folder, 'crawl-data/monday'));
  const again = await cluster.ask('recrawl', 'monday', '--as', 'tuesday');
  assert.match(again, new RegExp(`^crawl tuesday started: ${site.truth().pages.length}|started`));
  renameSync(join(cluster.folder, 'crawl-data/monday'), renamed);
  await master.said(/crawl tuesday is done/);
  // One that was changed is somebody else's.
  const [image = ''] = partsIn(renamed, 'img_src.txt');
  appendFileSync(join(renamed, image), 'mine\n');
  const { deleted, kept } = JSON.parse(
    await cluster.ask('remove', 'monday', '--files', '--json'),
  ) as { deleted: string[]; kept: string[] };
  assert.ok(deleted.includes(part) && deleted.includes('pages.jsonl'), deleted.join());
  assert.deepEqual(kept, [image]);
  assert.deepEqual(readdirSync(renamed), [image]);
  // A new crawl of the name would go on with it.
  await assert.rejects(
    cluster.ask('add', '--crawl', 'monday', site.url),
    /img_src-.*holds the results of a crawl that this data folder does not know/,
  );
  await assertStops(master);
  // From the backup.
  const data = join(cluster.data, 'backups/one/data');
  const out = join(cluster.data, 'backups/one/out');
  const key = join(cluster.data, 'authkey');
  const restored = cluster.run([
    ...['master.js', '--data', data, '--out', out, '--authkey-file', key],
    ...['--listen', '127.0.0.1:0'],
  ]);
  await restored.said(/listens on/);
  await assertStops(restored);
  gather(copied);
  mkdirSync(folder);
  for (const name of names) renameSync(join(copied, name), join(folder, name));
  assertExact(cluster, site.truth());
});

test('rotate: files that logrotate has renamed are closed, and the crawl goes on', {
  timeout,
}, async (t) => {
  const slow = ['--per-host', '1'];
  const { site, cluster, master, slave, client } = await started(t, undefined, slow);
  const folder = join(cluster.out, 'default');
  // At once, and when the crawl is held already.
  for (const [end, isHeld] of [
    ['1', false],
    ['20261122', true],
  ] as const) {
    await written(cluster, 'default');
    for (const name of names) {
      if (!existsSync(join(folder, name)) || statSync(join(folder, name)).size === 0) continue;
      renameSync(join(folder, name), join(folder, `${name}.${end}`));
      if (end !== '1') writeFileSync(join(folder, name), '');
    }
    if (isHeld) await master.said(/crawl default is held/);
    const { files } = await client.request('crawl.rotate', { crawl: 'default' });
    assert.ok(files.some(({ as }) => as === `pages.jsonl.${end}`));
    assert.notEqual((await statusOf(client, 'default')).state, 'held');
  }
  await master.said(/crawl default is done/);
  await client.close();
  await assertStops(slave, master);
  for (const name of names) {
    const ends = ['.1', '.20261122', ''].map((end) => join(folder, `${name}${end}`));
    const there = ends.filter((path) => existsSync(path));
    writeFileSync(join(folder, name), Buffer.concat(there.map((path) => readFileSync(path))));
  }
  assertExact(cluster, site.truth());
});

test('rotate: refused where lines would be lost, and for crawls that are not there', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, undefined, ['--per-host', '1']);
  const crawl = 'default';
  const rotate = () => client.request('crawl.rotate', { crawl });
  await client.request('crawl.pause', { crawl });
  assert.ok((await rotate()).files.length > 0);
  // Until what was leased is written.
  while ((await rotate()).files.length > 0);
  assert.equal((await statusOf(client, crawl)).state, 'paused');
  await client.request('crawl.resume', { crawl });
  await written(cluster, crawl);
  const path = fileIn(join(cluster.out, crawl));
  const elsewhere = join(cluster.folder, 'elsewhere.jsonl');
  renameSync(path, elsewhere);
  const refused = /"default" was not rotated: .*pages\.jsonl is gone, .* put the file back/;
  await assert.rejects(rotate(), refused);
  assert.equal((await statusOf(client, crawl)).state, 'held');
  await assert.rejects(cluster.ask('rotate', crawl), refused);
  renameSync(elsewhere, path);
  await rotate();
  assert.equal((await statusOf(client, crawl)).state, 'running');
  await assert.rejects(cluster.ask('rotate', 'other'), /no crawl "other"/);
  await assert.rejects(cluster.ask('rotate', '../x'), /letters, digits/);
  await master.said(/crawl default is done/);
  await client.close();
  await assertStops(slave, master);
  gather(join(cluster.out, crawl));
  assertExact(cluster, site.truth());
});

test('rotate: a crawl that is removed meanwhile leaves no file', { timeout }, async (t) => {
  const { cluster, master, slave, client } = await started(t);
  const asked = [1, 2, 3].map(() => client.request('crawl.rotate', { crawl: 'default' }));
  const removed = client.request('crawl.remove', { crawl: 'default', files: true });
  await Promise.allSettled(asked);
  const { kept } = await removed;
  assert.deepEqual(kept, []);
  assert.deepEqual(readdirSync(cluster.out), []);
  await client.close();
  await assertStops(slave);
  await assertStops(master);
});

test('rotate: results that cannot be written, and a full disk, are refused in a line', {
  timeout,
}, async (t) => {
  const disk = SmallDisk.mount(t, 64);
  if (disk === undefined) return;
  const site = await siteFor(t, generateSite(93, 30));
  const cluster = new Cluster(t);
  symlinkSync(disk.path, cluster.out);
  const flags = ['--per-host', '8', '--slaves', '1', '--disk-reserve', '16'];
  const master = await cluster.master([site.url, ...flags]);
  await master.said(/crawl default is done/);
  const folder = join(cluster.out, 'default');
  const before = readdirSync(folder);
  // The files of a crawl that is over are closed soon.
  while (isWritable(disk.path)) {
    disk.remount('ro');
    await setImmediate();
  }
  await assert.rejects(
    cluster.ask('rotate', 'default'),
    /exit code 2: master: the crawl "default" was not rotated: cannot .*EROFS.*\n$/,
  );
  disk.remount('rw');
  disk.fill();
  await master.said(/the disk is full/);
  await assert.rejects(cluster.ask('rotate', 'default'), /the disk is full: free space/);
  assert.deepEqual(readdirSync(folder), before);
  disk.free();
  await master.said(/room on the disk again/);
  assert.match(await cluster.ask('rotate', 'default'), /^pages\.jsonl is now /);
  await assertStops(master);
  gather(folder);
  assertExact(cluster, site.truth());
});

/** The files of an archive: on a full disk, taken away, backed up, renamed, removed. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { flatSite, type TestSite } from '../../selftest/site.ts';
import { Cluster } from '../support/cluster.ts';
import { assertExact } from '../support/exact.ts';
import { assertLeaves, siteFor } from '../support/parts.ts';
import { SmallDisk } from '../support/small-disk.ts';
import { answersOf, checkIndexes, readArchive } from '../support/warc.ts';

const timeout = 90_000;
const archived = ['--archive', 'warc', '--per-host', '12'];

/** Without redirects, so that each page is asked for once. */
async function siteOf(t: TestContext, count = 200): Promise<TestSite> {
  return await siteFor(t, flatSite(count), { delayMs: 40 });
}

/** Every page of a crawl is there once, and nothing is wrong with the files. */
function assertArchive(cluster: Cluster, crawl = 'default'): void {
  const folder = join(cluster.out, crawl, 'archive');
  const records = readArchive(folder);
  checkIndexes(folder, records);
  const answers = answersOf(records);
  const pages = cluster.pages(crawl);
  assert.ok(pages.length > 50);
  for (const url of pages) assert.equal(answers.get(url), 1, url);
}

describe('archive: files', { concurrency: 1 }, () => {
  test('archive: a full disk costs time and nothing else', { timeout }, async (t) => {
    const disk = SmallDisk.mount(t, 96);
    if (disk === undefined) return;
    const site = await siteOf(t);
    const cluster = new Cluster(t, disk.path);
    const flags = [...archived, '--exit-when-done', '--disk-reserve', '24'];
    const master = await cluster.master([site.url, ...flags]);
    const slaves = [cluster.slave(), cluster.slave()];
    await site.requested(60);
    disk.fill();
    await master.said(/the disk is full/);
    disk.free();
    await master.said(/room on the disk again/);
    await assertLeaves(master, ...slaves);
    assertExact(cluster, site.truth());
    assertArchive(cluster);
  });

  test('archive: a file that is taken away is not written to any more', { timeout }, async (t) => {
    const site = await siteOf(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, ...archived, '--exit-when-done']);
    const slave = cluster.slave();
    await site.requested(60);
    const folder = join(cluster.out, 'default/archive');
    const taken = join(cluster.folder, '000001.warc.gz');
    renameSync(join(folder, '000001.warc.gz'), taken);
    await master.said(/its archive file 000001.warc.gz is gone.* goes on in 000002.warc.gz/);
    await assertLeaves(master, slave);
    assertExact(cluster, site.truth());
    renameSync(taken, join(folder, '000001.warc.gz'));
    const answers = answersOf(readArchive(folder));
    for (const url of cluster.pages()) assert.equal(answers.get(url), 1, url);
  });

  test('archive: an index that is deleted is made again, and the operator is told', {
    timeout,
  }, async (t) => {
    const site = await siteOf(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, ...archived, '--exit-when-done']);
    const slave = cluster.slave();
    await site.requested(60);
    rmSync(join(cluster.out, 'default/archive/000001.cdxj'));
    await master.said(/its archive index 000001.cdxj was gone.* has been made again/);
    await assertLeaves(master, slave);
    assertExact(cluster, site.truth());
    assertArchive(cluster);
  });

  test('archive: an index that cannot be written ends nothing, and is made when it can be', {
    timeout,
  }, async (t) => {
    const site = await siteOf(t, 400);
    const cluster = new Cluster(t);
    const args = [site.url, ...archived];
    const master = await cluster.master(args);
    const slave = cluster.slave();
    await site.requested(60);
    const index = join(cluster.out, 'default/archive/000001.cdxj');
    rmSync(index);
    mkdirSync(join(index, 'in-the-way'), { recursive: true });
    await master.said(/its archive index 000001.cdxj cannot be written: .*directory/);
    for (const program of [slave, master]) await program.kill();
    const again = await cluster.master(args);
    await again.said(/its archive index 000001.cdxj cannot be written: .*directory/);
    const other = cluster.slave();
    await again.said(/crawl default is done/);
    for (const program of [other, again]) await program.kill();
    rmdirSync(join(index, 'in-the-way'));
    rmdirSync(index);
    const last = await cluster.master([]);
    await last.kill('SIGTERM');
    assertExact(cluster, site.truth());
    assertArchive(cluster);
  });

  test('archive: a backup has it, up to what is on record', { timeout }, async (t) => {
    const site = await siteOf(t, 800);
    const cluster = new Cluster(t);
    const args = [site.url, ...archived];
    const master = await cluster.master(args);
    const slave = cluster.slave();
    await site.requested(80);
    await cluster.ask('backup', 'half');
    for (const program of [slave, master]) await program.kill();
    const second = new Cluster(t);
    const from = join(cluster.data, 'backups/half');
    cpSync(join(from, 'data'), second.data, { recursive: true });
    cpSync(join(from, 'out'), second.out, { recursive: true });
    const again = await second.master([...args, '--exit-when-done']);
    await assertLeaves(again, second.slave());
    assertExact(second, site.truth());
    assertArchive(second);
  });

  test('archive: rename takes it along, remove deletes it', { timeout }, async (t) => {
    const site = await siteOf(t);
    const cluster = new Cluster(t);
    const master = await cluster.master([site.url, ...archived]);
    cluster.slave();
    await site.requested(60);
    await cluster.ask('rename', 'default', 'kept');
    await master.said(/crawl kept is done/);
    assert.match(await cluster.ask('status', '--all'), /kept: archive: \d+\.\d MB in 1 file/);
    assertArchive(cluster, 'kept');
    assert.match(await cluster.ask('remove', 'kept', '--files'), /000001\.warc\.gz/);
    assert.ok(!existsSync(join(cluster.out, 'kept')));
  });
});

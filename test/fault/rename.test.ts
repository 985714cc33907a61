/** `rename` on real processes: a crawl that goes on, names that are taken, and kill -9. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { assertExact } from '../support/exact.ts';
import { assertStops, fileIn, keptOf, started } from '../support/held.ts';
import { assertLeaves } from '../support/parts.ts';
import { intendRename } from '../support/stored-crawl.ts';

const timeout = 240_000;

test('a running crawl is renamed again and again, and its files are exact', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t, undefined, [
    ...['--per-host', '1'],
  ]);
  let name = 'default';
  for (const to of ['a', 'b', 'c', 'default', 'monday']) {
    await client.request('crawl.rename', { crawl: name, to });
    assert.deepEqual(readdirSync(cluster.out), [to]);
    name = to;
  }
  await client.request('crawl.add', { crawl: 'default', seeds: [], priority: 0 });
  await assert.rejects(cluster.ask('rename', 'monday', 'default'), /there is a crawl "default"/);
  mkdirSync(join(cluster.out, 'mine'));
  await assert.rejects(cluster.ask('rename', 'monday', 'mine'), /there are results of the name/);
  await assert.rejects(cluster.ask('rename', 'monday', '../x'), /letters, digits/);
  await master.said(/crawl monday is done/);
  await client.close();
  await assertStops(slave, master);
  renameSync(join(cluster.out, 'default'), join(cluster.out, 'empty'));
  renameSync(join(cluster.out, 'monday'), join(cluster.out, 'default'));
  assertExact(cluster, site.truth());
});

test('a held crawl is renamed and stays held until its file is back', { timeout }, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  const folder = join(cluster.out, 'default');
  renameSync(fileIn(folder), keptOf(folder));
  await master.said(/crawl default is held/);
  assert.equal(await cluster.ask('rename', 'default', 'monday'), 'crawl default is now monday\n');
  await assert.rejects(cluster.ask('resume', 'monday'), /monday\/pages\.jsonl is gone/);
  renameSync(keptOf(folder), fileIn(join(cluster.out, 'monday')));
  await cluster.ask('resume', 'monday');
  await cluster.ask('rename', 'monday', 'default');
  await master.said(/crawl default is done/);
  await client.close();
  await assertStops(slave, master);
  assertExact(cluster, site.truth());
});

test('kill -9 between folder and store: both have one name after the next start', {
  timeout,
}, async (t) => {
  const { site, cluster, master, slave, client } = await started(t);
  await client.close();
  await master.kill('SIGKILL');
  await slave.kill('SIGKILL');
  const [was, now] = [join(cluster.out, 'default'), join(cluster.out, 'monday')];
  // The folder has not moved yet.
  await intendRename(cluster, 'monday');
  await assertStops(await cluster.master([]));
  assert.deepEqual([existsSync(was), existsSync(now)], [false, true]);
  // It has moved, and the store does not know.
  await intendRename(cluster, 'default');
  renameSync(now, was);
  const next = await cluster.master([]);
  assert.equal((await cluster.status('default')).state, 'running');
  await assertStops(next);
  // Somebody has made a folder of that name in between.
  await intendRename(cluster, 'monday');
  mkdirSync(now);
  writeFileSync(join(now, 'notes.txt'), 'mine');
  const last = await cluster.master(['--exit-when-done']);
  assert.equal((await cluster.status('default')).state, 'running');
  await assertLeaves(last, cluster.slave());
  assert.deepEqual(readdirSync(now), ['notes.txt']);
  assertExact(cluster, site.truth());
});

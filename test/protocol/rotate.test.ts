/** Result files that are closed under a dated name: [C-80]..[C-82]. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Cluster } from '../support/cluster.ts';
import type { RawPeer } from '../support/raw-peer.ts';
import { nextTask, report } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

type Closed = { file: string; as: string; bytes: number; lines?: number };

test('[C-80] what was written gets a dated name, and new files begin', async (t) => {
  const parts = await written(t);
  if (parts === undefined) return;
  const { slave, target, crawl, folder } = parts;
  const path = join(folder, 'pages.jsonl');
  const was = readFileSync(path, 'utf8');
  const [first, ...others] = await rotate(slave, crawl);
  assert.ok(first);
  const { file, as, bytes, lines } = first;
  assert.deepEqual([file, bytes, lines, others], ['pages.jsonl', was.length, 1, []]);
  assert.match(as, /^pages-\d{8}T\d{6}Z\.jsonl$/);
  assert.equal(readFileSync(join(folder, as), 'utf8'), was);
  assert.equal(readFileSync(path, 'utf8'), '');
  assert.deepEqual(await rotate(slave, crawl), [], 'nothing was written since');
  // It is on the disk, and the crawl goes on.
  await target.restart('SIGKILL');
  const peer = await target.join('slave');
  await peer.must('task.credit', { count: 1 });
  await report(peer, await nextTask(peer));
  await settled(peer, crawl);
  const [second] = await rotate(peer, crawl);
  assert.ok(second && second.as > as, 'later than the first');
  assert.equal(readFileSync(join(folder, second.as), 'utf8').split('\n').length, 2);
  await peer.close();
});

test('[C-81] a file that is not there is refused, but not one that was renamed', async (t) => {
  const parts = await written(t);
  if (parts === undefined) return;
  const { slave, crawl, folder } = parts;
  const path = join(folder, 'pages.jsonl');
  const away = join(folder, 'elsewhere');
  renameSync(path, away);
  const refusal = await slave.request('crawl.rotate', { crawl });
  assert.equal(refusal['error'], 'E_BAD_REQUEST');
  assert.match(String(refusal['message']), /not rotated: .*pages\.jsonl is gone/);
  assert.equal((await statusOf(slave, crawl))['state'], 'held');
  assert.ok(!existsSync(path));
  renameSync(away, `${path}.1`);
  assert.deepEqual(
    (await rotate(slave, crawl)).map(({ as }) => as),
    ['pages.jsonl.1'],
  );
  assert.equal((await statusOf(slave, crawl))['state'], 'running');
  assert.equal(readFileSync(path, 'utf8'), '');
  await slave.must('crawl.cancel', { crawl });
  assert.deepEqual(await rotate(slave, crawl), []);
  await slave.must('crawl.remove', { crawl });
  assert.equal((await slave.request('crawl.rotate', { crawl }))['error'], 'E_NO_CRAWL');
  await slave.close();
});

test('[C-82] a closed file may be deleted', async (t) => {
  const parts = await written(t);
  if (parts === undefined) return;
  const { slave, target, crawl, folder } = parts;
  for (const { as } of await rotate(slave, crawl)) rmSync(join(folder, as));
  await target.restart('SIGKILL');
  const peer = await target.join('slave');
  assert.equal((await statusOf(peer, crawl))['state'], 'running');
  await peer.must('task.credit', { count: 1 });
  await report(peer, await nextTask(peer));
  await settled(peer, crawl);
  assert.equal(readFileSync(join(folder, 'pages.jsonl'), 'utf8').split('\n').length, 2);
  await peer.close();
});

/** A crawl of three pages of which one is written. */
async function written(t: TestContext) {
  const target = await Target.own(t);
  const slave = await target?.slave(t, 1);
  if (target === undefined || slave === undefined) return undefined;
  const crawl = await target.crawl(slave, [target.seed(), target.seed(), target.seed()]);
  await report(slave, await nextTask(slave));
  await settled(slave, crawl);
  const folder = join((target.cluster as Cluster).out, crawl);
  return { target, slave, crawl, folder };
}

async function settled(peer: RawPeer, crawl: string): Promise<void> {
  while ((await statusOf(peer, crawl))['unwritten'] !== 0) await peer.sync();
}

async function rotate(peer: RawPeer, crawl: string): Promise<Closed[]> {
  const { files } = await peer.must('crawl.rotate', { crawl });
  return files as Closed[];
}

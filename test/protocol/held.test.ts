/** A crawl whose files are not what the master left: [C-30], [C-31]. */
import assert from 'node:assert/strict';
import { existsSync, linkSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Cluster } from '../support/cluster.ts';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import { nextTask, nothingPushed, report } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

test('[C-30] a crawl whose file is gone is held, alone, until it is back', async (t) => {
  const parts = await held(t);
  if (parts === undefined) return;
  const { slave, target, crawl, path, kept } = parts;
  const { unwritten, held: why } = await statusOf(slave, crawl);
  assert.equal(unwritten, 1, 'what came in was acknowledged, and is kept');
  assert.match(String(why), /pages\.jsonl is gone/);
  await nothingPushed(slave);
  assert.equal((await slave.must('crawl.pause', { crawl }))['state'], 'held');
  const refusal = await slave.request('crawl.resume', { crawl });
  assert.equal(refusal['error'], 'E_BAD_REQUEST');
  assert.match(String(refusal['message']), /stays held: .*pages\.jsonl is gone/);
  assert.ok(!existsSync(path));
  // Others go on.
  const other = await target.crawl(slave, [target.seed()]);
  await report(slave, await nextTask(slave));
  await finished(slave, other);
  // A start looks again.
  await target.restart('SIGKILL');
  const peer = await target.join('slave');
  assert.equal((await statusOf(peer, crawl))['state'], 'held');
  renameSync(kept, path);
  const resumed = await peer.must('crawl.resume', { crawl });
  assert.equal(resumed['state'], 'running');
  assert.equal(resumed['begun'], undefined);
  assert.equal(linesOf(path), 2);
  await peer.must('task.credit', { count: 1 });
  await report(peer, await nextTask(peer));
  await finished(peer, crawl);
  assert.equal(linesOf(path), 3);
  await peer.close();
});

test('[C-30] a held crawl can be cancelled', async (t) => {
  const parts = await held(t);
  if (parts === undefined) return;
  const { slave, crawl, path } = parts;
  await slave.must('crawl.cancel', { crawl });
  const { state, unwritten, held: why } = await statusOf(slave, crawl);
  assert.deepEqual([state, unwritten, why], ['cancelled', 0, undefined]);
  assert.ok(!existsSync(path));
  await slave.close();
});

test('[C-31] with newFiles it goes on with what was kept', async (t) => {
  const parts = await held(t);
  if (parts === undefined) return;
  const { slave, crawl, path, kept } = parts;
  const { begun, state } = await slave.must('crawl.resume', { crawl, newFiles: true });
  assert.equal(state, 'running');
  const bytes = readFileSync(kept).length;
  assert.deepEqual(begun, [{ file: 'pages.jsonl', bytes, lines: 1 }]);
  assert.equal(linesOf(path), 1);
  // It is held no more: nothing is begun again.
  const again = await slave.must('crawl.resume', { crawl, newFiles: true });
  assert.deepEqual([again['state'], again['begun']], ['running', undefined]);
  await report(slave, await nextTask(slave));
  await finished(slave, crawl);
  assert.equal(linesOf(path), 2);
  const refusal = await slave.request('crawl.resume', { crawl, newFiles: 'yes' });
  assert.equal(refusal['error'], 'E_BAD_REQUEST');
  await slave.close();
});

/** A crawl of three pages: one is written, one came when its file was gone, one waits. */
async function held(t: TestContext) {
  const target = await Target.own(t);
  if (target === undefined) return undefined;
  const slave = await target.slave(t, 1);
  assert.ok(slave);
  const crawl = await target.crawl(slave, [target.seed(), target.seed(), target.seed()]);
  const path = join((target.cluster as Cluster).out, crawl, 'pages.jsonl');
  const kept = `${path}.kept`;
  await report(slave, await nextTask(slave));
  while ((await statusOf(slave, crawl))['unwritten'] !== 0) await slave.sync();
  const task = await nextTask(slave);
  linkSync(path, kept);
  rmSync(path);
  // Leased pages may come in.
  await slave.must('task.credit', { count: 0 });
  assert.equal((await report(slave, task))['state'], 'done');
  let status: Message = {};
  while (status['state'] !== 'held') status = await statusOf(slave, crawl);
  await slave.must('task.credit', { count: 1 });
  return { target, slave, crawl, path, kept };
}

async function finished(peer: RawPeer, crawl: string): Promise<void> {
  while ((await statusOf(peer, crawl))['state'] !== 'finished') await peer.sync();
}

function linesOf(path: string): number {
  return readFileSync(path, 'utf8').split('\n').length - 1;
}

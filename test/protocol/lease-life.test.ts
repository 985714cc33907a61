/** How long a lease lasts however often it is extended. Source: PROTOCOL.md [T-4] [T-50] [Y-8]. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PythonPeer } from '../support/python-peer.ts';
import type { RawPeer } from '../support/raw-peer.ts';
import { nextTask, pushed, report, type Task } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const more = ['--lease-margin', '1'];
const quick = { fetch: { timeoutMs: 200 } };

/** Extends all that it is given, until it is disposed of. */
function hoarding(peer: RawPeer, leases: readonly number[]): Disposable {
  const timer = setInterval(() => peer.send({ verb: 'task.extend', leases: [...leases] }), 100);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

test('[T-50] a lease that is extended for ever ends after two fetches and the margin', async (t) => {
  const target = await Target.own(t, {}, more);
  const slave = await target?.slave(t, 1);
  if (target === undefined || slave === undefined) return;
  await target.crawl(slave, [target.seed()], { ...quick, ignoreRobots: true });
  const task = await nextTask(slave);
  const began = performance.now();
  using _ = hoarding(slave, [task.lease]);
  assert.deepEqual((await slave.push('task.cancel'))['leases'], [task.lease]);
  const tookMs = performance.now() - began;
  assert.ok(tookMs > 1_300 && tookMs < 4_000, `${tookMs} ms`);
  await slave.close();
});

test('[T-50] the wait for a redirect is no part of it', async (t) => {
  const target = await Target.own(t, {}, more);
  const slave = await target?.slave(t, 1);
  if (target === undefined || slave === undefined) return;
  const seed = target.seed();
  await target.crawl(slave, [seed], { ...quick, delayMs: 3_000 });
  const task = await nextTask(slave);
  using _ = hoarding(slave, [task.lease]);
  await slave.must('task.started', { lease: task.lease });
  const hop = await slave.must('task.hop', { lease: task.lease, url: `${seed}next` });
  assert.equal(hop['state'], 'go');
  assert.equal((await report(slave, task))['state'], 'done');
  const isCancel = ({ verb }: { verb?: unknown }) => verb === 'task.cancel';
  assert.equal(slave.unread.find(isCancel), undefined);
  await slave.close();
});

test('[T-50] a robots.txt has the margin alone', async (t) => {
  const target = await Target.own(t, {}, more);
  const slave = await target?.slave(t, 1);
  if (target === undefined || slave === undefined) return;
  const fetch = { timeoutMs: 600_000 };
  await target.crawl(slave, [target.seed()], { fetch, ignoreRobots: false });
  const task = await nextTask(slave);
  assert.ok(task.url.endsWith('/robots.txt'));
  using _ = hoarding(slave, [task.lease]);
  assert.deepEqual((await slave.push('task.cancel'))['leases'], [task.lease]);
  await slave.close();
});

test('[T-50] a slave that hoards and extends does not keep a crawl from its end', async (t) => {
  const target = await Target.own(t, {}, more);
  const good = await target?.slave(t);
  if (target === undefined || good === undefined) return;
  const hoarder = await target.join('slave', 'conformance-hoarder');
  await hoarder.must('task.credit', { count: 13, slots: 13 });
  const seed = target.seed();
  const urls = Array.from({ length: 60 }, (_, i) => `${seed}${i}`);
  const crawl = await target.crawl(good, [seed], quick);
  const first = await nextTask(hoarder);
  await report(hoarder, first, { links: urls });
  const held: number[] = [];
  using _ = hoarding(hoarder, held);
  // Twice as many as a new host gets at once; the rest is for others.
  held.push(...(await pushed(hoarder)).map(({ lease }) => lease));
  await good.must('task.credit', { count: 4, slots: 4 });
  let done = 0;
  while (done < urls.length) {
    for (const task of await pushed(good)) {
      await report(good, task);
      done++;
    }
  }
  // Its last line has to be written.
  while ((await statusOf(good, crawl))['state'] !== 'finished') await good.sync();
  await hoarder.close();
  await good.close();
});

test('[T-4] after two leases that ran out a slave gets one at a time, until it reports', async (t) => {
  const target = await Target.own(t, {}, more);
  const slave = await target?.slave(t);
  if (target === undefined || slave === undefined) return;
  const seed = target.seed();
  const urls = Array.from({ length: 30 }, (_, i) => `${seed}${i}`);
  await slave.must('task.credit', { count: 6, slots: 6 });
  await target.crawl(slave, [seed], quick);
  await report(slave, await nextTask(slave), { links: urls });
  const held = await pushed(slave);
  assert.ok(held.length > 1);
  for (let i = 0; i < held.length; ) {
    i += ((await slave.push('task.cancel'))['leases'] as number[]).length;
  }
  await slave.sync();
  const alone: Task = await nextTask(slave);
  for (let i = 0; i < 3; i++) await slave.sync();
  assert.equal(slave.unread.filter(({ verb }) => verb === 'task.push').length, 0);
  await report(slave, alone);
  const tasks: Task[] = [];
  while (tasks.length < 2) tasks.push(...(await pushed(slave)));
  await slave.close();
});

test('[Y-8] a Python program has its page until it is silent for long, and no longer', async (t) => {
  // Its own limit counts, not those of slaves.
  const flags = ['--lease', '0.3', '--lease-margin', '0.3', '--python-lease', '6'];
  const target = await Target.own(t, {}, flags);
  if (target === undefined) return;
  const [silent, asking, heir] = await Promise.all([1, 2, 3].map(() => PythonPeer.attach(target)));
  assert.ok(silent && asking && heir);
  t.after(() => {
    for (const peer of [silent, asking, heir]) peer.kill();
  });
  await PythonPeer.create(target, 'task_queue');
  const operator = await target.join();
  t.after(() => operator.abort());
  await target.crawl(operator, [target.seed(), target.seed()], { fetch: { timeoutMs: 1 } });
  const began = performance.now();
  const gone = await silent.call('task_queue', 'get');
  const kept = await asking.call('task_queue', 'get');
  // It is heard of all the time.
  const timer = setInterval(() => void asking.call('task_queue', 'qsize').catch(() => {}), 1_000);
  t.after(() => clearInterval(timer));
  assert.equal(await heir.call('task_queue', 'get', true, 40), gone);
  assert.ok(performance.now() - began > 5_900);
  assert.notEqual(kept, gone);
});

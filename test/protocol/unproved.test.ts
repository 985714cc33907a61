/** Hosts that have not proved that they answer. Source: PROTOCOL.md [T-51]..[T-53]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { Cluster } from '../support/cluster.ts';
import type { RawPeer } from '../support/raw-peer.ts';
import { pushed, release, report, type Task, timeout } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';
import { loopbackAddress, silentPort } from '../support/unanswering.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Pushed = Task & { readonly trial?: 'first' | 'again' };

/** Everything that is pushed by now. */
async function allPushed(peer: RawPeer): Promise<Pushed[]> {
  for (let i = 0; i < 4; i++) await peer.sync();
  const tasks: Pushed[] = [];
  while (peer.unread.some(({ verb }) => verb === 'task.push')) {
    tasks.push(...((await pushed(peer)) as Pushed[]));
  }
  return tasks;
}

const seeds = (count: number) => Array.from({ length: count }, () => target.seed());

test('[T-51] tasks of hosts that never answered go to the places beside the slots', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await slave.must('task.credit', { count: 20, slots: 5, trials: 10 });
  await target.crawl(slave, seeds(10));
  const trials = await allPushed(slave);
  assert.equal(trials.length, 10);
  assert.ok(trials.every(({ trial }) => trial === 'first'));
  const [first] = trials;
  assert.ok(first);
  // It answers: its links are given for the slots.
  const links = Array.from({ length: 9 }, (_, i) => `${first.url}${i}`);
  await report(slave, first, { links });
  const plain = await allPushed(slave);
  assert.equal(plain.length, 2, 'a host that nobody knows opens slowly [T-24]');
  assert.ok(plain.every(({ url, trial }) => url.startsWith(first.url) && !trial));
  // It dies: what is left of it goes beside the slots, too.
  for (const task of plain) await release(slave, task, timeout);
  const late = await allPushed(slave);
  assert.ok(late.length > 0);
  assert.ok(late.every(({ url, trial }) => url.startsWith(first.url) && trial === 'again'));
  await slave.close();
});

test('[T-51] half of these places are kept from hosts that failed', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await slave.must('task.credit', { count: 16, slots: 4, trials: 8 });
  await target.crawl(slave, seeds(8));
  const tasks = await allPushed(slave);
  assert.equal(tasks.length, 8);
  for (const task of tasks) await release(slave, task, timeout);
  const again: Pushed[] = [];
  while (again.length < 4) again.push(...((await pushed(slave)) as Pushed[]));
  // The back-off of all is over when that of a fifth could be.
  await slave.must('crawl.list');
  await target.crawl(slave, seeds(8));
  const fresh = (await allPushed(slave)).filter(({ attempt }) => attempt === 1);
  assert.equal(fresh.length, 4);
  await slave.close();
});

test('[T-51] through proxies a slave has no more of them than slots', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  await slave.must('task.credit', { count: 16, slots: 3, trials: 10 });
  await target.crawl(slave, seeds(12), { fetch: { proxies: ['http://proxy.invalid:1'] } });
  assert.equal((await allPushed(slave)).length, 3);
  await slave.close();
});

test('[T-52] a slave without such places has a quarter of its slots for them', async (t) => {
  const slave = await target.slave(t);
  if (slave === undefined) return;
  // Slots of a slave that is about to be gone count, too.
  for (let slaves = 2; slaves > 1; ) {
    const sessions = (await slave.must('crawl.list'))['sessions'] as { role: string }[];
    slaves = sessions.filter(({ role }) => role === 'slave').length;
  }
  await target.crawl(slave, seeds(20));
  for (const [slots, expected] of [
    [1, 1],
    [8, 2],
    [17, 4],
  ] as const) {
    await slave.must('task.credit', { count: slots * 2, slots });
    const tasks = await allPushed(slave);
    assert.ok(tasks.every(({ trial }) => trial === undefined));
    assert.equal(tasks.length, expected);
    await slave.must('task.credit', { count: 0 });
    for (const task of tasks) await release(slave, task);
  }
  await slave.close();
});

test('[T-53] a host that accepts and is silent is given up after connectTimeoutMs', async (t) => {
  const silent = await silentPort();
  t.after(() => silent.close());
  const cluster = new Cluster(t);
  const url = `http://${loopbackAddress(9, 0)}:${silent.port}/`;
  const flags = ['--connect-timeout', '300', '--attempts', '1', '--exit-when-done'];
  const master = await cluster.master([url, ...flags]);
  const began = performance.now();
  cluster.slave();
  assert.equal((await master.exited).code, 4);
  const tookMs = performance.now() - began;
  assert.ok(tookMs < 20_000, `${tookMs} ms`);
  const [line] = cluster.fetched();
  assert.equal(line?.error?.kind, 'timeout');
});

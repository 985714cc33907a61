/** Hops of redirects, and how much a new host gets at once. Source: PROTOCOL.md [T-22]..[T-24]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import type { Message, RawPeer } from '../support/raw-peer.ts';
import {
  nextTask,
  nothingPushed,
  page,
  pushed,
  release,
  report,
  type Task,
} from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const paths = (seed: string, count: number) =>
  Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);

/** The reply to a hop; undefined as long as it waits. */
function hop(slave: RawPeer, { lease }: Task, url: string) {
  const answer: { is?: Message } = {};
  const asked = slave.request('task.hop', { lease, url }).then((reply) => {
    answer.is = reply;
    return reply;
  });
  return { answer, asked };
}

test('[T-22] a hop goes on at once without a delay, and else when it is its turn', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const free = target.seed();
  await target.crawl(slave, [free]);
  const quick = await hop(slave, await nextTask(slave), `${free}next`).asked;
  assert.deepEqual([quick['state'], quick['timed']], ['go', undefined]);
  const seed = target.seed();
  await target.crawl(slave, paths(seed, 2), { delayMs: 400, perHost: 10 });
  const task = await nextTask(slave);
  const begun = performance.now();
  await slave.must('task.started', { lease: task.lease });
  const { asked } = hop(slave, task, `${seed}next`);
  const reply = await asked;
  const tookMs = performance.now() - begun;
  assert.deepEqual([reply['state'], reply['timed']], ['go', true]);
  assert.ok(tookMs > 390 && tookMs < 3_000, `${tookMs} ms`);
  await nothingPushed(slave);
  await slave.must('task.started', { lease: task.lease });
  await nextTask(slave);
  await slave.close();
});

test('[T-22] the URL of the task itself is asked for once more when it is its turn', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()], { delayMs: 400 });
  const task = await nextTask(slave);
  const begun = performance.now();
  await slave.must('task.started', { lease: task.lease });
  const reply = await hop(slave, task, task.url).asked;
  assert.deepEqual([reply['state'], reply['timed']], ['go', true]);
  assert.ok(performance.now() - begun > 390);
  await slave.close();
});

test('[T-23] a hop is refused with its reason', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  await target.crawl(slave, [seed], { ignoreRobots: false, exclude: ['/out'] });
  const robots = await nextTask(slave);
  const body = Buffer.from('User-agent: *\nDisallow: /private');
  const file = { task: robots.task, lease: robots.lease, status: 200, body };
  await slave.must('task.robots', file);
  const task = await nextTask(slave);
  const stateOf = async (url: string) => {
    const { state, error } = await hop(slave, task, url).asked;
    return state ?? error;
  };
  assert.equal(await stateOf(`${seed}private/1`), 'robots');
  assert.equal(await stateOf(`${seed}out`), 'scope');
  assert.equal(await stateOf(target.seed()), 'E_BAD_REQUEST');
  assert.equal(await stateOf(`${seed}#fragment`), 'E_BAD_REQUEST');
  assert.equal(await stateOf(`${seed}open`), 'go');
  const links = [`${seed}private/1`];
  const redirectedTo = `${seed}private/1`;
  await report(slave, task, { links, result: { ...page(seed), status: 302, redirectedTo } });
  assert.equal(await stateOf(`${seed}open`), 'lost');
  await slave.close();
});

test('[T-23] a hop that waits is answered when its lease ends or its crawl pauses', async (t) => {
  const slave = await target.slave(t, 4);
  if (slave === undefined) return;
  const long = { delayMs: 5_000 };
  for (const [verb, state] of [
    ['crawl.pause', 'later'],
    ['crawl.cancel', 'lost'],
  ] as const) {
    const seed = target.seed();
    const crawl = await target.crawl(slave, [seed], long);
    const task = await nextTask(slave);
    const { answer, asked } = hop(slave, task, `${seed}next`);
    const again = await slave.request('task.hop', { lease: task.lease, url: `${seed}2` });
    assert.equal(again['error'], 'E_BAD_REQUEST');
    assert.equal(answer.is, undefined);
    await slave.must(verb, { crawl });
    assert.equal((await asked)['state'], state, verb);
  }
  await slave.close();
});

test('[T-24] a host that has not answered gets two tasks, then more and more', async (t) => {
  const slave = await target.slave(t, 20);
  if (slave === undefined) return;
  await target.crawl(slave, paths(target.seed(), 20));
  const held = await pushed(slave);
  assert.equal(held.length, 2);
  for (let answered = 0; answered < 4; answered++) {
    await report(slave, held.shift() as Task);
    held.push(...(await pushed(slave)));
  }
  await nothingPushed(slave);
  assert.equal(held.length, 3);
  const busy = { kind: 'status', message: '429 Too Many Requests' };
  await release(slave, held[0] as Task, busy, { retryAfterMs: 60_000 });
  await report(slave, held[1] as Task);
  await nothingPushed(slave);
  await slave.close();
});

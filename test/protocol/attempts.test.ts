/** The last attempt of a task, failures that no attempt mends, and what counts as none. Source:
 *  PROTOCOL.md [T-6] [T-60] [T-61]. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { nextTask, page, pushed, release, report, timeout } from '../support/raw-slave.ts';
import { statusOf, Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

const protocol = { kind: 'protocol', message: 'malformed answer' };

test('[T-60] the last attempt is marked, and its part of a page counts as a page', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()], { attemptsMax: 2 });
  const first = await nextTask(slave);
  assert.deepEqual([first.attempt, Reflect.get(first, 'last')], [1, undefined]);
  await release(slave, first, timeout);
  const second = await nextTask(slave);
  assert.deepEqual([second.attempt, Reflect.get(second, 'last')], [2, true]);
  const result = { ...page(second.url), incomplete: true };
  assert.equal((await report(slave, second, { result }))['state'], 'done');
  const { pages, failed } = await statusOf(slave, crawl);
  assert.deepEqual([pages, failed], [1, 0]);
  await slave.close();
});

test('[T-60] where one attempt is all there is, it is the last; so it is of a robots.txt', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  await target.crawl(slave, [target.seed()], { attemptsMax: 1, ignoreRobots: false });
  const [robots] = await pushed(slave);
  assert.equal(Reflect.get(robots ?? {}, 'kind'), 'robots');
  assert.equal(Reflect.get(robots ?? {}, 'last'), true);
  await slave.close();
});

test('[T-61] what is final is buried at once, a failure without it is not', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()]);
  await release(slave, await nextTask(slave), protocol, { final: false });
  const again = await nextTask(slave);
  assert.equal(again.attempt, 2);
  await release(slave, again, protocol, { final: true });
  const { buried, waiting, errors } = await statusOf(slave, crawl);
  assert.deepEqual([buried, waiting, errors], [1, 0, { protocol: 1 }]);
  const wrong = await slave.request('task.release', { ...again, final: 1 });
  assert.equal(wrong['error'], 'E_BAD_REQUEST');
  await slave.close();
});

test('[T-61] a final failure of a robots.txt gives the host up', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const crawl = await target.crawl(slave, [target.seed()], { ignoreRobots: false });
  const robots = await nextTask(slave);
  assert.equal((await release(slave, robots, protocol, { final: true }))['state'], 'done');
  for (;;) {
    const { buried, waiting } = await statusOf(slave, crawl);
    if (buried === 1 && waiting === 0) break;
    await slave.sync();
  }
  await slave.close();
});

test('[T-6] without an error retryAfterMs is a wait that counts nothing, and no turn of the host', async (t) => {
  const slave = await target.slave(t, 1);
  if (slave === undefined) return;
  const seed = target.seed();
  await target.crawl(slave, [seed, `${seed}b`], { delayMs: 60_000, perHost: 10 });
  const first = await nextTask(slave);
  await release(slave, first, undefined, { retryAfterMs: 60_000 });
  const second = await nextTask(slave);
  assert.notEqual(second.url, first.url);
  const begun = performance.now();
  await release(slave, second, undefined, { retryAfterMs: 1_400 });
  const again = await nextTask(slave);
  assert.deepEqual([again.url, again.attempt], [second.url, 1]);
  assert.ok(performance.now() - begun > 1_390);
  await slave.close();
});

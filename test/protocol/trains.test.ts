/** Several pages of a host with a delay at once. Source: PROTOCOL.md [T-146] to [T-149]. */
import assert from 'node:assert/strict';
import { after, afterEach, type TestContext, test } from 'node:test';
import type { RawPeer } from '../support/raw-peer.ts';
import { nothingPushed, pushed, release, report, type Task } from '../support/raw-slave.ts';
import { Target } from '../support/target.ts';

const target = await Target.open();
after(() => target.close());
afterEach(() => target.clear());

type Coupled = Task & {
  readonly train?: { readonly first: number; readonly gapMs: number; readonly atOnce: number };
};

/** A slave that takes trains, with the first one of a crawl; its host has answered before. */
async function firstTrain(t: TestContext, count: number) {
  const slave = await target.slave(t);
  if (slave === undefined) return undefined;
  await slave.must('slave.can', { what: ['rules', 'trains'] });
  const seed = target.seed();
  const urls = Array.from({ length: count }, (_, i) => new URL(`/${i}`, seed).href);
  const crawl = await target.crawl(slave, urls, { delayMs: 100, perHost: 10 });
  await slave.must('task.credit', { count: 32, slots: 16 });
  await report(slave, (await pushed(slave))[0] as Task);
  return { slave, crawl, train: (await pushed(slave)) as Coupled[] };
}

/** The next train, when this one went well. */
async function next(slave: RawPeer, train: readonly Coupled[]): Promise<Coupled[]> {
  await slave.must('task.started', { lease: train.at(-1)?.lease });
  await Promise.all(train.map((task) => report(slave, task)));
  return (await pushed(slave)) as Coupled[];
}

test('[T-146] pages of a host with a delay come as a train, to slaves that take it', async (t) => {
  const begun = await firstTrain(t, 12);
  if (begun === undefined) return;
  const { slave, train } = begun;
  const longer = await next(slave, train);
  assert.ok(longer.length > train.length && train.length > 1);
  const [first] = longer;
  for (const task of longer) {
    assert.equal(task.train?.first, first?.lease);
    assert.ok((task.train?.gapMs ?? 0) >= 100);
    assert.ok((longer.length - 1) * (task.train?.gapMs ?? 0) <= 3_000);
    assert.ok((task.train?.atOnce ?? 0) >= 1);
  }
  await slave.close();
});

test('[T-147] what is said of the last page of a train is said of those before it', async (t) => {
  const begun = await firstTrain(t, 12);
  if (begun === undefined) return;
  const { slave } = begun;
  const train = await next(slave, begun.train);
  const [first, ...rest] = train;
  const last = rest.pop();
  assert.ok(first && rest.length > 0);
  await Promise.all(rest.map((task) => report(slave, task)));
  await new Promise((resolve) => setTimeout(resolve, 300));
  await nothingPushed(slave);
  const saidAt = performance.now();
  await slave.must('task.started', { lease: last?.lease });
  await pushed(slave);
  assert.ok(performance.now() - saidAt > 95);
  await slave.close();
});

test('[T-148] what is given back of a train waits again, and comes alone', async (t) => {
  const begun = await firstTrain(t, 12);
  if (begun === undefined) return;
  const { slave, train } = begun;
  const [first, second] = train as [Coupled, Coupled];
  await slave.must('task.started', { lease: first.lease });
  await release(slave, second);
  const again = (await pushed(slave)) as Coupled[];
  assert.deepEqual(
    again.map(({ url, attempt, train: coupled }) => [url, attempt, coupled]),
    [[second.url, 1, undefined]],
  );
  await slave.close();
});

test('[T-149] a pause calls back what has not begun of a train', async (t) => {
  const begun = await firstTrain(t, 12);
  if (begun === undefined) return;
  const { slave, crawl, train } = begun;
  await slave.must('task.started', { lease: train[0]?.lease });
  await slave.must('crawl.pause', { crawl });
  const { leases } = await slave.push('task.recall');
  assert.deepEqual(leases, [train[1]?.lease]);
  await slave.close();
});

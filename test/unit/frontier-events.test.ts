/** The stream of events, as a dashboard would hear it. */
import assert from 'node:assert/strict';
import type { FrontierEvents } from '../../master/frontier/frontier-events.ts';
import { leaseOf, type World, worldTest } from '../support/world.ts';

const a = 'http://a.example';

/** Writes down what is told, with the crawl's state at that time. */
function record(world: World): string[] {
  const told: string[] = [];
  const listener: Omit<FrontierEvents, 'counted' | 'robotsWanted' | 'seedFaulted'> = {
    crawlMade: ({ name }, seeds) => told.push(`made ${name} of ${seeds.length}`),
    seedsFound: ({ name }, { unresolved }) => told.push(`found ${name} ${unresolved.length}`),
    seedFollowed: ({ name }, { to }) => told.push(`followed ${name} ${to}`),
    crawlPaused: ({ state }) => told.push(`paused: ${state}`),
    crawlContinued: ({ state }) => told.push(`continued: ${state}`),
    crawlHeld: ({ held }, reason) => told.push(`held: ${held === reason}`),
    crawlReleased: ({ held }, how) => told.push(`released: ${held} ${how?.begun.length}`),
    crawlEnded: ({ state }) => told.push(`ended: ${state}`),
    crawlChanged: (_, { changed }) => told.push(`changed ${changed.length}`),
    crawlRenamed: ({ name }, from) => told.push(`renamed ${from} ${name}`),
    crawlRotated: ({ name }, closed) => told.push(`rotated ${name} ${closed.length}`),
    crawlRemoved: ({ name }) => told.push(`removed ${name}`),
    taskBuried: (_, { url, error }) => told.push(`buried ${url} ${error.kind}`),
    hostSlept: (hostKey, forMs) => told.push(`${hostKey} slept ${forMs}`),
    hostWoke: (hostKey) => told.push(`${hostKey} woke`),
  };
  world.events.subscribe(listener);
  return told;
}

worldTest('events tell the life of a crawl, each once and in order', async (world) => {
  const told = record(world);
  await world.seed([`${a}/`], {}, 'one');
  const slave = world.slave();
  await world.settle();
  await world.done(world.frontier.pause('one'));
  await world.done(world.frontier.pause('one'));
  await world.done(world.frontier.resume('one'));
  world.rooms.lifeCycle.held(world.crawl('one'), 'the disk is gone');
  world.rooms.lifeCycle.held(world.crawl('one'), 'the disk is gone');
  await world.done(world.frontier.resume('one'));
  await world.page(slave, `${a}/`);
  const life = ['made one of 1', 'found one 0', 'paused: paused', 'continued: running'];
  const end = ['held: true', 'released: undefined 0', 'ended: finished'];
  assert.deepEqual(told, [...life, ...end]);
});

worldTest('events tell once that a crawl was cancelled, however often it is', async (world) => {
  const told = record(world);
  await world.seed([`${a}/`], {}, 'one');
  await world.settle();
  await Promise.all([1, 2].map(() => world.done(world.frontier.cancel('one'))));
  await world.done(world.frontier.cancel('one'));
  assert.deepEqual(told, ['made one of 1', 'found one 0', 'ended: cancelled']);
});

worldTest('events tell of hosts that sleep and wake, and of what is buried', async (world) => {
  await world.seed([1, 2, 3, 4, 5, 6].map((page) => `${a}/${page}`));
  const told = record(world);
  const slave = world.slave('slave', 1);
  const error = { kind: 'connect', message: 'refused' } as const;
  for (let page = 1; page <= 5; page++) {
    await world.settle();
    const lease = leaseOf(slave, `${a}/${page}`);
    assert.ok(lease);
    await world.done(world.frontier.release(lease, { error, isFinal: true }));
  }
  const slept = `${a} slept 1000`;
  assert.deepEqual(told.toSorted(), [
    ...[1, 2, 3, 4, 5].map((page) => `buried ${a}/${page} connect`),
    slept,
  ]);
  assert.equal(told.indexOf(slept), 4, 'the host sleeps at once, the page is buried on the disk');
  await world.advance(2_000);
  await world.page(slave, `${a}/6`);
  assert.deepEqual(told.slice(6), [`${a} woke`, 'ended: finished']);
});

worldTest('events count the crawls about once a second', async (world) => {
  await world.seed(`${a}/`);
  const slave = world.slave();
  await world.settle();
  const pages: number[] = [];
  world.events.subscribe({
    counted: (crawls) => {
      for (const { counters } of crawls) pages.push(counters.pages);
    },
  });
  await world.advance(1_000);
  await world.page(slave, `${a}/`);
  await world.advance(1_000);
  assert.deepEqual([...new Set(pages)], [0, 1]);
});

import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { type Host, type Manners, Politeness } from '../../master/frontier/politeness.ts';
import { TaskQueue } from '../../master/frontier/tasks.ts';
import { MemoryStore } from '../../master/store/memory.ts';

const hashOf = (key: string) => Buffer.from(key.padEnd(8).slice(0, 8));
const store = new MemoryStore();
let lastSeq = 0;

function makePoliteness(): Politeness {
  const nothing = () => undefined;
  return new Politeness({
    hashOf,
    robotsOf: nothing,
    onMade: nothing,
    onMet: nothing,
    onRefused: nothing,
  });
}

function makeQueue(crawl: number, key: string, tasks: number): TaskQueue {
  const queue = new TaskQueue({ crawl, host: hashOf(key), store, empty: true });
  for (let i = 0; i < tasks; i++) addTask(queue, key);
  return queue;
}

function addTask(queue: TaskQueue, key: string, notBefore = 0): void {
  const seq = ++lastSeq;
  const url = `http://${key}/${seq}`;
  queue.add(
    { kind: 'page', level: 0, url, depth: 0, priority: 0, attempts: 0, notBefore },
    { rank: 0, seq },
  );
}

/** A host with one crawl's tasks, ready to be taken. */
function addHost(politeness: Politeness, key: string, manners: Manners, tasks = 10, crawl = 1) {
  const host = politeness.host(key);
  const queue = makeQueue(crawl, key, tasks);
  const client = { queue, manners, isActive: true, active: () => client.isActive };
  politeness.join(host, crawl, client);
  politeness.wake(host, 0);
  return { host, queue, client };
}

function takeAll(politeness: Politeness, now: number, prefetch = false): string[] {
  const keys: string[] = [];
  for (let taken = politeness.take(now, prefetch); taken; taken = politeness.take(now, prefetch)) {
    keys.push(taken.host.key);
  }
  return keys;
}

test('politeness: a host gets no more fetches at once than it may have', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 3 });
  assert.equal(takeAll(politeness, 0).length, 3);
  assert.equal(politeness.nextDueAt(), undefined, 'only an end helps');
  politeness.ended(host, 5);
  assert.equal(takeAll(politeness, 5).length, 1);
});

test('politeness: two starts are never nearer than the delay', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  assert.equal(takeAll(politeness, 0).length, 1);
  assert.equal(politeness.nextDueAt(), 100);
  assert.equal(takeAll(politeness, 99).length, 0);
  assert.equal(takeAll(politeness, 100).length, 1);
});

test('politeness: a host that runs empty and comes back is still held to its delay', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 }, 1);
  assert.equal(takeAll(politeness, 0).length, 1);
  politeness.ended(host, 10);
  politeness.leave(host, 1, 10);
  politeness.sweep(50);
  assert.equal(politeness.hostCount, 1, 'remembered while the delay lasts');
  addHost(politeness, 'a', { delayMs: 100, perHost: 9 }, 1);
  assert.equal(takeAll(politeness, 60).length, 0);
  assert.equal(takeAll(politeness, 100).length, 1);
});

test('politeness: hosts without tasks are forgotten when their delay is over', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 }, 1);
  takeAll(politeness, 0);
  politeness.leave(host, 1, 200);
  politeness.sweep(200);
  assert.equal(politeness.hostCount, 1, 'a fetch is under way');
  politeness.ended(host, 300);
  politeness.sweep(300);
  assert.equal(politeness.hostCount, 0);
});

test('politeness: prefetch takes of hosts without a delay alone', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'timed', { delayMs: 1, perHost: 9 });
  assert.deepEqual(takeAll(politeness, 1000, true), []);
  addHost(politeness, 'free', { delayMs: 0, perHost: 2 });
  assert.deepEqual(takeAll(politeness, 1000, true), ['free', 'free']);
  assert.deepEqual(takeAll(politeness, 1000), ['timed']);
});

test('politeness: crawls of a host take turns, under the manners of the more careful one', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'a', { delayMs: 10, perHost: 5 }, 10, 1);
  const { host } = addHost(politeness, 'a', { delayMs: 30, perHost: 2 }, 10, 2);
  const crawls: (number | undefined)[] = [];
  for (let now = 0; now < 240; now += 10) {
    const taken = politeness.take(now, false);
    if (taken === undefined) continue;
    assert.equal(now % 30, 0);
    crawls.push(taken.task.queue.crawl);
    politeness.ended(host, now);
  }
  assert.deepEqual(crawls, [1, 2, 1, 2, 1, 2, 1, 2]);
  politeness.leave(host, 2, 300);
  assert.deepEqual([host.delayMs, host.perHost], [10, 5]);
});

test('politeness: a crawl that may not go on gives its turn away', () => {
  const politeness = makePoliteness();
  const { client, host } = addHost(politeness, 'a', { delayMs: 0, perHost: 99 }, 3, 1);
  addHost(politeness, 'a', { delayMs: 0, perHost: 99 }, 3, 2);
  client.isActive = false;
  const crawls: number[] = [];
  for (let taken = politeness.take(0, false); taken; taken = politeness.take(0, false)) {
    crawls.push(taken.task.queue.crawl);
  }
  assert.deepEqual(crawls, [2, 2, 2]);
  assert.equal(politeness.nextDueAt(), undefined);
  client.isActive = true;
  politeness.wake(host, 0);
  assert.equal(takeAll(politeness, 0).length, 3);
});

test('politeness: a host whose tasks wait is due when the first of them is', () => {
  const politeness = makePoliteness();
  const { host, queue } = addHost(politeness, 'a', { delayMs: 0, perHost: 9 }, 0);
  addTask(queue, 'a', 700);
  addTask(queue, 'a', 500);
  politeness.wake(host, 0);
  assert.equal(politeness.nextDueAt(), 500);
  assert.equal(takeAll(politeness, 499).length, 0);
  assert.equal(takeAll(politeness, 500).length, 1);
  assert.equal(politeness.nextDueAt(), 700);
});

const hostSpec = fc.record({
  delayMs: fc.constantFrom(0, 0, 7, 50),
  perHost: fc.integer({ min: 1, max: 4 }),
  tasks: fc.integer({ min: 1, max: 12 }),
  crawls: fc.integer({ min: 1, max: 3 }),
});

test('politeness: in any run no host is asked too soon or too often, and none starves', () => {
  const property = fc.property(
    fc.array(hostSpec, { minLength: 1, maxLength: 6 }),
    fc.infiniteStream(fc.nat(100)),
    (specs, random) => {
      const politeness = makePoliteness();
      const hosts = new Map<Host, (typeof specs)[number]>();
      for (const [i, spec] of specs.entries()) {
        for (let crawl = 1; crawl <= spec.crawls; crawl++) {
          const { host } = addHost(politeness, `host${i}`, spec, spec.tasks, crawl);
          hosts.set(host, spec);
        }
      }
      const draw = () => random.next().value ?? 0;
      const started = new Map<Host, number[]>();
      let fetches: { host: Host; endsAt: number }[] = [];
      const total = specs.reduce((sum, { tasks, crawls }) => sum + tasks * crawls, 0);
      let count = 0;
      let now = 0;
      for (; count < total; now++) {
        assert.ok(now < 12 * 3 * 60 * 6, 'a host starves');
        for (const { host } of fetches.filter(({ endsAt }) => endsAt <= now)) {
          politeness.ended(host, now);
        }
        fetches = fetches.filter(({ endsAt }) => endsAt > now);
        const prefetch = draw() < 20;
        for (let t = politeness.take(now, prefetch); t; t = politeness.take(now, prefetch)) {
          const { host, task } = t;
          const spec = hosts.get(host);
          assert.ok(spec);
          assert.equal(task.state, 'leased');
          if (prefetch) assert.equal(spec.delayMs, 0);
          const starts = started.get(host) ?? [];
          const last = starts.at(-1);
          if (last !== undefined) assert.ok(now - last >= spec.delayMs, 'too soon');
          started.set(host, [...starts, now]);
          fetches.push({ host, endsAt: now + 1 + (draw() % 30) });
          const inFlight = fetches.filter((fetch) => fetch.host === host).length;
          assert.ok(inFlight <= spec.perHost, 'too many at once');
          assert.equal(host.inFlight, inFlight);
          count++;
        }
        if (!prefetch) assert.ok((politeness.nextDueAt() ?? now + 1) > now, 'something was due');
      }
    },
  );
  fc.assert(property, { numRuns: 60 });
});

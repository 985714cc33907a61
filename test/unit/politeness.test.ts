import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import type { Hop, Host, Line, Manners, Turn } from '../../master/frontier/politeness/host.ts';
import {
  type HostSource,
  Politeness,
  type PolitenessOptions,
} from '../../master/frontier/politeness/politeness.ts';
import { TaskRows } from '../../master/frontier/tasks/task-rows.ts';
import { TaskQueue } from '../../master/frontier/tasks/tasks.ts';
import { MemoryStore } from '../../master/store/memory.ts';
import { pageKind } from '../../master/store/records.ts';

const hashOf = (key: string) => Buffer.from(key.padEnd(8).slice(0, 8));
const rows = new TaskRows(new MemoryStore());
let lastSeq = 0;

const nothing = () => undefined;
/** Hosts without a past, in these groups. */
function sourceOf(groupOf: HostSource['groupOf']): HostSource {
  return { hashOf, groupOf, robotsFile: nothing, met: nothing, metGroup: nothing };
}

const defaults: PolitenessOptions = {
  hosts: sourceOf((key) => key),
  askedUntil: Number.NEGATIVE_INFINITY,
};

function makePoliteness(options: Partial<PolitenessOptions> = {}): Politeness {
  return new Politeness({ ...defaults, ...options });
}

/** A fetch of the host is over. */
function end(politeness: Politeness, host: Host, now: number): void {
  politeness.vacate(host.group, now);
  politeness.ended(host, now);
}

function makeQueue(crawl: number, key: string, tasks: number): TaskQueue {
  const queue = new TaskQueue({ crawl, host: hashOf(key), rows, empty: true });
  for (let i = 0; i < tasks; i++) addTask(queue, key);
  return queue;
}

function addTask(queue: TaskQueue, key: string, notBefore = 0): void {
  const seq = ++lastSeq;
  const url = `http://${key}/${seq}`;
  queue.add(
    { rank: 0, seq },
    { kind: pageKind, level: 0, url, depth: 0, priority: 0, attempts: 0, notBefore },
  );
}

/** A host with one crawl's tasks, ready to be taken. */
function addHost(politeness: Politeness, key: string, manners: Manners, tasks = 10, crawl = 1) {
  const host = politeness.host(key);
  const queue = makeQueue(crawl, key, tasks);
  const client = { queue, manners, isActive: true, active: () => client.isActive };
  politeness.join(host, crawl, client);
  // Its limit is not found out by small steps in every test.
  while (host.group.pace.atOnceMax < manners.perHost) host.group.pace.answered(undefined, 0);
  host.breaker.spoke();
  politeness.wake(host, 0);
  return { host, queue, client };
}

const proved = ['timed', 'free'] as const;

function takeAll(politeness: Politeness, now: number, among: readonly Line[] = proved): string[] {
  const keys: string[] = [];
  for (let taken = politeness.take(now, among); taken; taken = politeness.take(now, among)) {
    keys.push(taken.host.key);
  }
  return keys;
}

test('politeness: a host gets no more fetches at once than it may have', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 3 });
  assert.equal(takeAll(politeness, 0).length, 3);
  assert.equal(politeness.nextDueAt(0), undefined, 'only an end helps');
  end(politeness, host, 5);
  assert.equal(takeAll(politeness, 5).length, 1);
});

test('politeness: two starts are never nearer than the delay', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  assert.equal(takeAll(politeness, 0).length, 1);
  assert.equal(politeness.nextDueAt(0), 100);
  assert.equal(takeAll(politeness, 99).length, 0);
  assert.equal(takeAll(politeness, 100).length, 1);
});

test('politeness: a host that runs empty and comes back is still held to its delay', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 }, 1);
  assert.equal(takeAll(politeness, 0).length, 1);
  end(politeness, host, 10);
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
  end(politeness, host, 300);
  politeness.sweep(300);
  assert.equal(politeness.hostCount, 0);
});

test('politeness: the line of hosts without a delay has no others', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'timed', { delayMs: 1, perHost: 9 });
  assert.deepEqual(takeAll(politeness, 1000, ['free']), []);
  addHost(politeness, 'free', { delayMs: 0, perHost: 2 });
  assert.deepEqual(takeAll(politeness, 1000, ['free']), ['free', 'free']);
  assert.deepEqual(takeAll(politeness, 1000), ['timed']);
});

test('politeness: a host that is visited is asked again when its fetch has ended, not beside it', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 9 });
  addHost(politeness, 'b', { delayMs: 0, perHost: 9 });
  addHost(politeness, 'c', { delayMs: 0, perHost: 9 });
  const take = (now: number) => politeness.take(now, proved)?.host.key;
  const [first, second] = [take(1), take(2)];
  assert.notEqual(first, second, 'the others come first while it is busy');
  assert.equal([first, second, take(3)].sort().join(''), 'abc');
  end(politeness, host, 4);
  assert.equal(take(5), 'a', 'its connection is free');
});

test('politeness: crawls of a host take turns, under the manners of the more careful one', () => {
  const politeness = makePoliteness();
  addHost(politeness, 'a', { delayMs: 10, perHost: 5 }, 10, 1);
  const { host } = addHost(politeness, 'a', { delayMs: 30, perHost: 2 }, 10, 2);
  const crawls: (number | undefined)[] = [];
  for (let now = 0; now < 240; now += 10) {
    const taken = politeness.take(now, proved);
    if (taken === undefined) continue;
    assert.equal(now % 30, 0);
    crawls.push(taken.task.queue.crawl);
    end(politeness, host, now);
  }
  assert.deepEqual(crawls, [1, 2, 1, 2, 1, 2, 1, 2]);
  politeness.leave(host, 2, 300);
  assert.deepEqual([host.group.delayMs, host.group.perHost], [10, 5]);
});

test('politeness: a crawl that may not go on gives its turn away', () => {
  const politeness = makePoliteness();
  const { client, host } = addHost(politeness, 'a', { delayMs: 0, perHost: 99 }, 3, 1);
  addHost(politeness, 'a', { delayMs: 0, perHost: 99 }, 3, 2);
  client.isActive = false;
  const crawls: number[] = [];
  for (let taken = politeness.take(0, proved); taken; taken = politeness.take(0, proved)) {
    crawls.push(taken.task.queue.crawl);
  }
  assert.deepEqual(crawls, [2, 2, 2]);
  assert.equal(politeness.nextDueAt(0), undefined);
  for (const _ of crawls) end(politeness, host, 0);
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
  assert.equal(politeness.nextDueAt(0), 500);
  assert.equal(takeAll(politeness, 499).length, 0);
  assert.equal(takeAll(politeness, 500).length, 1);
  assert.equal(politeness.nextDueAt(500), 700);
});

/** A redirect of a fetch that holds a slot; tells its turns. */
function addHop(politeness: Politeness, host: Host, now: number, more: Partial<Hop> = {}) {
  const turns: Turn[] = [];
  const settle = (turn: Turn) => turns.push(turn);
  const hop: Hop = { group: host.group, hasSlot: true, delayMs: 0, settle, ...more };
  politeness.addHop(hop, now);
  return { hop, turns };
}

test('politeness: a redirect waits for the delay and goes before any new task', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  assert.equal(takeAll(politeness, 0).length, 1);
  const { turns } = addHop(politeness, host, 10);
  politeness.serveHops(99);
  assert.deepEqual([turns, takeAll(politeness, 99)], [[], []]);
  assert.equal(politeness.nextDueAt(99), 100);
  assert.deepEqual(takeAll(politeness, 100), [], 'the redirect is first');
  politeness.serveHops(100);
  assert.deepEqual(turns, ['go']);
  assert.deepEqual(takeAll(politeness, 199), []);
  assert.deepEqual(takeAll(politeness, 200), ['a']);
  assert.equal(host.group.inFlight, 2, 'it kept its slot');
});

test('politeness: a redirect waits until the request before it has left', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  takeAll(politeness, 0);
  politeness.starting(host.group, 0);
  const { turns } = addHop(politeness, host, 10);
  politeness.serveHops(500);
  assert.deepEqual(turns, []);
  politeness.started(host.group, true, 500);
  politeness.serveHops(629);
  assert.deepEqual(turns, []);
  politeness.serveHops(630);
  assert.deepEqual(turns, ['go']);
});

test('politeness: without a delay a redirect goes on at once', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 1 });
  takeAll(politeness, 5);
  const { turns } = addHop(politeness, host, 5);
  politeness.serveHops(5);
  assert.deepEqual(turns, ['go']);
  assert.equal(host.group.inFlight, 1);
});

test('politeness: redirects to a host without tasks keep the delay of their crawl', () => {
  const politeness = makePoliteness();
  const host = politeness.host('a');
  const one = addHop(politeness, host, 0, { hasSlot: false, delayMs: 100 });
  const two = addHop(politeness, host, 0, { hasSlot: false, delayMs: 100 });
  politeness.serveHops(0);
  assert.deepEqual([one.turns, two.turns], [['go'], []]);
  assert.equal(host.group.delayMs, 100, 'so the start of each request is awaited');
  politeness.starting(host.group, 0);
  while (host.group.pace.atOnceMax < 9) host.group.pace.answered(undefined, 0);
  politeness.serveHops(1_000);
  assert.deepEqual(two.turns, []);
  politeness.started(host.group, true, 1_000);
  politeness.serveHops(1_129);
  assert.deepEqual(two.turns, []);
  politeness.serveHops(1_130);
  assert.deepEqual(two.turns, ['go']);
});

test('politeness: a Crawl-delay counts from when the robots.txt is known', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 9, robots: 'orb' });
  host.robots.learn({ access: 'none', askAt: 1e9, failures: 0, failingSince: 0 });
  assert.equal(takeAll(politeness, 0).length, 9);
  host.robots.crawlDelayMs = () => 500;
  politeness.learned(host, 80);
  for (let i = 0; i < 9; i++) end(politeness, host, 90);
  assert.deepEqual(takeAll(politeness, 579), []);
  assert.deepEqual(takeAll(politeness, 580), ['a']);
});

test('politeness: a redirect from another group needs a slot, one of its own does not', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 0, perHost: 1 });
  takeAll(politeness, 0);
  const stranger = addHop(politeness, host, 0, { hasSlot: false, delayMs: 50 });
  const own = addHop(politeness, host, 0);
  politeness.serveHops(0);
  assert.deepEqual([stranger.turns, own.turns], [[], ['go']]);
  end(politeness, host, 10);
  politeness.serveHops(10);
  assert.deepEqual(stranger.turns, ['go']);
  assert.equal(host.group.inFlight, 1);
  politeness.vacate(host.group, 20);
  assert.deepEqual(takeAll(politeness, 59), [], 'it kept to the delay of its crawl');
  assert.deepEqual(takeAll(politeness, 60), ['a']);
});

test('politeness: a long hold puts redirects off, a dropped one holds up nobody', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 10, perHost: 9 });
  takeAll(politeness, 0);
  const { hop, turns } = addHop(politeness, host, 0);
  politeness.dropHop(hop, 1);
  politeness.serveHops(100);
  assert.deepEqual(turns, []);
  assert.deepEqual(takeAll(politeness, 100), ['a']);
  const second = addHop(politeness, host, 100);
  const refusal = { status: 429, retryAfterMs: 60_000, delayMs: 10 } as const;
  host.group.pace.refused(refusal, 100, 0);
  politeness.paced(host.group, 100);
  politeness.serveHops(100);
  assert.deepEqual(second.turns, ['later']);
});

test('politeness: hosts of a group share delay and concurrency, and take turns', () => {
  const politeness = makePoliteness({ hosts: sourceOf(() => 'all') });
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 2 });
  addHost(politeness, 'b', { delayMs: 50, perHost: 3 });
  const { host: third } = addHost(politeness, 'c', { delayMs: 0, perHost: 9 }, 1);
  const order = [1, 51, 101, 151, 201, 301, 401].flatMap((now) => {
    const keys = takeAll(politeness, now);
    if (keys.length > 0) politeness.vacate(host.group, now);
    return keys;
  });
  assert.deepEqual(order.slice(0, 3).sort(), ['a', 'b', 'c']);
  assert.deepEqual(order.slice(3).sort(), ['a', 'b'], 'c had one task');
  politeness.leave(host, 1, 500);
  assert.deepEqual([third.group.delayMs, third.group.perHost], [50, 3]);
});

test('politeness: nothing of a host starts before its group is known', () => {
  const politeness = makePoliteness({
    hosts: sourceOf((key) => (key === 'b' ? undefined : 'all')),
  });
  addHost(politeness, 'a', { delayMs: 100, perHost: 1 });
  const { host } = addHost(politeness, 'b', { delayMs: 100, perHost: 1 });
  assert.deepEqual(takeAll(politeness, 0), ['a']);
  assert.deepEqual(takeAll(politeness, 1_000), [], 'one at once, and b has no group');
  politeness.place(host, 'all', 1_000);
  politeness.vacate(host.group, 1_020);
  assert.deepEqual(takeAll(politeness, 1_020), ['a']);
  politeness.vacate(host.group, 1_030);
  assert.deepEqual(takeAll(politeness, 1_119), []);
  assert.deepEqual(takeAll(politeness, 1_120), ['b']);
});

test('politeness: a host that dies does not hold up the others of its group', () => {
  const refused: string[] = [];
  const politeness = makePoliteness({ hosts: sourceOf(() => 'all') });
  politeness.tell({ met: nothing, refused: ({ key }) => refused.push(key) });
  const { host } = addHost(politeness, 'a', { delayMs: 10, perHost: 9 }, 3);
  addHost(politeness, 'b', { delayMs: 10, perHost: 9 }, 3);
  const error = { kind: 'dns', message: 'none' } as const;
  const { breaker } = host;
  while (breaker.record.error === undefined) breaker.failed(error, breaker.record.until);
  const now = breaker.record.until - 1;
  politeness.wake(host, now);
  assert.deepEqual(takeAll(politeness, now), ['b']);
  assert.deepEqual(refused, ['a', 'a', 'a']);
});

test('politeness: after a restart every host waits a delay, whenever it comes', () => {
  const politeness = makePoliteness({ askedUntil: 1_000 });
  addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  assert.deepEqual(takeAll(politeness, 1_099), []);
  assert.deepEqual(takeAll(politeness, 1_100), ['a']);
  addHost(politeness, 'late', { delayMs: 300, perHost: 9 });
  assert.deepEqual(takeAll(politeness, 1_299).includes('late'), false);
  assert.ok(takeAll(politeness, 1_300).includes('late'));
});

test('politeness: a delay that grows counts from the last start', () => {
  const politeness = makePoliteness();
  const { host } = addHost(politeness, 'a', { delayMs: 100, perHost: 9 });
  takeAll(politeness, 0);
  host.group.pace.refused({ status: 429, retryAfterMs: 1, delayMs: 100 }, 10, 0);
  for (let i = 0; i < 8; i++) host.group.pace.answered(undefined, 20);
  politeness.paced(host.group, 20);
  assert.deepEqual(takeAll(politeness, 199), []);
  assert.deepEqual(takeAll(politeness, 200), ['a']);
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
          end(politeness, host, now);
        }
        fetches = fetches.filter(({ endsAt }) => endsAt > now);
        const prefetch = draw() < 20;
        const among = prefetch ? (['free'] as const) : proved;
        for (let t = politeness.take(now, among); t; t = politeness.take(now, among)) {
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
        if (!prefetch) assert.equal(politeness.take(now, proved), undefined, 'something was due');
      }
    },
  );
  fc.assert(property, { numRuns: 60 });
});

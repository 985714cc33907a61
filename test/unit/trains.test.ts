/** When a slave begins the pages of a train. Source: PROTOCOL.md [T-146] to [T-149]. */
import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import type { MasterClient } from '../../shared/client.ts';
import type { TaskPush } from '../../shared/protocol.ts';
import { Trains } from '../../slave/trains.ts';

const gapMs = 130;

function tasksOf(count: number, atOnce = 1, first = 1): TaskPush[] {
  return Array.from({ length: count }, (_, i) => ({
    task: Buffer.of(i),
    lease: first + i,
    crawl: 1,
    url: `http://a/${i}`,
    depth: 0,
    attempt: 1,
    timed: true,
    train: { first, gapMs, atOnce },
  }));
}

/** Trains whose time the test makes pass: what began when, what was released and announced. */
function trainsOf(t: TestContext) {
  mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  mock.method(performance, 'now', () => now);
  const begun: TaskPush[] = [];
  const beganAt: number[] = [];
  const released: number[] = [];
  const announced: [lease: number, agoMs: number][] = [];
  const master = {
    notify: (_: string, { lease, agoMs }: { lease: number; agoMs: number }) =>
      announced.push([lease, agoMs]),
    request: (_: string, { lease }: { lease: number }) => {
      released.push(lease);
      return Promise.resolve();
    },
  } as unknown as MasterClient;
  const trains = new Trains({
    master: () => master,
    begin: (task) => {
      begun.push(task);
      beganAt.push(now);
    },
  });
  const close = () => {
    mock.timers.reset();
    mock.restoreAll();
  };
  t.after(close);
  const pass = (ms: number) => {
    for (let i = 0; i < ms; i++) {
      now++;
      mock.timers.tick(1);
    }
  };
  /** The last one that began gets its answer. */
  const answer = (isFine = true, task = begun.at(-1)) => {
    assert.ok(task);
    trains.ended(task, isFine);
  };
  const leave = (task = begun.at(-1)) => {
    assert.ok(task);
    return trains.left(task);
  };
  return { trains, begun, beganAt, released, announced, pass, answer, leave, close };
}

test('trains: each page begins a gap after the request before it has left', (t) => {
  const { trains, begun, beganAt, pass, answer, leave } = trainsOf(t);
  const { train: _, ...alone } = tasksOf(1, 1, 9)[0] as TaskPush;
  const others = trains.take([...tasksOf(3), alone]);
  assert.deepEqual(
    others.map(({ lease }) => lease),
    [9],
  );
  assert.deepEqual(beganAt, [0]);
  pass(40);
  assert.equal(leave(), false, 'the last one tells of it');
  pass(5);
  answer();
  pass(gapMs - 6);
  assert.equal(begun.length, 1);
  pass(1);
  assert.deepEqual(beganAt, [0, 40 + gapMs]);
  assert.equal(leave(), false);
  answer();
  assert.deepEqual(
    trains.waiting.map(({ lease }) => lease),
    [3],
  );
  pass(gapMs);
  assert.equal(leave(), true);
  answer();
  assert.deepEqual([begun.length, trains.waiting], [3, []]);
});

test('trains: no more than so many are under way at once', (t) => {
  const { trains, begun, pass, answer, leave } = trainsOf(t);
  trains.take(tasksOf(4, 2));
  leave();
  pass(gapMs);
  leave();
  pass(3 * gapMs);
  assert.equal(begun.length, 2);
  answer(true, begun[0]);
  assert.equal(begun.length, 3);
});

test('trains: a failure gives the rest back at once', (t) => {
  const { trains, begun, released, announced, pass, answer, leave } = trainsOf(t);
  trains.take(tasksOf(4));
  leave();
  answer();
  pass(gapMs);
  leave();
  pass(20);
  assert.equal(trains.holdMs(2), 3_000);
  answer(false);
  assert.deepEqual(announced, [[2, 20]]);
  assert.deepEqual(released, [3, 4]);
  pass(10 * gapMs);
  assert.equal(begun.length, 2);
  assert.equal(trains.holdMs(2), undefined);
});

test('trains: a page that asks for a turn ends its train, and one that has begun is told of', (t) => {
  const { trains, begun, released, pass, leave } = trainsOf(t);
  trains.take(tasksOf(4, 2));
  leave();
  pass(gapMs);
  const [first, second] = begun;
  assert.ok(first && second);
  trains.interrupted(first);
  assert.deepEqual(released, [3, 4]);
  assert.equal(leave(second), true);
});

test('trains: what is late, recalled, lost or left behind is not begun', (t) => {
  const { trains, begun, released, pass, leave } = trainsOf(t);
  trains.take(tasksOf(3));
  leave();
  pass(3 * gapMs + 999);
  assert.deepEqual(released, []);
  pass(1);
  assert.deepEqual(released, [2, 3], 'the first takes too long');
  trains.take(tasksOf(3, 1, 11));
  trains.recall(new Set([13]));
  assert.deepEqual(released.slice(2), [12, 13]);
  trains.take(tasksOf(3, 1, 21));
  leave();
  trains.cancel(new Set([22]));
  pass(gapMs);
  assert.equal(begun.at(-1)?.lease, 21);
  trains.ended(tasksOf(1, 1, 21)[0] as TaskPush, true);
  assert.equal(begun.at(-1)?.lease, 23);
  trains.take(tasksOf(2, 1, 31));
  assert.deepEqual(
    trains.clear().map(({ lease }) => lease),
    [32],
  );
  pass(10 * gapMs);
  assert.equal(begun.at(-1)?.lease, 31);
  assert.equal(released.length, 4);
});

test('trains: the gaps hold whatever comes in between', (t) => {
  const step = fc.constantFrom('leave', 'answer', 'fail', 'pass', 'cancel', 'recall', 'push');
  const run = fc.record({
    steps: fc.array(step, { maxLength: 60 }),
    atOnce: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(
    fc.property(run, ({ steps, atOnce }) => {
      const world = trainsOf(t);
      const { trains, begun, beganAt, released } = world;
      const open: TaskPush[] = [];
      const left: TaskPush[] = [];
      let leftAt = Number.NEGATIVE_INFINITY;
      let seen = 0;
      let next = 1;
      const look = () => {
        for (; seen < begun.length; seen++) {
          const task = begun[seen] as TaskPush;
          assert.ok((beganAt[seen] ?? 0) - leftAt >= gapMs || task.lease === task.train?.first);
          const ofTrain = open.filter(({ train }) => train?.first === task.train?.first);
          assert.ok(ofTrain.length < atOnce);
          assert.ok(!released.includes(task.lease));
          open.push(task);
        }
      };
      for (const one of steps) {
        // One train at a time, as a master gives them.
        const isIdle = open.length === 0 && trains.waiting.length === 0;
        if (one === 'push' && isIdle) {
          trains.take(tasksOf(5, atOnce, next));
          leftAt = Number.NEGATIVE_INFINITY;
          next += 5;
        }
        if (one === 'pass') world.pass(70);
        look();
        const task = open[0];
        const unborn = open.find((found) => !left.includes(found));
        if (one === 'leave' && unborn !== undefined) {
          trains.left(unborn);
          left.push(unborn);
          leftAt = performance.now();
        }
        if (task !== undefined && left.includes(task) && (one === 'answer' || one === 'fail')) {
          open.shift();
          trains.ended(task, one === 'answer');
        }
        if (one === 'recall') trains.recall(new Set(trains.waiting.map(({ lease }) => lease)));
        if (one === 'cancel') {
          const lost = trains.waiting[0]?.lease;
          if (lost !== undefined) trains.cancel(new Set([lost]));
        }
        look();
      }
      const ends = [...begun, ...trains.waiting].map(({ lease }) => lease);
      assert.equal(new Set([...ends, ...released]).size, ends.length + released.length);
      world.close();
    }),
    { numRuns: 300 },
  );
});

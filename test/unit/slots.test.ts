import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import type { TaskPush } from '../../shared/protocol.ts';
import { Slots } from '../../slave/slots.ts';

const taskOf = (trial?: TaskPush['trial'], late?: true) => ({ trial, late }) as TaskPush;

/** Two slots under a clock that the test sets. */
function slotsTest(
  name: string,
  run: (slots: Slots, lent: number[], wait: (ms: number) => void) => void,
) {
  test(name, () => {
    let now = 0;
    mock.timers.enable({ apis: ['setInterval'] });
    const clock = mock.method(performance, 'now', () => now);
    const lent: number[] = [];
    const slots = new Slots(2, (count) => lent.push(count));
    try {
      run(slots, lent, (ms) => {
        now += ms;
        mock.timers.tick(ms);
      });
    } finally {
      clock.mock.restore();
      mock.timers.reset();
    }
  });
}

slotsTest('slots: a trial holds none until its answer begins', (slots) => {
  const trial = taskOf('first');
  slots.begins(trial);
  assert.deepEqual(slots.trials, [trial]);
  assert.ok(slots.isFree(2));
  slots.answered(trial);
  assert.ok(!slots.isFree(2));
  slots.asks(trial, true);
  assert.ok(slots.isFree(2), 'a redirect');
});

slotsTest('slots: what a host that answers late has been asked is not given back', (slots) => {
  const late = taskOf('again', true);
  slots.begins(late);
  assert.deepEqual(slots.trials, []);
  assert.ok(slots.isFree(2));
});

slotsTest(
  'slots: one whose answer is late is lent until the answer begins',
  (slots, lent, wait) => {
    const [late, soon] = [taskOf(), taskOf()];
    for (const task of [late, soon]) {
      slots.begins(task);
      slots.asks(task, true);
    }
    wait(500);
    slots.answered(soon);
    assert.ok(!slots.isFree(2));
    wait(750);
    assert.ok(slots.isFree(2));
    slots.answered(late);
    assert.ok(!slots.isFree(2));
    assert.deepEqual(lent, [1, 0]);
  },
);

slotsTest(
  'slots: no more than 16 are lent for each, and none that may not be',
  (slots, lent, wait) => {
    const own = taskOf();
    slots.asks(own, false);
    const late = Array.from({ length: 40 }, () => taskOf());
    for (const task of late) slots.asks(task, true);
    wait(2_000);
    assert.deepEqual(lent, [32]);
    assert.ok(!slots.isFree(34));
    for (const task of [own, ...late]) slots.answered(task);
    assert.equal(lent.at(-1), 0);
  },
);

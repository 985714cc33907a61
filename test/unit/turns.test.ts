/** The messages of a slave about requests that leave. Source: PROTOCOL.md [T-18] [T-145]. */
import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import type { MasterClient } from '../../shared/client.ts';
import { Turns } from '../../slave/turns.ts';

/** Turns whose time the test makes pass, and what was said. */
function turnsOf(t: TestContext, tellMs?: number) {
  mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  mock.method(performance, 'now', () => now);
  t.after(() => {
    mock.timers.reset();
    mock.restoreAll();
  });
  const said: unknown[] = [];
  const master = {
    notify: (_: string, { agoMs }: { agoMs?: number }) => said.push(agoMs ?? 'now'),
  } as unknown as MasterClient;
  const turns = new Turns({
    lease: 1,
    isTimed: true,
    tellMs,
    master: () => master,
    onLost: () => {},
  });
  const start = async () => {
    turns.started();
    await new Promise((resolve) => process.nextTick(resolve));
  };
  const pass = (ms: number) => {
    now += ms;
    mock.timers.tick(ms);
  };
  return { turns, said, start, pass };
}

test('turns: a request is announced with the answer, once, and says how long ago it left', async (t) => {
  const { turns, said, start, pass } = turnsOf(t, 50);
  await start();
  pass(20);
  assert.deepEqual(said, []);
  turns.tell();
  turns.tell();
  pass(100);
  assert.deepEqual(said, [20]);
});

test('turns: without an answer it is announced when its time is over, a further one at once', async (t) => {
  const { said, start, pass } = turnsOf(t, 50);
  await start();
  pass(50);
  assert.deepEqual(said, [50]);
  await start();
  assert.deepEqual(said, [50, 'now']);
});

test('turns: a second request announces the first', async (t) => {
  const { said, start, pass } = turnsOf(t, 50);
  await start();
  pass(10);
  await start();
  assert.deepEqual(said, [10, 'now']);
});

test('turns: a master that does not allow it hears of each request at once', async (t) => {
  const { said, start } = turnsOf(t);
  await start();
  assert.deepEqual(said, ['now']);
});

/** Tries of an output that cannot be written, and how long it waits for its server. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Outlet } from '../../master/sinks/outlet.ts';
import { Patience } from '../../master/sinks/outputs/patience.ts';
import type { SinkKind } from '../../master/sinks/sink.ts';

const kind: SinkKind = {
  name: 'x',
  prepare: () => Promise.resolve(),
  open: () => Promise.reject(new Error('is not opened')),
  beginAnew: (_, mark) => Promise.resolve({ mark, begun: [] }),
  isTaken: () => Promise.resolve(false),
  rename: () => Promise.resolve(),
  remove: () => Promise.resolve({ deleted: [], kept: [] }),
};

test('outlet: commands do not put off the next try', async (t) => {
  const outlet = new Outlet(kind, undefined);
  t.after(() => outlet.close());
  let tries = 0;
  const again = () => void tries++;
  const began = performance.now();
  while (tries === 0 && performance.now() - began < 5_000) {
    outlet.retry(again);
    await sleep(400);
  }
  assert.ok(performance.now() - began < 2_000);
  // The next one comes later.
  outlet.retry(again);
  await sleep(1_500);
  assert.equal(tries, 1);
  await sleep(1_000);
  assert.equal(tries, 2);
  outlet.retry(again);
  outlet.recovered();
  outlet.retry(again);
  await sleep(1_300);
  assert.equal(tries, 3);
});

test('patience: an operator who leaves gives a connection no more time', async () => {
  const patience = new Patience();
  const began = performance.now();
  let closed = 0;
  const asked = patience.timed(
    new Promise(() => {}),
    () => closed++,
    (error) => error,
    1_200,
  );
  patience.hasten(true);
  patience.hasten(false);
  const answer = await Promise.race([asked.catch(({ message }) => message), sleep(5_000, 'late')]);
  assert.equal(answer, 'the server has not answered for 1 s');
  assert.ok(performance.now() - began < 4_000);
  assert.equal(closed, 1);
});

/** Limits of a process that stands still. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';
import { AwakeTimer, awakeMs, awakeSleep } from '../../shared/awake.ts';
import { standStill } from '../support/standstill.ts';

test('awake: a standstill counts as half a second, and a limit goes on after it', async () => {
  const at = performance.now();
  const awakeAt = awakeMs();
  let overAt = 0;
  const timer = new AwakeTimer(() => {
    overAt = performance.now();
  }, 900);
  standStill(1_200);
  await awakeSleep(200);
  assert.equal(overAt, 0, 'not at once');
  const ranMs = awakeMs() - awakeAt;
  assert.ok(ranMs >= 600 && ranMs < 1_000, String(ranMs));
  await awakeSleep(500);
  assert.ok(overAt - at >= 1_600, String(overAt - at));
  timer.clear();
});

test('awake: what waited is read before a limit ends', async (t) => {
  const child = spawn('cat', { stdio: ['pipe', 'pipe', 'ignore'] });
  t.after(() => child.kill('SIGKILL'));
  const answered = once(child.stdout, 'data').then(() => 'answered');
  const late = new Promise((resolve) => new AwakeTimer(() => resolve('late'), 300));
  child.stdin.write('x');
  // The pipe is written to in the next turn at the latest.
  await new Promise((resolve) => setImmediate(resolve));
  standStill(700);
  assert.equal(await Promise.race([answered, late]), 'answered');
  await late;
});

test('awake: a limit ends in its time, and one that is cleared never does', async () => {
  const ended: string[] = [];
  const at = performance.now();
  const cleared = new AwakeTimer(() => ended.push('cleared'), 20);
  new AwakeTimer(() => ended.push('ended'), 30);
  cleared.clear();
  cleared.clear();
  await awakeSleep(60);
  assert.deepEqual(ended, ['ended']);
  assert.ok(performance.now() - at < 1_000);
});

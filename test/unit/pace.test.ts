import assert from 'node:assert/strict';
import test from 'node:test';
import { Pace } from '../../master/frontier/politeness/pace.ts';

test('pace: a default delay follows the response times, an explicit one does not', () => {
  const pace = new Pace();
  assert.equal(pace.delayMs(250, true), 250);
  for (let i = 0; i < 50; i++) assert.equal(pace.answered(900, i), false);
  assert.equal(pace.delayMs(250, true), 900);
  assert.equal(pace.delayMs(250, false), 250);
  for (let i = 0; i < 100; i++) pace.answered(60_000, i);
  assert.equal(pace.delayMs(250, true), 10_000, 'up to a limit');
});

test('pace: Retry-After holds the host, what was under way with it changes nothing', () => {
  const pace = new Pace();
  assert.ok(pace.refused({ status: 503, retryAfterMs: 5_000, delayMs: 0 }, 100, 0));
  assert.equal(pace.holdUntil, 5_100);
  assert.ok(!pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 110, 0));
  assert.equal(pace.holdUntil, 5_100);
  pace.answered(10, 200);
  assert.equal(pace.holdUntil, 5_100, 'an answer from before does not end it');
});

test('pace: 429 without a word backs off longer and longer, and doubles the delay', () => {
  const pace = new Pace();
  let now = 0;
  const holds = [0, 1, 2, 3].map(() => {
    const delayMs = pace.delayMs(0, false);
    pace.refused({ status: 429, retryAfterMs: 0, delayMs }, now, 0);
    const hold = pace.holdUntil - now;
    now = pace.holdUntil;
    return hold;
  });
  assert.deepEqual(holds, [1_000, 2_000, 4_000, 8_000]);
  assert.equal(pace.delayMs(0, false), 1_000);
  pace.answered(5, now);
  assert.equal(pace.delayMs(0, false), 1_000, 'it is not forgotten by the first answer');
  pace.answered(5, now + 600_001);
  assert.equal(pace.delayMs(0, false), 1_000, 'too short so often');
  pace.answered(5, now + 4_800_001);
  assert.equal(pace.delayMs(0, false), 750);
});

test('pace: a learned delay shrinks slowly to nothing, and is learned anew', () => {
  const pace = new Pace();
  pace.refused({ status: 429, retryAfterMs: 0, delayMs: 0 }, 0, 0);
  const delays: number[] = [];
  let now = 0;
  while (pace.delayMs(0, false) > 0) {
    delays.push(pace.delayMs(0, false));
    now += 600_001;
    pace.answered(5, now);
  }
  assert.deepEqual(delays, [125, 94, 71, 53, 40]);
  pace.refused({ status: 429, retryAfterMs: 0, delayMs: 94 }, now, 0);
  assert.equal(pace.delayMs(0, false), 188);
  pace.answered(5, now + 600_001);
  assert.equal(pace.delayMs(0, false), 188, 'the second lesson is kept for longer');
  pace.answered(5, now + 1_200_001);
  assert.equal(pace.delayMs(0, false), 141);
});

test('pace: the window opens with the answers, and closes when the host refuses', () => {
  const pace = new Pace();
  assert.equal(pace.atOnceMax, 2);
  for (let i = 0; i < 40; i++) pace.answered(5, i);
  assert.equal(pace.atOnceMax, 12);
  pace.refused({ status: 429, retryAfterMs: 0, delayMs: 0 }, 50, 0);
  assert.equal(pace.atOnceMax, 1);
  for (let i = 0; i < 4; i++) pace.answered(undefined, 2_000);
  assert.equal(pace.atOnceMax, 2);
});

test('pace: one 503 alone is the page, two are the host', () => {
  const pace = new Pace();
  assert.ok(!pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 0, 0));
  pace.answered(1, 1);
  assert.ok(!pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 2, 0));
  assert.ok(pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 3, 0));
  assert.equal(pace.holdUntil, 1_003);
});

import assert from 'node:assert/strict';
import test from 'node:test';
import { Pace } from '../../master/frontier/pace.ts';

const refused = { kind: 'connect', message: 'connection refused' } as const;

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
  assert.equal(pace.delayMs(0, false), 500);
});

test('pace: one 503 alone is the page, two are the host', () => {
  const pace = new Pace();
  assert.ok(!pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 0, 0));
  pace.answered(1, 1);
  assert.ok(!pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 2, 0));
  assert.ok(pace.refused({ status: 503, retryAfterMs: 0, delayMs: 0 }, 3, 0));
  assert.equal(pace.holdUntil, 1_003);
});

test('pace: a host where nobody answers sleeps, is tried, is dead, is tried again', () => {
  const pace = new Pace();
  for (let i = 0; i < 4; i++) assert.ok(!pace.failed(refused, i));
  let now = 10;
  const sleeps: number[] = [];
  while (pace.dead(now) === undefined) {
    assert.ok(pace.failed(refused, now));
    sleeps.push(pace.holdUntil - now);
    if (pace.dead(now) === undefined) now = pace.holdUntil;
  }
  assert.deepEqual(
    sleeps,
    [1, 4, 16, 60, 60, 60, 60, 60, 600].map((s) => s * 1000),
  );
  assert.deepEqual(pace.dead(now), refused);
  const copy = new Pace();
  copy.restore(pace.record);
  assert.deepEqual(copy.dead(now), refused, 'over a restart, too');
  assert.ok(pace.isProbing);
  assert.equal(pace.dead(now + 600_000), undefined);
  assert.ok(pace.answered(1, now + 600_001));
  assert.ok(!pace.isProbing);
  copy.retry();
  assert.equal(copy.dead(now), undefined);
});

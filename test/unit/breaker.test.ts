import assert from 'node:assert/strict';
import test from 'node:test';
import { Breaker } from '../../master/frontier/politeness/breaker.ts';

const refused = { kind: 'connect', message: 'connection refused' } as const;

test('breaker: a host where nobody answers sleeps, is tried, is dead, is tried again', () => {
  const breaker = new Breaker();
  for (let i = 0; i < 4; i++) assert.ok(!breaker.failed(refused, i));
  let now = 10;
  const sleeps: number[] = [];
  while (breaker.dead(now) === undefined) {
    assert.ok(breaker.failed(refused, now));
    sleeps.push(breaker.record.until - now);
    if (breaker.dead(now) === undefined) now = breaker.sleepsUntil;
  }
  assert.deepEqual(
    sleeps,
    [1, 4, 16, 60, 60, 60, 60, 60, 600].map((s) => s * 1000),
  );
  assert.deepEqual(breaker.dead(now), refused);
  const copy = new Breaker();
  copy.restore(breaker.record);
  assert.deepEqual(copy.dead(now), refused, 'over a restart, too');
  assert.ok(breaker.isProbing);
  assert.equal(breaker.dead(now + 600_000), undefined);
  assert.ok(breaker.answered());
  assert.ok(!breaker.isProbing);
  copy.retry();
  assert.equal(copy.dead(now), undefined);
});

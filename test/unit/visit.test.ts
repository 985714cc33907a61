import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { Visit } from '../../master/frontier/politeness/visit.ts';

test('visit: a place is kept for 8 requests', () => {
  const visit = new Visit();
  for (let i = 0; i < 8; i++) {
    assert.equal(visit.place(100 + i, 100 + i), i === 0 ? 100 : 50);
    visit.request(50, 100 + i);
  }
  assert.equal(visit.place(108, 108), 108);
  visit.request(108, 108);
  assert.equal(visit.place(109, 109), 108);
});

test('visit: a place is kept for 2 s', () => {
  const visit = new Visit();
  visit.request(50, 100);
  assert.equal(visit.place(2_099, 2_099), 50);
  assert.equal(visit.place(2_100, 2_100), 2_100);
});

test('visit: who may not be asked yet has no place before that', () => {
  const visit = new Visit();
  visit.request(50, 100);
  assert.equal(visit.place(500, 100), 500);
});

test('visit: nobody waits for more than one visit to each other host', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 20 }), fc.integer({ min: 1, max: 500 }), (hosts, ms) => {
      const line = Array.from({ length: hosts }, () => ({ visit: new Visit(), dueAt: 0, last: 0 }));
      for (let turn = 0; turn < 300; turn++) {
        const now = turn * ms;
        const next = line.reduce((a, b) => (a.dueAt <= b.dueAt ? a : b));
        next.visit.request(next.dueAt, now);
        next.dueAt = next.visit.place(now, now);
        next.last = turn;
        for (const { last } of line) assert.ok(turn - last <= 9 * (hosts - 1), `${turn - last}`);
      }
    }),
  );
});

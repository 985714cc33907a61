import assert from 'node:assert/strict';
import test from 'node:test';
import { CreditWindow } from '../../slave/credit.ts';

/** A slave that always has work: what it holds is limited by credit, what it does by its slots. */
function simulate(slots: number, tripMs: number, fetchMs: number, looks = 60) {
  const window = new CreditWindow(slots);
  const lookMs = 500;
  let perSecond = 0;
  for (let i = 0; i < looks; i++) {
    window.measured(tripMs);
    const held = window.count / (fetchMs + tripMs);
    const rate = Math.min(held, slots / fetchMs);
    for (let j = 0; j < Math.round(rate * lookMs); j++) window.ended();
    window.next(lookMs);
    perSecond = rate * 1000;
  }
  return { count: window.count, perSecond, possible: (slots / fetchMs) * 1000 };
}

test('credit: a slave far away comes to work in all of its slots', () => {
  for (const [slots, tripMs, fetchMs] of [
    [16, 200, 20],
    [16, 200, 100],
    [16, 400, 50],
    [1, 200, 50],
    [256, 50, 20],
  ] as const) {
    const { perSecond, possible } = simulate(slots, tripMs, fetchMs);
    const what = `${slots} slots, ${tripMs} ms away, ${fetchMs} ms a page: ${perSecond}`;
    assert.ok(perSecond >= possible * 0.95, what);
  }
});

test('credit: a slave close by asks for twice its slots, a slow site changes nothing', () => {
  assert.equal(simulate(16, 0.5, 10).count, 32);
  assert.equal(simulate(16, 200, 5_000).count, 32);
  assert.equal(new CreditWindow(16).next(500), 32);
});

test('credit: what is held is some round trips of work, and 32 for each slot at most', () => {
  const { count, perSecond } = simulate(16, 200, 20);
  assert.ok(count <= 16 + 2 * 0.2 * perSecond + 1, `${count}`);
  assert.equal(simulate(16, 1_000, 1).count, 32 * 16);
  assert.equal(simulate(1_000, 1_000, 10).count, 4_096);
});

test('credit: a busy master seems no farther away, one that moved away does', () => {
  const window = new CreditWindow(16);
  const atRate = () => {
    for (let i = 0; i < 400; i++) window.ended();
    return window.next(500);
  };
  for (const tripMs of [1, 900, 700]) window.measured(tripMs);
  assert.equal(atRate(), 32);
  for (let i = 0; i < 6; i++) window.measured(200);
  assert.equal(atRate(), 16 + 2 * 0.8 * 200);
});

test('credit: with less to do it goes back', () => {
  const window = new CreditWindow(16);
  window.measured(200);
  for (let i = 0; i < 400; i++) window.ended();
  assert.equal(window.next(500), 336);
  for (let i = 0; i < 20; i++) window.next(500);
  assert.equal(window.count, 32);
});

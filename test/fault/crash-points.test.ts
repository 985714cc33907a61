import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import test from 'node:test';
import { crashAtPoints } from '../support/crash-points.ts';

/** SEED=n runs the same again. */
const seed = Number(process.env['SEED'] ?? randomInt(1 << 30));

// All of it: node dist/test/fault/crash-points.js 500
test(`a store that is killed between any two writes goes on exactly (seed ${seed})`, {
  timeout: 120_000,
}, async () => {
  const { points, violations } = await crashAtPoints(40, seed);
  assert.equal(points, 40);
  assert.deepEqual(violations, []);
});

// All of it: node dist/test/fault/crash-points.js 500 1 7
test(`files that are rotated are exact, wherever the store is killed (seed ${seed})`, {
  timeout: 120_000,
}, async () => {
  const { points, violations } = await crashAtPoints(20, seed, 7);
  assert.equal(points, 20);
  assert.deepEqual(violations, []);
});

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
